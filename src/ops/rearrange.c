/* The fronts of movement: views under other names, joints, orders, repetitions, padding,
 * windows.
 *
 * What repeats is a view of stride 0 made solid by one copy: x (A,B) three times along B is
 * (A,1,B) -> (A,3,B) -> (A,3B), and each element three times (A,B,1) -> (A,B,3) -> (A,3B).
 */
#include "ops/fused.h"
#include <hod/movement.h>

/* ---- views ---- */

hod_tensor *hod_narrow(hod_tensor *x, int dim, int64_t start, int64_t length)
{
    if (hod__null("narrow", "x", x))
        return NULL;
    int d = hod__dim("narrow", dim, x->ndim);
    if (d < 0)
        return NULL;
    int64_t size = x->shape[d], from = start < 0 ? start + size : start;
    if (from < 0 || length < 0 || from > size || length > size - from)
        return HOD_FAIL(ARGUMENT, "narrow: %lld elements from %lld of dimension %d of %s",
                        (long long)length, (long long)start, d, HOD_SHAPE_TEXT(x));
    return hod_slice(x, d, from, from + length);
}

hod_tensor *hod_squeeze_all(hod_tensor *x)
{
    if (hod__null("squeeze_all", "x", x))
        return NULL;
    hod_shape s = {.n = 0};
    for (int i = 0; i < x->ndim; i++)
        if (x->shape[i] != 1)
            s.d[s.n++] = x->shape[i];
    return hod__reshape_to(x, s.n, s.d);
}

hod_tensor *hod_movedim(hod_tensor *x, int from, int to)
{
    if (hod__null("movedim", "x", x))
        return NULL;
    int a = hod__dim("movedim", from, x->ndim), b = hod__dim("movedim", to, x->ndim);
    if (a < 0 || b < 0)
        return NULL;
    hod_shape order = {.n = x->ndim};
    for (int i = 0, next = 0; i < x->ndim; i++) {
        next += next == a;
        order.d[i] = i == b ? a : next++;
    }
    return a == b ? x : hod_permute_to(x, order);
}

hod_tensor *hod_expand_as(hod_tensor *x, hod_tensor *like)
{
    return hod__null("expand_as", "x", x) || hod__null("expand_as", "like", like)
               ? NULL
               : hod_expand(x, hod_tensor_shape(like));
}

hod_tensor *hod_unflatten(hod_tensor *x, int dim, hod_shape sizes)
{
    if (hod__null("unflatten", "x", x))
        return NULL;
    int d = hod__dim("unflatten", dim, x->ndim);
    if (d < 0)
        return NULL;
    if (sizes.n < 1 || sizes.n > HOD_MAX_DIMS || x->ndim - 1 + sizes.n > HOD_MAX_DIMS)
        return HOD_FAIL(ARGUMENT, "unflatten: dimension %d of %s into %d", d, HOD_SHAPE_TEXT(x),
                        sizes.n);
    if (!hod__one_open("unflatten", &sizes))
        return NULL;
    hod__close_shape(x->shape[d], &sizes);
    if (hod__numel(sizes.n, sizes.d) != x->shape[d])
        return HOD_FAIL(ARGUMENT, "unflatten: dimension %d of %s is not %s", d, HOD_SHAPE_TEXT(x),
                        hod__shape_text(sizes.n, sizes.d, (char[96]){0}, 96));
    hod_shape s = {.n = 0};
    for (int i = 0; i < x->ndim; i++)
        for (int k = 0; k < (i == d ? sizes.n : 1); k++)
            s.d[s.n++] = i == d ? sizes.d[k] : x->shape[i];
    return hod__reshape_to(x, s.n, s.d);
}

