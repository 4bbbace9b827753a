/* Convolutions through oneDNN.
 *
 * A prepared convolution is up to three primitives and the memory objects between them:
 *
 *     FORWARD, INPUT_GRADIENT     w (plain) -> [reorder] -> w' -> [conv] -> out
 *     WEIGHT_GRADIENT             [conv] -> dw' -> [reorder, + out when beta is 1] -> out (plain)
 *
 * The library picks the format of w' (it is asked for "any"); where that is the plain one, the
 * reorder falls away. w' and the library's own work space lie in the caller's scratch:
 *
 *     scratch   | library's work space | w' or dw' | staged images |
 *
 * The reorder's work space is the convolution's, since they run one after the other.
 *
 * Images that come plain are staged: copied in scratch to the blocked layout, which costs a pass
 * over the image. Windows larger than one pixel are 2 to 20 times faster so, the copies included;
 * those of one pixel are not, but then add their channels in the order of compiled programs, whose
 * images are blocked. Groups of fewer channels than a block are staged in blocks of 8 or 4. Not
 * every pair of layouts has a fast implementation; those without run a reference loop, three
 * thousand times slower (measured), so others are tried first.
 *
 * A primitive is built for the thread count it was prepared under; a run sets that count.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/dnn_engine.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>

/* A primitive, the memory objects of its arguments, and the argument list that names them. */
typedef struct call {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[4];
    int n;
    int64_t workspace; /* bytes of scratchpad */
} call;

/* An image whose layout the library does not get to see: copied on its way in or out. */
typedef struct stage {
    bool on;
    int64_t c, h, w, bytes;
    int outside, inside; /* channels in a block */
    int64_t at;          /* in scratch */
} stage;

struct hod_dnn {
    pthread_mutex_t lock; /* guards the addresses in the memory objects */
    hod_dnn_conv_kind kind;
    int threads;
    bool empty;           /* n is 0: nothing to compute but a zero weight gradient */
    int64_t weight_bytes; /* of the plain weights */
    int64_t scratch, weights_at;
    int64_t n;
    hod_dtype dtype;
    stage a_stage, b_stage, out_stage;
    dnnl_memory_t a, b, out; /* the caller's, or staged; weights plain */
    dnnl_memory_t own;       /* w' or dw' in scratch; NULL when plain suits the library */
    dnnl_memory_t workspace; /* at scratch, as large as the largest call wants */
    call conv;
    call reorder;     /* w -> w', or dw' -> out */
    call reorder_add; /* out += dw' */
};

/* ---- geometry ---- */

static int64_t out_size(int64_t size, int64_t before, int64_t after, int64_t dilation, int64_t k,
                        int64_t stride)
{
    if (size < 0 || before < 0 || after < 0 || dilation < 1 || k < 1 || stride < 1)
        return -1;
    int64_t free_steps = size + before + after - dilation * (k - 1) - 1;
    return free_steps < 0 ? -1 : free_steps / stride + 1;
}

int64_t hod__conv_out_h(const hod_conv_geometry *g)
{
    return out_size(g->h, g->padding[0], g->padding[2], g->dilation[0], g->kh, g->stride[0]);
}

int64_t hod__conv_out_w(const hod_conv_geometry *g)
{
    return out_size(g->w, g->padding[1], g->padding[3], g->dilation[1], g->kw, g->stride[1]);
}

static int check_geometry(const hod_conv_geometry *g)
{
    if (g->n < 0 || g->ci < 1 || g->co < 1 || g->groups < 1 || g->ci % g->groups ||
        g->co % g->groups)
        return HOD_FAIL_RC(ARGUMENT, "conv2d: %lld to %lld channels in %lld groups",
                           (long long)g->ci, (long long)g->co, (long long)g->groups);
    if (g->dtype != HOD_F32 && g->dtype != HOD_BF16)
        return HOD_FAIL_RC(ARGUMENT, "conv2d: the library takes f32 and bf16");
    if (hod__conv_out_h(g) < 1 || hod__conv_out_w(g) < 1)
        return HOD_FAIL_RC(ARGUMENT, "conv2d: a (%lld,%lld) window does not fit (%lld,%lld)",
                           (long long)g->kh, (long long)g->kw, (long long)g->h, (long long)g->w);
    return 0;
}

/* Channels in a block of either image; 1: plain. */
typedef struct layouts {
    int image, out;
} layouts;

