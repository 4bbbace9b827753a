/* Every key of a config: type, default, range and meaning, one row each. Reading, writing, the
 * suggestions in errors and the help text come from here; the field of hod_config with the same
 * path holds the value.
 */
#include "io/config_keys.h"

#include <ctype.h>
#include <stdio.h>

#define KEY(path_, kind_, fallback_, meaning_, ...)                                                \
    {                                                                                              \
        .path = #path_, .kind = HOD_VALUE_##kind_, .offset = offsetof(hod_config, path_),          \
        .fallback = fallback_, .meaning = meaning_, __VA_ARGS__                                    \
    }
#define RANGE(low_, high_) .low = (low_), .high = (high_)
#define WORDS(words_)      .choices = (words_), RANGE(0, 0)

_Static_assert(HOD_NORM_BATCH == 1 && HOD_BATCHNORM_FROZEN == 3 && HOD_PRECISION_AUTO == 3 &&
                   HOD_RECOMPUTE_FRACTION == 3 && HOD_WINDOW_DROP == 1 &&
                   HOD_MODE_REDUCE_OVERHEAD == 1 && HOD_DYNAMIC_OFF == 2 &&
                   HOD_OPTIMIZER_ADAMW == 2 && HOD_SCHEDULE_ONE_CYCLE == 3,
               "the words below stand in the order of the enums");

