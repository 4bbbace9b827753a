/* A cluster as a loop nest, before it is text: axes, operands, values, sweeps.
 *
 * One step of the range computes one row: outer axes fixed, then one or more sweeps over the inner
 * axes. A value is a *full* value (inside the sweeps, one an element), a *point* (between the
 * sweeps, one a row, or one a lane), or a constant. A reduction is fed by a sweep and is a point
 * after it; a full value that reads such a point belongs to a later sweep.
 *
 *     for row in [begin, end)                    outer axes
 *         sweep 0: for ... for lane              inner axes; the last one vectorises
 *             load, compute, fold
 *         points
 *         sweep 1: ...
 *
 * The vector axis is the one along which most operands are contiguous. When it is folded, a sweep
 * folds it too (`LANE_FOLDED`); when it is not, every lane has its own fold (`LANE_KEPT`).
 */
#ifndef HOD_CODEGEN_LOOPS_H
#define HOD_CODEGEN_LOOPS_H

#include "codegen/lower.h"

enum { HOD_LANES = 64 }; /* width of a strip of a kept vector axis */

typedef struct hod_loop_axis {
    int64_t extent;
    bool reduced;
    bool literal; /* extent is the layout's block, or divides it, and is printed as a number */
} hod_loop_axis;

typedef enum hod_loop_value_kind {
    HOD_VALUE_LOAD,
    HOD_VALUE_COMPUTED,
    HOD_VALUE_FOLDED,  /* a reduction */
    HOD_VALUE_ALIAS,   /* a view: another value's element */
    HOD_VALUE_NUMBER,  /* full: a kernel argument */
    HOD_VALUE_COUNTER, /* iota: an index */
} hod_loop_value_kind;

typedef struct hod_loop_value {
    hod_ref ref;
    hod_loop_value_kind kind;
    bool full;   /* varies along reduced axes, or there are none */
    int sweep;   /* full: the sweep that computes it; point: the sweep after which it is known */
    int operand; /* load: which; computed or folded: where it is stored, or -1 */
    int alias;   /* alias: index of the value */
    int arg;     /* number: its argument; accumulate: whether to add; uniform: the stream */
    int key;     /* uniform: operand that holds the key, or -1 */
    bool reload; /* a later sweep reads it back instead of computing it again */
    bool counts; /* counter, uniform: `stride` gives the index or element number, per axis */
    int64_t stride[HOD_ATOMS];
} hod_loop_value;

typedef enum hod_nest {
    HOD_NEST_FLAT,        /* nothing folded, one axis: the range itself vectorises */
    HOD_NEST_ROWS,        /* nothing folded, several axes */
    HOD_NEST_LANE_FOLDED, /* the vector axis is folded */
    HOD_NEST_LANE_KEPT,   /* folds over outer axes, the vector axis is kept */
} hod_nest;

typedef struct hod_loops {
    const hod_lowering *l;
    const hod_cluster *cluster;
    hod_space *space;
    hod_nest nest;
    hod_loop_axis axis[HOD_ATOMS]; /* outer ones first, then inner ones; the vector axis is last */
    int n_axes, n_outer;
    bool strips; /* the kept vector axis is cut in strips of HOD_LANES, the last outer index */
    int sweeps;
    hod_loop_value value[HOD_SPACE_VALUES];        /* index as in space */
    int64_t stride[HOD_KERNEL_BUFFERS][HOD_ATOMS]; /* of each operand along each axis */
} hod_loops;

/* Analyses cluster c; fills k's operands, arguments for numbers and betas,
 * range and grain. 0/-1. */
int hod__loops_build(hod_loops *p, const hod_lowering *l, const hod_cluster *c,
                     hod_fused_kernel *k);
/* Prints the loops as C into k->text and appends the sizes and strides it names to k->arg. 0/-1. */
int hod__emit_c(const hod_loops *p, hod_fused_kernel *k);

/* Index of the value that r reads through its views. */
int hod__value_of(const hod_loops *p, hod_ref r);

#endif
