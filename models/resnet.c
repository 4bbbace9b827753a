/* Residual networks (He et al., "Deep residual learning for image recognition", 2015).
 *
 *     stem -> stage of blocks -> stage -> ... -> mean over the image -> linear -> logits (N, K)
 *
 *     basic        x -+- conv3x3 - norm - relu - conv3x3 - norm -----------------+- relu
 *     bottleneck   x -+- conv1x1 - norm - relu - conv3x3 - norm - relu - conv1x1 - norm -+- relu
 *                     +- identity, or conv1x1 - norm where the shape changes ------------+
 *
 * The small form (resnet8, resnet20) has three stages of 16, 32, 64 channels for images of about
 * 32 x 32; the others have four, from 64 channels on. Their stem halves the image twice, as
 * ImageNet's 224 x 224 want it; images under 64 x 64 get a 3x3 convolution instead, as is usual for
 * CIFAR. Where a stage halves the image, the 3x3 convolution of its first block does it.
 */
#include "models/models.h"

/* ---- parts ---- */

/* Batch normalisation, or group normalisation in groups of 8 channels. */
static hod_module *norm_new(void *parent, const char *name, int64_t channels,
                            const model_options *o)
{
    if (o->norm == HOD_NORM_BATCH)
        return hod_nn_batch_norm2d(parent, name, channels, .mode = o->batch_norm);
    return hod_nn_group_norm(parent, name, channels < 8 ? 1 : channels / 8, channels);
}

static hod_module *conv_new(void *parent, const char *name, int64_t in, int64_t out, int64_t kernel,
                            int64_t stride)
{
    return hod_nn_conv2d(parent, name, in, out, kernel, .stride = stride, .padding = kernel / 2,
                         .no_bias = true);
}

typedef struct resnet_block {
    hod_module base;
    hod_module *conv[3], *norm[3];
    hod_module *downsample; /* NULL: the identity */
    int n;                  /* 2: basic, 3: bottleneck */
} resnet_block;

static hod_tensor *block_forward(hod_module *self, hod_tensor *x) /* x: (N, C, H, W) */
{
    resnet_block *b = (resnet_block *)self;
    hod_tensor *y = x;
    for (int i = 0; i < b->n; i++) {
        y = hod_call(b->norm[i], hod_call(b->conv[i], y));
        if (i + 1 < b->n)
            y = hod_relu(y);
    }
    return hod_relu(hod_add(y, b->downsample ? hod_call(b->downsample, x) : x));
}

/* A block from `in` channels to `width`, four times as many for a bottleneck. */
static hod_module *block_new(hod_module *parent, const char *name, int64_t in, int64_t width,
                             int64_t stride, bool bottleneck, const model_options *o)
{
    resnet_block *b = hod_module_new(parent, name, resnet_block, block_forward);
    if (!b)
        return NULL;
    b->n = bottleneck ? 3 : 2;
    int64_t out = bottleneck ? 4 * width : width;
    for (int i = 0; i < b->n; i++) {
        char conv[16], norm[16];
        snprintf(conv, sizeof conv, "conv%d", i + 1);
        snprintf(norm, sizeof norm, "bn%d", i + 1);
        bool last = i + 1 == b->n;
        bool spatial = bottleneck ? i == 1 : true; /* 3x3; the others are 1x1 */
        bool strides = bottleneck ? i == 1 : i == 0;
        int64_t from = i == 0 ? in : width, to = last ? out : width;
        b->conv[i] = conv_new(b, conv, from, to, spatial ? 3 : 1, strides ? stride : 1);
        b->norm[i] = norm_new(b, norm, to, o);
    }
    if (stride != 1 || in != out) {
        b->downsample = hod_nn_sequential(b, "downsample");
        conv_new(b->downsample, "0", in, out, 1, stride);
        norm_new(b->downsample, "1", out, o);
    }
    return hod_module_done(b);
}

/* ---- the network ---- */

typedef struct resnet {
    hod_module base;
    hod_module *conv1, *norm1, *pool; /* pool NULL: a small stem */
    hod_module *stage[4];
    hod_module *drop; /* NULL: none */
    hod_module *fc;
    int stages;
} resnet;

static hod_tensor *resnet_forward(hod_module *self, hod_tensor *x) /* x: (N, C, H, W) */
{
    resnet *m = (resnet *)self;
    hod_tensor *y = hod_relu(hod_call(m->norm1, hod_call(m->conv1, x)));
    if (m->pool)
        y = hod_call(m->pool, y);
    for (int i = 0; i < m->stages; i++)
        y = hod_call(m->stage[i], y);
    y = hod_flatten(hod_global_avg_pool2d(y), 1); /* (N, features) */
    if (m->drop)
        y = hod_call(m->drop, y);
    return hod_call(m->fc, y);
}

/* Makes the stages; returns the number of channels that leave the last. */
static int64_t stages_new(resnet *m, const model_info *info, int64_t width, const model_options *o)
{
    int64_t in = width;
    m->stages = info->small ? 3 : 4;
    for (int s = 0; s < m->stages; s++, width *= 2) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", s + 1);
        m->stage[s] = hod_nn_sequential(m, name);
        for (int i = 0; i < info->blocks[s]; i++) {
            snprintf(name, sizeof name, "%d", i);
            block_new(m->stage[s], name, in, width, s > 0 && i == 0 ? 2 : 1, info->bottleneck, o);
            in = info->bottleneck ? 4 * width : width;
        }
    }
    return in;
}

hod_module *resnet_make(const model_info *info, const model_options *o)
{
    hod_shape shape = o->shape.n ? o->shape : HOD_SHAPE(3, 32, 32); /* (C, H, W) */
    if (shape.n != 3)
        return hod_refuse("%s: inputs have %d dimensions, wanted images (C,H,W)", info->name,
                          shape.n);
    bool small_image = shape.d[1] < 64 || shape.d[2] < 64;

    resnet *m = hod_module_new(NULL, info->name, resnet, resnet_forward);
    if (!m)
        return NULL;
    int64_t width = info->small ? 16 : 64;
    if (info->small || small_image) {
        m->conv1 = conv_new(m, "conv1", shape.d[0], width, 3, 1);
        m->norm1 = norm_new(m, "bn1", width, o);
    } else {
        m->conv1 = conv_new(m, "conv1", shape.d[0], width, 7, 2);
        m->norm1 = norm_new(m, "bn1", width, o);
        m->pool = hod_nn_max_pool2d(m, "maxpool", 3, .stride = 2, .padding = 1);
    }
    int64_t features = stages_new(m, info, width, o);
    if (o->dropout > 0)
        m->drop = hod_nn_dropout(m, "drop", o->dropout);
    m->fc = hod_nn_linear(m, "fc", features, o->num_classes ? o->num_classes : 10);
    return hod_module_done(m);
}
