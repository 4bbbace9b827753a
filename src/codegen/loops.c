/* From a cluster to its loop nest: see loops.h for the words. */
#include "codegen/loops.h"

int hod__value_of(const hod_loops *p, hod_ref r)
{
    for (int i = 0; i < p->space->n; i++)
        if (p->value[i].ref == r)
            return p->value[i].kind == HOD_VALUE_ALIAS ? p->value[i].alias : i;
    return -1;
}

static const hod_node *node_of(const hod_loops *p, int i)
{
    return hod__node(p->l->g, p->value[i].ref);
}

/* ---- values and operands ---- */

static int add_operand(hod_fused_kernel *k, hod_ref ref, int64_t offset, bool written)
{
    k->operand[k->n_operands] = (hod_operand){.ref = ref, .offset = offset, .written = written};
    return k->n_operands++;
}

static int add_arg(hod_fused_kernel *k, int64_t value)
{
    k->arg[k->n_args] = value;
    return k->n_args++;
}

static int add_number(hod_fused_kernel *k, double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return add_arg(k, bits);
}

static hod_loop_value_kind kind_of(const hod_loops *p, int i)
{
    hod_ref r = p->value[i].ref;
    const hod_site *site = &p->l->site[r];
    if (i < p->cluster->n)
        return hod__node_info(p->l->g, r)->class == HOD_REDUCE ? HOD_VALUE_FOLDED
                                                               : HOD_VALUE_COMPUTED;
    if (site->root != r)
        return HOD_VALUE_ALIAS;
    if (site->inlined)
        return hod__node(p->l->g, r)->op == HOD_OP_full ? HOD_VALUE_NUMBER : HOD_VALUE_COUNTER;
    return HOD_VALUE_LOAD;
}

/* Row-major numbering of dimensions [from, to) of value i, as strides of atoms. */
static void count_dims(hod_loops *p, int i, int from, int to)
{
    int64_t unit = 1;
    p->value[i].counts = true;
    for (int d = to; d-- > from;) {
        const hod_dim_atoms *list = &p->space->value[i].dim[d];
        for (int a = list->n; a-- > 0; unit *= p->space->extent[list->atom[a]])
            p->value[i].stride[list->atom[a]] = unit;
    }
}

/* The key is two numbers that every element reads; the sample's own elements are counted from 0. */
static void find_draw(hod_loops *p, hod_fused_kernel *k, int i)
{
    const hod_graph *g = p->l->g;
    hod_loop_value *v = &p->value[i];
    const hod_ref *in = hod__node_in(g, v->ref);
    bool samples = hod__node_numel(g, in[1]) != 1;
    memset(p->stride[k->n_operands], 0, sizeof p->stride[0]);
    v->key = add_operand(k, in[0], p->l->site[in[0]].offset, false);
    v->arg = add_arg(k, hod__node(g, v->ref)->attrs.uniform.stream);
    count_dims(p, i, samples, hod__node(g, v->ref)->ndim);
}

/* Strides per atom of each operand, and of each counter, before atoms become axes. */
static int find_values(hod_loops *p, hod_fused_kernel *k)
{
    hod_space *s = p->space;
    for (int i = 0; i < s->n; i++) {
        hod_loop_value *v = &p->value[i];
        *v = (hod_loop_value){
            .ref = s->value[i].ref, .operand = -1, .alias = -1, .arg = -1, .key = -1};
        v->kind = kind_of(p, i);
        const hod_node *node = node_of(p, i);
        bool stored = i < p->cluster->n && p->l->site[v->ref].stored;
        if (k->n_operands + 1 >= HOD_KERNEL_BUFFERS || k->n_args > HOD_KERNEL_ARGS / 2)
            return HOD_FAIL_RC(COMPILE, "kernel: more than %d operands", HOD_KERNEL_BUFFERS);
        if (v->kind == HOD_VALUE_LOAD || stored) {
            int64_t offset = hod__space_strides(p->l, s, &s->value[i], p->stride[k->n_operands]);
            v->operand = add_operand(k, v->ref, offset, stored);
        } else if (v->kind == HOD_VALUE_NUMBER) {
            v->arg = add_number(k, node->attrs.full.value);
        } else if (v->kind == HOD_VALUE_COUNTER) {
            count_dims(p, i, (int)node->attrs.iota.dim, (int)node->attrs.iota.dim + 1);
        }
        if (node->op == HOD_OP_uniform)
            find_draw(p, k, i);
        if (node->op == HOD_OP_accumulate) {
            v->arg = add_arg(k, 0);
            k->beta[k->n_beta].arg = v->arg;
            k->beta[k->n_beta++].effect = v->ref;
        }
    }
    for (int i = 0; i < s->n; i++)
        if (p->value[i].kind == HOD_VALUE_ALIAS)
            for (int j = 0; j < s->n; j++)
                if (p->value[j].ref == p->l->site[p->value[i].ref].root)
                    p->value[i].alias = j;
    return 0;
}

