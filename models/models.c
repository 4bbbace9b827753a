/* The table of networks, and how one is found by name. */
#include "models/models.h"

#include <string.h>

const model_info model_table[] = {
    {"mlp", "hidden layers with ReLU", mlp_make, .blocks = {0}},
    {"resnet8", "He et al. 2015, for 32x32 images: 3 stages of 1 block", resnet_make, .small = true,
     .blocks = {1, 1, 1}},
    {"resnet20", "the same, 3 stages of 3 blocks", resnet_make, .small = true, .blocks = {3, 3, 3}},
    {"resnet18", "He et al. 2015: 4 stages of 2 blocks", resnet_make, .blocks = {2, 2, 2, 2}},
    {"resnet50", "4 stages of 3, 4, 6, 3 bottleneck blocks", resnet_make, .bottleneck = true,
     .blocks = {3, 4, 6, 3}},
    {.name = NULL},
};

hod_module *model_make(const char *name, model_options o)
{
    char known[256] = "";
    for (const model_info *m = model_table; m->name; m++) {
        if (strcmp(m->name, name) == 0)
            return m->make(m, &o);
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", m->name);
    }
    char words[256] = "", near[64];
    for (const model_info *m = model_table; m->name; m++) {
        size_t at = strlen(words);
        snprintf(words + at, sizeof words - at, "%s%s", at ? "|" : "", m->name);
    }
    const char *meant = hod_nearest_word(name, words, near, sizeof near);
    return hod_refuse("model: no network \"%s\"%s%s; there are %s", name, meant ? ", perhaps " : "",
                      meant ? meant : "", known);
}

hod_loss model_classify(hod_module *net, const hod_batch *b)
{
    return hod_cross_entropy(hod_call(net, b->input), b->target, .ignore_index = -1);
}
