/* An optimizer: which parameters it moves, their state, and what may be asked about them. */
#include "optim/optim.h"
#include <math.h>
#include <stdio.h>

static atomic_uint_fast64_t last_id;

/* What is given has an effect. */
static int check_used(const hod_optim_rule *rule, const hod_optimizer_spec *s)
{
    const struct {
        const char *what;
        bool given, of_betas;
    } options[] = {{"momentum", s->momentum != 0, false},
                   {"nesterov", s->nesterov, false},
                   {"beta1", s->beta1 != 0, true},
                   {"beta2", s->beta2 != 0, true},
                   {"eps", s->eps != 0, true},
                   {"no_eps", s->no_eps, true}};
    for (int i = 0; i < HOD_COUNT(options); i++)
        if (options[i].given && options[i].of_betas != rule->betas)
            return HOD_FAIL_RC(ARGUMENT, "%s: .%s is set, which it does not use", rule->name,
                               options[i].what);
    return 0;
}

static int fill_defaults(hod_optimizer_spec *s)
{
    if ((unsigned)s->kind >= HOD_OPTIMIZERS)
        return HOD_FAIL_RC(ARGUMENT, "optimizer: unknown kind %d", (int)s->kind);
    const hod_optim_rule *rule = &hod__optim_rules[s->kind];
    s->lr = s->lr != 0 ? s->lr : rule->lr;
    if (check_used(rule, s) != 0)
        return -1;
    if (rule->betas) {
        s->beta1 = s->beta1 != 0 ? s->beta1 : 0.9;
        s->beta2 = s->beta2 != 0 ? s->beta2 : 0.999;
        s->eps = s->no_eps ? 0 : s->eps != 0 ? s->eps : 1e-8;
    }
    const struct {
        const char *what;
        double value, below; /* 0 <= value < below */
    } check[] = {{"lr", s->lr, 1e30},
                 {"weight_decay", s->weight_decay, 1e30},
                 {"momentum", s->momentum, 1e30},
                 {"beta1", s->beta1, 1},
                 {"beta2", s->beta2, 1},
                 {"eps", s->eps, 1e30},
                 {"ema", s->ema, 1}};
    for (int i = 0; i < HOD_COUNT(check); i++)
        if (!(check[i].value >= 0 && check[i].value < check[i].below))
            return HOD_FAIL_RC(ARGUMENT, "%s: %s = %g, must be at least 0 and below %g", rule->name,
                               check[i].what, check[i].value, check[i].below);
    if (s->nesterov && s->momentum == 0)
        return HOD_FAIL_RC(ARGUMENT, "%s: nesterov needs momentum", rule->name);
    return 0;
}

static bool decays(const hod_optimizer_spec *s, hod_parameter_kind kind)
{
    return kind == HOD_WEIGHT || (s->decay & (kind == HOD_BIAS ? HOD_DECAY_BIAS : HOD_DECAY_NORM));
}

/* ---- tensors that live as long as the optimizer ---- */

hod_tensor *hod__optim_scalar_new(double value)
{
    HOD_SCOPE(s);
    return hod_tensor_retain(hod_from_doubles(&value, HOD_SHAPE()));
}

int hod__optim_scalar_set(hod_tensor *t, double value)
{
    hod_device *d = t->storage->device;
    hod__bump(t);
    return d->copy_in(d, hod__data(t), &value, sizeof value);
}

static hod_tensor *state_new(const hod_tensor *p, bool copy)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(g);
    hod_tensor *t = hod_zeros(p->dtype == HOD_F64 ? HOD_F64 : HOD_F32, hod_tensor_shape(p));
    if (copy)
        t = hod__assign(t, (hod_tensor *)p);
    return hod_tensor_retain(t);
}

/* ---- making ---- */

static bool has(const hod_optimizer *o, const hod_tensor *p)
{
    for (int64_t i = 0; i < o->n; i++)
        if (o->entries[i].p == p)
            return true;
    return false;
}

static int add(hod_optimizer *o, const hod_named *item)
{
    if (!item->tensor->requires_grad || has(o, item->tensor))
        return 0;
    hod_optim_entry *e = hod__push(&o->entries, &o->n, &o->cap, sizeof *o->entries);
    if (!e)
        return -1;
    e->p = hod_tensor_retain(item->tensor);
    e->decays = decays(&o->spec, item->parameter->kind);
    if (!(e->name = hod__strdup(item->name)))
        return -1;
    int states = hod__optim_rules[o->spec.kind].states(&o->spec);
    for (int k = 0; k < states; k++)
        if (!(e->state[k] = state_new(e->p, false)))
            return -1;
    if (o->spec.ema > 0 && !(e->ema = state_new(e->p, true)))
        return -1;
    return 0;
}

hod_optimizer *hod_optimizer_new(hod_module *m, hod_optimizer_spec spec)
{
    if (hod__null("optimizer_new", "module", m) || fill_defaults(&spec) != 0)
        return NULL;
    hod_optimizer *o = hod__alloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->id = atomic_fetch_add(&last_id, 1) + 1;
    o->spec = spec;
    o->factor = hod__optim_scalar_new(1);
    o->clip = hod__optim_scalar_new(0);
    o->norm = hod__optim_scalar_new(0);
    o->ok = hod__optim_scalar_new(1);
    o->rows_square = hod__optim_scalar_new(0);
    o->coefficient = hod__optim_scalar_new(1);
    int rc = o->factor && o->clip && o->norm && o->ok && o->rows_square && o->coefficient ? 0 : -1;
    for (hod_walk w = hod_parameters(m); rc == 0 && hod_walk_next(&w);)
        rc = add(o, &w.item);
    if (rc == 0 && o->n == 0)
        rc = HOD_FAIL_RC(ARGUMENT, "%s: no parameter requires a gradient",
                         hod__optim_rules[spec.kind].name);
    if (rc == 0)
        return o;
    hod_optimizer_free(o);
    return NULL;
}