/* ---- sweeps ---- */

static int input_count(const hod_loops *p, int i)
{
    return i < p->cluster->n ? node_of(p, i)->n_in : 0;
}

static void find_sweeps(hod_loops *p)
{
    const hod_space *s = p->space;
    p->sweeps = 1;
    for (int i = s->n; i-- > p->cluster->n;) {
        p->value[i].full = !s->reduced || s->value[i].atoms & s->reduced;
        p->value[i].sweep = p->value[i].full ? 0 : -1;
    }
    for (int i = 0; i < p->cluster->n; i++) {
        hod_loop_value *v = &p->value[i];
        v->full = v->kind != HOD_VALUE_FOLDED && (!s->reduced || s->value[i].atoms & s->reduced);
        v->sweep = v->full || v->kind == HOD_VALUE_FOLDED ? 0 : -1;
        for (int k = 0; k < input_count(p, i); k++) {
            if (hod__is_target(p->l->g, v->ref, k) || (v->key >= 0 && k == 0))
                continue;
            const hod_loop_value *x = &p->value[hod__value_of(p, hod__node_in(p->l->g, v->ref)[k])];
            bool inside = v->full || v->kind == HOD_VALUE_FOLDED;
            v->sweep = HOD_MAX(v->sweep, x->sweep + (inside && !x->full ? 1 : 0));
        }
        if (v->full || v->kind == HOD_VALUE_FOLDED)
            p->sweeps = HOD_MAX(p->sweeps, v->sweep + 1);
    }
}

/* True when operand q moves along a folded axis, or nothing is folded:
 * it is read in every sweep. */
static bool moves_in_sweeps(const hod_loops *p, int q)
{
    bool moves = !p->space->reduced;
    for (int a = 0; a < p->space->n_atoms; a++)
        moves |= p->space->reduced >> a & 1 && p->stride[q][a] != 0;
    return moves;
}

/* Sets seen for what value i is computed from; returns how many loads that move with the element
 * are among it. */
static int count_loads(const hod_loops *p, int i, bool *seen)
{
    const hod_loop_value *v = &p->value[i];
    if (seen[i] || !v->full)
        return 0;
    seen[i] = true;
    int loads = v->kind == HOD_VALUE_LOAD && moves_in_sweeps(p, v->operand);
    for (int k = 0; k < input_count(p, i); k++)
        if (!hod__is_target(p->l->g, v->ref, k) && !(v->key >= 0 && k == 0))
            loads += count_loads(p, hod__value_of(p, hod__node_in(p->l->g, v->ref)[k]), seen);
    return loads;
}

/* What is stored anyhow and takes several loads to compute is read back by later sweeps. */
static void find_reloads(hod_loops *p)
{
    for (int i = 0; i < p->cluster->n && p->sweeps > 1; i++) {
        hod_loop_value *v = &p->value[i];
        bool seen[HOD_SPACE_VALUES] = {0};
        v->reload = v->full && v->operand >= 0 && !hod__is_effect(p->l->g, v->ref) &&
                    count_loads(p, i, seen) > 1;
    }
}

/* ---- axes ---- */

typedef struct order {
    int atom[HOD_ATOMS];
    int n;
} order;

