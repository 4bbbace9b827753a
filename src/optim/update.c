/* One update, as data flow without a branch on values:
 *
 *     total = Σ g²  (f64)      norm = √total · factor      ok = isfinite(norm)
 *     c     = factor · min(1, clip / (norm + 1e-6))
 *     p', state' = rule(p, c g, state)
 *     p = ok ? p' : p          state = ok ? state' : state          ema likewise
 *
 * so that it can be recorded once and run as one program, and so that a window with a NaN in it
 * changes nothing. Squares are summed in f64: no f32 gradient overflows there, hence one pass over
 * the gradients serves both the norm and the finite check.
 *
 * Steps are counted for each parameter, as one that was absent did not take part; parameters with
 * the same count and decay (normally all) form a cohort and share the 0-d tensors of their rates.
 */
#include "optim/optim.h"
#include <math.h>

/* ---- prepare: what the host knows ---- */

static int cohort_of(hod_optimizer *o, const hod_optim_entry *e)
{
    for (int64_t i = 0; i < o->n_cohorts; i++)
        if (o->cohorts[i].step == e->step && o->cohorts[i].decays == e->decays)
            return (int)i;
    if (o->n_cohorts == o->made_cohorts) {
        hod_cohort *c =
            hod__push(&o->cohorts, &o->made_cohorts, &o->cap_cohorts, sizeof *o->cohorts);
        if (!c)
            return -1;
        for (int k = 0; k < HOD_RATES; k++)
            if (!(c->rate[k] = hod__optim_scalar_new(0)))
                return -1;
    }
    hod_cohort *c = &o->cohorts[o->n_cohorts];
    c->step = e->step;
    c->decays = e->decays;
    return (int)o->n_cohorts++;
}

int hod_update_prepare(hod_optimizer *o, const hod_update_spec *spec)
{
    if (hod__null("update", "optimizer", o) || hod__null("update", "spec", spec) || hod_error())
        return -1;
    if (!(spec->clip_norm >= 0))
        return HOD_FAIL_RC(ARGUMENT, "update: clip_norm = %g, must not be negative",
                           spec->clip_norm);
    const hod_optim_rule *rule = &hod__optim_rules[o->spec.kind];
    o->n_cohorts = 0;
    for (int64_t i = 0; i < o->n; i++)
        if ((o->entries[i].cohort = cohort_of(o, &o->entries[i])) < 0)
            return -1;
    for (int64_t i = 0; i < o->n_cohorts; i++) {
        const hod_cohort *c = &o->cohorts[i];
        double rate[HOD_RATES];
        rule->rates(&o->spec, c->step + 1, c->decays, rate);
        for (int k = 0; k < HOD_RATES; k++)
            if (hod__optim_scalar_set(c->rate[k], rate[k]) != 0)
                return -1;
    }
    return hod__optim_scalar_set(o->factor, spec->factor != 0 ? spec->factor : 1) == 0 &&
                   hod__optim_scalar_set(o->clip, spec->clip_norm) == 0 && hod__rows_prepare(o) == 0
               ? 0
               : -1;
}

/* ---- body: operators ---- */

hod_tensor *hod__gradients_square_sum(hod_optimizer *o)
{
    hod_tensor *total = NULL;
    for (int64_t i = 0; i < o->n; i++) {
        hod_tensor *g = hod_grad(o->entries[i].p);
        if (!g)
            continue;
        HOD_SCOPE(s);
        hod_tensor *wide = hod_cast(g, HOD_F64);
        hod_tensor *sum = hod_sum(hod_mul(wide, wide));
        total = hod_escape(total ? hod_add(total, sum) : sum);
        if (!total)
            return NULL;
    }
    return total;
}

static bool touch(hod_optimizer *o)
{
    bool any = false;
    for (int64_t i = 0; i < o->n; i++) {
        hod_optim_entry *e = &o->entries[i];
        e->by_rows = e->p->requires_grad && hod_grad_rows(e->p).rows;
        e->touched = e->by_rows || (e->p->requires_grad && hod_grad(e->p));
        any = any || e->touched;
    }
    return any;
}

