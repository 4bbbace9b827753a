/* The networks that hod ships: written with the public interface only, so they are examples, too.
 *
 *     hod_module *net = model_new("resnet8", .num_classes = 10, .shape = HOD_SHAPE(1, 28, 28));
 *     hod_tensor *logits = hod_call(net, x);         // x: (N, 1, 28, 28) -> (N, 10)
 *     hod_module_free(net);
 *
 * All are classifiers. The names of parameters are torchvision's where it has the network.
 */
#ifndef MODELS_MODELS_H
#define MODELS_MODELS_H

#include <hod/hod.h>

/* Zero means the default. */
typedef struct model_options {
    int64_t num_classes;  /* default 10 */
    hod_shape shape;      /* of one input, (C,H,W) or, for mlp, anything; default (3,32,32) */
    hod_norm_choice norm; /* default: group normalisation, so that any split of a batch computes
                             the same; in groups of 8 channels */
    hod_batch_norm_mode batch_norm; /* with HOD_NORM_BATCH: default pooled */
    hod_int_list layers;            /* mlp: sizes of the hidden layers; default 256, 256 */
    double dropout; /* before the last layer (mlp: after every hidden one); default: none */
    int end_;
} model_options;

/* One kind of network. */
typedef struct model_info {
    const char *name;
    const char *text; /* one line for a list */
    hod_module *(*make)(const struct model_info *info, const model_options *o);
    bool bottleneck; /* ResNets: blocks of 1x1, 3x3, 1x1 */
    bool small;      /* ResNets: the three-stage form for 32x32 images, from 16 channels on */
    int blocks[4];   /* ResNets: in each stage */
} model_info;

/* All networks; the last has no name. */
extern const model_info model_table[];

/* The network of that name, or NULL with an error that lists the names. */
#define model_new(...)        MODEL_NEW_(__VA_ARGS__, .end_ = 0)
#define MODEL_NEW_(name, ...) model_make(name, (model_options){__VA_ARGS__})
hod_module *model_make(const char *name, model_options o);

/* Constructors of the table. */
hod_module *mlp_make(const model_info *info, const model_options *o);
hod_module *resnet_make(const model_info *info, const model_options *o);

/* The usual loss of a classifier: cross entropy of the logits. */
hod_loss model_classify(hod_module *net, const hod_batch *b);

#endif
