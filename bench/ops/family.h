/* A family of operators to time: operands at three sizes, and rows that call operators on them.
 *
 *     typedef struct operands {
 *         hod_tensor *x, *w;
 *     } operands;
 *     static int make(int size, operands *o);      // 0 small, 1 middle, 2 large; 0 or -1
 *     #define OPS(ROW) \
 *         ROW(matmul, hod_matmul(o->x, o->w)) \
 *         ROW(matmul_grad, op_gradients(hod_matmul(o->x, o->w), 2, o->leaves))
 *     OP_FAMILY(contractions, OPS, "64", "256", "1024")
 *
 * and one line in families.def. The peer's rows stand in bench/peer/op_<family>.py, under the same
 * names and over operands of the same sizes.
 */
#ifndef BENCH_OPS_FAMILY_H
#define BENCH_OPS_FAMILY_H

#include <hod/hod.h>

enum { OP_SIZES = 3 };

typedef struct op_row {
    const char *name;
    hod_tensor *(*run)(const void *o); /* NULL after an error */
} op_row;

typedef struct op_family {
    const char *name, *sizes[OP_SIZES];
    const void *(*make)(int size); /* operands, in the caller's scope; NULL after an error */
    const op_row *rows;
    int n;
} op_family;

/* Gradients of y for n inputs, ones given; the first. What <name>_grad rows time: both ways. */
hod_tensor *op_gradients(hod_tensor *y, int n, hod_tensor *const *inputs);

/* Uniform between the two, f32. */
hod_tensor *op_uniform(hod_shape shape, double low, double high);

#define OP_FUNCTION(name, ...)                                                                     \
    static hod_tensor *run_##name(const void *operands_)                                           \
    {                                                                                              \
        const operands *o = operands_;                                                             \
        return __VA_ARGS__;                                                                        \
    }
#define OP_ENTRY(name, ...) {#name, run_##name},
#define OP_FAMILY(family, OPS, ...)                                                                \
    OPS(OP_FUNCTION)                                                                               \
    static const op_row rows[] = {OPS(OP_ENTRY)};                                                  \
    static const void *made(int size)                                                              \
    {                                                                                              \
        static operands o;                                                                         \
        return make(size, &o) == 0 ? &o : NULL;                                                    \
    }                                                                                              \
    extern const op_family op_family_##family;                                                     \
    const op_family op_family_##family = {                                                         \
        .name = #family,                                                                           \
        .sizes = {__VA_ARGS__},                                                                    \
        .make = made,                                                                              \
        .rows = rows,                                                                              \
        .n = sizeof rows / sizeof *rows,                                                           \
    };

#endif
