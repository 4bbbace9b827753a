/* The dispatch: where every operator passes, and where tape and recorder listen.
 *
 *     replay ─(no)─> shape rule ─> view, or result ─> recorder notes it, or kernel runs ─> tape
 *
 * The result of a view shares its input's storage; that of an effect is the tensor it changes;
 * everything else gets a new row-major one, which under a recorder has no data yet.
 */
#include "base/scope.h"
#include "ops/rules.h"

_Thread_local hod_recorder *hod__recorder;
const hod_tape_hook *_Atomic hod__tape;
_Thread_local hod_tape_mode hod__tape_mode = {.enabled = true};
int (*hod__accumulate_hook)(hod_grad_slot *slot, hod_tensor *g);
int (*hod__span_begin_hook)(const char *kind, uint64_t key, hod_tensor *t);
void (*hod__span_end_hook)(const char *kind);

/* What a row without attributes gets, so that listeners need not ask. */
static const hod_attrs no_attrs;

const char *hod__op_name(const hod_op_call *c)
{
    return hod__op_info[c->op].name;
}

static int check_count(const hod_op_info *info, int n)
{
    if (info->arity >= 0 && n != info->arity)
        return HOD_FAIL_RC(ARGUMENT, "%s: %d inputs, %d wanted", info->name, n, info->arity);
    if (info->arity < 0 && (n < 1 || n > HOD_OP_MAX_INPUTS))
        return HOD_FAIL_RC(ARGUMENT, "%s: %d inputs, 1 to %d wanted", info->name, n,
                           HOD_OP_MAX_INPUTS);
    return 0;
}

/* The number and the device of inputs; types are the business of shape rules. */
static int check_inputs(const hod_op_call *c)
{
    const hod_op_info *info = &hod__op_info[c->op];
    if (check_count(info, c->n) != 0)
        return -1;
    for (int i = 1; i < c->n; i++)
        if (c->in[i]->storage->device != c->in[0]->storage->device)
            return HOD_FAIL_RC(ARGUMENT, "%s: inputs on %s and %s", info->name,
                               c->in[0]->storage->device->name, c->in[i]->storage->device->name);
    return 0;
}

static int shape_of(const hod_op_call *c, hod_meta *out)
{
    hod_meta in[HOD_OP_MAX_INPUTS];
    for (int i = 0; i < c->n; i++)
        in[i] = hod__meta(c->in[i]);
    memset(out, 0, sizeof *out);
    return hod__op_info[c->op].shape(c, in, out);
}

int hod__op_shape(hod_op op, const hod_attrs *attrs, int n, const hod_meta *in, hod_meta *out)
{
    hod_op_call c = {op, attrs ? attrs : &no_attrs, n, NULL};
    const hod_op_info *info = &hod__op_info[op];
    if (check_count(info, n) != 0)
        return -1;
    memset(out, 0, sizeof *out);
    return info->shape(&c, in, out);
}

static int realise_inputs(const hod_op_call *c)
{
    for (int i = 0; i < c->n; i++)
        if (!c->in[i]->storage->data && hod__realise(c->in[i]) != 0)
            return -1;
    return 0;
}

int hod__op_eval_into(hod_op op, const hod_attrs *attrs, int n, hod_tensor *const *in,
                      hod_tensor *out)
{
    hod_op_call c = {op, attrs ? attrs : &no_attrs, n, in};
    if (realise_inputs(&c) != 0 || (!out->storage->data && hod__realise(out) != 0))
        return -1;
    return hod__op_info[op].eval(&c, out);
}

/* A handle for the result, values still to come. Not owned by a scope. */
static hod_tensor *result_new(const hod_op_call *c, const hod_meta *meta)
{
    int64_t bytes = hod__meta_bytes(meta);
    if (bytes < 0)
        return NULL;
    hod_device *d = c->n > 0 ? c->in[0]->storage->device : hod__cpu();
    hod_storage *s = hod__recorder ? hod__storage_symbolic(d, bytes) : hod__storage_new(d, bytes);
    if (!s)
        return NULL;
    hod_tensor *out = hod__tensor_new(meta, s);
    hod__storage_release(s);
    return out;
}

static hod_tensor *view_new(const hod_op_call *c, const hod_meta *meta)
{
    hod_tensor *out = hod__tensor_alias(c->in[0]);
    if (!out)
        return NULL;
    out->ndim = (int8_t)meta->ndim;
    memcpy(out->shape, meta->shape, sizeof out->shape);
    if (hod__op_info[c->op].view(c, out) == 0)
        return out;
    hod_tensor_release(out);
    return NULL;
}

static int compute(const hod_op_call *c, hod_tensor *out)
{
    if (hod__recorder)
        return hod__recorder->note(hod__recorder, c, out);
    if (hod__op_info[c->op].class == HOD_VIEW)
        return 0;
    if (realise_inputs(c) != 0)
        return -1;
    return hod__op_info[c->op].eval(c, out);
}

static int note_on_tape(const hod_op_call *c, hod_tensor *out)
{
    if (!hod__tape_listens() || (hod__op_info[c->op].flags & HOD_OPF_NODIFF))
        return 0;
    for (int i = 0; i < c->n; i++)
        if (c->in[i]->requires_grad)
            return hod__tape->note(c, out);
    return 0;
}

/* A replayed handle may carry the mark of another time. */
static hod_tensor *mark(const hod_op_call *c, hod_tensor *out)
{
    hod_op_class class = hod__op_info[c->op].class;
    if (class != HOD_EFFECT)
        out->inference = hod__tape_mode.inference || (class == HOD_VIEW && c->in[0]->inference);
    return out;
}

