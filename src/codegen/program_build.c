/* From a graph to calls.
 *
 *   rewrite, lower, fuse   (lower_operands.c, lower_again.c, lower_split.c, lower.c, fuse.c)
 *   units      each cluster and each library operator is one unit of work
 *   order      units sorted so that everything runs after what it needs: in recording order, or
 *              just in time for an earlier reader
 *   calls      kernels printed, primitives prepared, equal independent kernels joined
 *   memory     lifetimes from the order, offsets from plan.c
 *   compile    all new kernels at once
 */
#include "codegen/builder.h"
#include <stdio.h>

/* ---- units ---- */

/* What the library runs of matmul and weight gradients adds to a gradient sum by itself. */
static bool folds_accumulate(const hod_builder *b, hod_ref e)
{
    const hod_graph *g = b->l.g;
    const hod_node *n = hod__node(g, e);
    if (n->op != HOD_OP_accumulate || n->dtype != HOD_F32)
        return false;
    hod_ref x = hod__node_in(g, e)[1];
    if (hod__is_input(g, x) || b->l.site[x].n_users != 1 || b->output_of[x] >= 0)
        return false;
    int op = hod__node(g, x)->op;
    const hod_site *s = &b->l.site[e];
    int64_t expect[HOD_MAX_DIMS];
    hod__row_major(n->ndim, n->shape, expect);
    return (op == HOD_OP_matmul || op == HOD_OP_conv2d_weight) && hod__by_library(b, x) &&
           s->n_users == 0 &&
           !memcmp(expect, s->strides, (size_t)n->ndim * sizeof *expect);
}

/* Library calls that accumulate take over the effect; it leaves fusion. */
static void fold_effects(hod_builder *b)
{
    for (hod_ref r = 0; r < b->l.g->n; r++)
        b->folded[r] = HOD_NO_REF;
    for (hod_ref e = 0; e < b->l.g->n; e++)
        if (b->l.site[e].fused && folds_accumulate(b, e)) {
            b->l.site[e].fused = false;
            b->folded[hod__node_in(b->l.g, e)[1]] = e;
        }
}

static bool is_work(const hod_builder *b, hod_ref r)
{
    return !hod__is_input(b->l.g, r) && !hod__is_view(b->l.g, r) && !b->l.site[r].inlined;
}

static int make_units(hod_builder *b)
{
    const hod_lowering *l = &b->l;
    if (!(b->units = hod__alloc((size_t)l->g->n + 1, sizeof *b->units)))
        return -1;
    for (hod_ref r = 0; r < l->g->n; r++)
        b->unit_of[r] = -1;
    for (int32_t c = 0; c < l->n_clusters; c++) {
        if (!l->clusters[c].n)
            continue;
        for (int32_t i = 0; i < l->clusters[c].n; i++)
            b->unit_of[l->clusters[c].node[i]] = b->n_units;
        hod_ref last = l->clusters[c].node[l->clusters[c].n - 1];
        b->units[b->n_units++] = (hod_unit){
            .node = HOD_NO_REF, .cluster = c, .effect = HOD_NO_REF, .last = last, .key = last};
    }
    for (hod_ref r = 0; r < l->g->n; r++) {
        if (!is_work(b, r) || b->unit_of[r] >= 0)
            continue;
        hod_ref e = b->folded[r];
        if (e != HOD_NO_REF)
            b->unit_of[e] = b->n_units;
        b->unit_of[r] = b->n_units;
        hod_ref last = e == HOD_NO_REF ? r : e;
        b->units[b->n_units++] =
            (hod_unit){.node = r, .cluster = -1, .effect = e, .last = last, .key = r};
    }
    return 0;
}

typedef void each_unit(hod_unit *first, hod_unit *then);

/* Calls f for every unit that waits for node r of unit u. */
static void each_follower(hod_builder *b, hod_unit *u, hod_ref r, each_unit *f)
{
    const hod_site *s = &b->l.site[r];
    for (int32_t i = 0; i < s->n_followers; i++) {
        int32_t v = b->unit_of[b->l.followers[s->followers + i]];
        if (v >= 0 && &b->units[v] != u)
            f(u, &b->units[v]);
    }
}