/* What the operators of the body follow from, besides the weight. */
static uint64_t body_key(const hod_optimizer *o, const hod_update_spec *spec)
{
    struct {
        uint64_t id;
        int64_t n;
        uint64_t weight, clips;
        double constant[7];
    } head = {.id = o->id,
              .n = o->n,
              .weight = spec->weight != NULL,
              .clips = spec->clip_norm > 0,
              .constant = {o->spec.weight_decay, o->spec.momentum, o->spec.nesterov, o->spec.beta1,
                           o->spec.beta2, o->spec.eps, o->spec.ema}};
    uint64_t key = hod__hash(&head, sizeof head, 0);
    for (int64_t i = 0; i < o->n; i++) {
        const hod_optim_entry *e = &o->entries[i];
        int32_t part = e->by_rows ? -1 : e->touched ? 1 + 2 * e->cohort + e->decays : 0;
        key = hod__hash(&part, sizeof part, key);
    }
    return key;
}

/* What is wide enough for the parameter. */
hod_dtype hod__optim_work_dtype(const hod_tensor *p)
{
    return p->dtype == HOD_F64 ? HOD_F64 : HOD_F32;
}

static int store(hod_tensor *to, hod_tensor *value, hod_tensor *ok)
{
    HOD_SCOPE(s);
    hod_tensor *old = hod_cast(to, (hod_dtype)value->dtype);
    return hod__assign_by(to, hod_where(ok, value, old), "the optimizer's step") ? 0 : -1;
}

static int step_entry(hod_optimizer *o, hod_optim_entry *e, hod_tensor *coefficient, hod_tensor *ok)
{
    HOD_SCOPE(s);
    const hod_optim_rule *rule = &hod__optim_rules[o->spec.kind];
    hod_dtype type = hod__optim_work_dtype(e->p);
    hod_tensor *rate[HOD_RATES], *next[2] = {NULL, NULL};
    for (int k = 0; k < HOD_RATES; k++)
        rate[k] = hod_cast(o->cohorts[e->cohort].rate[k], type);
    hod_tensor *p = hod_cast(e->p, type), *g = hod_cast(hod_grad(e->p), type);
    g = hod_mul(g, hod_cast(coefficient, type));
    if (!p || !g || !rate[0] || !rate[1] || !rate[2])
        return -1;
    hod_step step = {
        .spec = &o->spec, .p = p, .g = g, .state = e->state, .rate = rate, .decays = e->decays};
    hod_tensor *moved = rule->step(&step, next);
    if (!moved)
        return -1;
    hod_tensor *ema =
        e->ema ? hod_add(e->ema, hod_mul_scalar(hod_sub(moved, e->ema), 1 - o->spec.ema)) : NULL;
    if (e->ema && (!ema || store(e->ema, ema, ok) != 0))
        return -1;
    for (int k = 0; k < rule->states(&o->spec); k++)
        if (store(e->state[k], next[k], ok) != 0)
            return -1;
    return store(e->p, moved, ok);
}

static bool any_by_rows(const hod_optimizer *o)
{
    for (int64_t i = 0; i < o->n; i++)
        if (o->entries[i].by_rows)
            return true;
    return false;
}

static int body(hod_optimizer *o, const hod_update_spec *spec)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(n);
    hod_tensor *factor = o->factor;
    if (spec->weight)
        factor = hod_div(factor, hod_cast(spec->weight, HOD_F64));
    bool rows = any_by_rows(o);
    hod_tensor *total = hod__gradients_square_sum(o);
    if (rows && !hod_error())
        total = total ? hod_add(total, o->rows_square) : o->rows_square;
    hod_tensor *norm = hod_mul(hod_sqrt(total), factor);
    hod_tensor *ok = hod_isfinite(norm);
    hod_tensor *coefficient = factor;
    if (spec->clip_norm > 0)
        coefficient =
            hod_mul(factor, hod_minimum_scalar(hod_div(o->clip, hod_add_scalar(norm, 1e-6)), 1));
    if (!ok || !coefficient)
        return -1;
    for (int64_t i = 0; i < o->n; i++)
        if (o->entries[i].touched && !o->entries[i].by_rows &&
            step_entry(o, &o->entries[i], coefficient, ok) != 0)
            return -1;
    if (rows && !hod__assign(o->coefficient, coefficient))
        return -1;
    return hod__assign(o->norm, norm) && hod__assign(o->ok, hod_cast(ok, HOD_F64)) ? 0 : -1;
}

