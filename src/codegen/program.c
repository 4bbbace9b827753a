/* Running a program: addresses are resolved, calls are made in order, nothing else happens.
 *
 * A kernel call of one instance is launched over its range. One of many instances is launched over
 * chunks of all of them, so that the small updates of hundreds of parameters fill every thread with
 * one wake-up.
 */
#include "codegen/calls.h"
#include "codegen/timeline.h"

typedef struct frame {
    char *arena;
    hod_tensor *const *in;
    hod_grad_slot *const *slots;
    void *const *out;
} frame;

static void *address(const frame *f, const hod_spot *w)
{
    switch (w->space) {
    case HOD_PLACE_ARENA: return f->arena + w->offset;
    case HOD_PLACE_INPUT: return (char *)hod__data(f->in[w->index]) + w->offset;
    case HOD_PLACE_OUTPUT: return (char *)f->out[w->index] + w->offset;
    default: return NULL;
    }
}

/* ---- kernels ---- */

static void bind(const frame *f, const hod_instance *i, void **buf)
{
    for (int k = 0; k < i->n_bufs; k++)
        buf[k] = address(f, &i->buf[k]);
}

static void set_betas(const frame *f, hod_instance *i)
{
    for (int k = 0; k < i->n_beta; k++)
        i->arg[i->beta[k].arg] = f->slots[i->beta[k].slot]->present;
}

typedef struct crowd {
    const frame *f;
    const hod_program_call *call;
    hod_kernel *kernel;
} crowd;

static int64_t chunks_of(const hod_instance *i)
{
    return (i->range + i->grain - 1) / i->grain;
}

/* Chunks [begin, end) of all instances of a call, in order. */
static void run_crowd(void *const *buf, const int64_t *arg, int64_t begin, int64_t end)
{
    (void)arg;
    const crowd *c = buf[0];
    int64_t at = 0;
    for (int64_t k = 0; k < c->call->n_instances && at < end; k++) {
        hod_instance *i = &c->call->instance[k];
        int64_t chunks = chunks_of(i), from = HOD_MAX(begin - at, 0),
                to = HOD_MIN(end - at, chunks);
        at += chunks;
        if (from >= to)
            continue;
        void *bound[HOD_KERNEL_BUFFERS];
        bind(c->f, i, bound);
        c->kernel(bound, i->arg, from * i->grain, HOD_MIN(to * i->grain, i->range));
    }
}

static void run_kernel(const hod_program *p, const hod_program_call *c, const frame *f)
{
    hod_device *d = hod__cpu();
    hod_kernel *kernel = p->kernel[c->source];
    for (int64_t k = 0; k < c->n_instances; k++)
        set_betas(f, &c->instance[k]);
    if (c->n_instances == 1) {
        void *buf[HOD_KERNEL_BUFFERS];
        bind(f, c->instance, buf);
        d->launch(d, kernel, buf, c->instance->arg, c->instance->range, c->instance->grain);
        return;
    }
    int64_t chunks = 0, work = 0;
    for (int64_t k = 0; k < c->n_instances; k++) {
        chunks += chunks_of(&c->instance[k]);
        work += c->instance[k].range >= c->instance[k].grain;
    }
    crowd all = {.f = f, .call = c, .kernel = kernel};
    /* Mostly small pieces: a few of them together are worth a thread. */
    d->launch(d, run_crowd, (void *[]){&all}, NULL, chunks, work ? 1 : 8);
}

/* ---- operators ---- */

static int run_eval(const hod_program *p, const hod_program_call *c, const frame *f)
{
    const hod_node *n = hod__node(p->g, c->node);
    for (int i = 0; i < c->n_operands; i++)
        c->operand[i]->storage->data = address(f, &c->at[i]);
    hod_tensor *out = c->operand[c->n_operands - 1];
    hod_tensor *const *in = c->operand;
    if (n->op == HOD_OP_assign)
        return hod__op_eval_into(HOD_OP_contiguous, &(hod_attrs){0}, 1, &in[1], out);
    if (n->op == HOD_OP_accumulate && c->slot >= 0 && f->slots[c->slot]->present)
        return hod__op_eval_into(HOD_OP_add, &(hod_attrs){0}, 2, in, out);
    if (n->op == HOD_OP_accumulate)
        return hod__op_eval_into(HOD_OP_contiguous, &(hod_attrs){0}, 1, &in[1], out);
    return hod__op_eval_into((hod_op)n->op, &n->attrs, n->n_in, in, out);
}

static int run_call(const hod_program *p, const hod_program_call *c, const frame *f)
{
    float beta = c->slot >= 0 && c->kind != HOD_CALL_KERNEL && f->slots[c->slot]->present ? 1 : 0;
    switch (c->kind) {
    case HOD_CALL_KERNEL: run_kernel(p, c, f); return 0;
    case HOD_CALL_CONV:
        return hod__dnn_run_conv(c->conv, address(f, &c->in[0]), address(f, &c->in[1]),
                                 address(f, &c->out), beta, address(f, &c->scratch));
    case HOD_CALL_MATMUL:
        return hod__dnn_matmul(&c->matmul, address(f, &c->in[0]), address(f, &c->in[1]),
                               address(f, &c->out), beta);
    default: return run_eval(p, c, f);
    }
}

