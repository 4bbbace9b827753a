/* Operators as data: the table made from ops.def, and the one dispatch.
 *
 *     typed front (hod_conv2d: checks, defaults)
 *        -> hod__op(HOD_OP_conv2d, &attrs, n, in)
 *              -> recorder replays it from a trace, or            (src/compile)
 *              -> shape rule, then recorder notes it, or the eager kernel runs
 *              -> tape notes it if an input wants a gradient      (src/autograd)
 *
 * Every operator has exactly one result. Element types of the inputs are equal unless the row says
 * otherwise: the fronts insert casts (PyTorch's promotion), so kernels and emitters see one type.
 * Operators are pure; `assign` and `accumulate` are the only two with an effect.
 */
#ifndef HOD_OPS_OP_H
#define HOD_OPS_OP_H

/* Places are the user's: calls from inside the library note none. */
#ifndef HOD_NO_PLACES
#define HOD_NO_PLACES
#endif
#include "tensor/tensor.h"
#include <hod/ops.h>

typedef enum hod_op {
#define OP(name, ...) HOD_OP_##name,
#include "ops/ops_rows.h" /* turns every row kind of ops.def into OP(name, ...) */
#undef OP
    HOD_OPS
} hod_op;

typedef enum hod_attrs_kind {
#define ATTRS(kind, fields) HOD_ATTRS_##kind,
#include "ops/attrs.def"
#undef ATTRS
    HOD_ATTRS_KINDS
} hod_attrs_kind;

#define INT(kind, x)   int64_t x;
#define REAL(kind, x)  double x;
#define FLAG(kind, x)  bool x;
#define TYPE(kind, x)  hod_dtype x;
#define DIMS(kind, x)  uint32_t x;
#define SIZES(kind, x) hod_shape x;
#define PAIR(kind, x)  int64_t x[2];
#define QUAD(kind, x)  int64_t x[4];
#define ATTRS(kind, fields)                                                                        \
    typedef struct hod_attrs_##kind {                                                              \
        fields                                                                                     \
    } hod_attrs_##kind;
#include "ops/attrs.def"
#undef ATTRS

/* Padding and the unused tail of a hod_shape are no part of the value: hod__attrs_equal and, to
 * hash or keep one, hod__attrs_copy. */
typedef union hod_attrs {
#define ATTRS(kind, fields) hod_attrs_##kind kind;
#include "ops/attrs.def"
#undef ATTRS
} hod_attrs;

/* Declares attributes that are all zero, to be filled. */
#define HOD_ATTRS(a)                                                                               \
    hod_attrs a;                                                                                   \
    memset(&a, 0, sizeof a)
#undef INT
#undef REAL
#undef FLAG
#undef TYPE
#undef DIMS
#undef SIZES
#undef PAIR
#undef QUAD

typedef enum hod_attr_type {
    HOD_ATTR_INT,
    HOD_ATTR_REAL,
    HOD_ATTR_FLAG,
    HOD_ATTR_TYPE,
    HOD_ATTR_DIMS,
    HOD_ATTR_SIZES,
    HOD_ATTR_PAIR,
    HOD_ATTR_QUAD
} hod_attr_type;

typedef struct hod_attr_field {
    const char *name;
    hod_attr_type type;
    size_t offset; /* in hod_attrs */
    size_t bytes;
} hod_attr_field;

typedef struct hod_attrs_info {
    const char *name;
    size_t bytes; /* sizeof the struct */
    const hod_attr_field *fields;
    int n;
} hod_attrs_info;
extern const hod_attrs_info hod__attrs_info[HOD_ATTRS_KINDS];
/* Copies field by field into a zeroed union, so that equal attributes are equal bytes. src may be
 * NULL: all zero. */
void hod__attrs_copy(hod_attrs_kind kind, hod_attrs *dst, const hod_attrs *src);
bool hod__attrs_equal(hod_attrs_kind kind, const hod_attrs *a, const hod_attrs *b);

/* How an operator's result relates to its inputs; passes and emitters ask for nothing else. */
typedef enum hod_op_class {
    HOD_POINTWISE, /* out[i] = expr(a[i], b[i], c[i]) after broadcasting; `expr` is its C text */
    HOD_REDUCE,    /* folds the dims of attrs.reduce; `expr` folds: acc, a */
    HOD_VIEW,      /* same storage, other strides */
    HOD_SOURCE,    /* no data input: full, iota; uniform reads key and index only */
    HOD_KERNEL,    /* its own kernel: matmul, conv, pooling, gather, concat, ... */
    HOD_FUSED,     /* a composition in one kernel; never recorded, so never in a graph */
    HOD_EFFECT     /* assign, accumulate */
} hod_op_class;