static int check_layouts(const hod_conv_geometry *g, hod_layout image, hod_layout out)
{
    if ((image == HOD_LAYOUT_PLAIN || hod__dnn_can_block(g->ci)) &&
        (out == HOD_LAYOUT_PLAIN || hod__dnn_can_block(g->co)))
        return 0;
    return HOD_FAIL_RC(ARGUMENT,
                       "conv2d: %lld to %lld channels, blocked layouts want multiples of %d",
                       (long long)g->ci, (long long)g->co, hod__dnn_block());
}

/* ---- descriptions ---- */

/* What oneDNN knows of a geometry: x, w, y and the window. */
typedef struct picture {
    dnnl_memory_desc_t x, y, w_any, w_plain;
    dnnl_dims_t stride, dilation, before, after;
} picture;

static int draw(picture *p, const hod_conv_geometry *g, layouts l)
{
    *p = (picture){.stride = {g->stride[0], g->stride[1]},
                   .dilation = {g->dilation[0] - 1, g->dilation[1] - 1},
                   .before = {g->padding[0], g->padding[1]},
                   .after = {g->padding[2], g->padding[3]}};
    hod_dtype dtype = (hod_dtype)g->dtype;
    if (hod__dnn_image(&p->x, g->n, g->ci, g->h, g->w, dtype, l.image) ||
        hod__dnn_image(&p->y, g->n, g->co, hod__conv_out_h(g), hod__conv_out_w(g), dtype, l.out))
        return -1;
    dnnl_data_type_t type = dtype == HOD_F32 ? dnnl_f32 : dnnl_bf16;
    int64_t ci = g->ci / g->groups, co = g->co / g->groups;
    bool grouped = g->groups > 1;
    dnnl_dims_t dense = {co, ci, g->kh, g->kw}, groups = {g->groups, co, ci, g->kh, g->kw};
    int n = grouped ? 5 : 4;
    dnnl_dim_t *dims = grouped ? groups : dense;
    if (hod__dnn_check(dnnl_memory_desc_init_by_tag(&p->w_any, n, dims, type, dnnl_format_tag_any),
                       "conv2d"))
        return -1;
    return hod__dnn_check(
        dnnl_memory_desc_init_by_tag(&p->w_plain, n, dims, type, grouped ? dnnl_goihw : dnnl_oihw),
        "conv2d");
}

/* An attribute that keeps the library's work space in our hands; with `add`, the result is added
 * to what is there. */
static dnnl_primitive_attr_t attribute(bool add)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s = dnnl_primitive_attr_create(&attr);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (s == dnnl_success && add) {
        s = dnnl_post_ops_create(&ops);
        if (s == dnnl_success)
            s = dnnl_post_ops_append_sum(ops, 1.0f);
        if (s == dnnl_success)
            s = dnnl_primitive_attr_set_post_ops(attr, ops);
        if (ops)
            dnnl_post_ops_destroy(ops);
    }
    if (s == dnnl_success)
        return attr;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    hod__dnn_check(s, "conv2d");
    return NULL;
}

/* The library's implementation of one kind for these descriptions; NULL with an error. */
static dnnl_primitive_desc_t describe(hod_dnn_conv_kind kind, const picture *p)
{
    dnnl_engine_t engine = hod__dnn_engine();
    dnnl_primitive_attr_t attr = engine ? attribute(false) : NULL;
    if (!attr)
        return NULL;
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_desc_t hint = NULL, chosen = NULL;
    dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(
        &forward, dnnl_forward_training, dnnl_convolution_direct, &p->x, &p->w_any, NULL, &p->y,
        p->stride, p->dilation, p->before, p->after);
    if (s == dnnl_success)
        s = dnnl_primitive_desc_create(&hint, &forward, attr, engine, NULL);
    if (s == dnnl_success && kind == HOD_CONV_INPUT_GRADIENT)
        s = dnnl_dilated_convolution_backward_data_desc_init(&backward, dnnl_convolution_direct,
                                                             &p->x, &p->w_any, &p->y, p->stride,
                                                             p->dilation, p->before, p->after);
    if (s == dnnl_success && kind == HOD_CONV_WEIGHT_GRADIENT)
        s = dnnl_dilated_convolution_backward_weights_desc_init(
            &backward, dnnl_convolution_direct, &p->x, &p->w_any, NULL, &p->y, p->stride,
            p->dilation, p->before, p->after);
    if (s == dnnl_success && kind != HOD_CONV_FORWARD)
        s = dnnl_primitive_desc_create(&chosen, &backward, attr, engine, hint);
    if (kind == HOD_CONV_FORWARD) {
        chosen = hint;
        hint = NULL;
    }
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    dnnl_primitive_attr_destroy(attr);
    return hod__dnn_check(s, "conv2d") ? NULL : chosen;
}

