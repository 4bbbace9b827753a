/* einsum: a formula like "bij,bjk->bik" names the dimensions of its inputs and of its result;
 * dimensions of one name run together, and those that the result does not name are summed.
 *
 * A repeated name within an input is its diagonal. Then the inputs are folded from the left, two
 * at a time: what nobody else names is summed in the one that has it, and of the rest
 *
 *     batch   in both, still needed        a -> (batch, left, inner)
 *     inner   in both, not needed          b -> (batch, inner, right)
 *     left, right   in one of them         a b -> (batch, left, right)
 *
 * one matmul with each group merged to one dimension, or one mul where nothing is inner. So no
 * more than two inputs' names are ever held by one tensor, and derivatives are those of matmul.
 */
#include "ops/rules.h"

enum { LETTERS = 52, LABELS = LETTERS + HOD_MAX_DIMS, EINSUM_MAX_INPUTS = 64 };

/* Labels: A..Z, a..z, then the dimensions under dots, counted from the last. */
typedef struct labels {
    int n, of[2 * HOD_MAX_DIMS];
} labels;

typedef struct term {
    hod_tensor *x;
    labels has; /* one a dimension of x */
} term;

typedef struct formula {
    const char *text;
    int n;
    term in[EINSUM_MAX_INPUTS];
    labels out;
    int64_t size[LABELS]; /* -1: not named by any input */
    int times[LABELS];    /* that inputs name it */
    int dots;             /* the most dimensions that dots stand for */
} formula;

#define BAD(f, format, ...)                                                                        \
    HOD_FAIL_RC(ARGUMENT, "einsum \"%.60s\": " format, (f)->text, __VA_ARGS__)

/* ---- reading ---- */

