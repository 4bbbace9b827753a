/* From a config to what runs: dataset, network, trainer.
 *
 * Nothing here writes. The order is that of the questions a user may have got wrong: the config by
 * itself, the data, the two together, the network's size. Only the sub-command makes directories.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- errors ---- */

int cli_setup_status(void)
{
    hod_error_kind k = hod_error_kind_pending();
    return k == HOD_ERROR_MEMORY || k == HOD_ERROR_COMPILE ? CLI_FAILED : CLI_USAGE;
}

int cli_fail(int status)
{
    hod_error_record e;
    if (hod_error_take(&e))
        fprintf(stderr, e.kind == HOD_ERROR_CONFIG ? "%s\n" : "hod: %s\n", e.text);
    return status;
}

static int refuse(const char *what, const char *have, const char *want)
{
    hod_refuse("%s: %s is not there yet, wanted %s", what, have, want);
    return -1;
}

/* ---- the config ---- */

int cli_config_load(hod_config *c, const cli_options *o)
{
    if (hod_config_load(c, o->file, o->overrides, o->n_overrides) != 0)
        return -1;
    if (c->precision == HOD_PRECISION_BF16 || c->precision == HOD_PRECISION_FP16)
        return refuse("precision", c->precision == HOD_PRECISION_BF16 ? "bf16" : "fp16",
                      "fp32 or auto");
    if (c->recompute == HOD_RECOMPUTE_FULL || c->recompute == HOD_RECOMPUTE_FRACTION)
        return refuse("recompute", c->recompute == HOD_RECOMPUTE_FULL ? "full" : "a fraction",
                      "none or auto");
    if (c->model.norm == HOD_NORM_BATCH && c->model.batchnorm == HOD_BATCHNORM_EXACT)
        return refuse("model.batchnorm", "exact", "pooled, micro or frozen");
    if (c->reproducible)
        return refuse("reproducible", "true", "false");
    if (c->compile.dynamic == HOD_DYNAMIC_OFF)
        return refuse("compile.dynamic", "false", "auto or true");
    return c->threads > 0 ? hod_set_threads((int)c->threads) : 0;
}

/* ---- data ---- */

static hod_shape shape_of(const hod_int_list *l)
{
    return hod_shape_of(l->n < HOD_MAX_DIMS ? l->n : HOD_MAX_DIMS, l->at);
}

/* Both splits of made-up images: the test split is what follows the training split. */
static int synthetic_open(cli_run *r)
{
    const hod_config *c = &r->config;
    int64_t count = c->data.count, held = count / 5 + 1;
    hod_dataset *all = hod_synthetic_dataset(shape_of(&c->data.shape), .classes = c->data.classes,
                                             .count = count + held, .seed = c->seed);
    r->train = hod_dataset_slice(all, 0, count);
    r->test = hod_dataset_slice(all, count, held);
    hod_dataset_free(all);
    return r->train && r->test ? 0 : -1;
}

static int fashion_mnist_open(cli_run *r)
{
    const char *dir =
        r->config.data.path[0] ? r->config.data.path : "/usr/share/datasets/fashion-mnist";
    char path[HOD_CONFIG_PATH + 16];
    snprintf(path, sizeof path, "%s/train", dir);
    r->train = hod_idx_dataset(path);
    snprintf(path, sizeof path, "%s/t10k", dir);
    r->test = r->train ? hod_idx_dataset(path) : NULL;
    return r->test ? 0 : -1;
}

/* Replaces *d by its first `limit` samples. */
static int limit_to(hod_dataset **d, int64_t limit)
{
    if (!*d || limit == 0 || limit >= hod_dataset_count(*d))
        return 0;
    hod_dataset *first = hod_dataset_slice(*d, 0, limit);
    hod_dataset_free(*d);
    *d = first;
    return first ? 0 : -1;
}