/* Calls f for every unit that waits for u, once a dependency. */
static void each_waiting(hod_builder *b, hod_unit *u, each_unit *f)
{
    const hod_cluster *c = u->cluster >= 0 ? &b->l.clusters[u->cluster] : NULL;
    for (int32_t k = 0; c && k < c->n; k++)
        each_follower(b, u, c->node[k], f);
    if (u->node != HOD_NO_REF)
        each_follower(b, u, u->node, f);
    if (u->effect != HOD_NO_REF)
        each_follower(b, u, u->effect, f);
}

static void count_wait(hod_unit *first, hod_unit *then)
{
    (void)first;
    then->waits++;
}

static void release(hod_unit *first, hod_unit *then)
{
    (void)first;
    then->waits--;
}

static void make_ready(hod_unit *first, hod_unit *then)
{
    then->ready = HOD_MAX(then->ready, first->position + 1);
}

static void hurry(hod_unit *first, hod_unit *then)
{
    first->key = HOD_MIN(first->key, then->key);
}

/* Ready units in order of their keys. */
static int sort_units(hod_builder *b)
{
    for (int32_t u = 0; u < b->n_units; u++)
        b->units[u].waits = 0;
    for (int32_t u = 0; u < b->n_units; u++)
        each_waiting(b, &b->units[u], count_wait);
    for (int32_t done = 0; done < b->n_units; done++) {
        int32_t best = -1;
        for (int32_t u = 0; u < b->n_units; u++)
            if (b->units[u].waits == 0 && (best < 0 || b->units[u].key < b->units[best].key))
                best = u;
        if (best < 0)
            return HOD_FAIL_RC(COMPILE, "program: %s has a cycle", b->l.g->name);
        b->units[best].waits = -1;
        b->order[done] = best;
        each_waiting(b, &b->units[best], release);
    }
    return 0;
}

/* A unit runs when its last node was recorded or, if its values are wanted before that, just in
 * time for them. Without the second half whatever else is ready would run while the first reader
 * waits, and its results would lie about. */
static int order_units(hod_builder *b)
{
    if (!(b->order = hod__alloc((size_t)b->n_units + 1, sizeof *b->order)) || sort_units(b))
        return -1;
    for (int32_t i = b->n_units; i-- > 0;)
        each_waiting(b, &b->units[b->order[i]], hurry);
    return sort_units(b);
}

/* ---- operands ---- */

hod_spot hod__where(const hod_builder *b, hod_ref r, int64_t elements)
{
    const hod_graph *g = b->l.g;
    hod_ref m = b->l.site[r].memory;
    int64_t bytes = elements * (int64_t)hod_dtype_bytes(hod__node(g, r)->dtype);
    if (hod__is_input(g, m))
        return (hod_spot){HOD_PLACE_INPUT, hod__node(g, m)->input, bytes};
    if (b->output_of[m] >= 0)
        return (hod_spot){HOD_PLACE_OUTPUT, b->output_of[m], bytes};
    /* The offset of the buffer is added once the plan is made: index is the buffer for now. */
    return (hod_spot){HOD_PLACE_ARENA, b->buffer_of[m], bytes};
}

int32_t hod__new_buffer(hod_builder *b, int64_t bytes, hod_ref node)
{
    hod_program *p = b->p;
    int64_t n = p->n_buffers, cap = p->cap_buffers;
    hod_plan_buffer *buffer = hod__push(&p->buffer, &p->n_buffers, &p->cap_buffers, sizeof *buffer);
    hod_ref *of = buffer ? hod__push(&p->buffer_node, &n, &cap, sizeof *of) : NULL;
    if (!of)
        return -1;
    buffer->bytes = HOD_MAX(bytes, 1);
    *of = node;
    return (int32_t)n - 1;
}

static bool owns_buffer(const hod_builder *b, hod_ref r)
{
    const hod_site *s = &b->l.site[r];
    return is_work(b, r) && s->stored && s->memory == r && b->output_of[r] < 0 &&
           b->folded[r] == HOD_NO_REF; /* empty ones too: a kernel wants an address */
}

static int make_buffers(hod_builder *b)
{
    for (hod_ref r = 0; r < b->l.g->n; r++) {
        b->buffer_of[r] = -1;
        if (owns_buffer(b, r) &&
            (b->buffer_of[r] = hod__new_buffer(b, hod__node_bytes(b->l.g, r), r)) < 0)
            return -1;
    }
    return 0;
}

/* ---- kernel calls ---- */