/* The operand whose memory order the loops follow: the one that moves along most atoms. */
static int reference_operand(const hod_loops *p, const hod_fused_kernel *k)
{
    int best = -1, most = -1;
    for (int q = 0; q < k->n_operands; q++) {
        int moves = 0;
        for (int a = 0; a < p->space->n_atoms; a++)
            moves += p->stride[q][a] != 0;
        if (moves > most || (moves == most && k->operand[q].written)) {
            best = q;
            most = moves;
        }
    }
    return best;
}

static void sort_atoms(const hod_loops *p, int reference, bool reduced, order *o)
{
    for (int a = 0; a < p->space->n_atoms; a++) {
        if ((bool)(p->space->reduced >> a & 1) != reduced)
            continue;
        int at = o->n++;
        int64_t s = reference >= 0 ? p->stride[reference][a] : 0;
        while (at > 0 && (p->space->reduced >> o->atom[at - 1] & 1) == (unsigned)reduced &&
               reference >= 0 && p->stride[reference][o->atom[at - 1]] < s) {
            o->atom[at] = o->atom[at - 1];
            at--;
        }
        o->atom[at] = a;
    }
}

/* Can the loop over `outer` and the one over `inner` be one loop, for every operand and counter? */
static bool mergeable(const hod_loops *p, const hod_fused_kernel *k, int outer, int inner)
{
    int64_t e = p->space->extent[inner];
    if ((p->space->reduced >> outer ^ p->space->reduced >> inner) & 1)
        return false;
    for (int q = 0; q < k->n_operands; q++)
        if (p->stride[q][outer] != p->stride[q][inner] * e)
            return false;
    for (int i = 0; i < p->space->n; i++)
        if (p->value[i].counts && p->value[i].stride[outer] != p->value[i].stride[inner] * e)
            return false;
    return true;
}

static void merge_atoms(hod_loops *p, const hod_fused_kernel *k, order *o)
{
    int n = 0;
    for (int i = 0; i < o->n; i++) {
        int a = o->atom[i];
        if (n && mergeable(p, k, o->atom[n - 1], a)) {
            p->space->extent[a] *= p->space->extent[o->atom[n - 1]];
            n--;
        }
        o->atom[n++] = a;
    }
    o->n = n;
}

/* Position in o of the axis along which most operands are contiguous, those of the sweeps before
 * those of the points; ties go inward. */
static int vector_axis(const hod_loops *p, const hod_fused_kernel *k, const order *o)
{
    int best = o->n - 1, most = -1;
    for (int i = 0; i < o->n; i++) {
        int score = 0;
        for (int q = 0; q < k->n_operands; q++)
            if (p->stride[q][o->atom[i]] == 1)
                score += moves_in_sweeps(p, q) ? HOD_KERNEL_BUFFERS : 1;
        if (score >= most) {
            best = i;
            most = score;
        }
    }
    return best;
}

static void place_axes(hod_loops *p, const hod_fused_kernel *k, const order *o)
{
    int64_t stride[HOD_KERNEL_BUFFERS][HOD_ATOMS];
    memcpy(stride, p->stride, sizeof stride);
    for (int i = 0; i < o->n; i++) {
        p->axis[i] = (hod_loop_axis){.extent = p->space->extent[o->atom[i]],
                                     .reduced = p->space->reduced >> o->atom[i] & 1};
        for (int q = 0; q < k->n_operands; q++)
            p->stride[q][i] = stride[q][o->atom[i]];
    }
    for (int v = 0; v < p->space->n; v++) {
        int64_t old[HOD_ATOMS];
        memcpy(old, p->value[v].stride, sizeof old);
        for (int i = 0; i < o->n; i++)
            p->value[v].stride[i] = old[o->atom[i]];
    }
    p->n_axes = o->n;
}

