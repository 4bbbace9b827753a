/* Modules: parameters, buffers and a forward function, in a tree.
 *
 *     typedef struct mlp { hod_module base; hod_module *fc1, *fc2; } mlp;
 *
 *     static hod_tensor *mlp_forward(hod_module *self, hod_tensor *x)
 *     {
 *         mlp *m = (mlp *)self;
 *         return hod_call(m->fc2, hod_relu(hod_call(m->fc1, x)));
 *     }
 *
 *     hod_module *mlp_new(hod_module *parent, const char *name)
 *     {
 *         mlp *m = hod_module_new(parent, name, mlp, mlp_forward);
 *         m->fc1 = hod_nn_linear(m, "fc1", 784, 128);
 *         m->fc2 = hod_nn_linear(m, "fc2", 128, 10);
 *         return hod_module_done(m);
 *     }
 *
 * The tree owns everything: freeing the root frees all. Names are PyTorch's ("layer1.0.weight");
 * weights are drawn by PyTorch's default rules, each from (seed, its full name), so the order of
 * construction does not matter.
 */
#ifndef HOD_NN_H
#define HOD_NN_H

#include <hod/tensor.h>
#include <stdio.h>

typedef struct hod_module hod_module;
typedef hod_tensor *hod_forward(hod_module *self, hod_tensor *x);

/* What a parameter is for; optimizers and initialisation go by this, never by its name. */
typedef enum hod_parameter_kind {
    HOD_WEIGHT,    /* matrices, kernels, tables: decayed */
    HOD_BIAS,      /* not decayed */
    HOD_NORM_GAIN, /* scale of a normalisation: not decayed */
    HOD_NORM_BIAS, /* offset of a normalisation: not decayed */
} hod_parameter_kind;

typedef enum hod_init_kind {
    HOD_INIT_ZEROS,
    HOD_INIT_ONES,
    HOD_INIT_UNIFORM, /* in [-bound, bound) */
    HOD_INIT_NORMAL,  /* mean 0, deviation `bound` */
} hod_init_kind;

typedef struct hod_init {
    hod_init_kind kind;
    double bound;
} hod_init;

/* Bound of kaiming_uniform(a = sqrt 5), PyTorch's default for linear and convolution: with fan_in
 * inputs per output, 1 / sqrt(fan_in). */
#define HOD_INIT_FAN_IN(fan_in) ((hod_init){HOD_INIT_UNIFORM, hod_init_fan_bound((double)(fan_in))})
HOD_API double hod_init_fan_bound(double fan_in);

typedef struct hod_parameter {
    char *name;         /* "weight" */
    hod_tensor *tensor; /* owned by the module; f32, a leaf unless frozen */
    hod_parameter_kind kind;
    hod_init init;
} hod_parameter;

/* State that is saved but has no gradient: running statistics. */
typedef struct hod_buffer {
    char *name;
    hod_tensor *tensor;
    double initial; /* hod_module_init fills it with this */
    bool transient; /* not part of a saved model */
} hod_buffer;

/* First member of every module struct. Fields are for reading; functions change them. */
struct hod_module {
    char *name;       /* component of the full name; NULL for a root without one */
    const char *type; /* "conv2d" */
    hod_module *parent;
    hod_module **children;
    int64_t n_children, cap_children;
    hod_parameter *parameters;
    int64_t n_parameters, cap_parameters;
    hod_buffer *buffers;
    int64_t n_buffers, cap_buffers;
    hod_forward *forward;
    void (*destroy)(hod_module *self);          /* extra memory of the type; may be NULL */
    int (*update_statistics)(hod_module *self); /* once per update; may be NULL */
    struct hod_module_hooks *hooks;             /* NULL: none */
    bool training;
    bool failed; /* something below could not be made; hod_module_done reports it */
};

/* ---- making ---- */

/* type *m = hod_module_new(parent, name, type, forward): a zeroed struct whose first member is a
 * hod_module, attached to `parent` (which may be NULL for a root). NULL on failure; everything
 * below accepts that and passes it on. */