hod_tensor *hod__op(hod_op op, const hod_attrs *attrs, int n, hod_tensor *const *in)
{
    for (int i = 0; i < n; i++)
        if (hod__null(hod__op_info[op].name, "an input", in[i]) ||
            hod__gone(hod__op_info[op].name, in[i]))
            return NULL;
    hod_op_call c = {op, attrs ? attrs : &no_attrs, n, in};
    if (hod__recorder) {
        hod_tensor *known = hod__recorder->replay(hod__recorder, &c);
        if (known)
            return mark(&c, known);
    }
    hod_meta meta;
    if (check_inputs(&c) != 0 || shape_of(&c, &meta) != 0)
        return NULL;
    bool effect = hod__op_info[op].class == HOD_EFFECT;
    hod_tensor *out = effect                               ? in[0]
                      : hod__op_info[op].class == HOD_VIEW ? view_new(&c, &meta)
                                                           : result_new(&c, &meta);
    if (!out)
        return NULL;
    mark(&c, out);
    if (compute(&c, out) != 0 || note_on_tape(&c, out) != 0) {
        if (!effect)
            hod_tensor_release(out);
        return NULL;
    }
    return effect ? out : hod__own(out);
}

/* ---- spans ---- */

int hod__span_begin(const char *kind, uint64_t key, hod_tensor *t)
{
    return hod__recorder && hod__span_begin_hook ? hod__span_begin_hook(kind, key, t) : 0;
}

void hod__span_end(const char *kind)
{
    if (hod__recorder && hod__span_end_hook)
        hod__span_end_hook(kind);
}

/* ---- effects ---- */

hod_tensor *hod__assign(hod_tensor *dst, hod_tensor *src)
{
    return hod__assign_by(dst, src, "assign");
}

hod_tensor *hod__assign_by(hod_tensor *dst, hod_tensor *src, const char *who)
{
    if (!dst || !src)
        return NULL;
    if (hod__overlaps_itself(dst))
        return HOD_FAIL(ARGUMENT, "assign: elements of %s share memory; copy it first",
                        HOD_SHAPE_TEXT(dst));
    if (hod__tape_listens() && hod__tape->check_write(dst, src) != 0)
        return NULL;
    HOD_SCOPE(s);
    hod_tensor *value = hod_expand(hod__cast_to(src, dst->dtype), hod_tensor_shape(dst));
    if (!hod__op(HOD_OP_assign, NULL, 2, (hod_tensor *[]){dst, value}))
        return NULL;
    hod__bump_by(dst, who);
    return dst;
}

int hod__shape_assign(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    *out = in[0];
    return hod__check_like(hod__op_name(c), &in[1], &in[0]);
}

int hod__shape_accumulate(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return hod__shape_assign(c, in, out);
}

/* True when the two may share memory and are not exactly the same elements. */
static bool tangled(const hod_tensor *a, const hod_tensor *b)
{
    return a->storage == b->storage &&
           (a->offset != b->offset ||
            memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides) != 0);
}

int hod__eval_assign(const hod_op_call *c, hod_tensor *out)
{
    hod_tensor *src = c->in[1];
    if (!tangled(src, out)) {
        hod__eval_copy(src, out);
        return 0;
    }
    hod_meta m = hod__meta(src);
    hod_tensor *copy = hod__eval_temporary(&m);
    if (!copy)
        return -1;
    hod__eval_copy(src, copy);
    hod__eval_copy(copy, out);
    hod_tensor_release(copy);
    return 0;
}

int hod__eval_accumulate(const hod_op_call *c, hod_tensor *out)
{
    hod_op_call add = {HOD_OP_add, c->attrs, 2, (hod_tensor *[]){out, c->in[1]}};
    return hod__eval_pointwise(&add, out);
}

/* The slot's buffer, made like g at its first use. */
static int slot_prepare(hod_grad_slot *slot, const hod_tensor *g)
{
    if (slot->sum)
        return 0;
    hod_meta m = hod__meta(g);
    slot->sum = hod__eval_temporary(&m);
    slot->present = false;
    return slot->sum ? 0 : -1;
}

int hod__accumulate(hod_grad_slot *slot, hod_tensor *g)
{
    if (!g)
        return -1;
    if (hod__recorder && hod__accumulate_hook)
        return hod__accumulate_hook(slot, g);
    if (slot_prepare(slot, g) != 0)
        return -1;
    hod_op op = slot->present ? HOD_OP_accumulate : HOD_OP_assign;
    hod_tensor *in[] = {slot->sum, g};
    hod_meta meta[] = {hod__meta(slot->sum), hod__meta(g)}, out;
    if (hod__op_shape(op, NULL, 2, meta, &out) != 0 ||
        hod__op_eval_into(op, NULL, 2, in, slot->sum) != 0)
        return -1;
    hod__bump_by(slot->sum, "accumulate");
    slot->present = true;
    return 0;
}

int hod__accumulate_value(hod_grad_slot *slot, hod_tensor *g)
{
    hod_tensor *sum =
        slot->present ? hod_add(slot->sum, g) : hod__op(HOD_OP_contiguous, NULL, 1, &g);
    if (!sum)
        return -1;
    hod_tensor_retain(sum);
    hod_tensor_release(slot->sum);
    slot->sum = sum;
    slot->present = true;
    return 0;
}
