/* The iteration space of a cluster: dimensions of many values expressed in shared atoms.
 *
 * Facts flow along edges until nothing is left to learn. A pointwise node and its inputs agree
 * dimension by dimension; a reduction agrees with its input but for the folded ones; a permutation
 * reorders; a reshape regroups, which may split an atom in two, everywhere at once. What is still
 * unknown when nothing flows any more is a loop of its own and gets fresh atoms. At the end every
 * edge is checked once more: a set of nodes that would need two different orders of one atom (x
 * plus its own transpose) is not an error, it just cannot share loops.
 */
#include "codegen/lower.h"
#include <assert.h>

enum { UNKNOWN = -1 };

hod_space_value *hod__space_value(hod_space *s, hod_ref r)
{
    for (int i = 0; i < s->n; i++)
        if (s->value[i].ref == r)
            return &s->value[i];
    return NULL;
}

static const hod_node *node_of(const hod_lowering *l, const hod_space_value *v)
{
    return hod__node(l->g, v->ref);
}

/* A view that this space looks through; slices and overridden views are memory of their own. */
static bool looks_through(const hod_lowering *l, hod_ref r)
{
    return !hod__is_input(l->g, r) && hod__node_info(l->g, r)->class == HOD_VIEW &&
           l->site[r].root != r;
}

/* ---- the values ---- */

/* Adds r and the views below it. False when the space is full. */
static bool add_value(const hod_lowering *l, hod_space *s, hod_ref r)
{
    for (;;) {
        if (hod__space_value(s, r))
            return true;
        if (s->n == HOD_SPACE_VALUES)
            return false;
        hod_space_value *v = &s->value[s->n++];
        const hod_node *node = hod__node(l->g, r);
        *v = (hod_space_value){.ref = r};
        for (int d = 0; d < node->ndim; d++)
            v->dim[d].n = node->shape[d] == 1 ? 0 : UNKNOWN;
        if (!looks_through(l, r))
            return true;
        r = hod__node_in(l->g, r)[0];
    }
}

/* The first input that node r reads element by element: effects write their target, and a draw's
 * key is the same for all of them. */
static int first_read(const hod_graph *g, hod_ref r)
{
    return hod__is_effect(g, r) || hod__node(g, r)->op == HOD_OP_uniform ? 1 : 0;
}

/* ---- splitting ---- */

static void split_list(hod_dim_atoms *list, int atom, int inner)
{
    for (int i = 0; i < list->n; i++)
        if (list->atom[i] == atom) {
            memmove(&list->atom[i + 2], &list->atom[i + 1],
                    (size_t)(list->n - i - 1) * sizeof list->atom[0]);
            list->atom[i + 1] = (int8_t)inner;
            list->n++;
            return;
        }
}

/* Makes `atom` the outer part of extent `outer`; the rest becomes a new atom inside it. */
static bool split_atom(hod_space *s, int atom, int64_t outer)
{
    if (s->n_atoms == HOD_ATOMS)
        return false;
    int inner = s->n_atoms++;
    s->extent[inner] = s->extent[atom] / outer;
    s->extent[atom] = outer;
    for (int i = 0; i < s->n; i++)
        for (int d = 0; d < HOD_MAX_DIMS; d++) {
            if (s->value[i].dim[d].n == HOD_DIM_ATOMS)
                return false;
            split_list(&s->value[i].dim[d], atom, inner);
        }
    return true;
}

/* Splits atoms of a list until a suffix of it multiplies to `size`. Returns the suffix's start, or
 * -1 when the factors do not allow it. */
static int split_suffix(hod_space *s, const hod_dim_atoms *list, int64_t size)
{
    int64_t product = 1;
    for (int i = list->n; i-- > 0;) {
        if (product == size)
            return i + 1;
        int64_t e = s->extent[list->atom[i]], want = size / product;
        if (size % product)
            return -1;
        if (want % e == 0) {
            product *= e;
        } else if (e % want == 0) {
            return split_atom(s, list->atom[i], e / want) ? i + 1 : -1;
        } else {
            return -1;
        }
    }
    return product == size ? 0 : -1;
}

