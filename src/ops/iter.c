/* Walking strided tensors together, and what kernels share: parts in parallel, operands, zeroes.
 *
 * Dimensions of all operands are merged where every operand's strides chain, so that a contiguous
 * operation of any rank becomes one long row, and broadcasting leaves two or three dimensions. A
 * kernel then runs over rows: offsets once a row, a plain inner loop along the last dimension.
 */
#include "ops/rules.h"

static void drop_and_merge(hod_iter *it)
{
    int n = 0;
    for (int i = 0; i < it->ndim; i++) {
        if (it->shape[i] == 1)
            continue;
        bool chains = n > 0 && it->n > 0; /* the sizes of nothing may overflow */
        for (int k = 0; chains && k < it->n_operands; k++)
            chains = it->strides[k][n - 1] == it->strides[k][i] * it->shape[i];
        int at = chains ? n - 1 : n++;
        it->shape[at] = chains ? it->shape[at] * it->shape[i] : it->shape[i];
        for (int k = 0; k < it->n_operands; k++)
            it->strides[k][at] = it->strides[k][i];
    }
    if (n == 0) { /* a scalar: one row of one element */
        it->shape[n++] = 1;
        for (int k = 0; k < it->n_operands; k++)
            it->strides[k][0] = 1;
    }
    it->ndim = n;
}

void hod__iter_begin(hod_iter *it, int ndim, const int64_t *shape, int n,
                     const hod_tensor *const *operand)
{
    it->ndim = ndim;
    it->n_operands = n;
    it->n = hod__numel(ndim, shape);
    memcpy(it->shape, shape, (size_t)ndim * sizeof *shape);
    for (int k = 0; k < n; k++) {
        const hod_tensor *t = operand[k];
        int lead = ndim - t->ndim;
        for (int i = 0; i < ndim; i++)
            it->strides[k][i] = i < lead || t->shape[i - lead] == 1 ? 0 : t->strides[i - lead];
    }
    drop_and_merge(it);
}

int64_t hod__iter_rows(const hod_iter *it)
{
    return hod__numel(it->ndim - 1, it->shape);
}

void hod__iter_row(const hod_iter *it, int64_t row, int64_t *offset)
{
    for (int k = 0; k < it->n_operands; k++)
        offset[k] = 0;
    for (int i = it->ndim - 2; i >= 0; i--) {
        int64_t at = i > 0 ? row % it->shape[i] : row;
        row = i > 0 ? row / it->shape[i] : 0;
        for (int k = 0; k < it->n_operands; k++)
            offset[k] += at * it->strides[k][i];
    }
}

/* ---- parts in parallel ---- */

typedef struct part_call {
    void (*f)(void *context, int64_t begin, int64_t end);
    void *context;
} part_call;

static void run_part(void *const *buf, const int64_t *arg, int64_t begin, int64_t end)
{
    (void)arg;
    const part_call *call = buf[0];
    call->f(call->context, begin, end);
}

void hod__parallel(int64_t n, int64_t grain, void (*f)(void *context, int64_t begin, int64_t end),
                   void *context)
{
    if (n <= 0)
        return;
    if (n <= grain) {
        f(context, 0, n);
        return;
    }
    hod_device *d = hod__cpu();
    part_call call = {f, context};
    d->launch(d, run_part, (void *[]){&call}, NULL, n, grain);
}

/* ---- operands ---- */

hod_tensor *hod__eval_temporary(const hod_meta *m)
{
    int64_t bytes = hod__meta_bytes(m);
    if (bytes < 0)
        return NULL;
    hod_storage *s = hod__storage_new(hod__cpu(), bytes);
    if (!s)
        return NULL;
    hod_tensor *t = hod__tensor_new(m, s);
    hod__storage_release(s);
    return t;
}

hod_tensor *hod__eval_row_major(hod_tensor *t)
{
    if (hod__is_row_major(t))
        return hod_tensor_retain(t);
    hod_meta m = hod__meta(t);
    hod_tensor *copy = hod__eval_temporary(&m);
    if (copy)
        hod__eval_copy(t, copy);
    return copy;
}

hod_tensor *hod__eval_row_major_as(hod_tensor *t, hod_dtype dtype)
{
    if (t->dtype == (int)dtype)
        return hod__eval_row_major(t);
    hod_meta m = hod__meta(t);
    m.dtype = dtype;
    hod_tensor *copy = hod__eval_temporary(&m);
    if (copy)
        hod__eval_cast(&(hod_op_call){.op = HOD_OP_cast, .n = 1, .in = &t}, copy);
    return copy;
}

int hod__check_row_major(const hod_op_call *c, const hod_tensor *out)
{
    return hod__is_row_major(out)
               ? 0
               : HOD_FAIL_RC(ARGUMENT, "%s: into a strided tensor", hod__op_name(c));
}

int hod__eval_inputs(const hod_op_call *c, const hod_tensor *out, hod_tensor **in)
{
    memset(in, 0, (size_t)c->n * sizeof *in);
    if (hod__check_row_major(c, out) != 0)
        return -1;
    for (int i = 0; i < c->n; i++)
        if (!(in[i] = hod__eval_row_major(c->in[i])))
            return -1;
    return 0;
}

void hod__release_inputs(const hod_op_call *c, hod_tensor *const *in)
{
    for (int i = 0; i < c->n; i++)
        hod_tensor_release(in[i]);
}

int hod__eval_zero(hod_tensor *out)
{
    int64_t n = hod_tensor_numel(out);
    if (n == 0)
        return 0;
    size_t size = hod_dtype_bytes(out->dtype);
    if (hod__is_row_major(out)) {
        memset(hod__data(out), 0, (size_t)n * size);
        return 0;
    }
    hod_attrs zero = {.full = {.value = 0}};
    return hod__eval_full(&(hod_op_call){.op = HOD_OP_full, .attrs = &zero}, out);
}

/* ---- through another type ---- */

int hod__eval_through(hod_dtype dtype, const hod_op_call *c, hod_tensor *out,
                      int (*eval)(const hod_op_call *c, hod_tensor *out))
{
    hod_tensor *in[4] = {0};
    hod_meta m = hod__meta(out);
    m.dtype = dtype;
    bool in_place = out->dtype == (int)dtype && hod__is_row_major(out);
    hod_tensor *result = in_place ? hod_tensor_retain(out) : hod__eval_temporary(&m);
    int rc = result ? 0 : -1;
    for (int i = 0; i < c->n && rc == 0; i++) {
        in[i] = c->in[i]->dtype == c->in[0]->dtype ? hod__eval_row_major_as(c->in[i], dtype)
                                                   : hod_tensor_retain(c->in[i]);
        rc = in[i] ? 0 : -1;
    }
    if (rc == 0)
        rc = eval(&(hod_op_call){c->op, c->attrs, c->n, in}, result);
    if (rc == 0 && !in_place)
        hod__eval_cast(&(hod_op_call){.op = HOD_OP_cast, .n = 1, .in = &result}, out);
    hod__release_inputs(c, in);
    hod_tensor_release(result);
    return rc;
}
