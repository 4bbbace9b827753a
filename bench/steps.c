/* One training step of hod, timed: what stands beside bench/peer/peer.py, case by case.
 *
 *     steps mlp                        # one JSON object on standard output
 *     steps resnet18 --mode eager --seconds 30
 *
 * A step is forward, cross entropy, backward and optimizer, as in the peer: f32, the same networks,
 * optimizers and settings, fixed random data. As in hod's trainer there are two compiled functions
 * in one arena: forward and backward, then the update, which needs the norm of all gradients
 * anyway.
 *
 * Keys: ms_median, ms_min (over `steps` steps after warm-up), compile_seconds (the first step, as
 * in the peer), program_seconds (of it: passes, generated C, the system compiler and loading; warm
 * when HOD_CACHE_DIR holds the kernels), kernels, compiled (by this run), rss_bytes (peak resident
 * size from before the network to the end, less what was resident before), allocated_bytes (peak of
 * hod's allocator: parameters, optimizer state, data and arena), planned_bytes (the arena).
 */
#include "models/models.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench_case {
    const char *name, *network;
    int64_t batch;
    hod_shape shape; /* of one input */
    int64_t classes;
    hod_int_list layers;
    bool sgd; /* else AdamW */
} bench_case;

static const bench_case cases[] = {
    {"mlp", "mlp", 64, {1, {784}}, 10, {2, {256, 256}}, false},
    {"tiny", "mlp", 16, {1, {32}}, 8, {2, {64, 64}}, false},
    {"resnet18", "resnet18", 64, {3, {3, 32, 32}}, 10, {0}, false},
    {"resnet50", "resnet50", 8, {3, {3, 224, 224}}, 1000, {0}, true},
};

static const struct {
    const char *name;
    hod_compile_mode mode;
} modes[] = {{"compile", HOD_COMPILE_DEFAULT},
             {"reduce", HOD_COMPILE_REDUCE_OVERHEAD},
             {"eager", HOD_COMPILE_EAGER}};

typedef struct step {
    hod_module *net;
    hod_optimizer *opt;
    hod_tensor *x, *y;
    hod_arena *arena;
    hod_fn *accumulate, *update;
    hod_update_spec spec; /* factor: 1 / batch */
} step;

/* in: input, target; out: the sum of the losses. */
static int accumulate_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    step *s = job;
    hod_loss l = hod_cross_entropy(hod_call(s->net, in[0]), in[1]);
    out[0] = hod_detach(l.sum);
    return hod_backward(l.sum);
}

static int update_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    step *s = job;
    (void)in, (void)out;
    return hod_update_body(s->opt, &s->spec);
}

static int step_run(step *s)
{
    HOD_SCOPE(scope);
    hod_update_result r;
    hod_tensor *loss;
    return hod_fn_call(s->accumulate, (hod_tensor *[]){s->x, s->y}, &loss) == 0 &&
                   hod_update_prepare(s->opt, &s->spec) == 0 &&
                   hod_fn_call(s->update, NULL, NULL) == 0 &&
                   hod_update_finish(s->opt, &s->spec, &r) == 0
               ? 0
               : -1;
}

static int step_new(step *s, const bench_case *c, hod_compile_mode mode)
{
    HOD_SCOPE(scope);
    hod_shape shape = {.n = c->shape.n + 1, .d = {c->batch}};
    memcpy(shape.d + 1, c->shape.d, (size_t)c->shape.n * sizeof *shape.d);
    int64_t targets[64];
    for (int64_t i = 0; i < c->batch; i++)
        targets[i] = i * 7 % c->classes;
    s->net = model_new(c->network, .num_classes = c->classes, .shape = c->shape,
                       .norm = HOD_NORM_BATCH, .batch_norm = HOD_BN_MICRO, .layers = c->layers);
    s->opt = hod_optimizer_new(
        s->net, c->sgd ? hod_sgd(.lr = 1e-4, .momentum = 0.9, .decay = HOD_DECAY_ALL)
                       : hod_adamw(.lr = 1e-4, .weight_decay = 0.01, .decay = HOD_DECAY_ALL));
    s->spec.factor = 1 / (double)c->batch;
    s->arena = hod_arena_new();
    s->accumulate = hod_compile(accumulate_body, s, .inputs = 2, .outputs = 1, .mode = mode);
    s->update = hod_compile(update_body, s, .inputs = 0, .mode = mode);
    if (hod_fn_set_arena(s->accumulate, s->arena) != 0 ||
        hod_fn_set_arena(s->update, s->arena) != 0)
        return -1;
    if (hod_random_begin(1, 0, NULL) != 0)
        return -1;
    s->x = hod_tensor_retain(hod_sub_scalar(hod_mul_scalar(hod_uniform(shape), 3.46), 1.73));
    s->y = hod_tensor_retain(hod_from_ints(targets, HOD_SHAPE(c->batch)));
    return s->net && s->opt && s->x && s->y ? 0 : -1;
}