int hod_split(hod_tensor *x, int dim, int n, const int64_t *sizes, hod_tensor **parts)
{
    if (n > 0 && (!sizes || !parts))
        return HOD_FAIL_RC(ARGUMENT, "split: %s", sizes ? "nowhere to put the parts" : "no sizes");
    for (int i = 0; i < n; i++)
        parts[i] = NULL;
    int d = hod__null("split", "x", x) ? -1 : hod__dim("split", dim, x->ndim);
    if (d < 0)
        return -1;
    int64_t start = 0;
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > x->shape[d] - start)
            return HOD_FAIL_RC(ARGUMENT,
                               "split: part %d of %lld, %lld are left of dimension %d "
                               "of %s",
                               i, (long long)sizes[i], (long long)(x->shape[d] - start), d,
                               HOD_SHAPE_TEXT(x));
        start += sizes[i];
    }
    if (start != x->shape[d])
        return HOD_FAIL_RC(ARGUMENT, "split: parts of %lld in all, dimension %d of %s",
                           (long long)start, d, HOD_SHAPE_TEXT(x));
    start = 0;
    for (int i = 0; i < n; start += sizes[i++])
        if (!(parts[i] = hod_slice(x, d, start, start + sizes[i])))
            return -1;
    return 0;
}

int hod_chunk(hod_tensor *x, int dim, int n, hod_tensor **parts)
{
    if (n > 0 && !parts)
        return HOD_FAIL_RC(ARGUMENT, "chunk: nowhere to put the parts");
    for (int i = 0; i < n; i++)
        parts[i] = NULL;
    int d = hod__null("chunk", "x", x) ? -1 : hod__dim("chunk", dim, x->ndim);
    if (d < 0)
        return -1;
    if (n < 1)
        return HOD_FAIL_RC(ARGUMENT, "chunk: into %d parts", n);
    int64_t size = x->shape[d], each = size / n + (size % n != 0);
    for (int i = 0; i < n; i++) {
        int64_t start = HOD_MIN(i * each, size);
        if (!(parts[i] = hod_slice(x, d, start, HOD_MIN(start + each, size))))
            return -1;
    }
    return 0;
}

/* ---- joined ---- */

/* Concatenates up to HOD_OP_MAX_INPUTS at once, more in rounds. */
static hod_tensor *concat_some(int n, hod_tensor *const *x, int dim)
{
    HOD_ATTRS(a);
    a.dim.dim = dim;
    if (n <= HOD_OP_MAX_INPUTS)
        return n == 1 ? x[0] : hod__op(HOD_OP_concat, &a, n, x);
    hod_tensor *parts[HOD_OP_MAX_INPUTS];
    int each = (n + HOD_OP_MAX_INPUTS - 1) / HOD_OP_MAX_INPUTS, m = 0;
    for (int i = 0; i < n; i += each)
        parts[m++] = concat_some(HOD_MIN(each, n - i), x + i, dim);
    return hod__op(HOD_OP_concat, &a, m, parts);
}

/* All are like the first but along d. */
static int check_concat(int n, hod_tensor *const *x, int d)
{
    for (int i = 1; i < n; i++) {
        if (x[i]->ndim != x[0]->ndim)
            return HOD_FAIL_RC(ARGUMENT,
                               "concat: input %d is %s, input 0 is %s: %d dimensions "
                               "and %d",
                               i, HOD_SHAPE_TEXT(x[i]), HOD_SHAPE_TEXT(x[0]), x[i]->ndim,
                               x[0]->ndim);
        for (int k = 0; k < x[0]->ndim; k++)
            if (k != d && x[i]->shape[k] != x[0]->shape[k])
                return HOD_FAIL_RC(ARGUMENT,
                                   "concat: input %d is %s, input 0 is %s: sizes %lld "
                                   "and %lld of dimension %d differ",
                                   i, HOD_SHAPE_TEXT(x[i]), HOD_SHAPE_TEXT(x[0]),
                                   (long long)x[i]->shape[k], (long long)x[0]->shape[k], k);
    }
    return 0;
}

/* In the type that holds them all, as if they were added. */
static hod_tensor *concat_promoted(int n, hod_tensor *const *x, int d)
{
    hod_dtype t = hod__promote_all(n, x);
    hod_tensor **same = hod__alloc((size_t)n, sizeof *same);
    for (int i = 0; same && i < n; i++)
        same[i] = hod__cast_to(x[i], t);
    hod_tensor *y = same ? concat_some(n, same, d) : NULL;
    free(same);
    return y;
}

