/* Gradients: the tape, and what can be asked of it. The semantics are PyTorch's.
 *
 *     hod_tensor *w = hod_requires_grad(hod_scalar(2), true);    // a leaf
 *     hod_tensor *loss = hod_mul(w, w);
 *     hod_backward(loss);                                        // consumes the graph of loss
 *     printf("%g\n", hod_item(hod_grad(w)));                     // 4
 *     hod_zero_grad(w);                                          // absent again
 *
 * A leaf is a tensor that was made to require a gradient; a result requires one when an input does.
 * Gradients of several backward calls add up in the leaf until hod_zero_grad. A gradient that never
 * arrived is absent (hod_grad gives NULL without an error), which is not the same as zero:
 * optimizers skip the parameter.
 */
#ifndef HOD_AUTOGRAD_H
#define HOD_AUTOGRAD_H

#include <hod/tensor.h>
#include <stdio.h>

/* ---- leaves ---- */

/* Makes a leaf require a gradient, or no longer: not even from results made before. Float tensors
 * only; a result of operators that requires a gradient cannot be switched off (hod_detach it).
 * Returns t, NULL on failure. */
HOD_API hod_tensor *hod_requires_grad(hod_tensor *t, bool on);
HOD_API bool hod_tensor_requires_grad(const hod_tensor *t);
HOD_API bool hod_tensor_is_leaf(const hod_tensor *t);

/* The accumulated gradient, owned by t; NULL, without an error, when absent. */
HOD_API hod_tensor *hod_grad(const hod_tensor *t);
/* Marks the gradient absent. The next one is written into the same tensor: hod_copy a gradient that
 * is to be kept. */
HOD_API void hod_zero_grad(hod_tensor *t);
/* Makes backward keep the gradient of a result, too; read it with hod_grad. 0 or -1. */
HOD_API int hod_retain_grad(hod_tensor *t);
/* The same values, without history: a view that requires no gradient. */
HOD_API hod_tensor *hod_detach(hod_tensor *t);

/* ---- backward ---- */

/* Adds the gradient of `loss`, a single value, to every leaf it depends on, and consumes the graph:
 * what it saved is freed, a second call is an error. 0, or -1: then some leaves may have theirs and
 * others not, and the loss must be computed again. */
HOD_API int hod_backward(hod_tensor *loss);

/* Stands for the gradient 1 of a single value. */
#define HOD_ONES ((hod_tensor *)(intptr_t)-2)

typedef struct hod_backward_spec {
    hod_tensor *gradient; /* of the result, same shape; HOD_ONES for a single value */
    bool retain_graph;    /* false: the graph is consumed */
    bool create_graph;    /* true: gradients can be differentiated again; implies retain_graph */
    char end_;
} hod_backward_spec;

/* hod_backward_with(y, g, .retain_graph = true): the vector-Jacobian product with g. */
#define hod_backward_with(t, ...) hod_backward_make(t, &(hod_backward_spec){__VA_ARGS__, .end_ = 0})
HOD_API int hod_backward_make(hod_tensor *t, const hod_backward_spec *spec);
/* From n results at once, in one walk: hod_backward_many(2, results, gradients, .retain_graph = 1).
 * gradients: n, HOD_ONES among them; NULL: HOD_ONES for all. 0 or -1. */
#define hod_backward_many(n, results, ...) HOD_BACKWARD_MANY_(n, results, __VA_ARGS__, .end_ = 0)
#define HOD_BACKWARD_MANY_(n, results, gradients, ...)                                             \
    hod_backward_many_make(n, results, gradients, &(hod_backward_spec){__VA_ARGS__})
HOD_API int hod_backward_many_make(int n, hod_tensor *const *results, hod_tensor *const *gradients,
                                   const hod_backward_spec *spec);

typedef struct hod_grad_of_spec {
    hod_tensor *gradient; /* of the output; HOD_ONES for a single value */
    bool retain_graph;
    bool create_graph;
    bool allow_unused; /* an input the output does not depend on: NULL instead of an error */
    char end_;
} hod_grad_of_spec;

/* Gradients of y for chosen inputs, leaves or results, without touching hod_grad of any tensor.
 * out[i] belongs to the innermost scope. 0 or -1.
 *     hod_grad_of(y, 2, ((hod_tensor *[]){a, b}), out, HOD_ONES, .create_graph = true);
 * Hooks run here, too. */
#define hod_grad_of(y, n, inputs, out, ...)                                                        \
    hod_grad_of_make(y, n, inputs, out, &(hod_grad_of_spec){__VA_ARGS__, .end_ = 0})
HOD_API int hod_grad_of_make(hod_tensor *y, int n, hod_tensor *const *inputs, hod_tensor **out,
                             const hod_grad_of_spec *spec);