static int letter(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static char letter_of(int label)
{
    return (char)(label >= LETTERS ? '.' : label < 26 ? 'A' + label : 'a' + label - 26);
}

static int at(const labels *l, int label)
{
    for (int i = 0; i < l->n; i++)
        if (l->of[i] == label)
            return i;
    return -1;
}

/* What stands between commas, arrow and end. */
typedef struct part {
    const char *begin, *end;
    int letters;
    bool dots;
} part;

/* Of a character in the equation, from 1 on. */
static int place(const formula *f, const char *s)
{
    return (int)(s - f->text) + 1;
}

static int read_part(const formula *f, const char *s, part *p)
{
    *p = (part){.begin = s};
    for (; *s && *s != ',' && *s != '-'; s++)
        if (letter(*s) >= 0) {
            p->letters++;
        } else if (!p->dots && s[0] == '.' && s[1] == '.' && s[2] == '.') {
            p->dots = true;
            s += 2;
        } else if (*s != ' ') {
            return BAD(f, "'%.1s' at place %d; a part is letters and at most one \"...\"", s,
                       place(f, s));
        }
    p->end = s;
    return 0;
}

/* At most 2 * HOD_MAX_DIMS labels, which the caller has seen to. */
static void list(const part *p, int dots, labels *out)
{
    out->n = 0;
    for (const char *s = p->begin; s < p->end; s++)
        if (letter(*s) >= 0) {
            out->of[out->n++] = letter(*s);
        } else if (*s == '.') {
            for (int d = dots; d > 0; d--)
                out->of[out->n++] = LETTERS + d - 1;
            s += 2;
        }
}

static int read_input(formula *f, int k, const part *p)
{
    term *t = &f->in[k];
    int dots = t->x->ndim - p->letters;
    if (dots < 0 || (dots > 0 && !p->dots))
        return BAD(f, "input %d is %s, with %d letters", k, HOD_SHAPE_TEXT(t->x), p->letters);
    list(p, dots, &t->has);
    f->dots = HOD_MAX(f->dots, dots);
    for (int i = 0; i < t->has.n; i++) {
        int l = t->has.of[i], first = at(&t->has, l);
        int64_t size = t->x->shape[i], *known = &f->size[l];
        bool diagonal = first < i;
        if (diagonal ? size != t->x->shape[first]
                     : *known > -1 && *known != size && *known != 1 && size != 1)
            return BAD(f, "'%c' is %lld, and %lld in dimension %d of input %d, %s", letter_of(l),
                       (long long)(diagonal ? t->x->shape[first] : *known), (long long)size, i, k,
                       HOD_SHAPE_TEXT(t->x));
        *known = *known == -1 || *known == 1 ? size : *known;
        f->times[l]++;
    }
    return 0;
}

/* Without an arrow: what the dots stand for, and the letters that occur once, by the alphabet. */
static int implied(formula *f)
{
    f->out.n = 0;
    for (int d = f->dots; d > 0; d--)
        f->out.of[f->out.n++] = LETTERS + d - 1;
    for (int l = 0; l < LETTERS; l++)
        if (f->times[l] == 1) {
            if (f->out.n == HOD_MAX_DIMS)
                return BAD(f, "a result of more than %d dimensions", HOD_MAX_DIMS);
            f->out.of[f->out.n++] = l;
        }
    return 0;
}

static int read_output(formula *f, const char *s)
{
    part p;
    if (s[0] != '-' || s[1] != '>')
        return BAD(f, "'%.1s' at place %d, where an arrow or the end is expected", s, place(f, s));
    if (read_part(f, s + 2, &p) != 0)
        return -1;
    if (*p.end)
        return BAD(f, "'%.1s' at place %d, after the result", p.end, place(f, p.end));
    if (p.letters + (p.dots ? f->dots : 0) > HOD_MAX_DIMS)
        return BAD(f, "a result of more than %d dimensions", HOD_MAX_DIMS);
    list(&p, f->dots, &f->out);
    for (int i = 0; i < f->out.n; i++) {
        int l = f->out.of[i];
        if (at(&f->out, l) < i)
            return BAD(f, "the result names '%c' twice", letter_of(l));
        if (f->size[l] == -1)
            return BAD(f, "no input names '%c'", letter_of(l));
    }
    return 0;
}

static int read_formula(formula *f)
{
    const char *s = f->text;
    for (int l = 0; l < LABELS; l++)
        f->size[l] = -1;
    for (int k = 0; k < f->n; k++) {
        part p;
        if (read_part(f, s, &p) != 0 || read_input(f, k, &p) != 0)
            return -1;
        bool more = *p.end == ',';
        if (more != (k + 1 < f->n))
            return more ? BAD(f, "more inputs than came: %d", f->n)
                        : BAD(f, "inputs: %d, came: %d", k + 1, f->n);
        s = p.end + more;
    }
    return *s ? read_output(f, s) : implied(f);
}

/* ---- one input ---- */

static void forget(labels *l, int i)
{
    l->n--;
    memmove(l->of + i, l->of + i + 1, (size_t)(l->n - i) * sizeof *l->of);
}

/* Its dimensions in the order of l, which has each of its labels once. */
static hod_tensor *ordered(const term *t, const labels *l)
{
    hod_shape order = {.n = 0};
    bool same = true;
    for (int i = 0; i < l->n; i++) {
        order.d[order.n] = at(&t->has, l->of[i]);
        same = same && order.d[i] == i;
        order.n++;
    }
    return same ? t->x : hod_permute_to(t->x, order);
}

/* A diagonal is every (n+1)th element of the n x n that its two dimensions hold, merged. */
static void take_diagonals(term *t)
{
    for (int i = 0; t->x && i < t->has.n; i++) {
        int first = at(&t->has, t->has.of[i]);
        if (first == i)
            continue;
        int64_t n = t->x->shape[i], square;
        hod_shape order = {.n = 0}, merged = {.n = 0};
        for (int k = 0; k < t->has.n; k++)
            if (k != i && k != first) {
                merged.d[merged.n++] = t->x->shape[k];
                order.d[order.n++] = k;
            }
        order.d[order.n++] = first;
        order.d[order.n++] = i;
        if (!hod__mul_size(n, n, &square)) {
            t->x = HOD_FAIL(ARGUMENT, "einsum: more elements than 64 bits count");
            return;
        }
        merged.d[merged.n++] = square;
        int label = t->has.of[i];
        t->x =
            hod_slice_step(hod_reshape(hod_permute_to(t->x, order), merged), -1, 0, square, n + 1);
        forget(&t->has, i);
        forget(&t->has, first);
        t->has.of[t->has.n++] = label;
        i = -1; /* the others have moved */
    }
}

/* Is the label named by the result or an input from number `next` on? */
static bool needed(const formula *f, int label, int next)
{
    bool found = at(&f->out, label) >= 0;
    for (int k = next; k < f->n && !found; k++)
        found = at(&f->in[k].has, label) >= 0;
    return found;
}

/* Sums what neither `other` (may be NULL) nor anybody later names; a size of 1 that is repeated
 * along `other`'s goes, too, for a product repeats it by itself. */
static void drop(const formula *f, term *t, const term *other, int next)
{
    hod_shape sums = {.n = 0}, left = {.n = 0};
    labels kept = {.n = 0};
    for (int i = 0; t->x && i < t->has.n; i++) {
        int l = t->has.of[i], there = other ? at(&other->has, l) : -1;
        bool repeated = there >= 0 && t->x->shape[i] == 1 && other->x->shape[there] != 1;
        if (repeated || (there < 0 && !needed(f, l, next))) {
            if (t->x->shape[i] != 1)
                sums.d[sums.n++] = i;
        } else {
            left.d[left.n++] = t->x->shape[i];
            kept.of[kept.n++] = l;
        }
    }
    if (!t->x || kept.n == t->has.n)
        return;
    hod_tensor *y = sums.n > 0 ? hod_sum_over(hod__computed(t->x), sums, true) : t->x;
    t->x = hod_reshape(y, left);
    t->has = kept;
}

/* ---- two ---- */

static void append(labels *to, const labels *more)
{
    for (int i = 0; i < more->n; i++)
        to->of[to->n++] = more->of[i];
}

static labels joined(const labels *a, const labels *b)
{
    labels both = *a;
    append(&both, b);
    return both;
}

static int64_t merged_size(const term *t, const labels *l)
{
    int64_t n = 1;
    for (int i = 0; i < l->n; i++)
        if (!hod__mul_size(n, t->x->shape[at(&t->has, l->of[i])], &n))
            return -1;
    return n;
}

/* t as (batch, rows, columns), or (rows, columns) without batch. Whichever of the two groups has
 * its last dimension stays last, so that merging seldom copies. */
static hod_tensor *as_matrix(const term *t, const labels *batch, const labels *rows,
                             const labels *columns)
{
    bool turned = t->has.n > 0 && at(rows, t->has.of[t->has.n - 1]) >= 0;
    const labels *first = turned ? columns : rows, *second = turned ? rows : columns;
    labels order = joined(batch, first);
    append(&order, second);
    int64_t nb = merged_size(t, batch), n1 = merged_size(t, first), n2 = merged_size(t, second);
    if (nb < 0 || n1 < 0 || n2 < 0)
        return HOD_FAIL(ARGUMENT, "einsum: more elements than 64 bits count");
    hod_shape s = batch->n > 0 ? HOD_SHAPE(nb, n1, n2) : HOD_SHAPE(n1, n2);
    hod_tensor *m = hod_reshape(ordered(t, &order), s);
    return turned ? hod_transpose(m, -2, -1) : m;
}

static void note_sizes(const term *t, const labels *l, hod_shape *s)
{
    for (int i = 0; i < l->n; i++)
        s->d[s->n++] = t->x->shape[at(&t->has, l->of[i])];
}

/* Elementwise: dimensions that one of them lacks are of size 1 there. */
static hod_tensor *spread_product(const term *a, const term *b, const labels *batch,
                                  const labels *left, const labels *right)
{
    labels of_a = joined(batch, left), of_b = joined(batch, right);
    hod_shape sa = {.n = 0}, sb = {.n = 0};
    note_sizes(a, &of_a, &sa);
    for (int i = 0; i < right->n; i++)
        sa.d[sa.n++] = 1;
    note_sizes(b, batch, &sb);
    for (int i = 0; i < left->n; i++)
        sb.d[sb.n++] = 1;
    note_sizes(b, right, &sb);
    return hod_mul(hod_reshape(ordered(a, &of_a), sa), hod_reshape(ordered(b, &of_b), sb));
}

static term contracted(const formula *f, term a, term b, int next)
{
    labels batch = {.n = 0}, inner = {.n = 0}, left = {.n = 0}, right = {.n = 0};
    term y = {.x = NULL};
    drop(f, &a, &b, next);
    drop(f, &b, &a, next);
    drop(f, &a, &b, next); /* what b has dropped is a's alone now */
    if (!a.x || !b.x)
        return y;
    for (int i = 0; i < a.has.n; i++) {
        int l = a.has.of[i];
        labels *to = at(&b.has, l) < 0 ? &left : needed(f, l, next) ? &batch : &inner;
        to->of[to->n++] = l;
    }
    for (int i = 0; i < b.has.n; i++)
        if (at(&a.has, b.has.of[i]) < 0)
            right.of[right.n++] = b.has.of[i];
    if (batch.n + left.n + right.n > HOD_MAX_DIMS) {
        y.x = HOD_FAIL(ARGUMENT, "einsum \"%.60s\": %d dimensions on the way", f->text,
                       batch.n + left.n + right.n);
        return y;
    }
    hod_dtype t = hod__promote(a.x, b.x);
    t = hod__is_float(t) ? t : HOD_F32;
    a.x = hod__cast_to(a.x, t);
    b.x = hod__cast_to(b.x, t);
    y.has = joined(&batch, &left);
    append(&y.has, &right);
    if (!a.x || !b.x)
        return y;
    if (inner.n == 0) {
        y.x = spread_product(&a, &b, &batch, &left, &right);
        return y;
    }
    hod_shape s = {.n = 0};
    note_sizes(&a, &batch, &s);
    note_sizes(&a, &left, &s);
    note_sizes(&b, &right, &s);
    y.x = hod_reshape(
        hod_matmul(as_matrix(&a, &batch, &left, &inner), as_matrix(&b, &batch, &inner, &right)), s);
    return y;
}

hod_tensor *hod_einsum_of(const char *equation, int n, hod_tensor *const *x)
{
    if (!equation || !x || n < 1 || n > EINSUM_MAX_INPUTS)
        return HOD_FAIL(ARGUMENT, "einsum: %s of %d tensors", equation ? "a formula" : "no formula",
                        x ? n : 0);
    formula f;
    memset(&f, 0, sizeof f);
    f.text = equation;
    f.n = n;
    for (int k = 0; k < n; k++) {
        if (hod__null("einsum", "an input", x[k]))
            return NULL;
        f.in[k].x = x[k];
    }
    if (read_formula(&f) != 0)
        return NULL;
    for (int k = 0; k < n; k++) {
        if (n > 2) /* products on the way are not rounded to 16 bits */
            f.in[k].x = hod__computed(x[k]);
        if (f.in[k].x)
            take_diagonals(&f.in[k]);
        if (!f.in[k].x)
            return NULL;
    }
    term y = f.in[0];
    for (int k = 1; k < n && y.x; k++)
        y = contracted(&f, y, f.in[k], k + 1);
    drop(&f, &y, NULL, n);
    hod_tensor *out = y.x ? ordered(&y, &f.out) : NULL;
    return hod__narrowed(out, hod__promote_all(n, x));
}