hod_tensor *hod_concat(int n, hod_tensor *const *x, int dim)
{
    if (n < 1 || !x)
        return HOD_FAIL(ARGUMENT, "concat: of %d tensors, at least 1 wanted", x ? n : 0);
    for (int i = 0; i < n; i++)
        if (hod__null("concat", "an input", x[i]))
            return NULL;
    int d = hod__dim("concat", dim, x[0]->ndim);
    if (d < 0 || check_concat(n, x, d) != 0)
        return NULL;
    for (int i = 1; i < n; i++)
        if (x[i]->dtype != x[0]->dtype)
            return concat_promoted(n, x, d);
    return concat_some(n, x, d);
}

hod_tensor *hod_stack(int n, hod_tensor *const *x, int dim)
{
    if (n < 1 || !x)
        return HOD_FAIL(ARGUMENT, "stack: of %d tensors, at least 1 wanted", x ? n : 0);
    for (int i = 0; i < n; i++)
        if (hod__null("stack", "an input", x[i]))
            return NULL;
    int d = hod__dim("stack", dim, x[0]->ndim + 1);
    hod_tensor **rows = d < 0 ? NULL : hod__alloc((size_t)n, sizeof *rows);
    if (!rows)
        return NULL;
    for (int i = 0; i < n; i++)
        rows[i] = hod_unsqueeze(x[i], d);
    hod_tensor *y = hod_concat(n, rows, d);
    free(rows);
    return y;
}

/* ---- orders ---- */

hod_tensor *hod_flip_over(hod_tensor *x, hod_shape dims)
{
    if (hod__null("flip", "x", x))
        return NULL;
    HOD_ATTRS(a);
    if (hod__dim_bits("flip", &dims, x->ndim, &a.flip.dims) != 0)
        return NULL;
    return a.flip.dims ? hod__op(HOD_OP_flip, &a, 1, &x) : x;
}

hod_tensor *hod_roll(hod_tensor *x, int64_t shift, int dim)
{
    if (hod__null("roll", "x", x))
        return NULL;
    int d = hod__dim("roll", dim, x->ndim);
    if (d < 0)
        return NULL;
    int64_t size = x->shape[d], by = size ? (shift % size + size) % size : 0;
    if (by == 0)
        return x;
    HOD_ATTRS(a);
    a.roll = (hod_attrs_roll){d, by};
    if (hod__fuses(x))
        return hod__op(HOD_OP_roll, &a, 1, &x);
    hod_tensor *parts[] = {hod_slice(x, d, size - by, size), hod_slice(x, d, 0, size - by)};
    return hod_concat(2, parts, d);
}

/* x's dimension d, `times` times as a whole or each element. */
static hod_tensor *repeat_dim(const char *name, hod_tensor *x, int d, int64_t times, bool each)
{
    if (!x || times == 1)
        return x;
    int64_t size;
    if (times < 0 || !hod__mul_size(x->shape[d], times, &size))
        return HOD_FAIL(ARGUMENT, "%s: %lld times along dimension %d of %s", name, (long long)times,
                        d, HOD_SHAPE_TEXT(x));
    int64_t outer = hod__numel(d, x->shape);
    int64_t inner = hod__numel(x->ndim - d - 1, x->shape + d + 1);
    hod_shape out = hod_tensor_shape(x);
    out.d[d] = size;
    hod_tensor *lines = each ? hod_reshape(x, HOD_SHAPE(outer, x->shape[d], 1, inner))
                             : hod_reshape(x, HOD_SHAPE(outer, 1, x->shape[d], inner));
    lines = hod_expand(lines, each ? HOD_SHAPE(outer, x->shape[d], times, inner)
                                   : HOD_SHAPE(outer, times, x->shape[d], inner));
    return hod_reshape(lines, out);
}

/* All dimensions at once: x (A,B) is (1,A,1,B) -> (3,A,2,B) -> (3A,2B),
 * where so many are possible. */
