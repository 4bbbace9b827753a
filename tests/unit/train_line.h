/* The scalar model of the behaviours' list: a parameter w, starting at 0, and the loss w · x of
 * every token x that counts. The gradient of a token is its x, so all numbers are easily checked.
 *
 *     line l = line_new(2, 3, (float[]){2, 4, 6, 1, 2, 3}, (float[]){1, 1, 1, 1, 0, 0});
 *     hod_trainer *t = hod_trainer_new(l.net, line_loss, .effective_batch = 2, ...);
 */
#ifndef HOD_TESTS_TRAIN_LINE_H
#define HOD_TESTS_TRAIN_LINE_H

#include <hod/trainer.h>

typedef struct line_net {
    hod_module base;
    hod_tensor *w; /* () */
} line_net;

typedef struct line {
    line_net *net;
    hod_dataset *data; /* n samples of `tokens` tokens; the target says which count */
} line;

static hod_tensor *line_forward(hod_module *self, hod_tensor *x)
{
    return hod_mul(x, ((line_net *)self)->w);
}

static inline hod_loss line_loss(hod_module *net, const hod_batch *b)
{
    hod_tensor *y =
        hod_where(hod_gt_scalar(b->target, 0), hod_call(net, b->input), hod_full_like(b->input, 0));
    return (hod_loss){hod_sum(y), hod_sum(b->target)};
}

static inline line line_new(int64_t n, int64_t tokens, const float *x, const float *counts)
{
    line l = {hod_module_new(NULL, "line", line_net, line_forward), NULL};
    l.net->w = hod_parameter_new(&l.net->base, "w", HOD_WEIGHT, HOD_SHAPE(),
                                 (hod_init){HOD_INIT_ZEROS, 0});
    l.net = (line_net *)hod_module_done(l.net);
    HOD_SCOPE(s);
    hod_tensor *targets = hod_full(HOD_F32, HOD_SHAPE(n, tokens), 1);
    l.data =
        hod_tensor_dataset(hod_from_floats(x, HOD_SHAPE(n, tokens)),
                           counts ? hod_from_floats(counts, HOD_SHAPE(n, tokens)) : targets, 0);
    return l;
}

static inline double line_w(const line *l)
{
    return hod_item(l->net->w);
}

static inline void line_free(line *l)
{
    hod_dataset_free(l->data);
    hod_module_free(&l->net->base);
}

#endif