static void step_free(step *s)
{
    hod_fn_free(s->accumulate);
    hod_fn_free(s->update);
    hod_arena_free(s->arena);
    hod_optimizer_free(s->opt);
    hod_module_free(s->net);
    hod_tensor_release(s->x);
    hod_tensor_release(s->y);
}

/* ---- measuring ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes of a line of /proc/self/status; 0 when there is none. */
static int64_t status(const char *key)
{
    char line[256];
    long long kib = 0;
    size_t n = strlen(key);
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && line[n] == ':')
            sscanf(line + n + 1, "%lld", &kib);
    if (f)
        fclose(f);
    return 1024 * kib;
}

/* Peak resident size starts again from what is resident now. */
static void reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(const bench_case *c, int mode, double limit)
{
    enum { MOST = 1 << 20 };
    double *ms = calloc(MOST, sizeof *ms);
    step s = {0};
    reset_peak();
    int64_t resident = status("VmRSS");
    int rc = ms ? step_new(&s, c, modes[mode].mode) : -1;
    hod_memory_reset_peak();
    double begin = seconds();
    rc = rc == 0 ? step_run(&s) : rc;
    double first = seconds() - begin;
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = step_run(&s);
    int64_t n = 0;
    for (double end = seconds() + limit; rc == 0 && n < MOST && (n < 5 || begin < end); n++) {
        begin = seconds();
        rc = step_run(&s);
        ms[n] = 1e3 * (seconds() - begin);
    }
    if (rc == 0) {
        qsort(ms, (size_t)n, sizeof *ms, by_size);
        hod_compile_report a = hod_fn_report(s.accumulate), u = hod_fn_report(s.update);
        rc = hod_event(stdout, "step", HOD_TEXT("model", c->name),
                       HOD_TEXT("mode", modes[mode].name), HOD_NUMBER("ms_median", ms[n / 2]),
                       HOD_NUMBER("ms_min", ms[0]), HOD_INT("steps", n),
                       HOD_NUMBER("compile_seconds", first),
                       HOD_NUMBER("program_seconds", a.compile_seconds + u.compile_seconds),
                       HOD_INT("kernels", a.kernels + u.kernels),
                       HOD_INT("compiled", a.kernels_compiled + u.kernels_compiled),
                       HOD_INT("library_calls", a.library_calls),
                       HOD_INT("rss_bytes", status("VmHWM") - resident),
                       HOD_INT("allocated_bytes", hod_memory().allocated_peak),
                       HOD_INT("planned_bytes", hod_arena_bytes(s.arena)));
    }
    step_free(&s);
    free(ms);
    return rc;
}

static int usage(void)
{
    fprintf(stderr, "usage: steps mlp|tiny|resnet18|resnet50 [--mode compile|reduce|eager] "
                    "[--seconds S] [--threads N]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const bench_case *c = NULL;
    double limit = 5;
    int mode = 0, threads = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            c = &cases[i];
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            limit = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--mode") == 0)
            for (mode = 0; mode < 3 && strcmp(argv[i + 1], modes[mode].name) != 0;)
                mode++;
    }
    if (!c || mode == 3 || argc % 2)
        return usage();
    if (hod_set_threads(threads) == 0)
        (void)measure(c, mode, limit);
    return hod_finish();
}