#define most 9007199254740992.0 /* 2^53 */
const hod_config_key hod__config_keys[] = {
    KEY(model.name, NAME, "", "the network: mlp, resnet8, resnet20, resnet18, resnet50", WORDS("")),
    KEY(model.num_classes, AUTO, "auto", "outputs; auto: as many as the data have classes",
        RANGE(1, 1e6)),
    KEY(model.in_channels, AUTO, "auto", "channels of an input; auto: those of the data",
        RANGE(1, 1e5)),
    KEY(model.norm, CHOICE, "group", "normalisation in ResNets", WORDS("group|batch")),
    KEY(model.batchnorm, CHOICE, "pooled",
        "statistics of batch norm under accumulation (exact: not there yet)",
        WORDS("pooled|micro|exact|frozen")),
    KEY(model.layers, INTS, "[256, 256]", "hidden sizes of an mlp", RANGE(1, 1e7)),
    KEY(model.dropout, SHARE, "0", "probability of a zero before the last layer", RANGE(0, 1)),

    KEY(data.name, NAME, "", "the kind of data; idx has no test split, so nothing is evaluated",
        WORDS("fashion-mnist|idx|synthetic")),
    KEY(data.path, PATH, "", "fashion-mnist: a directory; idx: what the file names begin with",
        RANGE(0, 0)),
    KEY(data.workers, INT, "0", "threads that prepare samples; 0: the training thread does",
        RANGE(0, 256)),
    KEY(data.limit, INT, "0", "use so many samples only; 0: all", RANGE(0, most)),
    KEY(data.augment.crop, INT, "0", "pad by so many pixels and cut a random window; 0: off",
        RANGE(0, 1024)),
    KEY(data.augment.flip, FLAG, "false", "mirror every other image", RANGE(0, 0)),
    KEY(data.normalize, FLAG, "true", "bring each channel to mean 0 and deviation 1", RANGE(0, 0)),
    KEY(data.shape, INTS, "[1, 28, 28]", "of a synthetic sample", RANGE(1, 1e6)),
    KEY(data.classes, INT, "10", "of a synthetic dataset", RANGE(1, 1e6)),
    KEY(data.count, INT, "4096", "samples of a synthetic dataset", RANGE(1, most)),

    KEY(loss.ignore_index, INT, "-100", "samples with this label count for nothing",
        RANGE(-most, most)),
    KEY(loss.label_smoothing, SHARE, "0", "share of the target spread over all classes",
        RANGE(0, 1)),

    KEY(effective_batch, INT, "256", "samples per update, over all ranks", RANGE(1, most)),
    KEY(memory_budget, BYTES, "none",
        "most bytes of tensors: the step's and what persists, per rank", RANGE(0, 0)),
    KEY(micro_batch, AUTO, "auto", "samples per forward and backward; auto: the most that fits",
        RANGE(1, most)),
    KEY(recompute, FRACTION, "auto",
        "activations computed twice instead of kept (full, share: not there yet)",
        .choices = "auto|none|full|fraction",
        .offset_more = offsetof(hod_config, recompute_fraction)),
    KEY(precision, CHOICE, "fp32", "of activations and gradients (bf16, fp16: not there yet)",
        WORDS("fp32|bf16|fp16|auto")),
    KEY(last_window, CHOICE, "flush", "a short last window of an epoch: update with it, or drop it",
        WORDS("flush|drop")),

    KEY(compile.enabled, FLAG, "true", "run the step as a compiled program", RANGE(0, 0)),
    KEY(compile.mode, CHOICE, "default", "reduce-overhead: promise that the step is static",
        WORDS("default|reduce-overhead")),
    KEY(compile.dynamic, CHOICE, "auto", "kernels for any size (false: not there yet)",
        WORDS("auto|true|false")),
    KEY(compile.fullgraph, FLAG, "false", "a graph break is an error", RANGE(0, 0)),

    KEY(optimizer.name, CHOICE, "adamw", "the update rule", WORDS("sgd|adam|adamw")),
    KEY(optimizer.lr, NUMBER, "0.001", "the base learning rate", RANGE(0, 1e6)),
    KEY(optimizer.weight_decay, NUMBER, "0", "pull of the weights towards 0", RANGE(0, 1e6)),
    KEY(optimizer.momentum, SHARE, "0", "sgd: share of the last step that goes on", RANGE(0, 1)),
    KEY(optimizer.nesterov, FLAG, "false", "sgd: look ahead along the momentum", RANGE(0, 0)),
    KEY(optimizer.betas, NUMBERS, "[0.9, 0.999]", "adam, adamw: decay of the two averages",
        RANGE(0, 1)),
    KEY(optimizer.eps, NUMBER, "1e-08", "adam, adamw: added to the denominator", RANGE(0, 1)),
    KEY(optimizer.no_decay, SET, "[bias, norm]", "kinds of parameters without weight decay",
        WORDS("bias|norm")),

    KEY(schedule.name, CHOICE, "constant", "the learning rate over the updates",
        WORDS("constant|step|cosine|onecycle")),
    KEY(schedule.warmup, SHARE, "0",
        "share of all updates in which the rate rises; onecycle: 0 is 0.3", RANGE(0, 1)),
    KEY(schedule.min_lr, NUMBER, "0", "cosine: the last rate, as a share of the base rate",
        RANGE(0, 1)),
    KEY(schedule.every, PERIOD, "never", "step: how often the rate falls", RANGE(0, 0)),
    KEY(schedule.gamma, NUMBER, "0.1", "step: the factor by which it falls", RANGE(0, 1)),
    KEY(schedule.div, NUMBER, "25", "onecycle: the rate begins at lr / div", RANGE(1, 1e9)),
    KEY(schedule.final_div, NUMBER, "10000", "onecycle: and ends at lr / div / final_div",
        RANGE(1, 1e12)),

    KEY(clip_norm, NUMBER, "0", "largest norm of the gradient; 0: any", RANGE(0, 1e12)),
    KEY(ema, SHARE, "0", "decay of the averaged weights used for evaluation; 0: none", RANGE(0, 1)),
    KEY(epochs, INT, "1", "passes over the data", RANGE(1, 1e9)),
    KEY(updates, INT, "0", "stop earlier after so many updates; 0: epochs decide", RANGE(0, most)),
    KEY(seed, SEED, "0", "of weights, order, augmentation and dropout", RANGE(0, 0)),
    KEY(reproducible, FLAG, "false",
        "the same bits for any number of threads (true: not there yet)", RANGE(0, 0)),
    KEY(threads, AUTO, "auto", "threads of the step; auto: OMP_NUM_THREADS or all cores",
        RANGE(1, 4096)),
    KEY(eval_every, PERIOD, "1 epochs", "how often the test data are evaluated", RANGE(0, 0)),
    KEY(log_every, PERIOD, "10 updates", "how often a line is printed", RANGE(0, 0)),
    KEY(checkpoint.every, PERIOD, "1 epochs", "how often the state is saved", RANGE(0, 0)),
    KEY(checkpoint.keep, INT, "3", "newest checkpoints that stay; 0: all", RANGE(0, 1e6)),
    KEY(output, PATH, "runs/default", "the directory of the run", RANGE(0, 0)),
    KEY(init, PATH, "", "weights to begin with: a safetensors file", RANGE(0, 0)),
};
#undef most
_Static_assert(HOD_COUNT(hod__config_keys) <= HOD_CONFIG_KEYS_MAX, "raise HOD_CONFIG_KEYS_MAX");

int hod__config_key_count(void)
{
    return HOD_COUNT(hod__config_keys);
}

int hod__config_find(const char *path)
{
    for (int i = 0; i < HOD_COUNT(hod__config_keys); i++)
        if (strcmp(hod__config_keys[i].path, path) == 0)
            return i;
    return -1;
}

bool hod__config_is_group(const char *path)
{
    size_t n = strlen(path);
    for (int i = 0; i < HOD_COUNT(hod__config_keys) && n; i++)
        if (strncmp(hod__config_keys[i].path, path, n) == 0 && hod__config_keys[i].path[n] == '.')
            return true;
    return false;
}