/* ---- facts along edges ---- */

enum flow { SAME, LEARNT, CLASH };

static bool equal_lists(const hod_dim_atoms *a, const hod_dim_atoms *b)
{
    return a->n == b->n && !memcmp(a->atom, b->atom, (size_t)(a->n > 0 ? a->n : 0));
}

static enum flow agree(hod_dim_atoms *a, hod_dim_atoms *b)
{
    if (a->n == UNKNOWN && b->n == UNKNOWN)
        return SAME;
    if (a->n == UNKNOWN || b->n == UNKNOWN) {
        *(a->n == UNKNOWN ? a : b) = *(a->n == UNKNOWN ? b : a);
        return LEARNT;
    }
    return equal_lists(a, b) ? SAME : CLASH;
}

static enum flow worse(enum flow a, enum flow b)
{
    return a > b ? a : b;
}

/* y broadcasts x: dimensions line up from the right. */
static enum flow flow_broadcast(const hod_node *yn, hod_space_value *y, const hod_node *xn,
                                hod_space_value *x)
{
    enum flow f = SAME;
    int shift = yn->ndim - xn->ndim;
    for (int d = 0; d < xn->ndim; d++)
        if (xn->shape[d] != 1)
            f = worse(f, agree(&x->dim[d], &y->dim[d + shift]));
    return f;
}

static enum flow flow_reduce(const hod_node *yn, hod_space_value *y, const hod_node *xn,
                             hod_space_value *x)
{
    enum flow f = SAME;
    int k = 0;
    for (int d = 0; d < xn->ndim; d++) {
        bool folded = yn->attrs.reduce.dims >> d & 1;
        if (!folded)
            f = worse(f, agree(&x->dim[d], &y->dim[k]));
        k += !folded || yn->attrs.reduce.keepdim;
    }
    return f;
}

static enum flow flow_permute(const hod_node *yn, hod_space_value *y, hod_space_value *x)
{
    enum flow f = SAME;
    for (int d = 0; d < yn->ndim; d++)
        f = worse(f, agree(&y->dim[d], &x->dim[yn->attrs.permute.order.d[d]]));
    return f;
}

/* Row n of a draw belongs to sample n. */
static enum flow flow_uniform(hod_space_value *y, const hod_node *xn, hod_space_value *x)
{
    return xn->ndim == 1 && xn->shape[0] != 1 ? agree(&x->dim[0], &y->dim[0]) : SAME;
}

static bool all_known(const hod_node *n, const hod_space_value *v)
{
    for (int d = 0; d < n->ndim; d++)
        if (v->dim[d].n == UNKNOWN)
            return false;
    return true;
}

/* Distributes `from`'s atoms, row-major, over `ndim` dimensions of these sizes, splitting where a
 * dimension ends inside an atom. Writes the lists to `out`.
 * False when the factors do not line up. */
static bool regroup(hod_space *s, const hod_node *fn, const hod_space_value *from, int ndim,
                    const int64_t *shape, hod_dim_atoms *out)
{
restart:;
    int8_t row[HOD_MAX_DIMS * HOD_DIM_ATOMS];
    int n = 0, at = 0;
    for (int d = 0; d < fn->ndim; d++)
        for (int i = 0; i < from->dim[d].n; i++)
            row[n++] = from->dim[d].atom[i];
    for (int d = 0; d < ndim; d++) {
        out[d].n = 0;
        for (int64_t product = 1; product < shape[d];) {
            if (at == n || out[d].n == HOD_DIM_ATOMS || shape[d] % product)
                return false;
            int64_t e = s->extent[row[at]], want = shape[d] / product;
            if (want % e) {
                if (e % want || !split_atom(s, row[at], want))
                    return false;
                goto restart;
            }
            out[d].atom[out[d].n++] = row[at++];
            product *= e;
        }
    }
    return at == n;
}