static int idx_open(cli_run *r)
{
    const char *path = r->config.data.path;
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        hod_refuse(
            "data.path: %s is a directory; idx wants what the names of its files begin with, "
            "as %s%strain",
            path, path, path[strlen(path) - 1] == '/' ? "" : "/");
        return -1;
    }
    return (r->train = hod_idx_dataset(path)) ? 0 : -1;
}

/* A window cut from a padded image should hold some of it. */
static int check_crop(const cli_run *r)
{
    int64_t crop = r->config.data.augment.crop;
    hod_shape s = hod_dataset_shape(r->train);
    int64_t least = s.n < 2 ? 0 : s.d[s.n - 1] < s.d[s.n - 2] ? s.d[s.n - 1] : s.d[s.n - 2];
    if (s.n < 2 || crop < least)
        return 0;
    hod_refuse("data.augment.crop: %lld pixels of padding, but the images of %s have %lld",
               (long long)crop, hod_dataset_name(r->train), (long long)least);
    return -1;
}

static int data_open(cli_run *r)
{
    const hod_config *c = &r->config;
    int rc;
    if (strcmp(c->data.name, "synthetic") == 0)
        rc = synthetic_open(r);
    else if (strcmp(c->data.name, "fashion-mnist") == 0)
        rc = fashion_mnist_open(r);
    else
        rc = idx_open(r);
    if (rc != 0 || check_crop(r) != 0 || limit_to(&r->train, c->data.limit) != 0 ||
        limit_to(&r->test, c->data.limit) != 0)
        return -1;
    int64_t have = hod_dataset_classes(r->train), want = c->model.num_classes;
    if (want != HOD_AUTO && want < have) {
        hod_refuse("model.num_classes: %lld, but %s has labels up to %lld", (long long)want,
                   hod_dataset_name(r->train), (long long)have - 1);
        return -1;
    }
    hod_shape s = hod_dataset_shape(r->train);
    if (c->model.in_channels != HOD_AUTO && (s.n != 3 || s.d[0] != c->model.in_channels)) {
        hod_refuse("model.in_channels: %lld, but the samples of %s have %lld",
                   (long long)c->model.in_channels, hod_dataset_name(r->train),
                   (long long)(s.n ? s.d[0] : 1));
        return -1;
    }
    return 0;
}

/* ---- network and trainer ---- */

static hod_module *net_new(const cli_run *r)
{
    const hod_config *c = &r->config;
    static const hod_batch_norm_mode modes[] = {
        [HOD_BATCHNORM_POOLED] = HOD_BN_POOLED,
        [HOD_BATCHNORM_MICRO] = HOD_BN_MICRO,
        [HOD_BATCHNORM_FROZEN] = HOD_BN_FROZEN,
    };
    hod_module *net =
        model_new(c->model.name, .shape = hod_dataset_shape(r->train), .norm = c->model.norm,
                  .num_classes = c->model.num_classes != HOD_AUTO ? c->model.num_classes
                                                                  : hod_dataset_classes(r->train),
                  .batch_norm = modes[c->model.batchnorm], .layers = c->model.layers,
                  .dropout = c->model.dropout);
    if (!net || hod_module_init(net, c->seed) != 0 || (c->init[0] && hod_load(net, c->init) != 0)) {
        hod_module_free(net);
        return NULL;
    }
    return net;
}

/* The loss that the config describes. A loss function has no argument for settings, and one process
 * trains one network. */
static struct {
    int64_t ignore_index;
    double label_smoothing;
} loss_settings;

static hod_loss classify(hod_module *net, const hod_batch *b)
{
    return hod_cross_entropy(hod_call(net, b->input), b->target,
                             .ignore_index = loss_settings.ignore_index,
                             .label_smoothing = loss_settings.label_smoothing);
}