/* ---- suggestions ---- */

enum { WORD = 63 };

static int least(int a, int b, int c)
{
    return HOD_MIN(a, HOD_MIN(b, c));
}

/* Edits that turn a into b: insert, delete, replace, swap neighbours, each 1; case is free. Words
 * longer than WORD are far from everything. */
static int distance(const char *a, size_t na, const char *b, size_t nb)
{
    if (na > WORD || nb > WORD)
        return 2 * WORD;
    int row[3][WORD + 1];
    for (size_t k = 0; k <= nb; k++)
        row[0][k] = (int)k;
    for (size_t i = 1; i <= na; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *upup = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t k = 1; k <= nb; k++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[k - 1]);
            now[k] = least(up[k] + 1, now[k - 1] + 1, up[k - 1] + (x != y));
            if (i > 1 && k > 1 && x == tolower((unsigned char)b[k - 2]) &&
                tolower((unsigned char)a[i - 2]) == y)
                now[k] = HOD_MIN(now[k], upup[k - 2] + 1);
        }
    }
    return row[na % 3][nb];
}

/* How far a word may be from what was meant: a third of it, at least one edit. */
static int tolerance(size_t n)
{
    return HOD_MAX((int)n / 3, 1);
}

const char *hod_nearest_word(const char *word, const char *choices, char *buf, size_t cap)
{
    if (!word || !choices || !buf)
        return NULL;
    size_t n = strlen(word);
    int best = tolerance(n) + 1;
    const char *found = NULL;
    for (const char *p = choices; *p;) {
        size_t m = strcspn(p, "|");
        int d = distance(word, n, p, m);
        if (d < best && m < cap) {
            best = d;
            memcpy(buf, p, m);
            buf[m] = 0;
            found = buf;
        }
        p += m + (p[m] == '|');
    }
    return found;
}

/* What other programs call it. */
static const char *const foreign[][2] = {
    {"batch_size", "effective_batch"},
    {"micro_batch_size", "micro_batch"},
    {"per_device_train_batch_size", "micro_batch"},
    {"gradient_accumulation_steps", "micro_batch"},
    {"accumulation_steps", "micro_batch"},
    {"learning_rate", "optimizer.lr"},
    {"num_epochs", "epochs"},
    {"num_train_epochs", "epochs"},
    {"max_epochs", "epochs"},
    {"max_steps", "updates"},
    {"steps", "updates"},
    {"iterations", "updates"},
    {"num_workers", "data.workers"},
    {"dataset", "data.name"},
    {"data_dir", "data.path"},
    {"arch", "model.name"},
    {"max_grad_norm", "clip_norm"},
    {"grad_clip", "clip_norm"},
    {"warmup_ratio", "schedule.warmup"},
    {"lr_scheduler", "schedule.name"},
    {"gradient_checkpointing", "recompute"},
    {"dtype", "precision"},
    {"output_dir", "output"},
    {"save_steps", "checkpoint.every"},
    {"random_seed", "seed"},
};

/* The key's path cut to as many components as `path` has. */
static size_t as_deep_as(const char *key, const char *path)
{
    size_t n = strcspn(key, ".");
    for (; *path; path++)
        if (*path == '.' && key[n])
            n += 1 + strcspn(key + n + 1, ".");
    return n;
}

const char *hod__config_nearest(const char *path, char *buf, size_t cap)
{
    size_t n = strlen(path);
    const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path;
    size_t in_group = (size_t)(last - path);
    int best = 2 * WORD;
    const char *found = NULL;
    for (int i = 0; i < HOD_COUNT(foreign); i++)
        if (strcmp(last, foreign[i][0]) == 0) {
            snprintf(buf, cap, "%s", foreign[i][1]);
            return buf;
        }
    for (int i = 0; i < HOD_COUNT(hod__config_keys); i++) {
        const char *key = hod__config_keys[i].path, *key_dot = strrchr(key, '.');
        const char *key_last = key_dot ? key_dot + 1 : key;
        size_t m = as_deep_as(key, path);
        int d = distance(path, n, key, m);
        /* In the right group only the last component can be wrong. */
        int allowed =
            in_group && strncmp(path, key, in_group) == 0 ? tolerance(n - in_group) : tolerance(n);
        if (d <= allowed && d < best) {
            best = d;
            snprintf(buf, cap, "%.*s", (int)m, key);
            found = buf;
        }
        /* The right word in the wrong place is as good as one edit. */
        if (strcmp(last, key_last) == 0 && best > 1) {
            best = 1;
            snprintf(buf, cap, "%s", key);
            found = buf;
        }
    }
    return found;
}
