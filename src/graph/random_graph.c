/* Random graphs: what the passes and the compiler are tried on.
 *
 * A pure function of the seed. Every node is one of a few dozen moves applied to values made so
 * far; a move that does not fit the values drawn is drawn again. Two facts are carried with each
 * value so that a comparison of two implementations means something:
 *
 *     bound   no element is larger in magnitude. Growth is met with tanh or a small factor, so
 *             nothing overflows and errors stay in proportion.
 *     whole   elements are integers that the type holds exactly, so arithmetic on them is exact in
 *             any order. Only such values meet what jumps: comparisons, floor, casts to integers,
 *             argmax. A comparison of two rounded values would be a test of luck.
 *
 * Inputs say in their names what they hold: x.. any numbers, n.. whole ones, j<size>.. indices
 * below a size, k a random key.
 */
#include "graph/random_graph.h"

#include <math.h>

enum { MAX_ELEMENTS = 4096, TRIES = 64 };

/* ---- drawing --------------------------------------------------------------------------------- */

uint64_t hod__draw_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t hod__draw(hod_drawing *d, int64_t n)
{
    return (int64_t)(hod__draw_bits(&d->state) % (uint64_t)n);
}

bool hod__draw_one_in(hod_drawing *d, int64_t n)
{
    return hod__draw(d, n) == 0;
}

hod_ref hod__draw_node(hod_drawing *d)
{
    /* The newest third is drawn half of the time: depth, not only breadth. */
    int64_t n = d->g->n, recent = n / 3;
    for (;;) {
        bool late = recent > 0 && hod__draw_one_in(d, 2);
        hod_ref r = (hod_ref)(late ? n - 1 - hod__draw(d, recent) : hod__draw(d, n));
        if (!d->values[r].hidden)
            return r; /* inputs never are, so there is one */
    }
}

hod_dtype hod__draw_dtype(hod_drawing *d)
{
    static const hod_dtype dtypes[] = {HOD_F32, HOD_F32, HOD_F32, HOD_F32, HOD_F32,
                                       HOD_F32, HOD_F64, HOD_F64, HOD_F16, HOD_BF16,
                                       HOD_I64, HOD_I32, HOD_U8,  HOD_BOOL};
    return dtypes[hod__draw(d, HOD_COUNT(dtypes))];
}

static int64_t draw_size(hod_drawing *d)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
    return hod__draw_one_in(d, 60) ? 0 : sizes[hod__draw(d, HOD_COUNT(sizes))];
}