/* The same from m results: hod_grad_of_many(m, y, gradients, n, inputs, out, .create_graph = 1).
 * gradients: as for hod_backward_many. */
#define hod_grad_of_many(m, y, gradients, n, inputs, ...)                                          \
    HOD_GRAD_OF_MANY_(m, y, gradients, n, inputs, __VA_ARGS__, .end_ = 0)
#define HOD_GRAD_OF_MANY_(m, y, gradients, n, inputs, out, ...)                                    \
    hod_grad_of_many_make(m, y, gradients, n, inputs, out, &(hod_grad_of_spec){__VA_ARGS__})
HOD_API int hod_grad_of_many_make(int m, hod_tensor *const *y, hod_tensor *const *gradients, int n,
                                  hod_tensor *const *inputs, hod_tensor **out,
                                  const hod_grad_of_spec *spec);

/* ---- scopes without gradients ---- */

typedef struct hod_grad_mode {
    bool enabled, inference; /* as they were before */
    struct hod_grad_mode *outer;
} hod_grad_mode;
/* From begin to end, in the thread that began it; HOD_NO_GRAD and its kind below call both. The
 * innermost ends first: ending another one ends those inside it as well, and is an error, as is
 * ending one twice. */
HOD_API void hod_no_grad_begin(hod_grad_mode *m);
HOD_API void hod_with_grad_begin(hod_grad_mode *m);
HOD_API void hod_inference_begin(hod_grad_mode *m);
HOD_API void hod_grad_mode_end(hod_grad_mode *m);
HOD_API bool hod_grad_enabled(void);

/* From here to the end of the block this thread's operators record nothing. */
#define HOD_NO_GRAD(name) HOD_GRAD_MODE_(name, hod_no_grad_begin)
/* Inside of that, they record again. */
#define HOD_WITH_GRAD(name) HOD_GRAD_MODE_(name, hod_with_grad_begin)
/* As HOD_NO_GRAD, and results made here stay out of training: they cannot become leaves, a backward
 * cannot need them (hod_copy makes a tensor like any other), and none is run in here. In a sum with
 * trained tensors they are constants; where a derivative would have to read one, as in a product,
 * it is an error. */
#define HOD_INFERENCE(name) HOD_GRAD_MODE_(name, hod_inference_begin)

#define HOD_GRAD_MODE_(name, begin)                                                                \
    __attribute__((cleanup(hod_grad_mode_end))) hod_grad_mode name;                                \
    begin(&name)

/* ---- hooks ---- */

/* Gets the gradient of a tensor once it is complete; returns it, or another of the same shape and
 * type that takes its place, or NULL after a failure. g lives until the backward ends
 * (hod_tensor_retain it to keep it) and may be another tensor's gradient, too: it is not to be
 * written. Operators in here are noted under .create_graph or HOD_WITH_GRAD only. */
typedef hod_tensor *hod_grad_hook(void *context, hod_tensor *g);
/* Hooks run in the order they were added. 0 or -1. */
HOD_API int hod_add_grad_hook(hod_tensor *t, hod_grad_hook *hook, void *context);
/* Takes away the one added last with this function and context; a hook may take itself away. 0, or
 * -1 when there is none. */
HOD_API int hod_remove_grad_hook(hod_tensor *t, hod_grad_hook *hook, void *context);

/* ---- the graph, to look at ---- */

typedef struct hod_grad_node hod_grad_node;
HOD_API const hod_grad_node *hod_grad_fn(const hod_tensor *t);  /* NULL for a leaf */
HOD_API const char *hod_grad_node_name(const hod_grad_node *n); /* "mul" */
HOD_API int hod_grad_node_inputs(const hod_grad_node *n);
/* The node input i comes from; NULL when it is a leaf or needs no gradient. */
HOD_API const hod_grad_node *hod_grad_node_next(const hod_grad_node *n, int i);
/* Which of that node's results it is; most nodes have one. */
HOD_API int hod_grad_node_next_result(const hod_grad_node *n, int i);
HOD_API int hod_grad_node_results(const hod_grad_node *n);
/* Where the operator was called; *file is NULL when that is not known. */
HOD_API void hod_grad_node_place(const hod_grad_node *n, const char **file, int *line);
/* The leaf that input i is; NULL when it is none. */
HOD_API const hod_tensor *hod_grad_node_leaf(const hod_grad_node *n, int i);
/* One node a line, inputs before results: "%3 = mul(%2, leaf (3)) -> f32 (3)  model.c:12"; a
 * module's parameter stands there by its name. 0 or -1. */
HOD_API int hod_print_graph(const hod_tensor *t, FILE *out);
/* The same as Graphviz. */
HOD_API int hod_print_graph_dot(const hod_tensor *t, FILE *out);

/* ---- anomaly mode ---- */

