/* Operators and compositions against PyTorch's values: tests/golden/ops.json, made by
 * tools/golden/make_ops.py. Results and gradients, once in f64 and once in f32. */
#include "harness.h"
#include "ops/op.h"
#include <hod/autograd.h>
#include <hod/functional.h>
#include <hod/losses.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

enum { MAX_IN = 5 };

typedef struct golden_case {
    const char *call;
    json_t *args;
    int n;
    hod_tensor *in[MAX_IN];
    hod_tensor *index; /* labels, indices, a condition; NULL where there is none */
} golden_case;

static double number(const json_t *v)
{
    return json_is_string(v) ? strtod(json_string_value(v), NULL)
           : json_is_boolean(v) ? json_is_true(v)
                                : json_number_value(v);
}

static double arg(const golden_case *c, const char *name)
{
    return number(json_object_get(c->args, name));
}

static int64_t int_arg(const golden_case *c, const char *name)
{
    return (int64_t)arg(c, name);
}

/* A list argument; `otherwise` (n times) where it is absent. */
static hod_shape list(const golden_case *c, const char *name)
{
    hod_shape s = {.n = 0};
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(c->args, name), i, v)
        s.d[s.n++] = (int64_t)number(v);
    return s;
}

static hod_tensor *read_tensor(const json_t *t, hod_dtype dtype)
{
    hod_shape s = {.n = 0};
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(t, "shape"), i, v)
        s.d[s.n++] = (int64_t)number(v);
    const json_t *data = json_object_get(t, "data");
    size_t n = json_array_size(data);
    double *values = hod__alloc(n + 1, sizeof *values);
    json_array_foreach(data, i, v)
        values[i] = number(v);
    hod_tensor *x = hod_cast(hod_from_doubles(values, s), dtype);
    free(values);
    return x;
}

/* ---- the calls ---- */

#define ARGS const golden_case *c, hod_tensor *const *x
#define CALL(name) static hod_tensor *call_##name(ARGS)