static hod_optimizer_spec optimizer_of(const hod_config *c)
{
    static const hod_optimizer_kind kinds[] = {
        [HOD_OPTIMIZER_SGD] = HOD_SGD,
        [HOD_OPTIMIZER_ADAM] = HOD_ADAM,
        [HOD_OPTIMIZER_ADAMW] = HOD_ADAMW,
    };
    uint32_t decay = c->optimizer.no_decay & HOD_NO_DECAY_BIAS ? 0 : HOD_DECAY_BIAS;
    decay |= c->optimizer.no_decay & HOD_NO_DECAY_NORM ? 0 : HOD_DECAY_NORM;
    bool sgd = c->optimizer.name == HOD_OPTIMIZER_SGD;
    return (hod_optimizer_spec){
        .kind = kinds[c->optimizer.name],
        .lr = c->optimizer.lr,
        .weight_decay = c->optimizer.weight_decay,
        .momentum = sgd ? c->optimizer.momentum : 0,
        .nesterov = sgd && c->optimizer.nesterov,
        .beta1 = sgd ? 0 : c->optimizer.betas.at[0],
        .beta2 = sgd ? 0 : c->optimizer.betas.at[1],
        .eps = sgd ? 0 : c->optimizer.eps,
        .no_eps = !sgd && c->optimizer.eps == 0,
        .decay = decay,
        .ema = c->ema,
    };
}

int64_t cli_updates_of(const hod_period *p, int64_t updates_per_epoch)
{
    int64_t n;
    if (!p->epochs)
        return p->n;
    return __builtin_mul_overflow(p->n, updates_per_epoch, &n) ? INT64_MAX : n;
}

static hod_schedule schedule_of(const hod_config *c, int64_t samples)
{
    int64_t e = c->effective_batch,
            epoch = c->last_window == HOD_WINDOW_DROP ? samples / e : (samples + e - 1) / e;
    int64_t every = cli_updates_of(&c->schedule.every, epoch);
    return (hod_schedule){
        .kind = c->schedule.name,
        .epochs = (double)c->epochs, /* whole ones: `updates` stops a run, it bends no curve */
        .warmup = c->schedule.warmup,
        .every = every,
        .gamma = c->schedule.gamma,
        .final = c->schedule.min_lr,
        .div = c->schedule.div,
        .final_div = c->schedule.final_div,
    };
}

static hod_trainer *trainer_new(const cli_run *r)
{
    const hod_config *c = &r->config;
    hod_trainer_spec s = {
        .effective_batch = c->effective_batch,
        .memory_budget = c->memory_budget,
        .micro_batch = c->micro_batch == HOD_AUTO ? 0 : c->micro_batch,
        .optimizer = optimizer_of(c),
        .schedule = schedule_of(c, hod_dataset_count(r->train)),
        .clip_norm = c->clip_norm,
        .last_window = c->last_window,
        .epochs = c->epochs,
        .updates = c->updates,
        .seed = c->seed,
        .compile = !c->compile.enabled                           ? HOD_COMPILE_EAGER
                   : c->compile.mode == HOD_MODE_REDUCE_OVERHEAD ? HOD_COMPILE_REDUCE_OVERHEAD
                                                                 : HOD_COMPILE_DEFAULT,
        .fullgraph = c->compile.fullgraph,
        .loader = {.workers = (int)c->data.workers,
                   .crop = (int)c->data.augment.crop,
                   .flip = c->data.augment.flip},
    };
    hod_shape shape = hod_dataset_shape(r->train);
    if (c->data.normalize && shape.n == 3 && shape.d[0] <= HOD_MAX_CHANNELS &&
        hod_dataset_moments(r->train, 10000, s.loader.mean, s.loader.std) != 0)
        return NULL;
    loss_settings.ignore_index = c->loss.ignore_index;
    loss_settings.label_smoothing = c->loss.label_smoothing;
    return hod_trainer_make(r->net, classify, s);
}

int cli_run_open(cli_run *r)
{
    return data_open(r) == 0 && (r->net = net_new(r)) && (r->trainer = trainer_new(r)) ? 0 : -1;
}