static bool is_reference(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           name && strstr(name, "ref");
}

/* Groups of fewer channels than a block: what divides theirs; 1 when nothing does. */
static int narrow_block(const hod_conv_geometry *g)
{
    int block = hod__dnn_block() / 2;
    while (block > 1 && (g->ci / g->groups % block || g->co / g->groups % block))
        block /= 2;
    return g->groups > 1 && block >= 4 ? block : 1;
}

/* Chooses the layouts that the library sees, the first that are fast, and fills *pic for them. NULL
 * with an error. */
static dnnl_primitive_desc_t choose(hod_dnn_conv_kind kind, const hod_conv_geometry *g,
                                    layouts outside, layouts *inside, picture *pic)
{
    const layouts plain = {1, 1};
    const layouts blocked = {hod__dnn_can_block(g->ci) ? hod__dnn_block() : 1,
                             hod__dnn_can_block(g->co) ? hod__dnn_block() : 1};
    int narrow = outside.image == 1 && outside.out == 1 ? narrow_block(g) : 1;
    const layouts narrowed = narrow > 1 ? (layouts){narrow, narrow} : blocked;
    const layouts tries[] = {blocked, narrowed, outside, plain, blocked};
    for (int i = 0; i < HOD_COUNT(tries); i++) {
        if (draw(pic, g, tries[i]))
            return NULL;
        dnnl_primitive_desc_t pd = describe(kind, pic);
        if (!pd || !is_reference(pd) || i == HOD_COUNT(tries) - 1) {
            *inside = tries[i];
            return pd;
        }
        dnnl_primitive_desc_destroy(pd);
    }
    return NULL;
}

/* ---- preparing ---- */

static int64_t round_up_64(int64_t n)
{
    return (n + 63) & ~(int64_t)63;
}

static int memory_new(dnnl_memory_t *m, const dnnl_memory_desc_t *md)
{
    return hod__dnn_check(dnnl_memory_create(m, md, hod__dnn_engine(), DNNL_MEMORY_NONE), "conv2d");
}

static void call_arg(call *c, int name, dnnl_memory_t m)
{
    c->args[c->n++] = (dnnl_exec_arg_t){name, m};
}

/* Builds the primitive of pd, and notes its work space. */
static int call_build(call *c, const_dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    c->workspace = pad ? (int64_t)dnnl_memory_desc_get_size(pad) : 0;
    return hod__dnn_check(dnnl_primitive_create(&c->primitive, pd), "conv2d");
}

static int reorder_build(call *c, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                         dnnl_memory_t in, dnnl_memory_t out, bool add)
{
    dnnl_primitive_attr_t attr = attribute(add);
    if (!attr)
        return -1;
    dnnl_engine_t e = hod__dnn_engine();
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = dnnl_reorder_primitive_desc_create(&pd, from, e, to, e, attr);
    dnnl_primitive_attr_destroy(attr);
    if (hod__dnn_check(s, "conv2d"))
        return -1;
    call_arg(c, DNNL_ARG_FROM, in);
    call_arg(c, DNNL_ARG_TO, out);
    int rc = call_build(c, pd);
    dnnl_primitive_desc_destroy(pd);
    return rc;
}