static int32_t find_source(hod_builder *b, hod_fused_kernel *k)
{
    hod_program *p = b->p;
    uint64_t h = hod__hash(k->text, strlen(k->text), 0);
    char name[32];
    snprintf(name, sizeof name, "k_%016llx", (unsigned long long)h);
    for (int32_t i = 0; i < p->n_sources; i++)
        if (!strcmp(p->sources[i].name, name))
            return i;
    hod_kernel_source *s = hod__push(&p->sources, &p->n_sources, &p->cap_sources, sizeof *s);
    if (!s)
        return -1;
    char *at = strstr(k->text, "@@");
    s->text = hod__format("%.*s%s%s", (int)(at - k->text), k->text, name, at + 2);
    s->name = hod__strdup(name);
    return s->text && s->name ? (int32_t)p->n_sources - 1 : -1;
}

/* A call moved earlier keeps its results alive longer: small ones only. */
enum { JOIN_BYTES = 1 << 14 };

static bool may_move(const hod_builder *b, const hod_fused_kernel *k)
{
    int64_t bytes = 0;
    for (int q = 0; q < k->n_operands; q++) {
        hod_ref m = b->l.site[k->operand[q].ref].memory;
        if (k->operand[q].written && !hod__is_input(b->l.g, m))
            bytes += hod__node_bytes(b->l.g, m);
    }
    return bytes <= JOIN_BYTES;
}

static int add_instance(hod_builder *b, hod_program_call *c, const hod_fused_kernel *k)
{
    hod_instance *i = hod__push(&c->instance, &c->n_instances, &c->cap_instances, sizeof *i);
    if (!i)
        return -1;
    i->buf = hod__alloc((size_t)k->n_operands + 1, sizeof *i->buf);
    i->arg = hod__alloc((size_t)k->n_args + 1, sizeof *i->arg);
    i->beta = hod__alloc((size_t)k->n_beta + 1, sizeof *i->beta);
    if (!i->buf || !i->arg || !i->beta)
        return -1;
    i->n_bufs = k->n_operands;
    for (int q = 0; q < k->n_operands; q++)
        i->buf[q] = hod__where(b, k->operand[q].ref, k->operand[q].offset);
    memcpy(i->arg, k->arg, (size_t)k->n_args * sizeof *k->arg);
    i->n_beta = k->n_beta;
    for (int q = 0; q < k->n_beta; q++) {
        i->beta[q].arg = k->beta[q].arg;
        i->beta[q].slot = hod__node(b->l.g, b->l.site[k->beta[q].effect].memory)->input;
        b->p->writes_slot[i->beta[q].slot] = true;
    }
    i->range = k->range;
    i->grain = k->grain;
    return 0;
}

/* Does a unit that joined u's call read this buffer? It may do so after u has written. */
static bool read_beside(const hod_builder *b, const hod_unit *u, int32_t buffer)
{
    for (int32_t v = 0; v < b->n_units; v++) {
        const hod_unit *other = &b->units[v];
        if (other == u || other->position != u->position || !other->kernel)
            continue;
        for (int o = 0; o < other->kernel->n_operands; o++)
            if (b->buffer_of[b->l.site[other->kernel->operand[o].ref].memory] == buffer)
                return true;
    }
    return false;
}

/* A result of a kernel of one sweep takes the memory of an operand that dies here. */
static void reuse_operands(hod_builder *b, const hod_unit *u)
{
    const hod_fused_kernel *k = u->kernel;
    hod_plan_buffer *buffer = b->p->buffer;
    const hod_site *site = b->l.site;
    bool taken[HOD_KERNEL_BUFFERS] = {0};
    for (int w = 0; w < k->n_operands && k->one_sweep; w++) {
        hod_ref wm = site[k->operand[w].ref].memory;
        if (!k->operand[w].written || b->buffer_of[wm] < 0 || b->l.site[wm].inlined)
            continue;
        for (int r = 0; r < k->n_operands; r++) {
            hod_ref rm = site[k->operand[r].ref].memory;
            int32_t rb = b->buffer_of[rm], wb = b->buffer_of[wm];
            if (k->operand[r].written || !k->operand[r].read_first || taken[r] || rb < 0 ||
                rb == wb || k->operand[r].walk != k->operand[w].walk ||
                buffer[rb].last != u->position || buffer[rb].bytes != buffer[wb].bytes)
                continue;
            bool once = true;
            for (int o = 0; o < k->n_operands; o++)
                once &= o == r || b->buffer_of[site[k->operand[o].ref].memory] != rb;
            if (!once || read_beside(b, u, rb))
                continue;
            taken[r] = true;
            buffer[rb].last = buffer[wb].last;
            buffer[wb].bytes = 0; /* gone */
            for (hod_ref n = 0; n < b->l.g->n; n++)
                if (b->buffer_of[n] == wb)
                    b->buffer_of[n] = rb;
            break;
        }
    }
}