int hod__program_run(hod_program *p, void *arena, hod_tensor *const *in,
                     hod_grad_slot *const *slots, void *const *out)
{
    frame f = {.arena = arena, .in = in, .slots = slots, .out = out};
    for (int64_t c = 0; c < p->n_calls; c++)
        if (run_call(p, &p->call[c], &f))
            return -1;
    for (int64_t i = 0; i < p->g->n_inputs; i++)
        if (p->writes_slot[i])
            slots[i]->present = true;
    return 0;
}

/* ---- reports ---- */

hod_program_stats hod__program_stats(const hod_program *p)
{
    return p->stats;
}

static void print_spot(const hod_program *p, const hod_spot *w, hod_text *out)
{
    if (w->space == HOD_PLACE_INPUT)
        hod__text(out, " %s", p->g->inputs[w->index].name);
    else if (w->space == HOD_PLACE_OUTPUT)
        hod__text(out, " out%d", w->index);
    else if (w->space == HOD_PLACE_ARENA)
        hod__text(out, " @%lld", (long long)w->offset);
}

static void print_call(const hod_program *p, const hod_program_call *c, hod_text *out)
{
    hod__text(out, "  %%%d = ", c->node);
    if (c->kind == HOD_CALL_KERNEL) {
        hod__text(out, "%s", p->sources[c->source].name);
        for (int64_t k = 0; k < c->n_instances && k < 4; k++) {
            hod__text(out, k ? " |" : "");
            for (int i = 0; i < c->instance[k].n_bufs; i++)
                print_spot(p, &c->instance[k].buf[i], out);
            hod__text(out, " [%lld/%lld]", (long long)c->instance[k].range,
                      (long long)c->instance[k].grain);
        }
        if (c->n_instances > 4)
            hod__text(out, " ... %lld instances", (long long)c->n_instances);
    } else {
        const hod_node *n = hod__node(p->g, c->node);
        bool folded = hod__op_info[n->op].class == HOD_EFFECT && c->kind != HOD_CALL_EVAL;
        if (folded)
            n = hod__node(p->g, hod__node_in(p->g, c->node)[1]);
        hod__text(out, "%s%s%s", hod__op_info[n->op].name, c->kind == HOD_CALL_EVAL ? " eager" : "",
                  folded ? " +=" : "");
        for (int i = 0; i < 2; i++)
            print_spot(p, &c->in[i], out);
        for (int i = 0; i + 1 < c->n_operands; i++)
            print_spot(p, &c->at[i], out);
        hod__text(out, " ->");
        print_spot(p, &c->out, out);
        if (c->scratch.space)
            hod__text(out, " scratch @%lld", (long long)c->scratch.offset);
    }
    hod__text(out, "\n");
}

int hod__program_print(const hod_program *p, hod_text *out)
{
    hod__text(out, "program %s { # arena %lld bytes, %d kernel calls, %d library calls\n",
              p->g->name, (long long)p->stats.arena_bytes, p->stats.kernels,
              p->stats.library_calls);
    for (int64_t c = 0; c < p->n_calls; c++)
        print_call(p, &p->call[c], out);
    hod__text(out, "}\n");
    return out->failed ? -1 : 0;
}

int hod__program_print_kernels(const hod_program *p, hod_text *out)
{
    for (int64_t i = 0; i < p->n_sources; i++)
        hod__text(out, "%s\n", p->sources[i].text);
    return out->failed ? -1 : 0;
}

int hod__program_timeline(const hod_program *p, hod_text *out)
{
    const char **names = hod__alloc((size_t)p->n_buffers + 1, sizeof *names);
    if (!names)
        return -1;
    for (int64_t i = 0; i < p->n_buffers; i++)
        names[i] = hod__op_info[hod__node(p->g, p->buffer_node[i])->op].name;
    int rc = hod__timeline_svg(p->buffer, names, p->n_buffers, (int32_t)p->n_calls,
                               p->stats.arena_bytes, out);
    free(names);
    return rc;
}

void hod__program_free(hod_program *p)
{
    if (!p)
        return;
    for (int64_t c = 0; c < p->n_calls; c++) {
        hod_program_call *call = &p->call[c];
        for (int64_t k = 0; k < call->n_instances; k++) {
            free(call->instance[k].buf);
            free(call->instance[k].arg);
            free(call->instance[k].beta);
        }
        for (int i = 0; i < call->n_operands; i++) {
            if (call->operand && call->operand[i]) {
                call->operand[i]->storage->data = NULL; /* was never its own */
                hod_tensor_release(call->operand[i]);
            }
        }
        free(call->instance);
        free(call->operand);
        free(call->at);
        hod__dnn_free(call->conv);
    }
    for (int64_t i = 0; i < p->n_sources; i++) {
        free((char *)p->sources[i].name);
        free((char *)p->sources[i].text);
    }
    free(p->call);
    free(p->sources);
    free(p->kernel);
    free(p->buffer);
    free(p->buffer_node);
    free(p->writes_slot);
    hod__graph_free(p->g);
    free(p);
}