static void choose_nest(hod_loops *p)
{
    hod_loop_axis *lane = p->n_axes ? &p->axis[p->n_axes - 1] : NULL;
    bool folds = false;
    for (int i = 0; i < p->cluster->n; i++)
        folds |= p->value[i].kind == HOD_VALUE_FOLDED;
    if (lane)
        lane->literal = lane->extent > 1 && p->l->block % lane->extent == 0;
    if (!folds) {
        p->nest = p->n_axes <= 1 ? HOD_NEST_FLAT : HOD_NEST_ROWS;
        int inner = lane && lane->literal && p->n_axes > 2 ? 2 : 1;
        p->n_outer = p->nest == HOD_NEST_FLAT ? 0 : p->n_axes - inner;
        return;
    }
    p->n_outer = 0;
    while (p->n_outer < p->n_axes && !p->axis[p->n_outer].reduced)
        p->n_outer++;
    bool kept = lane && !lane->reduced;
    p->nest = kept && p->n_outer < p->n_axes ? HOD_NEST_LANE_KEPT : HOD_NEST_LANE_FOLDED;
    if (kept && p->n_outer == p->n_axes) { /* nothing is folded but size-1 dims: rows of one lane */
        p->nest = HOD_NEST_LANE_KEPT;
        p->n_outer--;
    }
    p->strips = p->nest == HOD_NEST_LANE_KEPT && !lane->literal;
}

/* Kept axes first, then folded ones, then, where it is kept, the vector axis. */
static void find_axes(hod_loops *p, const hod_fused_kernel *k)
{
    order o = {.n = 0};
    int reference = reference_operand(p, k);
    sort_atoms(p, reference, false, &o);
    sort_atoms(p, reference, true, &o);
    merge_atoms(p, k, &o);
    if (o.n) {
        int v = vector_axis(p, k, &o), atom = o.atom[v];
        memmove(&o.atom[v], &o.atom[v + 1], (size_t)(o.n - v - 1) * sizeof o.atom[0]);
        o.atom[o.n - 1] = atom;
    }
    place_axes(p, k, &o);
    choose_nest(p);
}

static void find_range(const hod_loops *p, hod_fused_kernel *k)
{
    enum { ELEMENTS = 1 << 14 }; /* a thread should get at least so many: about its wake-up cost */
    int64_t range = 1, work = 1;
    for (int i = 0; i < p->n_axes; i++)
        *(i < p->n_outer ? &range : &work) *= p->axis[i].extent;
    if (p->strips) {
        int64_t lanes = p->axis[p->n_axes - 1].extent;
        range *= (lanes + HOD_LANES - 1) / HOD_LANES;
        work = work / HOD_MAX(lanes, 1) * HOD_MIN(lanes, HOD_LANES);
    }
    if (p->nest == HOD_NEST_FLAT) {
        range = work;
        work = 1;
    }
    k->range = range;
    k->grain = HOD_MAX(1, ELEMENTS / HOD_MAX(work * p->sweeps, 1));
}

static void hash_walks(const hod_loops *p, hod_fused_kernel *k)
{
    for (int q = 0; q < k->n_operands; q++)
        k->operand[q].walk = hod__hash(p->stride[q], (size_t)p->n_axes * sizeof **p->stride,
                                       (uint64_t)k->operand[q].offset);
}

/* Inside the loops all loads of an element come before its stores. Behind a fold a result may be
 * stored before another is made, from what it loads then. */
static void find_early_reads(const hod_loops *p, hod_fused_kernel *k)
{
    int written = 0;
    for (int q = 0; q < k->n_operands; q++)
        written += k->operand[q].written;
    for (int q = 0; q < k->n_operands; q++)
        k->operand[q].read_first = written == 1 || moves_in_sweeps(p, q);
}

int hod__loops_build(hod_loops *p, const hod_lowering *l, const hod_cluster *c, hod_fused_kernel *k)
{
    p->l = l;
    p->cluster = c;
    p->strips = false;
    if (hod__space_derive(l, c->node, c->n, p->space))
        return HOD_FAIL_RC(COMPILE, "kernel: a cluster lost its space"); /* fuse.c checked it */
    if (find_values(p, k))
        return -1;
    find_sweeps(p);
    find_reloads(p);
    find_early_reads(p, k);
    find_axes(p, k);
    find_range(p, k);
    hash_walks(p, k);
    k->one_sweep = p->sweeps == 1;
    return 0;
}