enum hod_op_flags {
    HOD_OPF_COMMUTATIVE = 1 << 0,
    HOD_OPF_BOOL_RESULT = 1 << 1,  /* compares: result dtype is bool */
    HOD_OPF_FLOAT_ONLY = 1 << 2,   /* integer inputs are cast to f32 by the front */
    HOD_OPF_INDEX_RESULT = 1 << 3, /* argmax: result dtype is i64 */
    HOD_OPF_NODIFF = 1 << 4,       /* `nodiff` says why */
    HOD_OPF_SAVES_X = 1 << 5,      /* the derivative reads input 0 */
    HOD_OPF_SAVES_Y = 1 << 6,      /* the derivative reads the result */
    HOD_OPF_SAVES_B = 1 << 7,      /* the derivative reads input 1 */
    HOD_OPF_SAVES_C = 1 << 8,      /* the derivative reads input 2 */
    HOD_OPF_NO_INTS = 1 << 9,      /* not defined for integer or bool */
    HOD_OPF_BILINEAR = 1 << 10,    /* the derivative for input 0 reads input 1 only, and vice versa
                                      (mul, matmul, conv2d*): goes with SAVES_X and SAVES_B */
    HOD_OPF_Y_FOR_B = 1 << 11,     /* with SAVES_Y: only the derivative for input 1 reads it */
    HOD_OPF_INT_ONLY = 1 << 12,    /* not defined for floats */
    HOD_OPF_CHOOSES = 1 << 13,     /* input 0 is bool, whatever the others are */
    HOD_OPF_SAVES_D = 1 << 14,     /* the derivative reads input 3 */
    HOD_OPF_SAVES_MORE = 1 << 15,  /* the derivative reads all inputs from 4 on */
};

enum { HOD_OP_MAX_INPUTS = 64 }; /* concat; the others have at most 8 */

typedef struct hod_op_call {
    hod_op op;
    const hod_attrs *attrs;
    int n;
    hod_tensor *const *in;
} hod_op_call;

/* What a derivative rule sees: gradient g of the result, result y, inputs x. y and x[i] are NULL
 * unless the row's SAVES flags ask for them; meta[i] (dtype, shape of input i) always is there. */
typedef struct hod_vjp {
    hod_tensor *g, *y;
    hod_tensor *const *x;
    const hod_meta *meta;
    int n;
    const hod_attrs *attrs;
    hod_tensor *
        *shared; /* what the gradients of several inputs come from: NULL until one of them has
                            computed it, for the others to find. Itself NULL: no such place */
} hod_vjp;

typedef struct hod_op_info {
    const char *name;
    const char *doc; /* one line for the manual */
    hod_op_class class;
    int arity; /* -1: any number */
    hod_attrs_kind attrs;
    uint32_t flags;
    const char *expr;   /* pointwise and reduce: C text over a, b, c (acc, a), see ops.def */
    const char *start;  /* reduce: what acc begins as */
    const char *nodiff; /* reason, for NODIFF rows */
    double low, high;   /* where tests draw inputs from */
    int (*shape)(const hod_op_call *c, const hod_meta *in, hod_meta *out);
    int (*view)(const hod_op_call *c, hod_tensor *out); /* views: sets strides and offset of out */
    int (*eval)(const hod_op_call *c, hod_tensor *out); /* others: fills out's storage */
    hod_tensor *(*vjp)(const hod_vjp *v, int i);        /* gradient for input i; NULL: failed, or
                                                            HOD_NO_GRADIENT: none flows */
} hod_op_info;
extern const hod_op_info hod__op_info[HOD_OPS];

/* Returned by a rule where no gradient flows to that input (indices, masks). Never dereferenced. */
#define HOD_NO_GRADIENT ((hod_tensor *)(intptr_t)-1)

/* Runs, records or replays one operator. The result belongs to the innermost scope. NULL in `in`:
 * NULL out. `attrs` is copied by whoever keeps it. */
hod_tensor *hod__op(hod_op op, const hod_attrs *attrs, int n, hod_tensor *const *in);
/* Runs the shape rule alone: 0 and *out, or -1 with an error. */
int hod__op_shape(hod_op op, const hod_attrs *attrs, int n, const hod_meta *in, hod_meta *out);
/* Runs the eager kernel into `out`, an existing tensor of the right shape and type. */
int hod__op_eval_into(hod_op op, const hod_attrs *attrs, int n, hod_tensor *const *in,
                      hod_tensor *out);

