/* Checkpoints of a run: everything the next update depends on, in one safetensors file.
 *
 *     layer1.0.conv1.weight            parameters and buffers, as in a model's file
 *     @exp_avg/layer1.0.conv1.weight   optimizer state, by its name and the parameter's
 *     @ema/layer1.0.conv1.weight       average
 *     notes                            counters, place in the data, seed; as decimal texts
 *
 * There is no state of a random generator: what is drawn depends on the seed, the window and the
 * sample. Nor is there one of the schedule, a function of the update's number. A checkpoint is
 * taken between two updates, when no gradient is present and no statistics are half pooled.
 */
#include "optim/optim.h"
#include "train/train.h"
#include <stdio.h>

static const char kind[] = "hod trainer 1";

/* ---- tensors ---- */

static int add_optimizer(hod_names *l, const hod_optimizer *o)
{
    for (int64_t i = 0; i < hod_optimizer_count(o); i++) {
        hod_optimizer_entry e = hod_optimizer_at(o, i);
        for (int k = 0; k < e.n_state; k++) {
            char prefix[64];
            snprintf(prefix, sizeof prefix, "@%s/", e.state_name[k]);
            if (hod__names_add(l, prefix, e.name, e.state[k]) != 0)
                return -1;
        }
        if (e.ema && hod__names_add(l, "@ema/", e.name, e.ema) != 0)
            return -1;
    }
    return 0;
}

/* Everything; a parameter that two modules share has one optimizer entry and two names. */
static int collect(hod_names *l, hod_trainer *t)
{
    return hod__names_add_module(l, t->net) == 0 ? add_optimizer(l, t->optimizer) : -1;
}

/* ---- notes ---- */

/* The whole numbers of a run, by name. */
typedef struct counter {
    const char *name;
    int64_t value;
} counter;

enum {
    UPDATES,
    SKIPPED,
    SAMPLES,
    EPOCH,
    SAMPLE,
    SEED,
    EFFECTIVE_BATCH,
    MICRO_BATCH,
    COUNT,
    OPTIMIZER,
    COUNTERS
};

static void counters_of(const hod_trainer *t, counter c[COUNTERS])
{
    int64_t count = t->data ? hod_dataset_count(t->data) : t->loaded_count;
    const counter all[COUNTERS] = {
        [UPDATES] = {"updates", t->updates},
        [SKIPPED] = {"skipped", t->skipped},
        [SAMPLES] = {"samples", t->samples},
        [EPOCH] = {"epoch", t->at.epoch},
        [SAMPLE] = {"sample", t->at.sample},
        [SEED] = {"seed", (int64_t)t->spec.seed},
        [EFFECTIVE_BATCH] = {"effective_batch", t->spec.effective_batch},
        [MICRO_BATCH] = {"micro_batch", t->micro},
        [COUNT] = {"dataset_samples", count},
        [OPTIMIZER] = {"optimizer", (int64_t)hod_optimizer_settings(t->optimizer).kind},
    };
    memcpy(c, all, sizeof all);
}

/* The steps of all parameters, in order: "12 12 12". malloc'd. */
static char *steps_text(const hod_optimizer *o)
{
    hod_text text = {0};
    hod__text(&text, "%s", "");
    for (int64_t i = 0; i < hod_optimizer_count(o); i++)
        hod__text(&text, "%s%lld", i ? " " : "", (long long)hod_optimizer_at(o, i).step);
    return hod__text_take(&text);
}

/* A whole number and what follows it; false when there is none. */
static bool read_number(const char **text, int64_t *out)
{
    char *end;
    if (!*text)
        return false;
    *out = strtoll(*text, &end, 10);
    bool any = end != *text;
    *text = end;
    return any;
}

/* ---- saving ---- */

typedef int writer(const void *where, const hod_names *l, const hod_named_text *notes, int64_t n);

static int save(hod_trainer *t, writer *write, const void *where)
{
    if (!t || hod__trainer_check(t) != 0)
        return -1;
    counter c[COUNTERS];
    counters_of(t, c);
    char values[COUNTERS][24];
    hod_named_text notes[COUNTERS + 3] = {{"kind", kind}};
    for (int i = 0; i < COUNTERS; i++) {
        snprintf(values[i], sizeof values[i], "%lld", (long long)c[i].value);
        notes[i + 1] = (hod_named_text){c[i].name, values[i]};
    }
    char seconds[32], *steps = steps_text(t->optimizer);
    snprintf(seconds, sizeof seconds, "%.3f", t->seconds);
    notes[COUNTERS + 1] = (hod_named_text){"steps", steps};
    notes[COUNTERS + 2] = (hod_named_text){"seconds", seconds};
    hod_names l = {0};
    int rc = steps && collect(&l, t) == 0 ? write(where, &l, notes, COUNTERS + 3) : -1;
    hod__names_free(&l);
    free(steps);
    return rc;
}

static int write_file(const void *path, const hod_names *l, const hod_named_text *notes, int64_t n)
{
    return hod_save_tensors(path, l->items, l->n, notes, n);
}