/* The primitives around the chosen implementation and the memory objects they share. */
static int assemble(hod_dnn *p, const picture *pic, const_dnnl_primitive_desc_t pd)
{
    bool gradient = p->kind == HOD_CONV_WEIGHT_GRADIENT;
    const dnnl_memory_desc_t *w = dnnl_primitive_desc_query_md(
        pd, gradient ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    bool plain = dnnl_memory_desc_equal(w, &pic->w_plain);
    const dnnl_memory_desc_t *a = p->kind == HOD_CONV_INPUT_GRADIENT ? &pic->y : &pic->x;
    const dnnl_memory_desc_t *b = gradient ? &pic->y : &pic->w_plain;
    const dnnl_memory_desc_t *out = gradient                             ? &pic->w_plain
                                    : p->kind == HOD_CONV_INPUT_GRADIENT ? &pic->x
                                                                         : &pic->y;
    if (memory_new(&p->a, a) || memory_new(&p->b, b) || memory_new(&p->out, out))
        return -1;
    /* Adding to a gradient needs somewhere to put the addend, whatever its format. */
    if ((!plain || gradient) && memory_new(&p->own, w))
        return -1;

    call *c = &p->conv;
    dnnl_memory_t weights = p->own ? p->own : p->b;
    if (p->kind == HOD_CONV_FORWARD) {
        call_arg(c, DNNL_ARG_SRC, p->a);
        call_arg(c, DNNL_ARG_WEIGHTS, weights);
        call_arg(c, DNNL_ARG_DST, p->out);
    } else if (gradient) {
        call_arg(c, DNNL_ARG_SRC, p->a);
        call_arg(c, DNNL_ARG_DIFF_DST, p->b);
        call_arg(c, DNNL_ARG_DIFF_WEIGHTS, p->own);
    } else {
        call_arg(c, DNNL_ARG_DIFF_DST, p->a);
        call_arg(c, DNNL_ARG_WEIGHTS, weights);
        call_arg(c, DNNL_ARG_DIFF_SRC, p->out);
    }
    if (call_build(c, pd))
        return -1;
    if (gradient) {
        if ((!plain && reorder_build(&p->reorder, w, &pic->w_plain, p->own, p->out, false)) ||
            reorder_build(&p->reorder_add, w, &pic->w_plain, p->own, p->out, true))
            return -1;
    } else if (p->own && reorder_build(&p->reorder, &pic->w_plain, w, p->b, p->own, false)) {
        return -1;
    }

    int64_t workspace = HOD_MAX(c->workspace, p->reorder.workspace);
    workspace = HOD_MAX(workspace, p->reorder_add.workspace);
    p->weights_at = round_up_64(workspace);
    p->scratch = p->weights_at + (p->own ? round_up_64((int64_t)dnnl_memory_desc_get_size(w)) : 0);
    p->weight_bytes = (int64_t)dnnl_memory_desc_get_size(&pic->w_plain);
    if (workspace == 0)
        return 0;
    dnnl_memory_desc_t bytes;
    if (hod__dnn_check(
            dnnl_memory_desc_init_by_tag(&bytes, 1, (dnnl_dims_t){workspace}, dnnl_u8, dnnl_a),
            "conv2d") ||
        memory_new(&p->workspace, &bytes))
        return -1;
    call_arg(&p->conv, DNNL_ARG_SCRATCHPAD, p->workspace);
    call_arg(&p->reorder, DNNL_ARG_SCRATCHPAD, p->workspace);
    call_arg(&p->reorder_add, DNNL_ARG_SCRATCHPAD, p->workspace);
    return 0;
}

static void stage_image(hod_dnn *p, stage *s, int64_t c, int64_t h, int64_t w, int outside,
                        int inside)
{
    if (outside == inside)
        return;
    int64_t bytes = p->n * c * h * w * (p->dtype == HOD_F32 ? 4 : 2);
    *s = (stage){true, c, h, w, bytes, outside, inside, p->scratch};
    p->scratch += round_up_64(bytes);
}

/* Stages whichever of the two images the library wants otherwise than they come. */
static void stage_images(hod_dnn *p, const hod_conv_geometry *g, layouts outside, layouts inside)
{
    stage *x = p->kind == HOD_CONV_INPUT_GRADIENT ? &p->out_stage : &p->a_stage;
    stage *y = p->kind == HOD_CONV_FORWARD          ? &p->out_stage
               : p->kind == HOD_CONV_INPUT_GRADIENT ? &p->a_stage
                                                    : &p->b_stage;
    stage_image(p, x, g->ci, g->h, g->w, outside.image, inside.image);
    stage_image(p, y, g->co, hod__conv_out_h(g), hod__conv_out_w(g), outside.out, inside.out);
}

hod_dnn *hod__dnn_conv(hod_dnn_conv_kind kind, const hod_conv_geometry *g, hod_layout image,
                       hod_layout out)
{
    if (check_geometry(g) || check_layouts(g, image, out))
        return NULL;
    layouts outside = {image == HOD_LAYOUT_PLAIN ? 1 : hod__dnn_block(),
                       out == HOD_LAYOUT_PLAIN ? 1 : hod__dnn_block()};
    layouts inside = outside;
    hod_dnn *p = hod__alloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    p->kind = kind;
    p->n = g->n;
    p->dtype = (hod_dtype)g->dtype;
    p->threads = hod__cpu()->threads;
    p->empty = g->n == 0 || g->h == 0 || g->w == 0;
    p->weight_bytes = g->co * (g->ci / g->groups) * g->kh * g->kw * (g->dtype == HOD_F32 ? 4 : 2);
    if (p->empty)
        return p;
    int before = hod__dnn_team(p->threads);
    picture pic;
    dnnl_primitive_desc_t pd = NULL;
    int rc = before < 0 ? -1 : 0;
    if (rc == 0)
        rc = (pd = choose(kind, g, outside, &inside, &pic)) ? assemble(p, &pic, pd) : -1;
    if (rc == 0)
        stage_images(p, g, outside, inside);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (before > 0)
        hod__dnn_team(before);
    if (rc == 0)
        return p;
    hod__dnn_free(p);
    return NULL;
}

void hod__dnn_free(hod_dnn *p)
{
    if (!p)
        return;
    call *calls[] = {&p->conv, &p->reorder, &p->reorder_add};
    for (int i = 0; i < HOD_COUNT(calls); i++)
        if (calls[i]->primitive)
            dnnl_primitive_destroy(calls[i]->primitive);
    dnnl_memory_t memories[] = {p->a, p->b, p->out, p->own, p->workspace};
    for (int i = 0; i < HOD_COUNT(memories); i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int64_t hod__dnn_scratch(const hod_dnn *p)
{
    return p->scratch;
}

/* ---- running ---- */

static dnnl_status_t call_run(const call *c)
{
    return c->primitive ? dnnl_primitive_execute(c->primitive, hod__dnn_stream(), c->n, c->args)
                        : dnnl_success;
}

static dnnl_status_t set(dnnl_memory_t m, const void *p)
{
    return m ? dnnl_memory_set_data_handle(m, (void *)(uintptr_t)p) : dnnl_success;
}

/* Copies a staged image in and returns where it lies now; an image as it should be stays. */
static const void *stage_in(const hod_dnn *p, const stage *s, const void *image, char *scratch)
{
    if (!s->on)
        return image;
    hod__dnn_reblock(p->dtype, p->n, s->c, s->h * s->w, s->outside, image, s->inside,
                     scratch + s->at);
    return scratch + s->at;
}

static dnnl_status_t run_locked(const hod_dnn *p, const void *a, const void *b, void *out, bool add,
                                char *scratch)
{
    bool gradient = p->kind == HOD_CONV_WEIGHT_GRADIENT;
    /* A gradient that the library writes plainly goes straight to its place. */
    bool direct = gradient && !add && !p->reorder.primitive;
    const stage *o = &p->out_stage;
    dnnl_status_t s = set(p->a, stage_in(p, &p->a_stage, a, scratch));
    if (s == dnnl_success)
        s = set(p->b, stage_in(p, &p->b_stage, b, scratch));
    if (s == dnnl_success)
        s = set(p->out, o->on ? scratch + o->at : out);
    if (s == dnnl_success)
        s = set(p->own, direct ? out : scratch ? scratch + p->weights_at : NULL);
    if (s == dnnl_success)
        s = set(p->workspace, scratch);
    if (s == dnnl_success && !gradient)
        s = call_run(&p->reorder);
    if (s == dnnl_success)
        s = call_run(&p->conv);
    if (s == dnnl_success && gradient)
        s = call_run(add ? &p->reorder_add : &p->reorder);
    if (s == dnnl_success && o->on)
        hod__dnn_reblock(p->dtype, p->n, o->c, o->h * o->w, o->inside, scratch + o->at, o->outside,
                         out);
    return s;
}

int hod__dnn_run_conv(const hod_dnn *p, const void *a, const void *b, void *out, float beta,
                      void *scratch)
{
    bool gradient = p->kind == HOD_CONV_WEIGHT_GRADIENT;
    if (beta != 0.0f && (beta != 1.0f || !gradient))
        return HOD_FAIL_RC(ARGUMENT, "conv2d: beta %g", (double)beta);
    if (p->empty) {
        if (gradient && beta == 0.0f)
            memset(out, 0, (size_t)p->weight_bytes);
        return 0;
    }
    if (p->scratch && !scratch)
        return HOD_FAIL_RC(ARGUMENT, "conv2d: %lld bytes of scratch wanted", (long long)p->scratch);
    int before = hod__dnn_team(p->threads);
    if (before < 0)
        return -1;
    hod_dnn *q = (hod_dnn *)(uintptr_t)p; /* the lock and the addresses it guards */
    pthread_mutex_lock(&q->lock);
    dnnl_status_t s = run_locked(p, a, b, out, beta != 0.0f, scratch);
    pthread_mutex_unlock(&q->lock);
    hod__dnn_team(before);
    return hod__dnn_check(s, "conv2d");
}