static enum flow flow_reshape(hod_space *s, const hod_node *yn, hod_space_value *y,
                              const hod_node *xn, hod_space_value *x)
{
    bool ky = all_known(yn, y), kx = all_known(xn, x);
    if (!ky && !kx)
        return SAME;
    hod_dim_atoms lists[HOD_MAX_DIMS];
    const hod_node *tn = kx ? yn : xn;
    hod_space_value *to = kx ? y : x;
    if (!(kx ? regroup(s, xn, x, yn->ndim, yn->shape, lists)
             : regroup(s, yn, y, xn->ndim, xn->shape, lists)))
        return CLASH;
    enum flow f = SAME;
    for (int d = 0; d < tn->ndim; d++)
        f = worse(f, agree(&to->dim[d], &lists[d]));
    return f;
}

/* What the edges into value y say. */
static enum flow flow_into(const hod_lowering *l, hod_space *s, hod_space_value *y, bool member)
{
    const hod_node *yn = node_of(l, y);
    if (!member && !looks_through(l, y->ref))
        return SAME;
    enum flow f = SAME;
    for (int i = first_read(l->g, y->ref); i < yn->n_in && f != CLASH; i++) {
        hod_space_value *x = hod__space_value(s, hod__node_in(l->g, y->ref)[i]);
        const hod_node *xn = node_of(l, x);
        if (hod__op_info[yn->op].class == HOD_REDUCE)
            f = worse(f, flow_reduce(yn, y, xn, x));
        else if (yn->op == HOD_OP_uniform)
            f = worse(f, flow_uniform(y, xn, x));
        else if (yn->op == HOD_OP_permute)
            f = worse(f, flow_permute(yn, y, x));
        else if (yn->op == HOD_OP_reshape)
            f = worse(f, flow_reshape(s, yn, y, xn, x));
        else
            f = worse(f, flow_broadcast(yn, y, xn, x));
    }
    return f;
}

/* Gives the unknown dimensions of the largest unfinished value fresh atoms. */
static bool start_somewhere(const hod_lowering *l, hod_space *s, bool *started)
{
    hod_space_value *best = NULL;
    int64_t best_size = -1;
    for (int i = 0; i < s->n; i++) {
        hod_space_value *v = &s->value[i];
        int64_t size = hod__node_numel(l->g, v->ref);
        if (size > best_size && !all_known(node_of(l, v), v)) {
            best = v;
            best_size = size;
        }
    }
    *started = best != NULL;
    for (int d = 0; best && d < node_of(l, best)->ndim; d++)
        if (best->dim[d].n == UNKNOWN) {
            if (s->n_atoms == HOD_ATOMS)
                return false;
            s->extent[s->n_atoms] = node_of(l, best)->shape[d];
            best->dim[d] = (hod_dim_atoms){.n = 1, .atom = {(int8_t)s->n_atoms++}};
        }
    return true;
}

/* ---- after the lists are known ---- */

/* Blocked memory needs the channels of its image cut at the block. */
static bool cut_blocks(const hod_lowering *l, hod_space *s)
{
    for (int i = 0; i < s->n; i++) {
        const hod_site *site = &l->site[s->value[i].ref];
        hod_dim_atoms image[4];
        if (site->layout == HOD_LAYOUT_BLOCKED && !looks_through(l, s->value[i].ref) &&
            (!regroup(s, node_of(l, &s->value[i]), &s->value[i], 4, site->image, image) ||
             split_suffix(s, &image[1], l->block) < 0))
            return false;
    }
    return true;
}

static uint32_t atoms_of(const hod_node *n, const hod_space_value *v)
{
    uint32_t set = 0;
    for (int d = 0; d < n->ndim; d++)
        for (int i = 0; i < v->dim[d].n; i++)
            set |= 1u << v->dim[d].atom[i];
    return set;
}

/* x (n,1) next to its own transpose, broadcast to (n,n): one atom would walk both dimensions, and
 * only the diagonal would be computed. */
static bool has_diagonal(const hod_node *n, const hod_space_value *v)
{
    uint32_t set = 0;
    for (int d = 0; d < n->ndim; d++)
        for (int i = 0; i < v->dim[d].n; i++) {
            if (set >> v->dim[d].atom[i] & 1)
                return true;
            set |= 1u << v->dim[d].atom[i];
        }
    return false;
}