/* While on, backward stops at the first NaN or Inf in a gradient and names the forward operator and
 * its place. Slow: every gradient is read. Per thread. Returns what it was. */
HOD_API bool hod_detect_anomaly(bool on);

/* ---- gradcheck ---- */

/* A function of n tensors with one result. */
typedef hod_tensor *hod_check_fn(void *context, hod_tensor *const *in, int n);

typedef struct hod_gradcheck_report {
    bool passed;
    double worst; /* largest |analytic - numeric| / (atol + rtol * |numeric|); passed: <= 1 */
    int input;    /* where that was */
    int64_t element;
    double analytic, numeric;
    int64_t compared; /* number of derivatives compared */
} hod_gradcheck_report;

typedef struct hod_gradcheck_spec {
    void *context; /* for the function; NULL is allowed */
    double step;   /* 0: 1e-6, times max(1, |x|); f32 inputs: 4e-3 */
    double rtol;   /* 0: 1e-3; f32: 1e-2 */
    double atol;   /* 0: 1e-5; f32: 1e-3 */
    bool keep_f32; /* f32 inputs stay f32: for functions that take nothing else */
    char end_;
} hod_gradcheck_spec;

/* Compares the gradients of fn with central differences in f64: for every element of every float
 * input, the derivative of <u, fn(x)> with a fixed pseudo-random u. 0 and *report, or -1 when fn
 * failed, gives no floats, or differs from call to call. Inputs are copied, to f64, in which fn
 * must then compute.
 * After the report stands .context, what fn gets (NULL: nothing); settings may follow:
 *     hod_gradcheck(fn, 2, inputs, &report, NULL, .rtol = 1e-4)
 *     hod_gradcheck(fn, 2, inputs, &report, &net) */
#define hod_gradcheck(fn, n, inputs, report, ...)                                                  \
    hod_gradcheck_make(fn, n, inputs, report, &(hod_gradcheck_spec){__VA_ARGS__, .end_ = 0})
HOD_API int hod_gradcheck_make(hod_check_fn *fn, int n, hod_tensor *const *inputs,
                               hod_gradcheck_report *report, const hod_gradcheck_spec *spec);
/* The same for second derivatives: checks the gradient of the gradient. */
#define hod_gradgradcheck(fn, n, inputs, report, ...)                                              \
    hod_gradgradcheck_make(fn, n, inputs, report, &(hod_gradcheck_spec){__VA_ARGS__, .end_ = 0})
HOD_API int hod_gradgradcheck_make(hod_check_fn *fn, int n, hod_tensor *const *inputs,
                                   hod_gradcheck_report *report, const hod_gradcheck_spec *spec);

/* ---- operators of one's own ---- */

/* One application of a custom operator, from its forward to its last backward. */
typedef struct hod_custom_call hod_custom_call;

/* Must outlive the graphs it is in; usually static.
 *
 *     static int forward(hod_custom_call *c, hod_tensor *const *x, hod_tensor **y)
 *     {
 *         y[0] = hod_exp(x[0]);
 *         return hod_custom_save(c, y[0]);
 *     }
 *     static int backward(hod_custom_call *c, hod_tensor *const *dy, hod_tensor **dx)
 *     {
 *         dx[0] = hod_mul(dy[0], hod_custom_saved(c, 0));
 *         return 0;
 *     }
 *     static const hod_custom_op my_exp = {"my_exp", .forward = forward, .backward = backward};
 *     hod_tensor *y = hod_custom(&my_exp, NULL, x);
 *
 * Either function may be operators or loops over memory (hod_tensor_data of inputs, hod_empty and
 * hod_tensor_mutable_data for results). Operators are compiled, and a backward of operators can be
 * differentiated again; a loop that reads values is a graph break in a compiled function, and its
 * second derivative an error. Return 0, or -1 after a failure; a result left NULL is one. */
typedef struct hod_custom_op {
    const char *name;    /* in messages and printed graphs */
    int inputs, results; /* 0: 1; at most 64 */
    size_t state_bytes;  /* of hod_custom_state */
    /* Sets y[results]; runs without gradients. Inputs are not changed in place. A result that is
     * not float carries no gradient. */
    int (*forward)(hod_custom_call *c, hod_tensor *const *x, hod_tensor **y);
    /* Sets dx[inputs], in the shapes of the inputs, from dy[results] (zeros where no gradient
     * arrived); NULL: none flows. NULL instead of a function: results carry no gradient. */
    int (*backward)(hod_custom_call *c, hod_tensor *const *dy, hod_tensor **dx);
} hod_custom_op;

/* hod_custom(&op, context, x, ...): the single result. NULL in, NULL out. `context` reaches both
 * functions and must stay valid until the last backward. */