static hod_tensor *repeat_at_once(hod_tensor *x, const hod_shape *times)
{
    hod_shape once = {.n = 0}, laid, out = hod_tensor_shape(x);
    for (int i = 0; i < x->ndim; i++) {
        if (times->d[i] != 1)
            once.d[once.n++] = 1;
        once.d[once.n++] = x->shape[i];
    }
    laid = once;
    for (int i = 0, k = 0; i < x->ndim; i++, k++) {
        if (times->d[i] != 1)
            laid.d[k++] = times->d[i];
        out.d[i] *= times->d[i];
    }
    return hod_reshape(hod_expand(hod_reshape(x, once), laid), out);
}

/* One after another, the inner dimensions first: then the copies that the outer ones repeat are
 * long. */
hod_tensor *hod_repeat_to(hod_tensor *x, hod_shape times)
{
    if (hod__null("repeat", "x", x))
        return NULL;
    if (times.n < x->ndim || times.n > HOD_MAX_DIMS)
        return HOD_FAIL(ARGUMENT, "repeat: %d numbers for %s", times.n, HOD_SHAPE_TEXT(x));
    hod_shape s = {.n = times.n};
    int lead = times.n - x->ndim, more = 0;
    int64_t all = hod_tensor_numel(x), size;
    bool fits = true;
    for (int i = 0; i < s.n; i++) {
        s.d[i] = i < lead ? 1 : x->shape[i - lead];
        fits = fits && times.d[i] >= 0 && hod__mul_size(s.d[i], times.d[i], &size) &&
               hod__mul_size(all, times.d[i], &all);
        more += times.d[i] != 1;
    }
    x = hod__reshape_to(x, s.n, s.d);
    if (x && fits && s.n + more <= HOD_MAX_DIMS)
        return repeat_at_once(x, &times);
    for (int i = s.n - 1; i >= 0; i--)
        x = repeat_dim("repeat", x, i, times.d[i], false);
    return x;
}

hod_tensor *hod_tile(hod_tensor *x, hod_shape times)
{
    if (!x || times.n >= x->ndim || times.n < 0)
        return hod_repeat_to(x, times);
    hod_shape all = {.n = x->ndim};
    for (int i = 0; i < all.n; i++)
        all.d[i] = i < all.n - times.n ? 1 : times.d[i - (all.n - times.n)];
    return hod_repeat_to(x, all);
}

hod_tensor *hod_repeat_interleave(hod_tensor *x, int64_t times, int dim)
{
    if (hod__null("repeat_interleave", "x", x))
        return NULL;
    int d = hod__dim("repeat_interleave", dim, x->ndim);
    return d < 0 ? NULL : repeat_dim("repeat_interleave", x, d, times, true);
}

hod_tensor *hod_windows(hod_tensor *x, int dim, int64_t size, int64_t step)
{
    if (hod__null("windows", "x", x))
        return NULL;
    int d = hod__dim("windows", dim, x->ndim);
    if (d < 0)
        return NULL;
    HOD_ATTRS(a);
    a.windows = (hod_attrs_windows){d, size, step, x->shape[d]};
    return hod_movedim(hod__op(HOD_OP_windows, &a, 1, &x), d + 1, -1);
}

/* ---- triangles ---- */

static hod_tensor *triangle(const char *name, hod_tensor *x, int64_t diagonal, bool upper)
{
    if (hod__null(name, "x", x))
        return NULL;
    if (x->ndim < 2)
        return HOD_FAIL(ARGUMENT, "%s: %s is no matrix", name, HOD_SHAPE_TEXT(x));
    int64_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
    HOD_ATTRS(a);
    a.triangle.diagonal = HOD_MAX(HOD_MIN(diagonal, columns + 1), -rows - 1);
    a.triangle.upper = upper;
    return hod__op(HOD_OP_triangle, &a, 1, &x);
}

hod_tensor *hod_tril(hod_tensor *x, int64_t diagonal)
{
    return triangle("tril", x, diagonal, false);
}

hod_tensor *hod_triu(hod_tensor *x, int64_t diagonal)
{
    return triangle("triu", x, diagonal, true);
}

/* ---- padding ---- */

