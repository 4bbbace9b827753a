/* Steps of row-sparse gradients (rows.h): the optimizer's rule on the rows that are there.
 *
 * The rows' number changes from update to update, so they stay outside of the compiled body: before
 * it the host sums equal rows and tells it their squares, for the norm; behind it, knowing the
 * coefficient and that the update is not skipped, the host gathers rows of parameter and state,
 * applies the same rule that the body applies to whole tensors, and writes the rows back.
 */
#include "optim/optim.h"

/* Only rows of one piece of memory are written in place. */
static bool steps_by_rows(const hod_optim_entry *e)
{
    bool plain = hod__is_row_major(e->p) && !hod_grad(e->p);
    for (int k = 0; k < 2; k++)
        plain = plain && (!e->state[k] || hod__is_row_major(e->state[k]));
    return plain;
}

int hod__rows_prepare(hod_optimizer *o)
{
    double total = 0;
    bool any = false;
    HOD_NO_GRAD(n);
    for (int64_t i = 0; i < o->n; i++) {
        HOD_SCOPE(s);
        hod_optim_entry *e = &o->entries[i];
        if (!hod_grad_rows(e->p).rows)
            continue;
        any = true;
        if (!steps_by_rows(e)) {
            if (hod_grad_rows_to_dense(e->p) != 0)
                return -1;
            continue;
        }
        if (hod_grad_rows_sum(e->p) != 0)
            return -1;
        hod_tensor *wide = hod_cast(hod_grad_rows(e->p).values, HOD_F64);
        total += hod_item(hod_sum(hod_mul(wide, wide)));
        if (hod_error())
            return -1;
    }
    return any ? hod__optim_scalar_set(o->rows_square, total) : 0;
}

/* Writes rows[i] of t from row i of value, which has t's type. */
static int write_rows(hod_tensor *t, hod_tensor *rows, hod_tensor *value)
{
    value = hod_contiguous(hod_cast(value, (hod_dtype)t->dtype));
    char *to = value ? hod_tensor_mutable_data(t) : NULL;
    if (!to)
        return -1;
    int64_t n = rows->shape[0], row = hod_tensor_numel(value) / HOD_MAX(n, 1);
    size_t bytes = (size_t)row * hod_dtype_bytes((hod_dtype)t->dtype);
    const char *from = n > 0 ? hod__data(value) : NULL;
    const int64_t *at = n > 0 ? hod__data(rows) : NULL;
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)at[i] * bytes, from + (size_t)i * bytes, bytes);
    return 0;
}

int hod__rows_step(hod_optimizer *o, hod_optim_entry *e)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(n);
    const hod_optim_rule *rule = &hod__optim_rules[o->spec.kind];
    hod_row_gradient g = hod_grad_rows(e->p);
    hod_dtype type = hod__optim_work_dtype(e->p);
    hod_tensor *rate[HOD_RATES], *state[2] = {NULL, NULL}, *next[2] = {NULL, NULL};
    for (int k = 0; k < HOD_RATES; k++)
        rate[k] = hod_cast(o->cohorts[e->cohort].rate[k], type);
    int states = rule->states(&o->spec);
    for (int k = 0; k < states; k++)
        state[k] = hod_embedding(e->state[k], g.rows);
    hod_step step = {.spec = &o->spec,
                     .p = hod_cast(hod_embedding(e->p, g.rows), type),
                     .g = hod_mul(hod_cast(g.values, type), hod_cast(o->coefficient, type)),
                     .state = state,
                     .rate = rate,
                     .decays = e->decays};
    hod_tensor *moved = step.p && step.g ? rule->step(&step, next) : NULL;
    if (!moved || write_rows(e->p, g.rows, moved) != 0)
        return -1;
    for (int k = 0; k < states; k++)
        if (write_rows(e->state[k], g.rows, next[k]) != 0)
            return -1;
    if (!e->ema)
        return 0;
    hod_tensor *p = hod_cast(e->p, (hod_dtype)e->ema->dtype);
    hod_tensor *ema = hod_add(e->ema, hod_mul_scalar(hod_sub(p, e->ema), 1 - o->spec.ema));
    return hod__assign(e->ema, ema) ? 0 : -1;
}
