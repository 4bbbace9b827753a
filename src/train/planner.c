/* The budget planner: the peak of every micro-batch, before the first step.
 *
 *     peak(m) = persistent + batch(m) + max(arena of the micro-step(m), arena of the update)
 *
 * `persistent` is what the allocator holds once trainer and network are made: measured. batch(m) is
 * the loader's three tensors. The arena comes from the memory plan of the compiled step, recorded
 * over tensors without values, so it is exact; what the loss function allocates by itself while it
 * is recorded, constants say, is measured and added. A step that is not compiled, or reads a value
 * in the middle, has no plan: two trial micro-steps on a few samples give a line through which
 * larger ones are predicted; that row is marked as not exact. Evaluation stays below the same peak
 * (evaluate.c).
 *
 * Candidates are the effective batch cut into 1, 2, 4, ... equal parts, rounded up. Fewer
 * micro-steps have less overhead and larger matrices, so the largest that fits is taken.
 */
#include "train/train.h"
#include <hod/memory.h>

enum { ALIGN = 64 }; /* the allocator's rounding */

static int64_t round_up(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

#define BYTES(n) hod_bytes_text(n, (char[32]){0})

/* ---- the parts of a peak ---- */

static int64_t rows_bytes(int64_t n, hod_shape row, hod_dtype dtype)
{
    int64_t elements = n;
    for (int i = 0; i < row.n; i++)
        elements *= row.d[i];
    return round_up(elements * (int64_t)hod_dtype_bytes(dtype));
}

int64_t hod__trainer_batch_bytes(const hod_dataset *d, int64_t n)
{
    return rows_bytes(n, hod_dataset_shape(d), hod_dataset_dtype(d)) +
           rows_bytes(n, hod_dataset_target_shape(d), hod_dataset_target_dtype(d)) +
           rows_bytes(n, HOD_SHAPE(), HOD_I64);
}

static hod_tensor *rows_placeholder(int64_t n, hod_shape row, hod_dtype dtype)
{
    hod_shape s = {.n = row.n + 1, .d = {n}};
    for (int i = 0; i < row.n && i + 1 < HOD_MAX_DIMS; i++)
        s.d[i + 1] = row.d[i];
    return hod_placeholder(dtype, s);
}

/* Did preparing fail because the body reads a value, which a call would have? */
static bool reads_values(const hod_trainer *t, const hod_fn *f)
{
    return hod_fn_report(f).graph_breaks > 0 && !t->spec.fullgraph &&
           hod_error_kind_pending() == HOD_ERROR_STATE;
}

int64_t hod__trainer_step_arena(hod_trainer *t, hod_fn *f, const hod_dataset *d, int64_t n)
{
    HOD_SCOPE(s);
    hod_tensor *in[] = {
        rows_placeholder(n, hod_dataset_shape(d), hod_dataset_dtype(d)),
        rows_placeholder(n, hod_dataset_target_shape(d), hod_dataset_target_dtype(d)),
        rows_placeholder(n, HOD_SHAPE(), HOD_I64)};
    if (!in[0] || !in[1] || !in[2] || hod_random_begin(t->spec.seed, 0, in[2]) != 0)
        return -1;
    hod_batch b = {in[0], in[1], in[2], n, t->at.epoch, t->at.sample};
    t->batch = &b;
    int rc = hod_fn_prepare(f, in);
    t->batch = NULL;
    hod_random_begin(t->spec.seed, 0, NULL);
    if (rc != 0 && reads_values(t, f)) {
        hod_error_take(NULL);
        return 0;
    }
    return rc != 0 ? -1 : hod_fn_report(f).arena_bytes;
}

/* The same for the update, as if every gradient were present. */
static int update_arena(hod_trainer *t)
{
    if (t->update_arena >= 0)
        return 0;
    for (hod_walk w = hod_parameters(t->net); hod_walk_next(&w);)
        if (hod_tensor_requires_grad(w.item.tensor))
            hod__grad_slot(w.item.tensor)->present = true;
    hod_update_spec spec = {.weight = t->weight_sum, .clip_norm = t->spec.clip_norm};
    int rc = hod_update_prepare(t->optimizer, &spec);
    if (rc == 0)
        rc = hod_fn_prepare(t->update, NULL);
    hod_module_zero_grad(t->net);
    if (rc == 0)
        t->update_arena = hod_fn_report(t->update).arena_bytes;
    if (rc == 0 && t->has_statistics)
        rc = hod_fn_prepare(t->statistics, NULL);
    return rc;
}

/* ---- without a memory plan ---- */

/* The peak since it was started, beyond `before`; starts it again. */
static double taken(int64_t before)
{
    double bytes = (double)(hod_memory().allocated_peak - before);
    hod_memory_reset_peak();
    return bytes;
}

/* An update that changes nothing, because a weight of 0 makes no factor that is finite. */
static int update_in_vain(hod_trainer *t)
{
    hod_update_spec spec = {.weight = t->weight_sum, .clip_norm = t->spec.clip_norm};
    hod_update_result r;
    return hod__trainer_set(t->weight_sum, 0) == 0 &&
                   hod_update_prepare(t->optimizer, &spec) == 0 &&
                   hod_fn_call(t->update, NULL, NULL) == 0
               ? hod_update_finish(t->optimizer, &spec, &r)
               : -1;
}

/* Runs one micro-step on n samples and an update, and undoes them; *bytes is what the step took at
 * most beyond `base`. A compiled step in pieces keeps an arena and what crosses the breaks. */
static int probe(hod_trainer *t, int64_t base, int64_t n, double *bytes)
{
    hod_loader *l = hod_loader_new(.dataset = t->data);
    hod_batch b;
    int rc = l && hod_loader_next(l, n, &b) == 1 ? hod__trainer_buffers_save(t) : -1;
    base += hod__trainer_batch_bytes(t->data, n);
    hod_memory_reset_peak();
    if (rc == 0)
        rc = hod__trainer_micro_step(t, &b);
    *bytes = taken(base);
    if (rc == 0)
        rc = update_in_vain(t);
    t->probe_update = taken(base);
    if (rc == 0)
        rc = hod__trainer_window_discard(t);
    hod_loader_free(l);
    hod_memory_reset_peak();
    return rc;
}

/* The line through two trials; the first call of each size makes what is made once. */
static int probe_line(hod_trainer *t)
{
    if (t->probed)
        return 0;
    int64_t e = t->spec.effective_batch, most = HOD_MIN(e, hod_dataset_count(t->data));
    int64_t a = HOD_MIN(most, 4), b = HOD_MIN(most, 8);
    double at_a, at_b;
    hod_loader_let_go(t->loader);
    if (hod__trainer_new_arena(t) != 0)
        return -1;
    int64_t base = hod_memory().allocated;
    if (probe(t, base, a, &at_a) != 0 || probe(t, base, a, &at_a) != 0 ||
        probe(t, base, b, &at_b) != 0 || probe(t, base, b, &at_b) != 0)
        return -1;
    t->probe_slope = b > a ? (at_b - at_a) / (double)(b - a) : at_a / (double)a;
    t->probe_base = at_a - t->probe_slope * (double)a;
    t->probed = true;
    return 0;
}

/* ---- rows ---- */

/* Samples of a full window: a dataset may hold fewer than the effective batch. */
static int64_t window_size(const hod_trainer *t)
{
    return HOD_MIN(t->spec.effective_batch, hod_dataset_count(t->data));
}

/* The arena of a micro-step and what its body allocates beside it, as the second recording shows:
 * the first makes what is made once. As hod__trainer_step_arena. */
static int64_t step_bytes(hod_trainer *t, int64_t micro)
{
    if (t->spec.compile == HOD_COMPILE_EAGER)
        return 0;
    int64_t arena = hod__trainer_step_arena(t, t->accumulate, t->data, micro);
    if (arena <= 0)
        return arena;
    hod_memory_reset_peak();
    int64_t before = hod_memory().allocated;
    arena = hod__trainer_step_arena(t, t->accumulate, t->data, micro);
    return arena <= 0 ? arena : round_up(arena) + hod_memory().allocated_peak - before;
}

/* Bytes that the programs take for a micro-batch; remembered. */
static int arena_of(hod_trainer *t, int64_t micro, hod_plan_memo *out)
{
    int i = 0;
    while (i + 1 < HOD_PLAN_ROWS && t->memo[i].micro && t->memo[i].micro != micro)
        i++;
    if (t->memo[i].micro != micro) {
        int64_t arena = step_bytes(t, micro);
        if (arena < 0)
            return -1;
        bool exact = arena > 0;
        if (!exact) {
            if (probe_line(t) != 0)
                return -1;
            double step = t->probe_base + t->probe_slope * (double)micro;
            arena = (int64_t)HOD_MAX(step, t->probe_update);
        }
        t->memo[i] = (hod_plan_memo){micro, arena, exact};
    }
    *out = t->memo[i];
    return 0;
}

static int row_of(hod_trainer *t, int64_t micro, hod_plan_row *row)
{
    hod_plan_memo m;
    if (arena_of(t, micro, &m) != 0 || (m.exact && update_arena(t) != 0))
        return -1;
    int64_t budget = t->spec.memory_budget;
    *row = (hod_plan_row){.micro_batch = micro, .exact = m.exact};
    row->accumulate = (window_size(t) + micro - 1) / micro;
    row->predicted_peak_bytes = t->persistent + hod__trainer_batch_bytes(t->data, micro) +
                                round_up(HOD_MAX(m.arena_bytes, m.exact ? t->update_arena : 0));
    row->fits = budget == 0 || row->predicted_peak_bytes <= budget;
    return 0;
}

/* The candidate after `micro`, 0 after the last; micro 0: the first. */
static int64_t next_candidate(const hod_trainer *t, int64_t micro)
{
    int64_t e = window_size(t);
    if (t->spec.micro_batch)
        return micro ? 0 : HOD_MIN(t->spec.micro_batch, e);
    if (micro == 0)
        return e;
    if (micro == 1)
        return 0;
    int64_t parts = 1;
    while ((e + parts - 1) / parts >= micro)
        parts *= 2;
    return (e + parts - 1) / parts;
}

static int ready(hod_trainer *t, hod_dataset *data)
{
    if (hod__trainer_meet(t, data) != 0)
        return -1;
    if (!t->persistent)
        t->persistent = hod_memory().allocated;
    return 0;
}

/* Planning looks at one size after another; reports and views are about the last. This makes it
 * the chosen one. */
static int look_at_chosen(hod_trainer *t)
{
    if (!t->micro || t->spec.compile == HOD_COMPILE_EAGER)
        return 0;
    return hod__trainer_step_arena(t, t->accumulate, t->data, t->micro) < 0 ? -1 : 0;
}

int hod_trainer_plan(hod_trainer *t, hod_dataset *data, hod_plan *plan)
{
    if (hod__null("trainer_plan", "trainer", t) || hod__null("trainer_plan", "plan", plan) ||
        ready(t, data) != 0)
        return -1;
    *plan = (hod_plan){.budget_bytes = t->spec.memory_budget,
                       .persistent_bytes = t->persistent,
                       .ranks = 1,
                       .recompute = "none",
                       .precision = "fp32",
                       .chosen = -1};
    for (int64_t m = 0; plan->n < HOD_PLAN_ROWS && (m = next_candidate(t, m)) > 0;) {
        hod_plan_row *row = &plan->rows[plan->n];
        if (row_of(t, m, row) != 0)
            return -1;
        if (t->micro ? t->micro == m : row->fits && plan->chosen < 0) {
            row->chosen = true;
            plan->chosen = plan->n;
        }
        plan->n++;
    }
    return look_at_chosen(t);
}

/* ---- choosing ---- */

static int nothing_fits(const hod_trainer *t, const hod_plan_row *row)
{
    int64_t needs = row->predicted_peak_bytes, budget = t->spec.memory_budget;
    return HOD_FAIL_RC(ARGUMENT, "memory_budget %s: micro-batch %lld needs %s, %s more",
                       BYTES(budget), (long long)row->micro_batch, BYTES(needs),
                       BYTES(needs - budget));
}

/* Takes the largest candidate below `above` (0: of all) that fits: 1; 0 when there is none and
 * *row is the smallest; -1. */
static int choose(hod_trainer *t, int64_t above, hod_plan_row *row)
{
    *row = (hod_plan_row){0};
    if (t->spec.memory_budget == 0 && t->spec.compile == HOD_COMPILE_EAGER) {
        int64_t m = next_candidate(t, above); /* trial steps would decide nothing */
        t->micro = m ? m : t->micro;
        return m > 0;
    }
    for (int64_t m = above; (m = next_candidate(t, m)) > 0;) {
        if (row_of(t, m, row) != 0)
            return -1;
        if (row->fits) {
            t->micro = m;
            t->predicted_peak = row->predicted_peak_bytes;
            return 1;
        }
    }
    return 0;
}

/* Plans the shorter micro-batches that the chosen one entails: the last of a window, and those of
 * an epoch's short window. */
static int prepare_remainders(hod_trainer *t)
{
    int64_t e = t->spec.effective_batch, tail = hod_dataset_count(t->data) % e;
    int64_t sizes[] = {e % t->micro, HOD_MIN(tail, t->micro), tail % t->micro};
    hod_plan_memo m;
    if (t->spec.last_window == HOD_WINDOW_DROP)
        sizes[1] = sizes[2] = 0;
    if (t->spec.compile == HOD_COMPILE_EAGER)
        return 0;
    for (int i = 0; i < HOD_COUNT(sizes); i++)
        if (sizes[i] > 0 && sizes[i] < t->micro && arena_of(t, sizes[i], &m) != 0)
            return -1;
    return 0;
}

int hod_trainer_prepare(hod_trainer *t, hod_dataset *data)
{
    if (hod__null("trainer_prepare", "trainer", t) || hod__null("trainer_prepare", "dataset", data))
        return -1;
    if (t->micro && t->data == data)
        return 0;
    hod_plan_row row;
    if (ready(t, data) != 0)
        return -1;
    int rc = choose(t, 0, &row);
    if (rc != 1)
        return rc == 0 ? nothing_fits(t, &row) : -1;
    if (prepare_remainders(t) != 0 || look_at_chosen(t) != 0 || hod__trainer_new_arena(t) != 0)
        return -1;
    hod_memory_reset_peak();
    return 0;
}

int hod__trainer_shrink(hod_trainer *t)
{
    hod_plan_row row;
    int rc = hod__trainer_new_arena(t) == 0 ? choose(t, t->micro, &row) : -1;
    hod_memory_empty_cache();
    return rc == 1 && (prepare_remainders(t) != 0 || look_at_chosen(t) != 0) ? -1 : rc;
}

/* ---- the table ---- */

int hod_print_plan(hod_trainer *t, hod_dataset *data, FILE *out)
{
    hod_plan plan;
    if (hod_trainer_plan(t, data, &plan) != 0)
        return -1;
    const hod_plan_row *above = NULL; /* the next larger than the choice */
    fprintf(out, "   micro    ×k   recompute   precision   peak\n");
    for (int i = 0; i < plan.n; i++) {
        const hod_plan_row *r = &plan.rows[i];
        fprintf(out, "%s %5lld %5lld   %-9s   %-9s   %s%s", r->chosen ? "→ " : "  ",
                (long long)r->micro_batch, (long long)r->accumulate, plan.recompute, plan.precision,
                r->exact ? "" : "about ", BYTES(r->predicted_peak_bytes));
        if (!r->fits)
            fprintf(out, "   does not fit, by %s",
                    BYTES(r->predicted_peak_bytes - plan.budget_bytes));
        fputc('\n', out);
        if (!r->fits && (plan.chosen < 0 || i < plan.chosen))
            above = r;
    }
    if (plan.budget_bytes)
        fprintf(out, "  budget %s, of which %s persistent\n", BYTES(plan.budget_bytes),
                BYTES(plan.persistent_bytes));
    if (above && plan.chosen >= 0)
        fprintf(out, "  next larger: %lld × %lld, %s\n", (long long)above->micro_batch,
                (long long)above->accumulate, BYTES(above->predicted_peak_bytes));
    return ferror(out) ? HOD_FAIL_RC(IO, "plan: the output takes no more") : 0;
}