int hod_update_body(hod_optimizer *o, const hod_update_spec *spec)
{
    if (hod__null("update", "optimizer", o) || hod__null("update", "spec", spec) || hod_error())
        return -1;
    if (!touch(o))
        return 0;
    if (hod__span_begin("update", body_key(o, spec), spec->weight ? spec->weight : o->factor))
        return 0;
    int rc = body(o, spec);
    hod__span_end("update");
    return rc;
}

/* ---- finish: what came of it ---- */

int hod_update_finish(hod_optimizer *o, const hod_update_spec *spec, hod_update_result *result)
{
    if (hod__null("update", "optimizer", o) || hod__null("update", "spec", spec) || hod_error())
        return -1;
    hod_update_result r = {0};
    for (int64_t i = 0; i < o->n; i++)
        r.present += o->entries[i].touched;
    if (r.present > 0) {
        r.grad_norm = hod_item(o->norm);
        r.skipped = hod_item(o->ok) == 0;
        if (hod_error())
            return -1;
    }
    for (int64_t i = 0; i < o->n; i++) {
        hod_optim_entry *e = &o->entries[i];
        if (e->touched && e->by_rows && !r.skipped && hod__rows_step(o, e) != 0)
            return -1;
        e->step += e->touched && !r.skipped;
        if (!spec->keep_gradients)
            hod_zero_grad(e->p);
    }
    if (result)
        *result = r;
    return 0;
}

int hod_update_make(hod_optimizer *o, const hod_update_spec *spec, hod_update_result *result)
{
    return hod_update_prepare(o, spec) == 0 && hod_update_body(o, spec) == 0
               ? hod_update_finish(o, spec, result)
               : -1;
}

/* ---- gradients by hand ---- */

int hod_gradients_scale(hod_optimizer *o, double factor)
{
    if (hod__null("gradients_scale", "optimizer", o))
        return -1;
    HOD_NO_GRAD(n);
    for (int64_t i = 0; i < o->n; i++) {
        HOD_SCOPE(s);
        hod_tensor *p = o->entries[i].p;
        hod_tensor *g[] = {hod_grad(p), hod_grad_rows(p).values};
        for (int k = 0; k < 2; k++)
            if (g[k] && !hod__assign_by(g[k], hod_mul_scalar(g[k], factor), "gradients_scale"))
                return -1;
    }
    return 0;
}

double hod_gradients_norm(hod_optimizer *o)
{
    if (hod__null("gradients_norm", "optimizer", o))
        return NAN;
    HOD_SCOPE(s);
    HOD_NO_GRAD(n);
    double rows = 0;
    if (hod__rows_prepare(o) != 0)
        return NAN;
    for (int64_t i = 0; i < o->n && rows == 0; i++)
        if (hod_grad_rows(o->entries[i].p).rows)
            rows = hod_item(o->rows_square);
    hod_tensor *total = hod__gradients_square_sum(o);
    return hod_error() ? NAN : sqrt((total ? hod_item(total) : 0) + rows);
}

int hod_gradients_clip(hod_optimizer *o, double max_norm, double *norm)
{
    double n = hod_gradients_norm(o);
    if (norm)
        *norm = n;
    if (!o || hod_error())
        return -1;
    if (!isfinite(n))
        return HOD_FAIL_RC(VALUE, "clip: the norm of the gradients is %g", n);
    double coefficient = max_norm / (n + 1e-6);
    return coefficient < 1 ? hod_gradients_scale(o, coefficient) : 0;
}
