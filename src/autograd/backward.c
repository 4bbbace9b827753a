/* Backward as users call it: what to start with, and where gradients are to go.
 *
 * hod_backward sends them to the leaves, hod_grad_of hands those of chosen tensors over and touches
 * nothing else. The way between is backward_run.c.
 */
#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/ops.h>

/* The gradient to start with, checked against t. */
static hod_tensor *seed(const char *who, hod_tensor *t, hod_tensor *g)
{
    if (hod__null(who, "the result", t) ||
        hod__null(who, "the gradient to start with (HOD_ONES for a single value)", g))
        return NULL;
    if (hod__gone(who, t) || (g != HOD_ONES && hod__gone(who, g)))
        return NULL;
    if (hod__tape_mode.inference)
        return HOD_FAIL(STATE, "%s: called in an inference scope", who);
    if (!t->requires_grad)
        return HOD_FAIL(STATE, "%s: %s does not depend on anything that requires a gradient", who,
                        HOD_SHAPE_TEXT(t));
    hod_meta m = hod__meta(t);
    if (g == HOD_ONES) {
        if (hod_tensor_numel(t) != 1)
            return HOD_FAIL(ARGUMENT,
                            "%s: %s is not a single value; give the gradient of its elements", who,
                            HOD_SHAPE_TEXT(t));
        return hod__full_like_meta(&m, 1);
    }
    if (!hod__same_sizes(g->ndim, g->shape, t->ndim, t->shape))
        return HOD_FAIL(ARGUMENT, "%s: a gradient of %s for a result of %s", who, HOD_SHAPE_TEXT(g),
                        HOD_SHAPE_TEXT(t));
    return g->dtype == t->dtype ? g : hod_cast(g, (hod_dtype)t->dtype);
}

/* Seeds for n results into s, owned by the innermost scope; gradients NULL: ones. 0 or -1. */
static int make_seeds(const char *who, int n, hod_tensor *const *t, hod_tensor *const *gradients,
                      hod_tensor **s)
{
    if (n < 1 || n > HOD_OP_MAX_INPUTS)
        return HOD_FAIL_RC(ARGUMENT, "%s: %d results, 1 to %d are possible", who, n,
                           HOD_OP_MAX_INPUTS);
    if (hod__null(who, "the array of results", t))
        return -1;
    for (int i = 0; i < n; i++)
        if (!(s[i] = seed(who, t[i], gradients ? gradients[i] : HOD_ONES)))
            return -1;
    return 0;
}

static int backward_body(int n, hod_tensor *const *t, hod_tensor *const *gradients,
                         const hod_backward_spec *spec)
{
    HOD_SCOPE(scope);
    hod_tensor *s[HOD_OP_MAX_INPUTS];
    if (make_seeds("backward", n, t, gradients, s) != 0)
        return -1;
    hod_backward_job job = {.visit = hod__backward_visit(),
                            .n = n,
                            .from = t,
                            .gradient = s,
                            .retain = spec->retain_graph,
                            .create = spec->create_graph};
    return hod__backward_run(&job);
}

int hod_backward_make(hod_tensor *t, const hod_backward_spec *spec)
{
    if (hod__null("backward", "tensor", t))
        return -1;
    if (spec->gradient != HOD_ONES || hod__anomaly || hod__hooks_exist()) {
        hod__tape_wanted();
        return backward_body(1, &t, &spec->gradient, spec);
    }
    /* Its operators follow from the graph of t and the options alone: a replay may skip them. */
    uint64_t key = (uint64_t)spec->retain_graph | (uint64_t)spec->create_graph << 1;
    if (hod__span_begin("backward", key, t))
        return 0;
    int rc = backward_body(1, &t, NULL, spec);
    hod__span_end("backward");
    return rc;
}

int hod_backward(hod_tensor *loss)
{
    return hod_backward_with(loss, HOD_ONES);
}