void hod_optimizer_free(hod_optimizer *o)
{
    if (!o)
        return;
    for (int64_t i = 0; i < o->n; i++) {
        hod_optim_entry *e = &o->entries[i];
        free(e->name);
        hod_tensor_release(e->p);
        hod_tensor_release(e->state[0]);
        hod_tensor_release(e->state[1]);
        hod_tensor_release(e->ema);
    }
    for (int64_t i = 0; i < o->made_cohorts; i++)
        for (int k = 0; k < HOD_RATES; k++)
            hod_tensor_release(o->cohorts[i].rate[k]);
    hod_tensor_release(o->factor);
    hod_tensor_release(o->clip);
    hod_tensor_release(o->norm);
    hod_tensor_release(o->ok);
    hod_tensor_release(o->rows_square);
    hod_tensor_release(o->coefficient);
    free(o->entries);
    free(o->cohorts);
    free(o);
}

/* ---- asking and setting ---- */

hod_optimizer_spec hod_optimizer_settings(const hod_optimizer *o)
{
    return hod__null("optimizer_settings", "optimizer", o) ? (hod_optimizer_spec){0} : o->spec;
}

void hod_optimizer_set_lr(hod_optimizer *o, double lr)
{
    if (!hod__null("optimizer_set_lr", "optimizer", o))
        o->spec.lr = lr;
}

double hod_optimizer_lr(const hod_optimizer *o)
{
    return hod__null("optimizer_lr", "optimizer", o) ? NAN : o->spec.lr;
}

int hod_optimizer_set_decay(hod_optimizer *o, const char *name, bool on)
{
    if (hod__null("optimizer_set_decay", "optimizer", o) ||
        hod__null("optimizer_set_decay", "name", name))
        return -1;
    for (int64_t i = 0; i < o->n; i++)
        if (strcmp(o->entries[i].name, name) == 0) {
            o->entries[i].decays = on;
            return 0;
        }
    return HOD_FAIL_RC(ARGUMENT, "%s: no parameter is named \"%s\"",
                       hod__optim_rules[o->spec.kind].name, name);
}

int64_t hod_optimizer_count(const hod_optimizer *o)
{
    return o ? o->n : 0;
}

hod_optimizer_entry hod_optimizer_at(const hod_optimizer *o, int64_t i)
{
    if (!o || i < 0 || i >= o->n)
        return (hod_optimizer_entry){0};
    const hod_optim_entry *e = &o->entries[i];
    const hod_optim_rule *rule = &hod__optim_rules[o->spec.kind];
    hod_optimizer_entry entry = {.name = e->name,
                                 .parameter = e->p,
                                 .decays = e->decays,
                                 .step = e->step,
                                 .n_state = rule->states(&o->spec),
                                 .ema = e->ema};
    for (int k = 0; k < entry.n_state; k++) {
        entry.state_name[k] = rule->state_name[k];
        entry.state[k] = e->state[k];
    }
    return entry;
}

void hod_optimizer_set_step(hod_optimizer *o, int64_t i, int64_t step)
{
    if (o && i >= 0 && i < o->n)
        o->entries[i].step = step;
}

void hod_optimizer_print(const hod_optimizer *o, FILE *out)
{
    for (int64_t i = 0; o && i < o->n; i++) {
        const hod_optim_entry *e = &o->entries[i];
        fprintf(out, "%-8s  %s  %s\n", e->decays ? "decay" : "no decay", e->name,
                HOD_SHAPE_TEXT(e->p));
    }
}

/* Exchanges contents through a few bytes of stack: a copy would take memory that no plan knows. A
 * parameter is contiguous, and so is its average; of small floats that has another type. */
static int swap(hod_tensor *a, hod_tensor *b)
{
    if (hod_tensor_dtype(a) != hod_tensor_dtype(b)) {
        HOD_SCOPE(s);
        hod_tensor *before = hod_copy(a);
        return hod__assign_by(a, b, "the optimizer's average") &&
                       hod__assign_by(b, before, "the optimizer's average")
                   ? 0
                   : -1;
    }
    int64_t bytes = hod_tensor_numel(a) * (int64_t)hod_dtype_bytes(hod_tensor_dtype(a));
    char *x = hod_tensor_mutable_data(a), *y = hod_tensor_mutable_data(b), piece[4096];
    if (!x || !y)
        return -1;
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof piece) {
        size_t n = (size_t)HOD_MIN((int64_t)sizeof piece, bytes - at);
        memcpy(piece, x + at, n);
        memcpy(x + at, y + at, n);
        memcpy(y + at, piece, n);
    }
    return 0;
}

int hod_optimizer_swap_ema(hod_optimizer *o)
{
    if (hod__null("optimizer_swap_ema", "optimizer", o))
        return -1;
    if (o->spec.ema == 0)
        return HOD_FAIL_RC(STATE, "%s: keeps no moving average of its parameters",
                           hod__optim_rules[o->spec.kind].name);
    HOD_NO_GRAD(g);
    for (int64_t i = 0; i < o->n; i++)
        if (swap(o->entries[i].p, o->entries[i].ema) != 0)
            return -1;
    return 0;
}
