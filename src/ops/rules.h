/* The functions that the rows of ops.def name, between the files of this layer.
 *
 * Every row but NODIFF ones has hod__vjp_<name>; views, sources and kernels have
 * hod__shape_<name>, and a hod__view_<name> or hod__eval_<name>. The families share theirs. A
 * missing one does not link.
 */
#ifndef HOD_OPS_RULES_H
#define HOD_OPS_RULES_H

#include "ops/op.h"
#include <hod/functional.h>
#include <hod/losses.h>

#define OP(name, ...)                                                                              \
    hod_tensor *hod__vjp_##name(const hod_vjp *v, int i);                                          \
    int hod__shape_##name(const hod_op_call *c, const hod_meta *in, hod_meta *out);                \
    int hod__view_##name(const hod_op_call *c, hod_tensor *out);                                   \
    int hod__eval_##name(const hod_op_call *c, hod_tensor *out);
#include "ops/ops_rows.h"
#undef OP

int hod__shape_pointwise(const hod_op_call *c, const hod_meta *in, hod_meta *out);
int hod__eval_pointwise(const hod_op_call *c, hod_tensor *out);
int hod__shape_reduce(const hod_op_call *c, const hod_meta *in, hod_meta *out);
int hod__eval_reduce(const hod_op_call *c, hod_tensor *out);

/* ---- for shape rules ---- */
const char *hod__op_name(const hod_op_call *c);
#define HOD_META_TEXT(m) hod__shape_text((m)->ndim, (m)->shape, (char[96]){0}, 96)
/* A shape given as attribute; what it has too many of is left for a check to refuse. */
static inline hod_meta hod__meta_of(hod_dtype dtype, const hod_shape *s)
{
    hod_meta m = {.dtype = dtype, .ndim = s->n};
    memcpy(m.shape, s->d, (size_t)HOD_MIN(HOD_MAX(s->n, 0), HOD_MAX_DIMS) * sizeof *s->d);
    return m;
}
/* Broadcasts `a` and `b` (ndim and shape) into out; false when they do not match. */
bool hod__broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *nout, int64_t *out);
/* `have` has the type and the shape of `want`: 0, or -1 with an error that names both. */
int hod__check_like(const char *name, const hod_meta *have, const hod_meta *want);
/* A window of `kernel` elements, `dilation` apart, along `size` elements with padding at both ends:
 * what it covers in *window, and *room for it. False when a number is below its least or beyond
 * what the library counts in 32 bits; the quotient of two that pass does not overflow. */
bool hod__window(int64_t size, const int64_t padding[2], int64_t kernel, int64_t stride,
                 int64_t dilation, int64_t *room, int64_t *window);
/* How many such windows image x (...,H,W) has down (side 0) or across (side 1), its padding being
 * an attribute's four; -1 with an error. */
int64_t hod__count_windows(const char *name, const hod_meta *x, int side, const int64_t padding[4],
                           int64_t kernel, int64_t stride, int64_t dilation);

/* ---- for views ---- */
/* Strides with which t's elements take the given shape without a copy; false: impossible. */
bool hod__view_strides(const hod_tensor *t, int ndim, const int64_t *shape, int64_t *strides);

/* f32 for f16 and bf16, any other type as it is. */
static inline hod_dtype hod__widened(hod_dtype dtype)
{
    return hod__is_half(dtype) ? HOD_F32 : dtype;
}

/* ---- for compositions ---- */
/* True when the tensor among options may be taken as absent because NULL: with an error pending it
 * may as well be one that failed. */
static inline bool hod__options_hold(void)
{
    return hod_error_kind_pending() == HOD_ERROR_NONE;
}
/* Options of two or four sides: the same for all, unless they are given apart; `usual` where
 * neither is. One that is 0 among those given apart stays 0. */
void hod__both_ways(int64_t both, const int64_t apart[2], int64_t usual, int64_t out[2]);
void hod__four_sides(int64_t all, const int64_t apart[4], int64_t out[4]);
/* A 0-d constant of like's type; NULL in, NULL out. */
hod_tensor *hod__number(const hod_tensor *like, double value);
/* Is the number within the type's limits? Integers cut its fraction off. */
bool hod__in_range(hod_dtype dtype, double value);
/* Each element's place along dim holds the product of the others there; no division. */
hod_tensor *hod__product_of_others(hod_tensor *x, int dim);
/* Fills the one open size (-1) of a shape of n elements. The product of the others where it does
 * not divide n, else -1; any other impossible request is left for the shape rule to refuse. */
int64_t hod__close_shape(int64_t n, hod_shape *shape);
/* At most one size is open; false with an error otherwise. */
bool hod__one_open(const char *name, const hod_shape *shape);
/* hod_matmul, but f32 of 16-bit operands. */
hod_tensor *hod__matmul_wide(hod_tensor *a, hod_tensor *b);
/* x as the type to compute in: f64 stays, everything else is f32. */
hod_tensor *hod__computed(hod_tensor *x);
/* y, computed for a result of type t: as that where it is one of 16 bits. */
hod_tensor *hod__narrowed(hod_tensor *y, hod_dtype t);
/* The same for a result of x's type. */
hod_tensor *hod__narrowed_like(hod_tensor *y, const hod_tensor *x);
/* t in x's type. */
static inline hod_tensor *hod__cast_like(hod_tensor *t, const hod_tensor *x)
{
    return t && x ? hod__cast_to(t, (hod_dtype)x->dtype) : NULL;
}

