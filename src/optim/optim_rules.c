/* The optimizers' mathematics, as PyTorch does it, written in operators.
 *
 *     sgd     g += d p;   b = μ b + g;   g = nesterov ? g + μ b : b;   p -= lr g
 *     adam    g += d p;   m += (1-β1)(g - m);   v = β2 v + (1-β2) g²
 *             p -= lr/(1-β1^t) · m / (√v / √(1-β2^t) + ε)
 *     adamw   p *= 1 - lr d   instead of g += d p
 *
 * What changes from update to update (lr, and 1-β^t through it) comes in as 0-d tensors: RATE is
 * lr or lr/(1-β1^t), SHRINK is 1 - lr d, ROOT is √(1-β2^t). The host computes them in double.
 */
#include "optim/optim.h"
#include <math.h>

/* g + d p for a parameter that decays. */
static hod_tensor *decayed(const hod_step *s)
{
    double d = s->spec->weight_decay;
    return s->decays && d != 0 ? hod_add(s->g, hod_mul_scalar(s->p, d)) : s->g;
}

/* ---- SGD ---- */

static int sgd_states(const hod_optimizer_spec *spec)
{
    return spec->momentum != 0;
}

static void sgd_rates(const hod_optimizer_spec *spec, int64_t step, bool decays,
                      double rate[HOD_RATES])
{
    (void)step;
    (void)decays;
    rate[HOD_RATE] = spec->lr;
    rate[HOD_SHRINK] = rate[HOD_ROOT] = 1;
}

static hod_tensor *sgd_step(const hod_step *s, hod_tensor **next)
{
    hod_tensor *g = decayed(s);
    double mu = s->spec->momentum;
    if (mu != 0) {
        hod_tensor *b = hod_add(hod_mul_scalar(s->state[0], mu), g);
        next[0] = b;
        g = s->spec->nesterov ? hod_add(g, hod_mul_scalar(b, mu)) : b;
    }
    return hod_sub(s->p, hod_mul(g, s->rate[HOD_RATE]));
}

/* ---- Adam, AdamW ---- */

static int adam_states(const hod_optimizer_spec *spec)
{
    (void)spec;
    return 2;
}

static void adam_rates(const hod_optimizer_spec *spec, int64_t step, bool decays,
                       double rate[HOD_RATES])
{
    rate[HOD_RATE] = spec->lr / (1 - pow(spec->beta1, (double)step));
    rate[HOD_SHRINK] = decays ? 1 - spec->lr * spec->weight_decay : 1;
    rate[HOD_ROOT] = sqrt(1 - pow(spec->beta2, (double)step));
}

/* m, v and the step each free what they made on the way: eagerly, a large parameter would otherwise
 * be there some twenty times. */
static hod_tensor *adam_mean(const hod_step *s, hod_tensor *g)
{
    HOD_SCOPE(scope);
    hod_tensor *m = s->state[0];
    return hod_escape(hod_add(m, hod_mul_scalar(hod_sub(g, m), 1 - s->spec->beta1)));
}

static hod_tensor *adam_square(const hod_step *s, hod_tensor *g)
{
    HOD_SCOPE(scope);
    double beta2 = s->spec->beta2;
    return hod_escape(
        hod_add(hod_mul_scalar(s->state[1], beta2), hod_mul_scalar(hod_mul(g, g), 1 - beta2)));
}

static hod_tensor *adam_move(const hod_step *s, hod_tensor *p, hod_tensor *g, hod_tensor **next)
{
    next[0] = adam_mean(s, g);
    next[1] = adam_square(s, g);
    HOD_SCOPE(scope);
    hod_tensor *below = hod_div(hod_sqrt(next[1]), s->rate[HOD_ROOT]);
    if (s->spec->eps != 0)
        below = hod_add_scalar(below, s->spec->eps);
    return hod_escape(hod_sub(p, hod_div(hod_mul(next[0], s->rate[HOD_RATE]), below)));
}

static hod_tensor *adam_step(const hod_step *s, hod_tensor **next)
{
    return adam_move(s, s->p, decayed(s), next);
}

static hod_tensor *adamw_step(const hod_step *s, hod_tensor **next)
{
    bool shrinks = s->decays && s->spec->weight_decay != 0;
    hod_tensor *p = shrinks ? hod_mul(s->p, s->rate[HOD_SHRINK]) : s->p;
    return adam_move(s, p, s->g, next);
}

const hod_optim_rule hod__optim_rules[HOD_OPTIMIZERS] = {
    [HOD_SGD] = {.name = "sgd",
                 .lr = 0.1,
                 .state_name = {"momentum_buffer"},
                 .states = sgd_states,
                 .rates = sgd_rates,
                 .step = sgd_step},
    [HOD_ADAM] = {.name = "adam",
                  .lr = 1e-3,
                  .betas = true,
                  .state_name = {"exp_avg", "exp_avg_sq"},
                  .states = adam_states,
                  .rates = adam_rates,
                  .step = adam_step},
    [HOD_ADAMW] = {.name = "adamw",
                   .lr = 1e-3,
                   .betas = true,
                   .state_name = {"exp_avg", "exp_avg_sq"},
                   .states = adam_states,
                   .rates = adam_rates,
                   .step = adamw_step},
};