#define hod_custom(op, context, ...)                                                               \
    hod_custom_one(op, context,                                                                    \
                   (int)(sizeof((hod_tensor *[]){__VA_ARGS__}) / sizeof(hod_tensor *)),            \
                   (hod_tensor *[]){__VA_ARGS__})
HOD_API hod_tensor *hod_custom_one(const hod_custom_op *op, void *context, int n,
                                   hod_tensor *const *in);
/* Several results: out[i] belongs to the innermost scope. 0 or -1. */
HOD_API int hod_custom_into(const hod_custom_op *op, void *context, hod_tensor *const *in,
                            hod_tensor **out);

HOD_API void *hod_custom_context(const hod_custom_call *c);
HOD_API void *hod_custom_state(hod_custom_call *c); /* state_bytes, zeroed before forward */
/* In forward: keeps an input, a result or any other tensor for backward. 0 or -1. */
HOD_API int hod_custom_save(hod_custom_call *c, hod_tensor *t);
/* In backward: the i-th tensor kept; NULL with an error when it was changed in place since. */
HOD_API hod_tensor *hod_custom_saved(hod_custom_call *c, int i);
/* Whether input i wants a gradient, so that nothing is computed in vain. */
HOD_API bool hod_custom_wants(const hod_custom_call *c, int i);

/* ---- recomputation ---- */

/* fn(context, in, n), but what its backward needs is not kept: the backward runs fn again, with the
 * same randomness, when it gets there. Gradients are those of the plain call, of every order, and
 * reach whatever fn reads; a function in which nothing requires a gradient is not run again. fn may
 * call hod_checkpoint itself. fn and context must stay valid until then, and fn must compute the
 * same again: an operator, a size or a number of draws that differs is an error. State of its own
 * that must not move twice asks hod_recomputing. */
HOD_API hod_tensor *hod_checkpoint(hod_check_fn *fn, void *context, int n, hod_tensor *const *in);

/* With several results: out[i] belongs to the innermost scope. 0 or -1. */
typedef int hod_checkpoint_fn(void *context, hod_tensor *const *in, int n, hod_tensor **out);
HOD_API int hod_checkpoint_into(hod_checkpoint_fn *fn, void *context, int n, hod_tensor *const *in,
                                int outputs, hod_tensor **out);
/* True while a checkpointed function runs again: what was counted must not be counted twice. */
HOD_API bool hod_recomputing(void);

#ifndef HOD_NO_PLACES
#define hod_backward(...)           HOD_PLACED(int, hod_backward(__VA_ARGS__))
#define hod_backward_make(...)      HOD_PLACED(int, hod_backward_make(__VA_ARGS__))
#define hod_checkpoint(...)         HOD_PLACED(tensor, hod_checkpoint(__VA_ARGS__))
#define hod_custom_one(...)         HOD_PLACED(tensor, hod_custom_one(__VA_ARGS__))
#define hod_custom_into(...)        HOD_PLACED(int, hod_custom_into(__VA_ARGS__))
#define hod_checkpoint_into(...)    HOD_PLACED(int, hod_checkpoint_into(__VA_ARGS__))
#define hod_requires_grad(...)      HOD_PLACED(tensor, hod_requires_grad(__VA_ARGS__))
#define hod_retain_grad(...)        HOD_PLACED(int, hod_retain_grad(__VA_ARGS__))
#define hod_detach(...)             HOD_PLACED(tensor, hod_detach(__VA_ARGS__))
#define hod_backward_many_make(...) HOD_PLACED(int, hod_backward_many_make(__VA_ARGS__))
#define hod_grad_of_make(...)       HOD_PLACED(int, hod_grad_of_make(__VA_ARGS__))
#define hod_grad_of_many_make(...)  HOD_PLACED(int, hod_grad_of_many_make(__VA_ARGS__))
#define hod_add_grad_hook(...)      HOD_PLACED(int, hod_add_grad_hook(__VA_ARGS__))
#define hod_remove_grad_hook(...)   HOD_PLACED(int, hod_remove_grad_hook(__VA_ARGS__))
#define hod_print_graph(...)        HOD_PLACED(int, hod_print_graph(__VA_ARGS__))
#define hod_print_graph_dot(...)    HOD_PLACED(int, hod_print_graph_dot(__VA_ARGS__))
#define hod_gradcheck_make(...)     HOD_PLACED(int, hod_gradcheck_make(__VA_ARGS__))
#define hod_gradgradcheck_make(...) HOD_PLACED(int, hod_gradgradcheck_make(__VA_ARGS__))
#define hod_custom_save(...)        HOD_PLACED(int, hod_custom_save(__VA_ARGS__))
#define hod_custom_saved(...)       HOD_PLACED(tensor, hod_custom_saved(__VA_ARGS__))
#endif

#endif