/* The greatest along dim, which is kept: what is subtracted from x before exp (softmax.c). Of
 * nothing: an error. */
hod_tensor *hod__exp_shift(hod_tensor *x, int dim);

/* ---- for kernels ---- */
/* A loop over up to HOD_ITER_MAX operands of one shape, dimensions merged where all strides agree,
 * size-1 dimensions gone, the last dimension innermost. ndim is at least 1 (n may be 0). */
enum { HOD_ITER_MAX = 4 };
typedef struct hod_iter {
    int ndim, n_operands;
    int64_t shape[HOD_MAX_DIMS];
    int64_t strides[HOD_ITER_MAX][HOD_MAX_DIMS]; /* elements; 0 where broadcast */
    int64_t n;                                   /* elements in all */
} hod_iter;
/* operand[k] broadcast to `shape`. */
void hod__iter_begin(hod_iter *it, int ndim, const int64_t *shape, int n,
                     const hod_tensor *const *operand);
/* Splits [0, rows) into index[] of the outer dimensions: offset[k] of each operand's row. */
void hod__iter_row(const hod_iter *it, int64_t row, int64_t *offset);
int64_t hod__iter_rows(const hod_iter *it); /* product of the outer dimensions */

/* Calls f(context, begin, end) over parts of [0, n): in parallel when n * cost is worth it, with
 * at least `grain` elements a part. */
void hod__parallel(int64_t n, int64_t grain, void (*f)(void *context, int64_t begin, int64_t end),
                   void *context);
enum { HOD_PARALLEL_ELEMENTS = 32768 }; /* below, waking threads costs more than the work */
/* The grain of parts of `each` elements, of which `work` are worth waking a thread. */
static inline int64_t hod__grain_of(int64_t work, int64_t each)
{
    return HOD_MAX(1, work / HOD_MAX(1, each));
}
static inline int64_t hod__grain(int64_t each)
{
    return hod__grain_of(HOD_PARALLEL_ELEMENTS, each);
}

/* A row-major tensor with t's values: t itself (retained), or a copy; release when done. NULL on
 * failure. Not owned by a scope. */
hod_tensor *hod__eval_row_major(hod_tensor *t);
hod_tensor *hod__eval_row_major_as(hod_tensor *t, hod_dtype dtype); /* its values in that type */
/* All inputs of a call so, into in[c->n], for a kernel that writes a row-major result. 0 or -1;
 * either way what stands in `in` then, NULL or counted, is the caller's to release. */
int hod__eval_inputs(const hod_op_call *c, const hod_tensor *out, hod_tensor **in);
int hod__check_row_major(const hod_op_call *c, const hod_tensor *out); /* of out; 0 or -1 */
void hod__release_inputs(const hod_op_call *c, hod_tensor *const *in);
/* Copies values between tensors of one shape and dtype, any strides. Both real. */
void hod__eval_copy(const hod_tensor *from, hod_tensor *to);
/* One row of so many bytes; the two do not overlap. */
void hod__copy_row(int64_t bytes, char *to, const char *from);
/* m rows of n elements of `size` bytes, each side's rows so many elements apart. */
void hod__copy_rows(int64_t size, int64_t m, int64_t n, char *to, int64_t to_row, const char *from,
                    int64_t from_row);
/* m rows of n elements, each a column of the source, whose m columns lie in rows so many apart. */
void hod__copy_turned(int64_t size, int64_t m, int64_t n, char *to, int64_t to_row,
                      const char *from, int64_t from_row);
/* An unowned, uninitialised, row-major tensor. */
hod_tensor *hod__eval_temporary(const hod_meta *m);
int hod__eval_zero(hod_tensor *out); /* zeroes all elements, any strides */
/* Runs `eval` with the inputs that have the first one's type brought to `dtype`, and its result
 * brought to out's. */
int hod__eval_through(hod_dtype dtype, const hod_op_call *c, hod_tensor *out,
                      int (*eval)(const hod_op_call *c, hod_tensor *out));

/* An index, or whatever integers `what` says, is i64, i32 or u8: 0 or -1. */
int hod__check_index_type(const char *name, const char *what, hod_dtype dtype);
/* All of at[n] lie in 0..size-1: 0, or -1 with an error that names the first that does not. */
int hod__check_index_range(const char *name, const int64_t *at, int64_t n, int64_t size);
hod_dtype hod__added_in(hod_dtype dtype); /* the type that additions at an index are done in */

/* How many elements of a real tensor are not 0; -1 on failure. */
int64_t hod__count_nonzero(hod_tensor *t);

/* Slow twins in plain C, in double: what f64 runs, and the oracle of the tests. All operands f64
 * and row-major. */
int hod__matmul_naive(const hod_op_call *c, hod_tensor *out);
int hod__conv_naive(const hod_op_call *c, hod_tensor *out);

#endif
