/* What a tensor knows about gradients: whether it wants one, the one it has, who listens.
 *
 * A leaf's gradient lives in its slot (ops/op.h): a buffer and whether it holds anything. Clearing
 * marks it absent and keeps the buffer, so that a window's first micro-step writes into it and
 * nothing is ever zeroed.
 */
#include "autograd/autograd.h"

static atomic_int_fast64_t hooks_live;

hod_tensor *hod_requires_grad(hod_tensor *t, bool on)
{
    if (hod__null("requires_grad", "tensor", t))
        return NULL;
    if (on && !hod__is_float(t->dtype))
        return HOD_FAIL(ARGUMENT, "requires_grad: a tensor of %s has no gradient",
                        hod_dtype_name((hod_dtype)t->dtype));
    if (on && t->inference)
        return HOD_FAIL(STATE, "requires_grad: %s was made in an inference scope; use a copy of it",
                        HOD_SHAPE_TEXT(t));
    if (hod__has_grad_fn(t))
        return on ? t
                  : HOD_FAIL(STATE, "requires_grad: %s is the result of %s; detach it instead",
                             HOD_SHAPE_TEXT(t), t->autograd->grad_fn->from.name);
    if (on && !hod__grad_meta(t))
        return NULL;
    hod__tape_install();
    t->requires_grad = on;
    return t;
}

bool hod_tensor_requires_grad(const hod_tensor *t)
{
    return t && t->requires_grad;
}

bool hod_tensor_is_leaf(const hod_tensor *t)
{
    return t && !hod__has_grad_fn(t);
}

hod_tensor *hod_grad(const hod_tensor *t)
{
    return t && t->autograd && t->autograd->slot.present ? t->autograd->slot.sum : NULL;
}

void hod_zero_grad(hod_tensor *t)
{
    if (!t || !t->autograd)
        return;
    (void)hod__span_begin("clear", 0, NULL); /* a function that does this cannot be skipped whole */
    hod_grad_slot *slot = &t->autograd->slot;
    hod__rows_drop(t->autograd);
    slot->present = false;
    if (hod__has_grad_fn(slot->sum)) { /* a result of create_graph: not ours to write into */
        hod_tensor_release(slot->sum);
        slot->sum = NULL;
    }
}

int hod_retain_grad(hod_tensor *t)
{
    if (hod__null("retain_grad", "tensor", t))
        return -1;
    hod__tape_wanted();
    if (!t->requires_grad)
        return HOD_FAIL_RC(STATE, "retain_grad: %s requires no gradient", HOD_SHAPE_TEXT(t));
    if (hod__has_grad_fn(t))
        t->autograd->retain_grad = true;
    return 0;
}

hod_tensor *hod_detach(hod_tensor *t)
{
    if (hod__null("detach", "tensor", t))
        return NULL;
    hod_tensor *d = hod__own(hod__tensor_same(t));
    if (d)
        d->inference = t->inference;
    return d;
}

int hod_add_grad_hook(hod_tensor *t, hod_grad_hook *hook, void *context)
{
    if (hod__null("add_grad_hook", "tensor", t))
        return -1;
    if (!hook)
        return HOD_FAIL_RC(ARGUMENT, "add_grad_hook: no hook");
    hod__tape_wanted();
    if (!t->requires_grad)
        return HOD_FAIL_RC(STATE, "add_grad_hook: %s requires no gradient", HOD_SHAPE_TEXT(t));
    struct hod_grad_meta *m = hod__grad_meta(t);
    if (!m)
        return -1;
    hod_hooks *hooks = m->grad_fn ? &m->grad_fn->result[m->output].hooks : &m->hooks;
    hod_hook_entry *e = hod__push(&hooks->items, &hooks->n, &hooks->cap, sizeof *hooks->items);
    if (!e)
        return -1;
    *e = (hod_hook_entry){.call = hook, .context = context, .number = hooks->added++};
    atomic_fetch_add(&hooks_live, 1);
    return 0;
}

int hod_remove_grad_hook(hod_tensor *t, hod_grad_hook *hook, void *context)
{
    if (hod__null("remove_grad_hook", "tensor", t))
        return -1;
    hod__tape_wanted();
    struct hod_grad_meta *m = t->autograd;
    hod_hooks *hooks = !m ? NULL : m->grad_fn ? &m->grad_fn->result[m->output].hooks : &m->hooks;
    for (int64_t i = hooks ? hooks->n : 0; i-- > 0;) {
        if (hooks->items[i].call != hook || hooks->items[i].context != context)
            continue;
        memmove(&hooks->items[i], &hooks->items[i + 1],
                (size_t)(--hooks->n - i) * sizeof *hooks->items);
        atomic_fetch_sub(&hooks_live, 1);
        return 0;
    }
    return HOD_FAIL_RC(ARGUMENT, "remove_grad_hook: %s has no such hook", HOD_SHAPE_TEXT(t));
}

bool hod__hooks_exist(void)
{
    return atomic_load(&hooks_live) > 0;
}

void hod__hooks_free(hod_hooks *hooks)
{
    atomic_fetch_sub(&hooks_live, hooks->n);
    free(hooks->items);
    *hooks = (hod_hooks){0};
}
