/* Golden cases: what PyTorch computes for its own sample inputs, and how hod's operators are bound
 * to them. opinfo.py writes the cases, one file a family; bind_<family>.c binds the family's
 * operators, one row each:
 *
 *     BIND(amax, hod_amax_over(T(input), SHAPE(dim), FLAG(keepdim, false)))
 *
 *     static const gold_binding rows[] = {
 *         ROW("amax", bind_amax),
 *         ROW("sum", bind_sum, .f32 = 1e-5),                            // a sum is long
 *         ROW("ctc", bind_ctc, .empty[GOLD_GRADGRADCHECK] = "reason"),  // cannot be shown
 *     };
 *
 * A binding reads the arguments of one case by PyTorch's names and calls hod. A case that hod
 * deliberately does not take ends with `return gold_skip(c, "the reason")`. From the row follow
 * all checks (check.c) and a line of `make ops-table` (table.c):
 *
 *     build/hod-golden reduce            a family: failures, then its lines of the table
 *     build/hod-golden reduce amax -v    one operator; -v prints every failing case
 *     build/hod-golden                   all families: the table
 */
#ifndef HOD_TESTS_GOLDEN_H
#define HOD_TESTS_GOLDEN_H

#include <hod/functional.h>
#include <jansson.h>
#include <stdint.h>

/* ---- what is shown of an operator: the columns of the table ---- */
typedef enum gold_column {
    GOLD_FORWARD,       /* f64 within 1e-12, f32 within 1e-6 of PyTorch's f64 */
    GOLD_GRADIENT,      /* the same for the gradients */
    GOLD_GRADCHECK,     /* finite differences */
    GOLD_GRADGRADCHECK, /* of the gradients */
    GOLD_COMPILED,      /* compiled = eager, with gradients */
    GOLD_ZERO_SIZE,
    GOLD_STRIDED, /* the same through non-contiguous inputs */
    GOLD_BROADCAST,
    GOLD_F16, /* within one rounding of the f32 result */
    GOLD_BF16,
    GOLD_COLUMNS
} gold_column;

/* ---- cases ---- */
enum { GOLD_MAX_TENSORS = 64 };

typedef struct gold_array {
    bool under_test; /* a float of the type under test; else `dtype` */
    hod_dtype dtype;
    hod_shape shape;
    int64_t n;
    double *values; /* exact for every type but i64, which also has */
    int64_t *ints;
} gold_array;

typedef struct gold_case {
    const char *op;
    json_t *args;
    int number; /* in its file */
    bool zero, broadcast;
    int n_x, n_y;
    gold_array *x, *y;
    gold_array *g; /* n_x gradients; NULL: none. g[i].values NULL: none for x[i] */
} gold_case;

typedef struct gold_file {
    json_t *header;
    gold_case *cases;
    int n;
    void *memory; /* of the arrays */
} gold_file;

/* Reads tests/golden/<family>.golden below HOD_SOURCE_DIR or here; ends the program with words when
 * it cannot. */
gold_file gold_read(const char *family);
void gold_free(gold_file *f);

/* ---- bindings ---- */
typedef struct gold {
    const gold_case *k;
    hod_tensor *const *x; /* the case's tensors, of the type under test */
    int n_y;
    hod_tensor *y[GOLD_MAX_TENSORS];
    bool first_only;
    const char *skipped; /* the reason */
} gold;

typedef struct gold_binding {
    const char *op;       /* PyTorch's name */
    int (*call)(gold *c); /* 0: results in y; -1: an error or gold_skip */
    int roundings; /* in f16 and bf16, where hod has several operators for PyTorch's one; 0: 1 */
    double f32;    /* tolerance in f32; 0: 1e-6. 1e-5 where a sum is long */
    const char *empty[GOLD_COLUMNS]; /* why a column is not shown */
} gold_binding;

typedef struct gold_family {
    const char *name;
    const gold_binding *rows;
    int n;
    int cases, run; /* committed: neither the file's cases nor those that run may become fewer */
} gold_family;
#define GOLD_FAMILY(name_, cases_, run_)                                                           \
    const gold_family gold_##name_ = {#name_, rows, (int)(sizeof rows / sizeof *rows), cases_,     \
                                      run_};
extern const gold_family gold_pointwise, gold_reduce, gold_movement, gold_index, gold_sort,
    gold_matmul, gold_conv, gold_norm, gold_pool, gold_resample, gold_attention, gold_rnn,
    gold_loss;