/* One line for each value that was set and is not looked at here. */
void cli_run_notes(const cli_run *r, FILE *out)
{
    const hod_config *c = &r->config;
    hod_config usual;
    hod_config_defaults(&usual);
    bool one_cycle = c->schedule.name == HOD_SCHEDULE_ONE_CYCLE;
    const struct {
        bool unused;
        const char *key, *reader;
    } check[] = {
        {strcmp(c->model.name, "mlp") != 0 &&
             memcmp(&c->model.layers, &usual.model.layers, sizeof usual.model.layers) != 0,
         "model.layers", "an mlp"},
        {strcmp(c->data.name, "synthetic") == 0 && c->data.path[0], "data.path", "data from files"},
        {c->schedule.name != HOD_SCHEDULE_COSINE && c->schedule.min_lr != usual.schedule.min_lr,
         "schedule.min_lr", "schedule.name cosine"},
        {c->schedule.name != HOD_SCHEDULE_STEP && c->schedule.gamma != usual.schedule.gamma,
         "schedule.gamma", "schedule.name step"},
        {!one_cycle && c->schedule.div != usual.schedule.div, "schedule.div",
         "schedule.name onecycle"},
        {!one_cycle && c->schedule.final_div != usual.schedule.final_div, "schedule.final_div",
         "schedule.name onecycle"},
    };
    for (size_t i = 0; i < sizeof check / sizeof *check; i++)
        if (check[i].unused)
            fprintf(out, "hod: %s is not used: it belongs to %s\n", check[i].key, check[i].reader);
    if (!r->test)
        fprintf(out, "hod: %s has no test split, so nothing is evaluated\n", c->data.name);
}

void cli_run_close(cli_run *r)
{
    hod_trainer_free(r->trainer);
    hod_module_free(r->net);
    hod_dataset_free(r->train);
    hod_dataset_free(r->test);
    r->trainer = NULL;
    r->net = NULL;
    r->train = r->test = NULL;
}

/* ---- files ---- */

int cli_output_check(const char *path)
{
    char dir[HOD_CONFIG_PATH + 64];
    struct stat st;
    snprintf(dir, sizeof dir, "%s", path[0] ? path : ".");
    while (stat(dir, &st) != 0) { /* up to what is there */
        char *slash = strrchr(dir, '/');
        if (errno != ENOENT) {
            hod_refuse("output %s: %s", path, strerror(errno));
            return -1;
        }
        if (!slash)
            snprintf(dir, sizeof dir, ".");
        else
            slash[slash == dir] = '\0';
    }
    if (!S_ISDIR(st.st_mode) || access(dir, W_OK | X_OK) != 0) {
        hod_refuse("output %s: %s: %s", path, dir,
                   S_ISDIR(st.st_mode) ? strerror(errno) : strerror(ENOTDIR));
        return -1;
    }
    return 0;
}

int cli_output_lock(const char *path)
{
    int fd = open(path[0] ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : (hod_refuse("output %s: %s", path, strerror(errno)), -1);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 1; /* some file systems have no locks; `fd` stays open as long as the process */
    close(fd);
    hod_refuse("output %s: another hod train is running there", path);
    return -1;
}

char *cli_output_path(const hod_config *c, const char *name, char buf[HOD_CONFIG_PATH + 64])
{
    snprintf(buf, HOD_CONFIG_PATH + 64, "%s/%s", c->output, name);
    return buf;
}

int cli_write_file(const char *path, int (*write)(const void *what, FILE *out), const void *what)
{
    char aside[HOD_CONFIG_PATH + 128];
    snprintf(aside, sizeof aside, "%s.tmp-%ld-0", path, (long)getpid());
    FILE *f = fopen(aside, "w");
    int rc = f ? write(what, f) : -1;
    if (f && fclose(f) != 0)
        rc = -1;
    if (rc == 0)
        rc = rename(aside, path);
    if (rc != 0) {
        int why = errno; /* what was being written knows less than this */
        hod_error_take(NULL);
        hod_refuse("%s: %s", path, strerror(why));
        unlink(aside);
    }
    return rc;
}