/* The hook through which tape and recorder listen; both thread-local, NULL when nobody listens. */
typedef struct hod_recorder {
    /* Answers from a trace, before any shape rule. Returns NULL when the call is not (or no longer)
     * the trace's next; then the normal way follows and `note` is called. */
    hod_tensor *(*replay)(struct hod_recorder *r, const hod_op_call *c);
    /* Takes the operator instead of its eager kernel: `out` is symbolic (a view op's out already
     * shares its input's storage). 0 or -1. */
    int (*note)(struct hod_recorder *r, const hod_op_call *c, hod_tensor *out);
    bool watches; /* it records nothing: every operator runs at once, as if nobody listened */
} hod_recorder;

/* The tape of all threads: a leaf made in one is read in others. */
typedef struct hod_tape_hook {
    /* Called after a differentiable op when any input requires a gradient: links out to inputs. */
    int (*note)(const hod_op_call *c, hod_tensor *out);
    /* Called by hod__assign before dst is written: -1 with an error where gradients would be
     * silently wrong (a leaf, a view). */
    int (*check_write)(const hod_tensor *dst, const hod_tensor *src);
} hod_tape_hook;

/* What a thread says about its own operators. */
typedef struct hod_tape_mode {
    bool enabled;   /* false inside no_grad */
    bool inference; /* results are marked as made for inference */
} hod_tape_mode;

extern _Thread_local hod_recorder *hod__recorder;
extern const hod_tape_hook *_Atomic hod__tape; /* NULL until the first leaf is made */
extern _Thread_local hod_tape_mode hod__tape_mode;
/* Are operators noted for derivatives now? */
static inline bool hod__tape_listens(void)
{
    return hod__tape_mode.enabled && atomic_load_explicit(&hod__tape, memory_order_acquire);
}

/* Spans: an internal function whose operators follow from (kind, key, t) alone, so that a replay
 * may skip its body: hod_backward, the optimizer's update. Begin returns 1: skip the body (and the
 * end); 0: run it, then call end. Without a recorder begin returns 0. */
int hod__span_begin(const char *kind, uint64_t key, hod_tensor *t);
void hod__span_end(const char *kind);
extern int (*hod__span_begin_hook)(const char *kind, uint64_t key, hod_tensor *t);
extern void (*hod__span_end_hook)(const char *kind);

/* ---- effects ----
 * hod__assign writes src into dst (same shape, dtype of dst) and bumps its version; who did so, in
 * words, is for the error of a backward that needed the old value.
 * hod__accumulate adds g to slot->sum when slot->present, else writes it, then sets present: the
 * micro-step's beta is decided when it runs, so one recorded step serves first and later ones. */
typedef struct hod_grad_slot {
    hod_tensor *sum; /* real, like the parameter; NULL until first needed */
    bool present;    /* sum holds the gradient of the window so far */
} hod_grad_slot;
hod_tensor *hod__assign(hod_tensor *dst, hod_tensor *src);
hod_tensor *hod__assign_by(hod_tensor *dst, hod_tensor *src, const char *who);
int hod__accumulate(hod_grad_slot *slot, hod_tensor *g);
/* The same by operators: the sum is a new value, for a gradient that has a history itself or is a
 * value of a recorded function. */
int hod__accumulate_value(hod_grad_slot *slot, hod_tensor *g);
extern int (*hod__accumulate_hook)(hod_grad_slot *slot, hod_tensor *g); /* recorder; may be NULL */

/* ---- helpers for rules and compositions: typed fronts without the place-noting macros ----
 * Everything in <hod/ops.h> (hod_add, hod_sum, ...) may be used by the layers above ops. */
hod_tensor *hod__unbroadcast(hod_tensor *g, const hod_meta *to);  /* sums g down to a shape */
hod_tensor *hod__full_like_meta(const hod_meta *m, double value); /* of that shape */
/* The same values without history: no gradient flows through the result. The recorder's value
 * number is kept. */
hod_tensor *hod__stop_gradient(hod_tensor *t);
/* t as `dtype` and as this shape (row-major order of elements); t itself where it is that. */
hod_tensor *hod__cast_to(hod_tensor *t, hod_dtype dtype);
hod_tensor *hod__reshape_to(hod_tensor *t, int ndim, const int64_t *shape);
/* The dtype that a and b, or all of n, are brought to,
 * a scalar giving way to a tensor of its kind. */
hod_dtype hod__promote(hod_tensor *a, hod_tensor *b);
hod_dtype hod__promote_all(int n, hod_tensor *const *in);
/* -1 when dim is out of -ndim..ndim-1, with an error naming op; else counted from the front. */
int hod__dim(const char *op, int64_t dim, int ndim);
/* A list of dimensions, counted from either end, as bits: 0, or -1 with an error naming op when it
 * is none or names one twice. */
int hod__dim_bits(const char *op, const hod_shape *dims, int ndim, uint32_t *bits);

#endif