hod_tensor *hod_pad(hod_tensor *x, int dim, int64_t before, int64_t after, double value)
{
    if (hod__null("pad", "x", x))
        return NULL;
    int d = hod__dim("pad", dim, x->ndim);
    if (d < 0)
        return NULL;
    int64_t padded;
    if (before < 0 || after < 0 || __builtin_add_overflow(before, x->shape[d], &padded) ||
        __builtin_add_overflow(padded, after, &padded))
        return HOD_FAIL(ARGUMENT, "pad: by %lld and %lld%s", (long long)before, (long long)after,
                        before < 0 || after < 0 ? ", must not be negative" : ": too large");
    HOD_ATTRS(a);
    if (value == 0) {
        a.unslice = (hod_attrs_unslice){d, before, 1, padded};
        return hod__op(HOD_OP_unslice, &a, 1, &x);
    }
    a.pad.before.n = x->ndim;
    a.pad.shape = hod_tensor_shape(x);
    a.pad.before.d[d] = before;
    a.pad.shape.d[d] = padded;
    a.pad.value = value;
    return hod__op(HOD_OP_pad, &a, 1, &x);
}

hod_tensor *hod_pad_around(hod_tensor *x, hod_shape before, hod_shape after, hod_pad_mode mode,
                           double value)
{
    if (hod__null("pad_around", "x", x))
        return NULL;
    if (before.n != x->ndim || after.n != x->ndim)
        return HOD_FAIL(ARGUMENT,
                        "pad: %d numbers before and %d after, for %s of %d dimensions: one of both "
                        "is wanted for each",
                        before.n, after.n, HOD_SHAPE_TEXT(x), x->ndim);
    if ((unsigned)mode >= HOD_PAD_MODES)
        return HOD_FAIL(ARGUMENT, "pad: mode %d, wanted HOD_PAD_CONSTANT to _CIRCULAR", (int)mode);
    HOD_ATTRS(a);
    a.pad.before.n = a.pad.shape.n = before.n;
    a.pad.mode = mode;
    a.pad.value = mode == HOD_PAD_CONSTANT ? value : 0;
    bool any = false;
    for (int i = 0; i < before.n; i++) {
        int64_t cut = before.d[i] < 0 ? before.d[i] : 0,
                cut_after = after.d[i] < 0 ? after.d[i] : 0;
        int64_t b = HOD_MAX(before.d[i], 0), e = HOD_MAX(after.d[i], 0), size = x->shape[i];
        if (cut < -size || cut_after < -size - cut || b > INT64_MAX / 4 || e > INT64_MAX / 4)
            return HOD_FAIL(ARGUMENT, "pad: %lld before and %lld after dimension %d of %s",
                            (long long)before.d[i], (long long)after.d[i], i, HOD_SHAPE_TEXT(x));
        x = hod_slice(x, i, -cut, size + cut_after);
        if (!x)
            return NULL;
        a.pad.before.d[i] = b;
        a.pad.shape.d[i] = b + x->shape[i] + e;
        any = any || b || e;
    }
    return any ? hod__op(HOD_OP_pad, &a, 1, &x) : x;
}

/* ---- windows of images ---- */

static void fill_unfold(const hod_unfold2d_options *o, hod_attrs_unfold *a)
{
    hod__both_ways(o->kernel, o->kernel_hw, 0, a->kernel);
    hod__both_ways(o->stride, o->stride_hw, 1, a->stride);
    hod__both_ways(o->dilation, o->dilation_hw, 1, a->dilation);
    hod__four_sides(o->padding, o->padding_tlbr, a->padding);
}

hod_tensor *hod_unfold2d_with(hod_tensor *x, hod_unfold2d_options o)
{
    if (hod__null("unfold2d", "x", x))
        return NULL;
    HOD_ATTRS(a);
    fill_unfold(&o, &a.unfold);
    if (x->ndim == 4)
        memcpy(a.unfold.image, x->shape + 2, sizeof a.unfold.image);
    return hod__op(HOD_OP_unfold2d, &a, 1, &x);
}

hod_tensor *hod_fold2d_with(hod_tensor *x, int64_t h, int64_t w, hod_unfold2d_options o)
{
    HOD_ATTRS(a);
    fill_unfold(&o, &a.unfold);
    a.unfold.image[0] = h;
    a.unfold.image[1] = w;
    return hod__op(HOD_OP_fold2d, &a, 1, &x);
}