#define hod_module_new(parent, name, type, forward)                                                \
    ((type *)hod_module_make((hod_module *)(parent), name, #type, sizeof(type), forward))
HOD_API hod_module *hod_module_make(hod_module *parent, const char *name, const char *type,
                                    size_t bytes, hod_forward *forward);
/* Ends a constructor: the module, or NULL (and a root is freed) when anything in it failed. */
#define hod_module_done(m) hod_module_finish((hod_module *)(m))
HOD_API hod_module *hod_module_finish(hod_module *m);

/* Adds a parameter: f32, requires a gradient, owned by m, drawn with seed 0. NULL on failure. */
HOD_API hod_tensor *hod_parameter_new(hod_module *m, const char *name, hod_parameter_kind kind,
                                      hod_shape shape, hod_init init);
/* Adds a buffer filled with `initial`. NULL on failure. */
HOD_API hod_tensor *hod_buffer_new(hod_module *m, const char *name, hod_dtype dtype,
                                   hod_shape shape, double initial);

/* Frees a module and everything below it; a child is detached from its parent first. */
HOD_API void hod_module_free(hod_module *m);

/* ---- using ---- */

/* Runs forward in a scope of its own. NULL in, NULL out. */
#define hod_call(m, x) hod_module_call((hod_module *)(m), x)
HOD_API hod_tensor *hod_module_call(hod_module *m, hod_tensor *x);

/* Training or evaluation, for the whole tree. New modules are in training. */
HOD_API void hod_module_train(hod_module *m, bool training);
/* Draws all parameters below m anew and resets the buffers. 0 or -1. */
HOD_API int hod_module_init(hod_module *m, uint64_t seed);
/* Frees or freezes the tree: frozen parameters require no gradient. 0 or -1. */
HOD_API int hod_module_freeze(hod_module *m, bool frozen);
/* Marks every gradient in the tree absent. */
HOD_API void hod_module_zero_grad(hod_module *m);
/* Converts parameters and float buffers in place, before training (f64 for tests). 0 or -1. */
HOD_API int hod_module_cast(hod_module *m, hod_dtype dtype);
/* Once per update: batch norms in `pooled` mode move their running statistics by what the
 * micro-batches since the last call held together. 0 or -1. */
HOD_API int hod_module_update_statistics(hod_module *m);
/* Instead of that, after a skipped window: forgets what its micro-batches held. 0 or -1. */
HOD_API int hod_module_discard_statistics(hod_module *m);

/* ---- hooks ---- */

/* What a hook gets as `t` and may replace, and `other`, which it may look at. */
typedef enum hod_module_hook_kind {
    HOD_HOOK_FORWARD_PRE,  /* t: the input */
    HOD_HOOK_FORWARD,      /* t: the result, other: the input */
    HOD_HOOK_BACKWARD_PRE, /* t: the result's gradient dy */
    HOD_HOOK_BACKWARD, /* t: the input's gradient dx, other: dy; without a gradient for the input
                              t is NULL, and what is returned is not looked at */
} hod_module_hook_kind;

/* Returns t, or another tensor that takes its place, or NULL after a failure. */
typedef hod_tensor *hod_module_hook(void *context, hod_module *m, hod_tensor *t, hod_tensor *other);
/* Hooks of a kind run in the order they were added, whenever m is called; those of the backward, at
 * the end of the module's part of it. Other users of the same tensors do not show in dx and dy.
 * 0 or -1. */
#define hod_module_add_hook(m, ...) hod_module_add_hook_make((hod_module *)(m), __VA_ARGS__)
HOD_API int hod_module_add_hook_make(hod_module *m, hod_module_hook_kind kind,
                                     hod_module_hook *hook, void *context);
/* Takes away the one added last with these. 0, or -1 when there is none. */
#define hod_module_remove_hook(m, ...) hod_module_remove_hook_make((hod_module *)(m), __VA_ARGS__)
HOD_API int hod_module_remove_hook_make(hod_module *m, hod_module_hook_kind kind,
                                        hod_module_hook *hook, void *context);

/* ---- walking, in order of construction ---- */

/* One parameter or buffer and where it lives. */
typedef struct hod_named {
    char name[256]; /* full: "layer1.0.conv1.weight" */
    hod_tensor *tensor;
    hod_module *module;
    hod_parameter *parameter; /* NULL for a buffer */
    hod_buffer *buffer;       /* NULL for a parameter */
} hod_named;

typedef struct hod_walk {
    hod_module *root, *at;
    int64_t next;
    bool buffers;
    hod_named item;
} hod_walk;

/* for (hod_walk w = hod_parameters(net); hod_walk_next(&w);) use(w.item.name, w.item.tensor); */
HOD_API hod_walk hod_parameters(hod_module *root);
HOD_API hod_walk hod_buffers(hod_module *root); /* transient ones, too */
HOD_API bool hod_walk_next(hod_walk *w);

HOD_API int64_t hod_module_count_parameters(hod_module *m); /* elements */
HOD_API hod_module *hod_module_find(hod_module *root,
                                    const char *name); /* "layer1.0"; NULL: none */
/* The full name, below the root. Returns buf. */
HOD_API char *hod_module_full_name(const hod_module *m, char *buf, size_t cap);
/* One module a line, indented, with parameter counts. */
HOD_API void hod_module_print(hod_module *m, FILE *out);

/* ---- layers ---- */

typedef struct hod_linear_spec {
    int64_t in, out;
    bool no_bias;
    char end_;
} hod_linear_spec;
/* x (..., in) -> (..., out), weight (out, in) */
#define hod_nn_linear(parent, name, ...)                                                           \
    hod_nn_linear_make((hod_module *)(parent), name, (hod_linear_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_linear_make(hod_module *parent, const char *name, hod_linear_spec spec);

typedef struct hod_nn_conv2d_spec {
    int64_t in, out, kernel;
    int64_t kernel_w; /* 0: kernel */
    int64_t stride;   /* 0: 1 */
    int64_t padding;  /* all four sides */
    int64_t dilation; /* 0: 1 */
    int64_t groups;   /* 0: 1 */
    bool no_bias;
    char end_;
} hod_nn_conv2d_spec;
/* x (N,in,H,W) -> (N,out,Ho,Wo), weight (out, in/groups, kernel, kernel) */
#define hod_nn_conv2d(parent, name, ...)                                                           \
    hod_nn_conv2d_make((hod_module *)(parent), name, (hod_nn_conv2d_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_conv2d_make(hod_module *parent, const char *name,
                                       hod_nn_conv2d_spec spec);

/* How a batch norm that sees its batch in pieces keeps running statistics. Every mode but frozen
 * normalises a training forward with the statistics of its own micro-batch. */
typedef enum hod_batch_norm_mode {
    HOD_BN_POOLED, /* once per update, from the exactly pooled moments of its micro-batches */
    HOD_BN_MICRO,  /* on every training forward, as PyTorch */
    HOD_BN_FROZEN, /* never; training, too, normalises with the running ones */
} hod_batch_norm_mode;

typedef struct hod_batch_norm_spec {
    int64_t channels;
    double eps;      /* 0: 1e-5 */
    bool no_eps;     /* eps is 0 */
    double momentum; /* 0: 0.1 */
    hod_batch_norm_mode mode;
    char end_;
} hod_batch_norm_spec;
/* x (N,C), (N,C,L) or (N,C,H,W). Buffers: running_mean, running_var, num_batches_tracked. */
#define hod_nn_batch_norm2d(parent, name, ...)                                                     \
    hod_nn_batch_norm2d_make((hod_module *)(parent), name,                                         \
                             (hod_batch_norm_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_batch_norm2d_make(hod_module *parent, const char *name,
                                             hod_batch_norm_spec spec);
/* Sets the mode of every batch norm in the tree. */
HOD_API void hod_module_batch_norm_mode(hod_module *m, hod_batch_norm_mode mode);

typedef struct hod_group_norm_spec {
    int64_t groups, channels;
    double eps; /* 0: 1e-5 */
    char end_;
} hod_group_norm_spec;
#define hod_nn_group_norm(parent, name, ...)                                                       \
    hod_nn_group_norm_make((hod_module *)(parent), name,                                           \
                           (hod_group_norm_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_group_norm_make(hod_module *parent, const char *name,
                                           hod_group_norm_spec spec);

typedef struct hod_layer_norm_spec {
    int64_t features; /* the last dimension */
    double eps;       /* 0: 1e-5 */
    char end_;
} hod_layer_norm_spec;
#define hod_nn_layer_norm(parent, name, ...)                                                       \
    hod_nn_layer_norm_make((hod_module *)(parent), name,                                           \
                           (hod_layer_norm_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_layer_norm_make(hod_module *parent, const char *name,
                                           hod_layer_norm_spec spec);

typedef struct hod_layer_norm_spec hod_rms_norm_spec;
#define hod_nn_rms_norm(parent, name, ...)                                                         \
    hod_nn_rms_norm_make((hod_module *)(parent), name, (hod_rms_norm_spec){__VA_ARGS__, .end_ = 0})
/* Over the last dimension, without a bias. */
HOD_API hod_module *hod_nn_rms_norm_make(hod_module *parent, const char *name,
                                         hod_rms_norm_spec spec);

typedef struct hod_embedding_spec {
    int64_t rows, features;
    bool row_sparse; /* the gradient is of the rows that were looked up: rows.h */
    char end_;
} hod_embedding_spec;
/* i64 (...) -> (..., features), weight (rows, features) */
#define hod_nn_embedding(parent, name, ...)                                                        \
    hod_nn_embedding_make((hod_module *)(parent), name,                                            \
                          (hod_embedding_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_embedding_make(hod_module *parent, const char *name,
                                          hod_embedding_spec spec);

typedef struct hod_nn_pool_spec {
    int64_t kernel;
    int64_t stride; /* 0: kernel */
    int64_t padding;
    char end_;
} hod_nn_pool_spec;
#define hod_nn_max_pool2d(parent, name, ...)                                                       \
    hod_nn_max_pool2d_make((hod_module *)(parent), name, (hod_nn_pool_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_max_pool2d_make(hod_module *parent, const char *name,
                                           hod_nn_pool_spec spec);

/* Drops elements with probability p in training; the identity in evaluation. */
HOD_API hod_module *hod_nn_dropout_make(hod_module *parent, const char *name, double p);
#define hod_nn_dropout(parent, name, p) hod_nn_dropout_make((hod_module *)(parent), name, p)

HOD_API hod_module *hod_nn_relu_make(hod_module *parent, const char *name);
#define hod_nn_relu(parent, name) hod_nn_relu_make((hod_module *)(parent), name)

/* Calls its children in order of construction: make them with it as parent, named "0", "1", ... */
HOD_API hod_module *hod_nn_sequential_make(hod_module *parent, const char *name);
#define hod_nn_sequential(parent, name) hod_nn_sequential_make((hod_module *)(parent), name)

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(module, hod_module *)
#define hod_module_make(...)              HOD_PLACED(module, hod_module_make(__VA_ARGS__))
#define hod_module_finish(...)            HOD_PLACED(module, hod_module_finish(__VA_ARGS__))
#define hod_parameter_new(...)            HOD_PLACED(tensor, hod_parameter_new(__VA_ARGS__))
#define hod_buffer_new(...)               HOD_PLACED(tensor, hod_buffer_new(__VA_ARGS__))
#define hod_module_call(...)              HOD_PLACED(tensor, hod_module_call(__VA_ARGS__))
#define hod_module_init(...)              HOD_PLACED(int, hod_module_init(__VA_ARGS__))
#define hod_module_freeze(...)            HOD_PLACED(int, hod_module_freeze(__VA_ARGS__))
#define hod_module_cast(...)              HOD_PLACED(int, hod_module_cast(__VA_ARGS__))
#define hod_module_update_statistics(...) HOD_PLACED(int, hod_module_update_statistics(__VA_ARGS__))
#define hod_module_discard_statistics(...)                                                         \
    HOD_PLACED(int, hod_module_discard_statistics(__VA_ARGS__))
#define hod_module_add_hook_make(...)    HOD_PLACED(int, hod_module_add_hook_make(__VA_ARGS__))
#define hod_module_remove_hook_make(...) HOD_PLACED(int, hod_module_remove_hook_make(__VA_ARGS__))
#define hod_nn_linear_make(...)          HOD_PLACED(module, hod_nn_linear_make(__VA_ARGS__))
#define hod_nn_conv2d_make(...)          HOD_PLACED(module, hod_nn_conv2d_make(__VA_ARGS__))
#define hod_nn_batch_norm2d_make(...)    HOD_PLACED(module, hod_nn_batch_norm2d_make(__VA_ARGS__))
#define hod_nn_group_norm_make(...)      HOD_PLACED(module, hod_nn_group_norm_make(__VA_ARGS__))
#define hod_nn_layer_norm_make(...)      HOD_PLACED(module, hod_nn_layer_norm_make(__VA_ARGS__))
#define hod_nn_embedding_make(...)       HOD_PLACED(module, hod_nn_embedding_make(__VA_ARGS__))
#define hod_nn_max_pool2d_make(...)      HOD_PLACED(module, hod_nn_max_pool2d_make(__VA_ARGS__))
#define hod_nn_dropout_make(...)         HOD_PLACED(module, hod_nn_dropout_make(__VA_ARGS__))
#define hod_nn_relu_make(...)            HOD_PLACED(module, hod_nn_relu_make(__VA_ARGS__))
#define hod_nn_sequential_make(...)      HOD_PLACED(module, hod_nn_sequential_make(__VA_ARGS__))
#define hod_nn_rms_norm_make(...) HOD_PLACED(module, hod_nn_rms_norm_make(__VA_ARGS__))
#endif

#endif