int hod_trainer_save(hod_trainer *t, const char *path)
{
    if (hod__null("trainer_save", "trainer", t) || hod__null("trainer_save", "path", path))
        return -1;
    return save(t, write_file, path);
}

typedef struct numbered {
    const char *dir;
    int64_t update;
    int keep;
} numbered;

static int write_numbered(const void *where, const hod_names *l, const hod_named_text *notes,
                          int64_t n)
{
    const numbered *w = where;
    return hod_checkpoint_save(w->dir, w->update, l->items, l->n, notes, n, w->keep);
}

int hod_trainer_checkpoint(hod_trainer *t, const char *dir, int keep)
{
    if (hod__null("trainer_checkpoint", "trainer", t) ||
        hod__null("trainer_checkpoint", "directory", dir))
        return -1;
    return save(t, write_numbered, &(numbered){dir, t->updates, keep});
}

/* ---- loading ---- */

static const char *optimizer_name(int64_t kind)
{
    return kind >= 0 && kind < HOD_OPTIMIZERS ? hod__optim_rules[kind].name : "unknown";
}

/* Reads the notes; refuses what another run has written. */
static int read_counters(const hod_tensor_file *f, const char *path, const hod_trainer *t,
                         counter c[COUNTERS])
{
    const char *what = hod_tensor_file_note(f, "kind");
    if (!what || strcmp(what, kind) != 0)
        return HOD_FAIL_RC(FORMAT, "%s: no checkpoint of a trainer", path);
    counters_of(t, c);
    for (int i = 0; i < COUNTERS; i++) {
        const char *text = hod_tensor_file_note(f, c[i].name);
        int64_t mine = c[i].value;
        if (!read_number(&text, &c[i].value) || *text || (i != SEED && c[i].value < 0))
            return HOD_FAIL_RC(FORMAT, "%s: the note \"%s\" is no count", path, c[i].name);
        if (i == OPTIMIZER && c[i].value != mine)
            return HOD_FAIL_RC(ARGUMENT, "%s: %s is %s there, %s here", path, c[i].name,
                               optimizer_name(c[i].value), optimizer_name(mine));
        if ((i == SEED || i == EFFECTIVE_BATCH) && c[i].value != mine)
            return HOD_FAIL_RC(ARGUMENT, "%s: %s is %lld there, %lld here", path, c[i].name,
                               (long long)c[i].value, (long long)mine);
    }
    return 0;
}

/* Reads the steps into out, one for each of the optimizer's entries. */
static int read_steps(const hod_tensor_file *f, const char *path, int64_t n, int64_t *out)
{
    const char *text = hod_tensor_file_note(f, "steps");
    for (int64_t i = 0; i < n; i++)
        if (!read_number(&text, &out[i]) || out[i] < 0)
            return HOD_FAIL_RC(ARGUMENT,
                               "%s: is of another network: its steps are not those of the %lld "
                               "parameters here",
                               path, (long long)n);
    return 0;
}

static void take_over(hod_trainer *t, const counter c[COUNTERS], const int64_t *steps,
                      const char *seconds)
{
    for (int64_t i = 0; i < hod_optimizer_count(t->optimizer); i++)
        hod_optimizer_set_step(t->optimizer, i, steps[i]);
    t->updates = c[UPDATES].value;
    t->skipped = c[SKIPPED].value;
    t->samples = c[SAMPLES].value;
    t->at = (hod_position){c[EPOCH].value, c[SAMPLE].value};
    t->loaded_count = c[COUNT].value;
    t->seconds = seconds ? strtod(seconds, NULL) : 0;
}

int hod_trainer_load(hod_trainer *t, const char *path)
{
    if (hod__null("trainer_load", "trainer", t) || hod__null("trainer_load", "path", path))
        return -1;
    if (t->data)
        return HOD_FAIL_RC(STATE, "trainer: %s comes after the first step", path);
    hod_tensor_file *f = hod_tensor_file_open(path);
    if (!f)
        return -1;
    hod_names l = {0};
    counter c[COUNTERS];
    int64_t n = hod_optimizer_count(t->optimizer), *steps = hod__alloc((size_t)n, sizeof *steps);
    int rc = steps && read_counters(f, path, t, c) == 0 && read_steps(f, path, n, steps) == 0 &&
                     collect(&l, t) == 0
                 ? hod_load_into(f, l.items, l.n, true, NULL)
                 : -1;
    if (rc == 0)
        take_over(t, c, steps, hod_tensor_file_note(f, "seconds"));
    free(steps);
    hod__names_free(&l);
    hod_tensor_file_close(&f);
    return rc;
}

int hod_trainer_resume(hod_trainer *t, const char *dir)
{
    char path[4096];
    if (hod__null("trainer_resume", "trainer", t) || hod__null("trainer_resume", "directory", dir))
        return -1;
    int found = hod_checkpoint_latest(dir, path, sizeof path);
    return found != 1 ? found : hod_trainer_load(t, path) == 0 ? 1 : -1;
}