/* ---- calls in order ---- */

static int print_kernel(hod_builder *b, hod_unit *u)
{
    if (!(u->kernel = hod__alloc(1, sizeof *u->kernel)))
        return -1;
    b->loops->space = b->space;
    if (u->cluster < 0) {
        if (hod__pool_print(&b->l, u->node, u->kernel))
            return -1;
    } else if (hod__loops_build(b->loops, &b->l, &b->l.clusters[u->cluster], u->kernel) ||
               hod__emit_c(b->loops, u->kernel)) {
        return -1;
    }
    u->source = find_source(b, u->kernel);
    return u->source < 0 ? -1 : 0;
}

/* Kernels printed; every unit knows its call. Equal kernels that wait for nothing in between
 * join. */
static int place_units(hod_builder *b)
{
    int64_t n_calls = 0;
    int32_t *source_of = hod__alloc((size_t)b->n_units + 1, sizeof *source_of); /* by call */
    if (!source_of)
        return -1;
    int rc = 0;
    for (int32_t i = 0; i < b->n_units && !rc; i++) {
        hod_unit *u = &b->units[b->order[i]];
        u->source = -1;
        u->position = -1;
        bool prints = u->cluster >= 0 || hod__is_pool(b->l.g, u->node);
        if (prints && !(rc = print_kernel(b, u)) && may_move(b, u->kernel))
            for (int64_t c = u->ready; c < n_calls && u->position < 0; c++)
                if (source_of[c] == u->source)
                    u->position = c;
        if (u->position < 0) {
            u->position = n_calls;
            source_of[n_calls++] = u->source;
        }
        each_waiting(b, u, make_ready);
    }
    free(source_of);
    b->n_calls = n_calls;
    return rc;
}

static void find_lives(hod_builder *b)
{
    for (hod_ref r = 0; r < b->l.g->n; r++) {
        if (b->buffer_of[r] < 0)
            continue;
        const hod_site *s = &b->l.site[r];
        hod_plan_buffer *buffer = &b->p->buffer[b->buffer_of[r]];
        buffer->first = buffer->last = (int32_t)b->units[b->unit_of[r]].position;
        for (int32_t i = 0; i < s->n_users; i++) {
            int32_t u = b->unit_of[b->l.followers[s->followers + i]];
            if (u >= 0)
                buffer->last = HOD_MAX(buffer->last, (int32_t)b->units[u].position);
        }
    }
}

static int make_calls(hod_builder *b)
{
    hod_program *p = b->p;
    if (!(p->call = hod__alloc((size_t)b->n_calls + 1, sizeof *p->call)))
        return -1;
    p->n_calls = p->cap_calls = b->n_calls;
    for (int32_t i = 0; i < b->n_units; i++) {
        const hod_unit *u = &b->units[b->order[i]];
        hod_program_call *c = &p->call[u->position];
        c->node = u->last;
        if (!u->kernel) {
            p->stats.library_calls++;
            if (hod__library_call(b, c, u))
                return -1;
            continue;
        }
        p->stats.kernels += c->n_instances == 0;
        c->kind = HOD_CALL_KERNEL;
        c->source = u->source;
        if (add_instance(b, c, u->kernel))
            return -1;
    }
    return 0;
}

/* ---- memory ---- */

/* An arena place names its buffer until now. */
static void settle(const hod_program *p, hod_spot *w, int n)
{
    for (int i = 0; i < n; i++)
        if (w[i].space == HOD_PLACE_ARENA)
            w[i].offset += p->buffer[w[i].index].offset;
}

/* Buffers that were reused have no bytes and no place any more. */
static void drop_reused(hod_program *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_buffers; i++)
        if (p->buffer[i].bytes) {
            p->buffer[n] = p->buffer[i];
            p->buffer_node[n++] = p->buffer_node[i];
        }
    p->n_buffers = n;
}

/* The live buffers are planned apart and written back,
 * so that numbers hold until all is settled. */
