/* Configs: the YAML file of a run, checked against a table of keys.
 *
 *     hod_config c;
 *     if (hod_config_load(&c, "configs/fashion-mnist.yaml",
 *                         (const char *[]){"optimizer.lr=1e-3", "memory_budget=512MiB"}, 2))
 *         return hod_finish(), 2;     // configs/x.yaml:7:3: unknown key "optimiser"; did you ...
 *     hod_config_print(&c, stdout);   // the effective config, as YAML
 *
 * The struct mirrors the file: key `optimizer.lr` is field c.optimizer.lr. Every field has its
 * default before the file is read; `hod_config_describe` lists keys, defaults and meanings. A
 * value that is off, by its type, its range or together with another, is an error that names file,
 * line and column.
 */
#ifndef HOD_CONFIG_H
#define HOD_CONFIG_H

#include <hod/error.h>
#include <hod/schedule.h>
#include <stdint.h>
#include <stdio.h>

enum {
    HOD_CONFIG_NAME = 64,  /* bytes of a name */
    HOD_CONFIG_PATH = 512, /* bytes of a path */
    HOD_CONFIG_LIST = 16,  /* entries of a list */
    HOD_AUTO = -1,         /* the value `auto` of an integer key */
};

/* A period: "500 updates" or "1 epochs". n == 0: never. */
typedef struct hod_period {
    int64_t n;
    bool epochs;
} hod_period;

typedef struct hod_int_list {
    int n;
    int64_t at[HOD_CONFIG_LIST];
} hod_int_list;

typedef struct hod_number_list {
    int n;
    double at[HOD_CONFIG_LIST];
} hod_number_list;

typedef enum hod_norm_choice { HOD_NORM_GROUP, HOD_NORM_BATCH } hod_norm_choice;
typedef enum hod_batchnorm_choice {
    HOD_BATCHNORM_POOLED,
    HOD_BATCHNORM_MICRO,
    HOD_BATCHNORM_EXACT,
    HOD_BATCHNORM_FROZEN
} hod_batchnorm_choice;
typedef enum hod_precision_choice {
    HOD_PRECISION_FP32,
    HOD_PRECISION_BF16,
    HOD_PRECISION_FP16,
    HOD_PRECISION_AUTO
} hod_precision_choice;
typedef enum hod_recompute_choice {
    HOD_RECOMPUTE_AUTO,
    HOD_RECOMPUTE_NONE,
    HOD_RECOMPUTE_FULL,
    HOD_RECOMPUTE_FRACTION
} hod_recompute_choice;
typedef enum hod_window_choice { HOD_WINDOW_FLUSH, HOD_WINDOW_DROP } hod_window_choice;
typedef enum hod_mode_choice { HOD_MODE_DEFAULT, HOD_MODE_REDUCE_OVERHEAD } hod_mode_choice;
typedef enum hod_dynamic_choice {
    HOD_DYNAMIC_AUTO,
    HOD_DYNAMIC_ON,
    HOD_DYNAMIC_OFF
} hod_dynamic_choice;
typedef enum hod_optimizer_choice {
    HOD_OPTIMIZER_SGD,
    HOD_OPTIMIZER_ADAM,
    HOD_OPTIMIZER_ADAMW
} hod_optimizer_choice;
typedef hod_schedule_kind hod_schedule_choice;
enum { HOD_SCHEDULE_ONECYCLE = HOD_SCHEDULE_ONE_CYCLE };
/* Kinds of parameters without weight decay, bits of optimizer.no_decay. */
enum { HOD_NO_DECAY_BIAS = 1, HOD_NO_DECAY_NORM = 2 };

