/* Kernels that say which elements are found: nonzero, and non-maximum suppression.
 *
 * Both are total: `nonzero` gives the first n places whatever there are, because its size is an
 * attribute that the front counted; `nms` marks boxes, already in the order of their scores, and
 * leaves picking to nonzero.
 */
#include "ops/rules.h"

int hod__shape_nonzero(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    int64_t n = c->attrs->count.n;
    if (n < 0 || n > HOD_MAX(hod__numel(in->ndim, in->shape), 0))
        return HOD_FAIL_RC(ARGUMENT, "nonzero: %lld of %s", (long long)n, HOD_META_TEXT(in));
    *out = (hod_meta){.dtype = HOD_I64, .ndim = 2, .shape = {n, in->ndim}};
    return 0;
}

int64_t hod__count_nonzero(hod_tensor *t)
{
    hod_tensor *flags = hod__eval_row_major_as(t, HOD_BOOL); /* bytes, 1 where not 0 */
    if (!flags)
        return -1;
    int64_t n = hod_tensor_numel(flags), count = 0;
    const uint8_t *f = n > 0 ? hod__data(flags) : NULL;
    for (int64_t begin = 0; begin < n; begin += 128) { /* blocks whose sum a byte holds */
        int64_t end = HOD_MIN(begin + 128, n);
        uint8_t some = 0;
        for (int64_t i = begin; i < end; i++)
            some = (uint8_t)(some + f[i]);
        count += some;
    }
    hod_tensor_release(flags);
    return count;
}

enum { FOUND = 256 };

/* Which of n flags, at most FOUND, are set; without branches, as no one knows which are. */
static int64_t set_of(const uint8_t *flags, int64_t n, int16_t *which)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        which[found] = (int16_t)i;
        found += flags[i];
    }
    return found;
}

int hod__eval_nonzero(const hod_op_call *c, hod_tensor *out)
{
    hod_tensor *x = c->in[0];
    int64_t wanted = c->attrs->count.n, found = 0, last = x->ndim - 1;
    if (hod_tensor_numel(out) == 0)
        return 0;
    if (hod__check_row_major(c, out) != 0)
        return -1;
    hod_tensor *flags = hod__eval_row_major_as(x, HOD_BOOL);
    if (!flags)
        return -1;
    int64_t n = hod_tensor_numel(x), width = x->shape[last], at[HOD_MAX_DIMS] = {0};
    const uint8_t *f = hod__data(flags);
    int64_t *to = hod__data(out);
    int16_t which[FOUND];
    for (int64_t row = 0; row < n && found < wanted; row += width) {
        for (int64_t begin = 0; begin < width && found < wanted; begin += FOUND) {
            int64_t some = set_of(f + row + begin, HOD_MIN(FOUND, width - begin), which);
            some = HOD_MIN(some, wanted - found);
            for (int64_t k = 0; k < some; k++, to += x->ndim) {
                for (int64_t d = 0; d < last; d++)
                    to[d] = at[d];
                to[last] = begin + which[k];
            }
            found += some;
        }
        for (int64_t d = last - 1; d >= 0 && ++at[d] == x->shape[d]; d--)
            at[d] = 0;
    }
    memset(to, 0, (size_t)((wanted - found) * x->ndim) * sizeof *to);
    hod_tensor_release(flags);
    return 0;
}

/* ---- suppression ---- */

int hod__shape_nms(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    if (in->ndim != 2 || in->shape[1] != 4 || !hod__is_computed(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "nms: boxes %s %s, f32 or f64 (N,4) wanted",
                           hod_dtype_name(in->dtype), HOD_META_TEXT(in));
    *out = (hod_meta){.dtype = HOD_BOOL, .ndim = 1, .shape = {in->shape[0]}};
    return 0;
}

#define TYPED_BODY "ops/found_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

int hod__eval_nms(const hod_op_call *c, hod_tensor *out)
{
    int64_t n = hod_tensor_numel(out);
    if (n == 0)
        return 0;
    hod_tensor *boxes;
    if (hod__eval_inputs(c, out, &boxes) != 0)
        return -1;
    int rc = (boxes->dtype == HOD_F32 ? suppress_f32 : suppress_f64)(
        hod__data(boxes), n, c->attrs->nms.threshold, hod__data(out));
    hod_tensor_release(boxes);
    return rc;
}