void hod__draw_shape(hod_drawing *d, hod_meta *meta)
{
    meta->ndim = (int)hod__draw(d, hod__draw_one_in(d, 8) ? HOD_MAX_DIMS + 1 : 5);
    int64_t room = MAX_ELEMENTS;
    for (int i = 0; i < meta->ndim; i++) {
        meta->shape[i] = HOD_MIN(draw_size(d), room);
        room /= HOD_MAX(meta->shape[i], 1);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

double hod__whole_bound(hod_dtype dtype)
{
    static const double bounds[HOD_DTYPES] = {
        [HOD_F32] = 1 << 20, [HOD_F64] = 1 << 20, [HOD_F16] = 1024, [HOD_BF16] = 128,
        [HOD_I64] = 1 << 20, [HOD_I32] = 1 << 20, [HOD_U8] = 255,   [HOD_BOOL] = 1};
    return bounds[dtype];
}

hod_ref hod__draw_note(hod_drawing *d, hod_ref r, double bound, bool whole)
{
    if (r == HOD_NO_REF)
        return r;
    while (d->n_values < d->g->n) {
        hod_drawn_value *v = hod__push(&d->values, &d->n_values, &d->cap_values, sizeof *v);
        if (!v)
            return HOD_NO_REF;
    }
    d->values[r] = (hod_drawn_value){.bound = bound, .whole = whole};
    return r;
}

hod_ref hod__draw_op(hod_drawing *d, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                     double bound, bool whole)
{
    return hod__draw_note(d, hod__graph_op(d->g, op, attrs, n, in), bound, whole);
}

hod_ref hod__draw_unary(hod_drawing *d, hod_op op, hod_ref x, double bound, bool whole)
{
    return hod__draw_op(d, op, NULL, 1, &x, bound, whole);
}

hod_ref hod__draw_full(hod_drawing *d, hod_dtype dtype, double value)
{
    hod_attrs attrs = {.full = {.value = value, .dtype = dtype}};
    return hod__draw_op(d, HOD_OP_full, &attrs, 0, NULL, fabs(value), value == nearbyint(value));
}

hod_ref hod__draw_scaled(hod_drawing *d, hod_ref x, double factor)
{
    hod_ref in[] = {x, hod__draw_full(d, hod__node_meta(d->g, x).dtype, factor)};
    return hod__draw_op(d, HOD_OP_mul, NULL, 2, in, d->values[x].bound * fabs(factor), false);
}

/* Growth stops here. f16 overflows at 65504, and sums of squares must stay well below; and what is
 * large is divided rather than squashed, because tanh would turn the rounding of a large sum into
 * all there is. */
hod_ref hod__draw_tame(hod_drawing *d, hod_ref r)
{
    if (r == HOD_NO_REF || d->values[r].bound <= 16)
        return r;
    hod_dtype dtype = hod__node_meta(d->g, r).dtype;
    if (d->values[r].whole && d->values[r].bound <= hod__whole_bound(dtype))
        return r;
    if (!hod__is_float(dtype))
        return r; /* callers keep integers in bounds */
    d->values[r].hidden = true;
    if (d->values[r].bound < 64 && hod__draw_one_in(d, 2))
        return hod__draw_unary(d, HOD_OP_tanh, r, 1, false);
    return hod__draw_scaled(d, r, 4 / d->values[r].bound);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Strides as of a transposed or a sliced tensor, now and then of an expanded one. */
static void draw_strides(hod_drawing *d, const hod_meta *meta, bool may_overlap, int64_t *strides)
{
    int order[HOD_MAX_DIMS];
    for (int i = 0; i < meta->ndim; i++)
        order[i] = i;
    for (int i = meta->ndim - 1; i > 0 && hod__draw_one_in(d, 2); i--) {
        int64_t j = hod__draw(d, i + 1);
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    int64_t step = hod__draw_one_in(d, 3) ? 2 : 1;
    for (int i = meta->ndim - 1; i >= 0; i--) {
        strides[order[i]] = step;
        step *= HOD_MAX(meta->shape[order[i]], 1);
        if (may_overlap && hod__draw_one_in(d, 6))
            strides[order[i]] = 0;
    }
}

hod_ref hod__draw_input(hod_drawing *d, const hod_meta *meta, char kind, int64_t limit,
                        hod_input_role role)
{
    char name[32];
    int64_t strides[HOD_MAX_DIMS] = {0};
    bool plain = role == HOD_INPUT_GRADIENT || !hod__draw_one_in(d, 3);
    if (!plain)
        draw_strides(d, meta, role == HOD_INPUT_DATA, strides);
    if (kind == 'j')
        snprintf(name, sizeof name, "j%lld_%lld", (long long)limit, (long long)d->g->n_inputs);
    else
        snprintf(name, sizeof name, "%c%lld", kind, (long long)d->g->n_inputs);
    hod_ref r = hod__graph_input(d->g, meta, plain ? NULL : strides, role, name);
    double bound = meta->dtype == HOD_BOOL ? 1
                   : kind == 'j'           ? (double)limit
                   : kind == 'k'           ? 1e9
                                           : 4;
    return hod__draw_note(d, r, bound, kind != 'x');
}

/* Numbers of this type and shape, whole ones for integers and sometimes for floats. */
hod_ref hod__draw_fresh(hod_drawing *d, const hod_meta *meta)
{
    static const hod_input_role roles[] = {HOD_INPUT_DATA, HOD_INPUT_DATA, HOD_INPUT_PARAMETER,
                                           HOD_INPUT_STATE};
    bool whole = !hod__is_float(meta->dtype) || hod__draw_one_in(d, 4);
    return hod__draw_input(d, meta, whole ? 'n' : 'x', 0, roles[hod__draw(d, HOD_COUNT(roles))]);
}

/* ---- the graph ------------------------------------------------------------------------------- */

static hod_ref draw_any(hod_drawing *d)
{
    static hod_ref (*const moves[])(hod_drawing *) = {
        hod__draw_pointwise, hod__draw_pointwise, hod__draw_pointwise, hod__draw_pointwise,
        hod__draw_reduction, hod__draw_reduction, hod__draw_view,      hod__draw_view,
        hod__draw_kernel,    hod__draw_source,
    };
    for (int i = 0; i < TRIES && !d->failed; i++) {
        hod_ref r = moves[hod__draw(d, HOD_COUNT(moves))](d);
        if (r != HOD_NO_REF)
            return r;
        d->failed = hod_error() != NULL;
    }
    return HOD_NO_REF;
}

/* What nobody reads is returned, and now and then something that is read as well. */
static int draw_outputs(hod_drawing *d)
{
    int32_t *uses = hod__graph_uses(d->g);
    for (hod_ref r = 0; uses && r < d->g->n; r++) {
        bool input = hod__is_input(d->g, r);
        bool effect = !input && hod__node_info(d->g, r)->class == HOD_EFFECT;
        bool wanted =
            !input && (effect ? hod__draw_one_in(d, 4) : uses[r] == 0 || hod__draw_one_in(d, 12));
        if (wanted && hod__graph_return(d->g, r)) {
            free(uses);
            return -1;
        }
    }
    free(uses);
    return uses ? 0 : -1;
}

hod_graph *hod__graph_random(uint64_t seed, int nodes)
{
    hod_drawing d = {.state = seed * 0x2545f4914f6cdd1du + 1};
    char name[32];
    snprintf(name, sizeof name, "random_%llu", (unsigned long long)seed);
    d.g = hod__graph_new(name);
    d.failed = !d.g;
    for (int64_t i = 0; !d.failed && i < 2 + hod__draw(&d, 3); i++) {
        hod_meta meta = {.dtype = i == 0 ? HOD_F32 : hod__draw_dtype(&d)};
        hod__draw_shape(&d, &meta);
        d.failed = hod__draw_fresh(&d, &meta) == HOD_NO_REF;
    }
    while (!d.failed && d.g->n < nodes)
        d.failed = draw_any(&d) == HOD_NO_REF;
    d.failed = d.failed || hod__draw_effects(&d) || draw_outputs(&d);
    free(d.values);
    if (!d.failed)
        return d.g;
    hod__graph_free(d.g);
    return hod_error() ? NULL : HOD_FAIL(STATE, "random graph %s: no move fits", name);
}

/* ---- values for its inputs ------------------------------------------------------------------- */

static double draw_element(uint64_t *state, const char *name, hod_dtype dtype)
{
    uint64_t bits = hod__draw_bits(state);
    double u = (double)(bits >> 11) * 0x1p-53;
    if (name[0] == 'k')
        return floor(u * 1e9);
    if (name[0] == 'j')
        return floor(u * (double)HOD_MAX(strtol(name + 1, NULL, 10), 1));
    if (dtype == HOD_BOOL)
        return (double)(bits & 1);
    if (name[0] == 'n')
        return dtype == HOD_U8 ? floor(u * 5) : floor(u * 9) - 4;
    return 4 * u - 2;
}

/* A real tensor with the recorded strides; every byte between elements is a number as well. */
static hod_tensor *random_input(const hod_graph *g, int64_t i, uint64_t seed)
{
    const hod_graph_input *input = &g->inputs[i];
    hod_meta meta = hod__node_meta(g, input->node);
    int64_t n = 1;
    for (int k = 0; k < meta.ndim; k++)
        n += HOD_MAX(meta.shape[k] - 1, 0) * input->strides[k];
    double *values = hod__alloc((size_t)n, sizeof *values);
    uint64_t state = seed ^ ((uint64_t)(i + 1) * 0x632be59bd9b4e019u);
    for (int64_t k = 0; values && k < n; k++)
        values[k] = draw_element(&state, input->name, meta.dtype);
    hod_tensor *flat = values ? hod_from_doubles(values, HOD_SHAPE(n)) : NULL;
    free(values);
    hod_attrs attrs = {.cast = {.dtype = meta.dtype}};
    hod_tensor *typed = hod__op(HOD_OP_cast, &attrs, 1, &flat);
    hod_tensor *t = typed ? hod__tensor_new(&meta, typed->storage) : NULL;
    if (t)
        memcpy(t->strides, input->strides, sizeof t->strides);
    return hod__own(t);
}

int hod__graph_random_inputs(const hod_graph *g, uint64_t seed, hod_tensor **in)
{
    for (int64_t i = 0; i < g->n_inputs; i++) {
        in[i] = random_input(g, i, seed);
        if (!in[i])
            return -1;
    }
    return 0;
}