typedef struct hod_config {
    struct {
        char name[HOD_CONFIG_NAME]; /* required */
        int64_t num_classes;        /* HOD_AUTO: the dataset's */
        int64_t in_channels;        /* HOD_AUTO: the dataset's */
        hod_norm_choice norm;
        hod_batchnorm_choice batchnorm;
        hod_int_list layers; /* hidden sizes of an mlp */
        double dropout;
    } model;
    struct {
        char name[HOD_CONFIG_NAME]; /* required: fashion-mnist, idx, synthetic */
        char path[HOD_CONFIG_PATH]; /* a directory (fashion-mnist), a prefix (idx) */
        int64_t workers;
        int64_t limit; /* use the first samples only; 0: all */
        struct {
            int64_t crop; /* padding before the random window; 0: off */
            bool flip;
        } augment;
        bool normalize;         /* channels to mean 0, deviation 1 */
        hod_int_list shape;     /* of a synthetic sample */
        int64_t classes, count; /* of a synthetic dataset */
    } data;
    struct {
        int64_t ignore_index;
        double label_smoothing;
    } loss;
    int64_t effective_batch;
    int64_t memory_budget; /* bytes; 0: none */
    int64_t micro_batch;   /* or HOD_AUTO */
    hod_recompute_choice recompute;
    double recompute_fraction; /* with HOD_RECOMPUTE_FRACTION: memory to keep, 0..1 */
    hod_precision_choice precision;
    hod_window_choice last_window;
    struct {
        bool enabled;
        hod_mode_choice mode;
        hod_dynamic_choice dynamic;
        bool fullgraph;
    } compile;
    struct {
        hod_optimizer_choice name;
        double lr, weight_decay, momentum;
        bool nesterov;
        hod_number_list betas; /* two */
        double eps;
        uint32_t no_decay;
    } optimizer;
    struct {
        hod_schedule_choice name;
        double warmup;         /* a fraction of all updates */
        double min_lr;         /* cosine: the last rate, as a fraction of lr */
        hod_period every;      /* step */
        double gamma;          /* step */
        double div, final_div; /* onecycle: lr/div at first, that/final_div at the end */
    } schedule;
    double clip_norm; /* 0: off */
    double ema;       /* decay; 0: off */
    int64_t epochs;
    int64_t updates; /* ends earlier after so many; 0: epochs alone decide */
    uint64_t seed;
    bool reproducible; /* same bits for any thread count */
    int64_t threads;   /* HOD_AUTO: OMP_NUM_THREADS or all cores */
    hod_period eval_every, log_every;
    struct {
        hod_period every;
        int64_t keep;
    } checkpoint;
    char output[HOD_CONFIG_PATH];
    char init[HOD_CONFIG_PATH]; /* weights to begin with; "": fresh ones */
} hod_config;

/* Every field's default. */
HOD_API void hod_config_defaults(hod_config *c);
/* Defaults, then the file, then n overrides `key=value`, then the checks between values. 0 or -1;
 * *c is only written on success. */
HOD_API int hod_config_load(hod_config *c, const char *path, const char *const *overrides, int n);
/* The same for a text in memory; `name` stands for the file in messages. */
HOD_API int hod_config_parse(hod_config *c, const char *name, const char *text, size_t length,
                             const char *const *overrides, int n);
/* The word of "a|b|c" that `word` may have been meant to be, in buf; NULL: none is near. */
HOD_API const char *hod_nearest_word(const char *word, const char *words, char *buf, size_t cap);
/* The effective config as YAML that hod_config_load reads back to the same values. */
HOD_API int hod_config_print(const hod_config *c, FILE *out);
/* All keys with types, defaults and meanings. */
HOD_API int hod_config_describe(FILE *out);

/* "96MiB", "1.5GiB", "4096": bytes, or -1 with an error. */
HOD_API int64_t hod_parse_bytes(const char *text);

#ifndef HOD_NO_PLACES
#define hod_config_load(...)     HOD_PLACED(int, hod_config_load(__VA_ARGS__))
#define hod_config_parse(...)    HOD_PLACED(int, hod_config_parse(__VA_ARGS__))
#define hod_config_print(...)    HOD_PLACED(int, hod_config_print(__VA_ARGS__))
#define hod_config_describe(...) HOD_PLACED(int, hod_config_describe(__VA_ARGS__))
#define hod_parse_bytes(...)     HOD_PLACED(int64, hod_parse_bytes(__VA_ARGS__))
#endif

#endif