/* Every reduction must fold the same atoms. */
static bool find_reduced(const hod_lowering *l, hod_space *s, const hod_ref *nodes, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        const hod_node *y = hod__node(l->g, nodes[i]);
        if (hod__op_info[y->op].class != HOD_REDUCE)
            continue;
        const hod_space_value *x = hod__space_value(s, hod__node_in(l->g, nodes[i])[0]);
        uint32_t folded = x->atoms & ~hod__space_value(s, nodes[i])->atoms;
        if (any && folded != s->reduced)
            return false;
        s->reduced = folded;
        any = true;
    }
    return true;
}

int hod__space_derive(const hod_lowering *l, const hod_ref *nodes, int n, hod_space *s)
{
    s->n = s->n_atoms = 0;
    s->reduced = 0;
    for (int i = 0; i < n; i++)
        if (!add_value(l, s, nodes[i]))
            return 1;
    for (int i = 0; i < n; i++)
        for (int k = first_read(l->g, nodes[i]); k < hod__node(l->g, nodes[i])->n_in; k++)
            if (!add_value(l, s, hod__node_in(l->g, nodes[i])[k]))
                return 1;
    for (bool more = true; more;) {
        bool learnt = false;
        for (int i = 0; i < s->n; i++) {
            enum flow f = flow_into(l, s, &s->value[i], i < n);
            if (f == CLASH)
                return 1;
            learnt |= f == LEARNT;
        }
        if (!learnt && !start_somewhere(l, s, &more))
            return 1;
    }
    if (!cut_blocks(l, s))
        return 1;
    for (int i = 0; i < s->n; i++)
        if (flow_into(l, s, &s->value[i], i < n) == CLASH)
            return 1;
    for (int i = 0; i < s->n; i++)
        if (has_diagonal(node_of(l, &s->value[i]), &s->value[i]))
            return 1;
    for (int i = 0; i < s->n; i++)
        s->value[i].atoms = atoms_of(node_of(l, &s->value[i]), &s->value[i]);
    return find_reduced(l, s, nodes, n) ? 0 : 1;
}

/* ---- strides ---- */

static void stride_list(const hod_space *s, const hod_dim_atoms *list, int from, int to,
                        int64_t unit, int64_t stride[HOD_ATOMS])
{
    for (int i = to; i-- > from;) {
        stride[list->atom[i]] = unit;
        unit *= s->extent[list->atom[i]];
    }
}

int64_t hod__space_strides(const hod_lowering *l, const hod_space *s, const hod_space_value *v,
                           int64_t stride[HOD_ATOMS])
{
    const hod_site *site = &l->site[v->ref];
    const hod_node *node = hod__node(l->g, v->ref);
    memset(stride, 0, HOD_ATOMS * sizeof *stride);
    if (site->layout == HOD_LAYOUT_BLOCKED) {
        int64_t b = l->block, h = site->image[2], w = site->image[3];
        hod_dim_atoms image[4];
        hod_space copy = *s; /* every cut is made: nothing splits any more */
        bool fits = regroup(&copy, node, v, 4, site->image, image);
        assert(fits && copy.n_atoms == s->n_atoms);
        (void)fits;
        int cut = image[1].n;
        for (int64_t product = 1; product < b;)
            product *= s->extent[image[1].atom[--cut]];
        stride_list(s, &image[1], cut, image[1].n, 1, stride);
        stride_list(s, &image[1], 0, cut, h * w * b, stride);
        stride_list(s, &image[0], 0, image[0].n, site->image[1] * h * w, stride);
        stride_list(s, &image[2], 0, image[2].n, w * b, stride);
        stride_list(s, &image[3], 0, image[3].n, b, stride);
        return 0;
    }
    int64_t plain[HOD_MAX_DIMS];
    const int64_t *strides = site->strides;
    if (!site->has_strides) {
        hod__row_major(node->ndim, node->shape, plain);
        strides = plain;
    }
    for (int d = 0; d < node->ndim; d++)
        stride_list(s, &v->dim[d], 0, v->dim[d].n, strides[d], stride);
    return site->has_strides ? site->offset : 0;
}
