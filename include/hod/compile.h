/* Compile: any C function over tensors becomes one program of fused kernels.
 *
 *     static int step(void *net, hod_tensor *const *in, hod_tensor **out)
 *     {
 *         out[0] = loss_of(net, in[0], in[1]);
 *         return hod_backward(out[0]);
 *     }
 *     hod_fn *f = hod_compile(step, net, .inputs = 2, .outputs = 1, .fullgraph = true);
 *     hod_fn_call(f, (hod_tensor *[]){x, y}, &loss);
 *
 * Each call runs `step` again with operators recorded instead of computed, compares them with the
 * known traces, and then runs the program of the trace that matches: a branch taken differently,
 * another size or mode is another trace, never a stale one. Reading a value inside the function
 * (hod_item) ends one program and begins the next: a graph break, listed in the report. Sizes are
 * arguments of the kernels, so a new size costs a new plan but compiles nothing.
 *
 * Effects (gradients, parameters, statistics) happen when their program runs, which is before
 * hod_fn_call returns; of a call that fails, what was recorded since the last graph break never
 * happens. A compiled function called inside another becomes a part of that one.
 *
 * Random operators draw by the key of hod_random_begin; a further call under the same key draws
 * anew, from a key derived from it.
 *
 * Without the system compiler, or with HOD_COMPILE=0, the function simply runs eagerly. To find a
 * fault: HOD_COMPILE=interpret runs recorded graphs operator by operator, HOD_CHECK_SPANS=1 never
 * skips the inside of a backward or an update.
 */
#ifndef HOD_COMPILE_H
#define HOD_COMPILE_H

#include <hod/tensor.h>
#include <stdio.h>

/* The function to compile. `out` receives results owned by the current scope. 0 or -1. */
typedef int (*hod_body)(void *job, hod_tensor *const *in, hod_tensor **out);

typedef enum hod_compile_mode {
    HOD_COMPILE_DEFAULT,
    HOD_COMPILE_REDUCE_OVERHEAD, /* the caller promises a static step: no re-recording after the
                                    first call of a shape; HOD_CHECK_STATIC=1 checks the promise.
                                    A body that breaks or clears gradients is called every time */
    HOD_COMPILE_EAGER,           /* run the body as it is: for comparison */
} hod_compile_mode;

typedef struct hod_compile_spec {
    int inputs, outputs;   /* counts of the body's in and out */
    hod_compile_mode mode; /* default: HOD_COMPILE_DEFAULT */
    bool fullgraph;        /* a graph break is an error */
    const char *name;      /* for reports; default "step" */
    int max_traces;        /* default 64; beyond: eager, with one warning */
    int end_;
} hod_compile_spec;

typedef struct hod_fn hod_fn;
#define hod_compile(body, ...)       HOD_COMPILE_(body, __VA_ARGS__, .end_ = 0)
#define HOD_COMPILE_(body, job, ...) hod_compile_make(body, job, (hod_compile_spec){__VA_ARGS__})
HOD_API hod_fn *hod_compile_make(hod_body body, void *job, hod_compile_spec spec);
HOD_API void hod_fn_free(hod_fn *f); /* NULL is allowed */

/* Calls it. in: spec.inputs tensors; out: spec.outputs results, owned by the current scope (a
 * NULL array when there are none). 0 or -1. */
HOD_API int hod_fn_call(hod_fn *f, hod_tensor *const *in, hod_tensor **out);

/* Records and compiles for these inputs without running anything: the plan before the first step.
 * Inputs may be symbolic (hod_placeholder). 0 or -1. */
HOD_API int hod_fn_prepare(hod_fn *f, hod_tensor *const *in);
/* A tensor with a shape but no memory, for hod_fn_prepare. */
HOD_API hod_tensor *hod_placeholder(hod_dtype dtype, hod_shape shape);

typedef struct hod_graph_break {
    const char *file;
    int line;
    char reason[96];
} hod_graph_break;

typedef struct hod_compile_report {
    int traces;          /* programs known */
    int recompiles;      /* traces after the first that a call met; preparing is no recompiling */
    int graph_breaks;    /* of the last call */
    hod_graph_break last_break;
    int nodes, kernels, library_calls; /* of the last call's programs */
    int kernels_compiled, kernels_cached;
    double compile_seconds; /* wall time spent compiling, in total */
    int64_t arena_bytes;    /* planned peak of the last call's program: measured peak is this */
    int64_t arena_bound;    /* largest sum of values alive at once: no plan can be smaller */
} hod_compile_report;
HOD_API hod_compile_report hod_fn_report(const hod_fn *f);

/* What hod_fn_print can show of the last call's programs. */
typedef enum hod_fn_view {
    HOD_FN_TRACE,    /* the graph as recorded */
    HOD_FN_GRAPH,    /* after the passes */
    HOD_FN_PROGRAM,  /* calls with arena offsets */
    HOD_FN_KERNELS,  /* the C text */
    HOD_FN_TIMELINE, /* memory over calls, an SVG */
} hod_fn_view;
HOD_API int hod_fn_print(const hod_fn *f, hod_fn_view view, FILE *out);

/* Programs of one group run one at a time and share one arena, as large as the largest needs. */
typedef struct hod_arena hod_arena;
HOD_API hod_arena *hod_arena_new(void);
HOD_API void hod_arena_free(hod_arena *a); /* after the functions that use it */
HOD_API int hod_fn_set_arena(hod_fn *f, hod_arena *a);
HOD_API int64_t hod_arena_bytes(const hod_arena *a);

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(fn, hod_fn *)
HOD_PLACED_RESULT(arena, hod_arena *)
#define hod_compile_make(...) HOD_PLACED(fn, hod_compile_make(__VA_ARGS__))
#define hod_fn_call(...)      HOD_PLACED(int, hod_fn_call(__VA_ARGS__))
#define hod_fn_prepare(...)   HOD_PLACED(int, hod_fn_prepare(__VA_ARGS__))
#define hod_placeholder(...)  HOD_PLACED(tensor, hod_placeholder(__VA_ARGS__))
#define hod_fn_print(...)     HOD_PLACED(int, hod_fn_print(__VA_ARGS__))
#define hod_arena_new(...)    HOD_PLACED(arena, hod_arena_new(__VA_ARGS__))
#define hod_fn_set_arena(...) HOD_PLACED(int, hod_fn_set_arena(__VA_ARGS__))
#endif

#endif