static int plan_memory(hod_builder *b)
{
    hod_program *p = b->p;
    int64_t n = 0;
    hod_plan_buffer *live = hod__alloc((size_t)p->n_buffers + 1, sizeof *live);
    if (!live)
        return -1;
    for (int64_t i = 0; i < p->n_buffers; i++)
        if (p->buffer[i].bytes)
            live[n++] = p->buffer[i];
    int rc = hod__plan(live, n, &p->stats.arena_bytes);
    p->stats.arena_bound = hod__plan_bound(live, n);
    for (int64_t i = p->n_buffers; i-- > 0;)
        if (p->buffer[i].bytes)
            p->buffer[i] = live[--n];
    free(live);
    for (int64_t c = 0; c < p->n_calls && !rc; c++) {
        hod_program_call *call = &p->call[c];
        settle(p, call->in, HOD_COUNT(call->in));
        settle(p, &call->out, 1);
        settle(p, &call->scratch, 1);
        settle(p, call->at, call->n_operands);
        for (int64_t k = 0; k < call->n_instances; k++)
            settle(p, call->instance[k].buf, call->instance[k].n_bufs);
    }
    drop_reused(p);
    return rc;
}

/* ---- the whole ---- */

static hod_graph *rewrite(const hod_graph *g)
{
    hod_graph *a = hod__lower_operands(g);
    hod_graph *b = a ? hod__lower_again(a) : NULL;
    hod_graph *c = b ? hod__lower_split(b) : NULL;
    if (c)
        hod__graph_compact(c, NULL);
    hod__graph_free(a);
    hod__graph_free(b);
    return c;
}

static int allocate(hod_builder *b)
{
    size_t n = (size_t)b->p->g->n + 1;
    b->unit_of = hod__alloc(n, sizeof *b->unit_of);
    b->buffer_of = hod__alloc(n, sizeof *b->buffer_of);
    b->output_of = hod__alloc(n, sizeof *b->output_of);
    b->folded = hod__alloc(n, sizeof *b->folded);
    b->loops = hod__alloc(1, sizeof *b->loops);
    b->space = hod__alloc(1, sizeof *b->space);
    b->p->writes_slot = hod__alloc((size_t)b->p->g->n_inputs + 1, sizeof *b->p->writes_slot);
    if (!b->unit_of || !b->buffer_of || !b->output_of || !b->folded || !b->loops || !b->space ||
        !b->p->writes_slot)
        return -1;
    for (hod_ref r = 0; r < b->p->g->n; r++)
        b->output_of[r] = -1;
    for (int64_t k = 0; k < b->p->g->n_outputs; k++)
        b->output_of[b->p->g->outputs[k]] = (int32_t)k;
    return 0;
}

static int build(hod_builder *b, hod_toolchain_report *report)
{
    hod_program *p = b->p;
    if (allocate(b) || hod__lower(&b->l, p->g))
        return -1;
    fold_effects(b);
    if (hod__fuse(&b->l) || make_units(b) || order_units(b) || place_units(b) || make_buffers(b))
        return -1;
    find_lives(b);
    for (int32_t i = 0; i < b->n_units; i++)
        if (b->units[b->order[i]].kernel)
            reuse_operands(b, &b->units[b->order[i]]);
    if (make_calls(b) || plan_memory(b))
        return -1;
    p->kernel = hod__alloc((size_t)p->n_sources + 1, sizeof *p->kernel);
    return p->kernel ? hod__toolchain_build(p->sources, (int)p->n_sources, p->kernel, report) : -1;
}

hod_program *hod__program_build(const hod_graph *g, hod_toolchain_report *report)
{
    hod_builder b = {.p = hod__alloc(1, sizeof *b.p)};
    int rc = b.p && (b.p->g = rewrite(g)) ? build(&b, report) : -1;
    if (!rc)
        b.p->stats.nodes = (int)b.p->g->n;
    for (int32_t u = 0; u < b.n_units; u++) {
        if (b.units[u].kernel)
            free(b.units[u].kernel->text);
        free(b.units[u].kernel);
    }
    hod__lowering_free(&b.l);
    free(b.units);
    free(b.unit_of);
    free(b.order);
    free(b.buffer_of);
    free(b.output_of);
    free(b.folded);
    free(b.loops);
    free(b.space);
    if (rc) {
        hod__program_free(b.p);
        return NULL;
    }
    return b.p;
}