#define REDUCTION(name)                                                                            \
    CALL(name)                                                                                     \
    {                                                                                              \
        return hod_##name##_over(x[0], list(c, "dims"), arg(c, "keep") != 0);                      \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(prod)
REDUCTION(amax)
REDUCTION(amin)

CALL(var)
{
    return hod_var_over(x[0], list(c, "dims"), true, (int)int_arg(c, "correction"));
}

CALL(argmax)
{
    return hod_argmax(x[0], (int)int_arg(c, "dim"));
}

CALL(argmin)
{
    return hod_argmin(x[0], (int)int_arg(c, "dim"));
}

CALL(softmax)
{
    return hod_softmax(x[0], (int)int_arg(c, "dim"));
}

CALL(log_softmax)
{
    return hod_log_softmax(x[0], (int)int_arg(c, "dim"));
}

CALL(logsumexp)
{
    return hod_logsumexp(x[0], (int)int_arg(c, "dim"), false);
}

CALL(where)
{
    return hod_where(c->index, x[0], x[1]);
}

CALL(clamp)
{
    return hod_clamp(x[0], arg(c, "low"), arg(c, "high"));
}

CALL(reshape)
{
    return hod_reshape(x[0], list(c, "shape"));
}

CALL(permute)
{
    return hod_permute_to(x[0], list(c, "order"));
}

CALL(expand)
{
    return hod_expand(x[0], list(c, "shape"));
}

CALL(slice)
{
    return hod_slice_step(x[0], (int)int_arg(c, "dim"), int_arg(c, "start"), int_arg(c, "stop"),
                          int_arg(c, "step"));
}

CALL(select)
{
    return hod_select(x[0], (int)int_arg(c, "dim"), int_arg(c, "index"));
}

CALL(concat)
{
    return hod_concat(c->n, x, (int)int_arg(c, "dim"));
}

CALL(stack)
{
    return hod_stack(c->n, x, (int)int_arg(c, "dim"));
}

CALL(pad)
{
    return hod_pad(x[0], (int)int_arg(c, "dim"), int_arg(c, "before"), int_arg(c, "after"),
                   arg(c, "value"));
}

CALL(gather)
{
    return hod_gather(x[0], (int)int_arg(c, "dim"), c->index);
}

CALL(index_select)
{
    return hod_index_select(x[0], (int)int_arg(c, "dim"), c->index);
}

CALL(embedding)
{
    return hod_embedding(x[0], c->index);
}

CALL(matmul)
{
    (void)c;
    return hod_matmul(x[0], x[1]);
}

CALL(linear)
{
    (void)c;
    return hod_linear(x[0], x[1], x[2]);
}

CALL(conv2d)
{
    hod_shape stride = list(c, "stride"), padding = list(c, "padding");
    hod_shape dilation = list(c, "dilation");
    hod_conv2d_options o = {.groups = int_arg(c, "groups")};
    memcpy(o.stride_hw, stride.d, sizeof o.stride_hw);
    memcpy(o.padding_tlbr, padding.d, sizeof o.padding_tlbr);
    memcpy(o.dilation_hw, dilation.d, sizeof o.dilation_hw);
    return hod_conv2d_with(x[0], x[1], o);
}

static hod_pool2d_options pool_options(const golden_case *c)
{
    return (hod_pool2d_options){int_arg(c, "kernel"), int_arg(c, "stride"), int_arg(c, "padding"),
                                int_arg(c, "dilation"), .exclude_pad = arg(c, "include") == 0};
}

CALL(max_pool2d)
{
    return hod_max_pool2d_with(x[0], pool_options(c));
}

CALL(avg_pool2d)
{
    return hod_avg_pool2d_with(x[0], pool_options(c));
}

CALL(layer_norm)
{
    return hod_layer_norm(x[0], x[1], x[2], arg(c, "eps"));
}

CALL(group_norm)
{
    return hod_group_norm(x[0], int_arg(c, "groups"), x[1], x[2], arg(c, "eps"));
}

CALL(batch_norm)
{
    return hod_batch_norm(x[0], x[1], x[2], x[3], x[4], arg(c, "eps"));
}

CALL(cross_entropy)
{
    return hod_cross_entropy(x[0], c->index, .ignore_index = int_arg(c, "ignore"),
                             .label_smoothing = arg(c, "smoothing"))
        .sum;
}

CALL(cross_entropy_rows)
{
    return hod_cross_entropy_rows(x[0], c->index, .ignore_index = int_arg(c, "ignore"));
}

CALL(nll)
{
    return hod_nll(x[0], c->index).sum;
}

CALL(mse)
{
    (void)c;
    return hod_mse(x[0], x[1]).sum;
}

CALL(bce_with_logits)
{
    (void)c;
    return hod_bce_with_logits(x[0], x[1]).sum;
}

#define UNARY(name, ...)                                                                           \
    CALL(name)                                                                                     \
    {                                                                                              \
        (void)c;                                                                                   \
        return hod_##name(x[0]);                                                                   \
    }
#define BINARY(name, ...)                                                                          \
    CALL(name)                                                                                     \
    {                                                                                              \
        (void)c;                                                                                   \
        return hod_##name(x[0], x[1]);                                                             \
    }
#include "ops/ops.def"

static const struct {
    const char *name;
    hod_tensor *(*run)(ARGS);
} calls[] = {
#define ENTRY(name) {#name, call_##name},
#define UNARY(name, ...) ENTRY(name)
#define BINARY(name, ...) ENTRY(name)
#include "ops/ops.def"
    ENTRY(sum) ENTRY(mean) ENTRY(prod) ENTRY(amax) ENTRY(amin) ENTRY(var) ENTRY(argmax)
    ENTRY(argmin) ENTRY(softmax) ENTRY(log_softmax) ENTRY(logsumexp) ENTRY(where) ENTRY(clamp)
    ENTRY(reshape) ENTRY(permute) ENTRY(expand) ENTRY(slice) ENTRY(select) ENTRY(concat)
    ENTRY(stack) ENTRY(pad) ENTRY(gather) ENTRY(index_select) ENTRY(embedding) ENTRY(matmul)
    ENTRY(linear) ENTRY(conv2d) ENTRY(max_pool2d) ENTRY(avg_pool2d) ENTRY(layer_norm)
    ENTRY(group_norm) ENTRY(batch_norm) ENTRY(cross_entropy) ENTRY(cross_entropy_rows) ENTRY(nll)
    ENTRY(mse) ENTRY(bce_with_logits)
};

/* ---- the comparison ---- */

static void compare(const golden_case *c, int number_of, const char *what, hod_tensor *have,
                    const json_t *want_json, double tol)
{
    hod_tensor *want = read_tensor(want_json, HOD_F64);
    if (!have)
        FAIL("case %d %s: no %s: %s", number_of, c->call, what, hod_error());
    if (hod_tensor_ndim(have) != hod_tensor_ndim(want))
        FAIL("case %d %s: %s has %d dimensions, not %d", number_of, c->call, what,
             hod_tensor_ndim(have), hod_tensor_ndim(want));
    for (int i = 0; i < hod_tensor_ndim(want); i++)
        EQ_INT(hod_tensor_size(have, i), hod_tensor_size(want, i));
    int64_t n = hod_tensor_numel(want);
    double *a = hod__alloc((size_t)n + 1, sizeof *a), *b = hod__alloc((size_t)n + 1, sizeof *b);
    CHECK(hod_read_doubles(have, a, n) == 0 && hod_read_doubles(want, b, n) == 0);
    for (int64_t i = 0; i < n; i++) {
        bool same = isnan(b[i]) ? isnan(a[i])
                    : isinf(b[i]) ? a[i] == b[i]
                                  : fabs(a[i] - b[i]) <= tol * (1 + fabs(b[i]));
        if (!same)
            FAIL("case %d %s: element %d of %s is %.17g, not %.17g", number_of, c->call, (int)i,
                 what, a[i], b[i]);
    }
    free(a);
    free(b);
}

static void check_case(int k, json_t *j, hod_dtype dtype, double tol)
{
    HOD_SCOPE(s);
    golden_case c = {.call = json_string_value(json_object_get(j, "call")),
                     .args = json_object_get(j, "args")};
    size_t i;
    json_t *v;
    bool differentiable = json_object_get(j, "g") != NULL;
    json_array_foreach(json_object_get(j, "in"), i, v) {
        c.in[c.n] = read_tensor(v, dtype);
        CHECK(hod_requires_grad(c.in[c.n++], differentiable));
    }
    v = json_array_get(json_object_get(j, "ints"), 0);
    c.index = v ? read_tensor(v, HOD_I64) : NULL;
    hod_tensor *y = NULL;
    bool found = false;
    for (int e = 0; e < HOD_COUNT(calls) && !found; e++)
        if (strcmp(calls[e].name, c.call) == 0) {
            found = true;
            y = calls[e].run(&c, c.in);
        }
    if (!found)
        FAIL("case %d: no call named %s", k, c.call);
    compare(&c, k, "the result", y, json_object_get(j, "y"), tol);
    if (!differentiable)
        return;
    hod_tensor *g = read_tensor(json_object_get(j, "g"), dtype);
    CHECK(hod_backward(hod_sum(hod_mul(y, g))) == 0);
    json_t *dx = json_object_get(j, "dx");
    int n = arg(&c, "first_only") != 0 ? 1 : c.n;
    for (int e = 0; e < n; e++)
        compare(&c, k, "a gradient", hod_grad(c.in[e]), json_array_get(dx, (size_t)e), tol);
}

static void check_all(hod_dtype dtype, double tol)
{
    const char *root = getenv("HOD_SOURCE_DIR");
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/ops.json", root ? root : ".");
    json_error_t e;
    json_t *cases = json_load_file(path, 0, &e);
    if (!cases)
        FAIL("%s: %s", path, e.text);
    size_t k;
    json_t *j;
    CHECK(json_array_size(cases) > 140);
    json_array_foreach(cases, k, j)
        check_case((int)k, j, dtype, tol);
    json_decref(cases);
}

TEST(ops_golden_f64)
{
    check_all(HOD_F64, 1e-12); /* a few hundred roundings of 1e-16 */
}

TEST(ops_golden_f32)
{
    check_all(HOD_F32, 4e-6); /* products and sums of some dozens of terms, 6e-8 each */
}