int hod_backward_many_make(int n, hod_tensor *const *results, hod_tensor *const *gradients,
                           const hod_backward_spec *spec)
{
    hod__tape_wanted();
    return backward_body(n, results, gradients, spec);
}

/* ---- gradients of chosen inputs ---- */

/* What a tensor was to a hod_grad_of around this one. */
typedef struct aim {
    int64_t target;
    uint64_t visit;
} aim;

static int set_targets(uint64_t visit, int n, hod_tensor *const *inputs, aim *before)
{
    for (int i = 0; i < n; i++) {
        if (hod__null("grad_of", "an input", inputs[i]))
            return -1;
        if (!inputs[i]->requires_grad)
            return HOD_FAIL_RC(ARGUMENT, "grad_of: input %d %s does not require a gradient", i,
                               HOD_SHAPE_TEXT(inputs[i]));
        struct hod_grad_meta *m = hod__grad_meta(inputs[i]);
        if (!m)
            return -1;
        if (m->target_visit == visit)
            return HOD_FAIL_RC(ARGUMENT, "grad_of: inputs %d and %d are the same tensor",
                               (int)m->target - 1, i);
        before[i] = (aim){m->target, m->target_visit};
        m->target = i + 1;
        m->target_visit = visit;
    }
    return 0;
}

static void clear_targets(uint64_t visit, int n, hod_tensor *const *inputs, const aim *before)
{
    for (int i = 0; i < n; i++) {
        struct hod_grad_meta *m = inputs[i] ? inputs[i]->autograd : NULL;
        if (m && m->target_visit == visit && m->target == i + 1) {
            m->target = before[i].target;
            m->target_visit = before[i].visit;
        }
    }
}

static int grad_of_body(uint64_t visit, int m, hod_tensor *const *y, hod_tensor *const *gradients,
                        int n, hod_tensor **out, const hod_grad_of_spec *spec)
{
    HOD_SCOPE(scope);
    hod_tensor *s[HOD_OP_MAX_INPUTS];
    if (make_seeds("grad_of", m, y, gradients, s) != 0)
        return -1;
    hod_backward_job job = {.visit = visit,
                            .n = m,
                            .from = y,
                            .gradient = s,
                            .retain = spec->retain_graph,
                            .create = spec->create_graph,
                            .targets = n,
                            .out = out};
    return hod__backward_run(&job);
}

int hod_grad_of_many_make(int m, hod_tensor *const *y, hod_tensor *const *gradients, int n,
                          hod_tensor *const *inputs, hod_tensor **out, const hod_grad_of_spec *spec)
{
    if (hod__null("grad_of", "the array of inputs", inputs) ||
        hod__null("grad_of", "the array of gradients", out))
        return -1;
    for (int i = 0; i < n; i++)
        out[i] = NULL;
    if (n <= 0)
        return HOD_FAIL_RC(ARGUMENT, "grad_of: %d inputs", n);
    hod__tape_wanted();
    uint64_t visit = hod__backward_visit();
    aim *before = hod__alloc((size_t)n, sizeof *before);
    if (!before)
        return -1;
    int rc = set_targets(visit, n, inputs, before);
    if (rc == 0)
        rc = grad_of_body(visit, m, y, gradients, n, out, spec);
    clear_targets(visit, n, inputs, before);
    free(before);
    for (int i = 0; i < n; i++) {
        if (out[i]) {
            if (!(out[i] = hod__own(out[i])))
                rc = -1;
        } else if (rc == 0 && !spec->allow_unused) {
            rc = HOD_FAIL_RC(ARGUMENT,
                             "grad_of: the output does not depend on input %d %s; "
                             "use .allow_unused if that may be",
                             i, HOD_SHAPE_TEXT(inputs[i]));
        }
    }
    return rc;
}

int hod_grad_of_make(hod_tensor *y, int n, hod_tensor *const *inputs, hod_tensor **out,
                     const hod_grad_of_spec *spec)
{
    return hod_grad_of_many_make(1, &y, &spec->gradient, n, inputs, out, spec);
}