#define ROW(op_, ...)                                                                              \
    {                                                                                              \
        .op = op_, .call = __VA_ARGS__                                                             \
    }

/* Results of a binding: one, or n of them. */
int gold_one(gold *c, hod_tensor *y);
int gold_many(gold *c, int n, hod_tensor *const *y);
/* The first of PyTorch's results where hod has no others (indices of a maximum). */
int gold_first(gold *c, hod_tensor *y);
int gold_skip(gold *c, const char *reason); /* -1 */
/* A loss by PyTorch's "reduction"; `rows` (NULL: skipped) is the loss unreduced. */
int gold_reduced(gold *c, hod_loss loss, hod_tensor *rows);

/* Arguments by name; `otherwise` when the case does not have it. */
bool gold_has(const gold *c, const char *name);
bool gold_any_nan(const gold *c); /* among its inputs */
/* Names a dimension of a 0-d tensor, which PyTorch takes for a vector of one. */
bool gold_scalar_dim(const gold *c);
bool gold_is_tensor(const gold *c, const char *name);     /* rather than a number or absent */
hod_tensor *gold_tensor(const gold *c, const char *name); /* NULL with an error when absent */
int gold_tensors(const gold *c, const char *name, hod_tensor **out); /* a list: how many */
int64_t gold_int(const gold *c, const char *name, int64_t otherwise);
double gold_real(const gold *c, const char *name, double otherwise);
bool gold_flag(const gold *c, const char *name, bool otherwise);
const char *gold_text(const gold *c, const char *name, const char *otherwise);
hod_shape gold_shape(const gold *c, const char *name); /* a number counts as a list of one */
/* A number or list of numbers, spread over n places. */
void gold_ints(const gold *c, const char *name, int n, int64_t *out, int64_t otherwise);
/* For options that are text, a list, a number: the JSON itself, NULL when absent. */
json_t *gold_json(const gold *c, const char *name);

#define T(name)               gold_tensor(c, #name)
#define HAS(name)             gold_has(c, #name)
#define INT(name, otherwise)  gold_int(c, #name, otherwise)
#define REAL(name, otherwise) gold_real(c, #name, otherwise)
#define FLAG(name, otherwise) gold_flag(c, #name, otherwise)
#define TEXT(name, otherwise) gold_text(c, #name, otherwise)
#define SHAPE(name)           gold_shape(c, #name)

/* A binding that is one expression with one result. */
#define BIND(name, ...)                                                                            \
    static int bind_##name(gold *c)                                                                \
    {                                                                                              \
        return gold_one(c, __VA_ARGS__);                                                           \
    }

/* ---- checks ---- */
typedef struct gold_cell {
    int proven, failed;
    char first[512]; /* what the first failure said */
} gold_cell;

typedef struct gold_line {
    const char *op;
    const gold_binding *row; /* NULL: not bound */
    int cases, skipped;
    char skip_reason[96]; /* the first */
    gold_cell cell[GOLD_COLUMNS];
    const char *empty[GOLD_COLUMNS]; /* reasons, the row's or by rule */
} gold_line;

/* Fills the line from the n cases of its operator. */
void gold_check(gold_line *line, const gold_case *cases, int n, bool verbose);
/* Runs the row's binding on x. 0 or -1. */
int gold_run(const gold_binding *row, const gold_case *k, hod_tensor *const *x, gold *c);
/* Σ over results of Σ w[i] y[i], w as opinfo.py has it; the float results only. */
hod_tensor *gold_weighted(const gold *c);
/* A case's array as a tensor. */
hod_tensor *gold_make(const gold_array *a, hod_dtype under_test);
/* Notes a failure (or, `what` NULL, a proof) in the line. */
__attribute__((format(printf, 5, 6))) void gold_note(gold_line *line, gold_column column,
                                                     const gold_case *k, bool verbose,
                                                     const char *what, ...);
void gold_check_derivatives(gold_line *line, const gold_case *cases, int n, bool verbose);
void gold_check_compiled(gold_line *line, const gold_case *cases, int n, bool verbose);

/* While on, notes which rows of ops.def are called. */
void gold_watch(bool on);
/* Prints the rows that were not; how many of them have no reason. */
int gold_print_unreached(void);

#endif
