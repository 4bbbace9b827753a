/* Configs: every error names its place, and what is printed reads back. */
#include "scratch.h"

#include "base/base.h"
#include "io/config_keys.h"
#include <hod/config.h>

#define LEAST "model: {name: mlp}\ndata: {name: synthetic}\n"

static int parse(hod_config *c, const char *text)
{
    return hod_config_parse(c, "x.yaml", text, strlen(text), NULL, 0);
}

/* LEAST plus `more` is refused with `message`; `more` begins on line 3. */
static void refused(const char *more, const char *message)
{
    char text[1024];
    hod_config c;
    snprintf(text, sizeof text, LEAST "%s", more);
    ERROR_IS(message, parse(&c, text));
}

static void override_refused(const char *override, const char *message)
{
    hod_config c;
    ERROR_IS(message,
             hod_config_parse(&c, "x.yaml", LEAST, strlen(LEAST), (const char *[]){override}, 1));
}

TEST(config_defaults_are_valid)
{
    hod_config c;
    hod_config_defaults(&c);
    CHECK(!hod_error());
    CHECK(!parse(&c, LEAST));
    EQ_STR(c.model.name, "mlp");
    EQ_INT(c.effective_batch, 256);
    EQ_INT(c.micro_batch, HOD_AUTO);
    EQ_INT(c.model.layers.n, 2);
    EQ_INT(c.optimizer.no_decay, HOD_NO_DECAY_BIAS | HOD_NO_DECAY_NORM);
    NEAR(c.optimizer.betas.at[1], 0.999, 0);
    EQ_INT(c.loss.ignore_index, -100);
    CHECK(c.compile.enabled && c.data.normalize && !c.reproducible);
}

TEST(config_reads_the_documented_example)
{
    static const char text[] =
        "model:      {name: resnet18, num_classes: 10, in_channels: 1}\n"
        "data:       {name: fashion-mnist, path: /usr/share/datasets/fashion-mnist, workers: 2}\n"
        "effective_batch: 256        # samples per update, over all ranks\n"
        "memory_budget: 512MiB       # per rank\n"
        "micro_batch: auto\n"
        "recompute: auto\n"
        "precision: fp32\n"
        "last_window: flush\n"
        "compile:    {enabled: true, mode: default, dynamic: auto, fullgraph: false}\n"
        "optimizer:  {name: adamw, lr: 1.0e-3, weight_decay: 0.05, no_decay: [bias, norm]}\n"
        "schedule:   {name: onecycle, warmup: 0.05}\n"
        "clip_norm: 1.0\n"
        "ema: 0.999\n"
        "epochs: 2\n"
        "seed: 18446744073709551615\n"
        "checkpoint: {every: 500 updates, keep: 3}\n"
        "output: runs/demo\n"
        "init: weights.safetensors\n";
    hod_config c;
    if (parse(&c, text))
        FAIL("%s", hod_error());
    EQ_INT(c.memory_budget, (int64_t)512 << 20);
    EQ_INT(c.data.workers, 2);
    NEAR(c.optimizer.lr, 1e-3, 0);
    EQ_INT(c.optimizer.name, HOD_OPTIMIZER_ADAMW);
    EQ_INT(c.schedule.name, HOD_SCHEDULE_ONE_CYCLE);
    EQ_INT(c.checkpoint.every.n, 500);
    CHECK(!c.checkpoint.every.epochs);
    CHECK(c.seed == UINT64_MAX);
    EQ_STR(c.init, "weights.safetensors");
}

TEST(config_suggests_the_nearest_key)
{
    refused("optimiser: {lr: 1}\n", "x.yaml:3:1: unknown key \"optimiser\"; did you mean "
                                    "\"optimizer\"?");
    refused("optimizer:\n  wieght_decay: 0.1\n",
            "x.yaml:4:3: unknown key \"wieght_decay\"; did you mean \"weight_decay\"?");
    refused("lr: 0.1\n", "x.yaml:3:1: unknown key \"lr\"; did you mean \"optimizer.lr\"?");
    refused("Epochs: 1\n", "x.yaml:3:1: unknown key \"Epochs\"; did you mean \"epochs\"?");
    refused("microbatch: 1\n", "x.yaml:3:1: unknown key \"microbatch\"; did you mean "
                               "\"micro_batch\"?");
    refused("compile: {fullgrph: true}\n",
            "x.yaml:3:11: unknown key \"fullgrph\"; did you mean \"fullgraph\"?");
    refused("zebra: 1\n", "x.yaml:3:1: unknown key \"zebra\"");
    override_refused("optimizr.lr=1", "command line: unknown key \"optimizr.lr\"; did you mean "
                                      "\"optimizer.lr\"?");
    override_refused("lr=1", "command line: unknown key \"lr\"; did you mean \"optimizer.lr\"?");
}

TEST(config_names_wrong_types_and_ranges)
{
    refused("effective_batch: many\n", "x.yaml:3:18: effective_batch: \"many\" is not an integer");
    refused("effective_batch: 0\n",
            "x.yaml:3:18: effective_batch: 0 is outside 1..9007199254740992");
    refused("effective_batch: 2.5\n", "x.yaml:3:18: effective_batch: \"2.5\" is not an integer");
    refused("effective_batch: 99999999999999999999\n",
            "x.yaml:3:18: effective_batch: \"99999999999999999999\" is not an integer");
    refused("micro_batch: automatic\n",
            "x.yaml:3:14: micro_batch: \"automatic\" is not an integer, nor auto");
    refused("optimizer: {lr: -1}\n", "x.yaml:3:17: optimizer.lr: -1 is outside 0..1e+06");
    refused("optimizer: {lr: .nan}\n", "x.yaml:3:17: optimizer.lr: \".nan\" is not a number");
    refused("optimizer: {lr: nan}\n", "x.yaml:3:17: optimizer.lr: \"nan\" is not a number");
    refused("optimizer: 3\n", "x.yaml:3:12: optimizer: keys and values expected");
    refused("optimizer: {lr: {a: 1}}\n",
            "x.yaml:3:17: optimizer.lr: a value expected, not keys and values");
    refused("optimizer: {lr: [1]}\n", "x.yaml:3:17: optimizer.lr: one value expected, not a list");
    refused("optimizer: {name: adamv}\n",
            "x.yaml:3:19: optimizer.name: \"adamv\" is none of sgd, adam, adamw; did you mean "
            "\"adam\"?");
    refused("optimizer: {no_decay: [bias, gain]}\n",
            "x.yaml:3:23: optimizer.no_decay: \"gain\" is none of bias, norm");
    refused("ema: 1\n", "x.yaml:3:6: ema: 1 is outside 0..1, excluded");
    refused("memory_budget: 96 megabytes\n",
            "x.yaml:3:16: memory_budget: \"96 megabytes\" is not a size like 96MiB, 1.5GiB or "
            "4096, nor none");
    refused("checkpoint: {every: 500 steps}\n",
            "x.yaml:3:21: checkpoint.every: \"500 steps\" is none of: 500 updates, 1 epochs, "
            "never");
    refused("compile: {enabled: maybe}\n",
            "x.yaml:3:20: compile.enabled: \"maybe\" is neither true nor false");
    refused("recompute: 1.5\n",
            "x.yaml:3:12: recompute: \"1.5\" is none of auto, none, full, nor a number in 0..1");
    refused("seed: -1\n", "x.yaml:3:7: seed: \"-1\" is not an integer in 0..18446744073709551615");
    refused("epochs: 1\nepochs: 2\n", "x.yaml:4:1: epochs: given twice");
    refused("? [a]\n: 1\n", "x.yaml:3:3: a key is a plain text");
    refused("epochs: [1\n", "x.yaml:4:1: not YAML: did not find expected ',' or ']'");
    refused("---\na: 1\n", "x.yaml:4:1: a second document; one config is expected");
    override_refused("epochs", "command line: \"epochs\" is not key=value");
    override_refused("epochs=x", "command line: epochs: \"x\" is not an integer");
    override_refused("epochs=", "command line: epochs: no value");
}

TEST(config_refuses_impossible_combinations)
{
    hod_config c;
    ERROR_IS("x.yaml: model.name is missing", parse(&c, "data: {name: synthetic}\n"));
    ERROR_IS("x.yaml: data.name is missing", parse(&c, "model: {name: mlp}\n"));
    ERROR_IS("x.yaml: model.name is missing", parse(&c, ""));
    ERROR_IS("x.yaml:1:1: keys and values expected", parse(&c, "- a\n"));
    refused("effective_batch: 16\nmicro_batch: 32\n",
            "x.yaml:4:14: micro_batch: 32 exceeds effective_batch 16");
    refused("optimizer: {name: adam, nesterov: true}\n",
            "x.yaml:3:35: optimizer.nesterov: needs optimizer.name sgd and a momentum");
    refused("optimizer: {momentum: 0.9}\n",
            "x.yaml:3:23: optimizer.momentum: belongs to sgd; adam and adamw have betas");
    refused("optimizer: {betas: [0.9]}\n", "x.yaml:3:20: optimizer.betas: 1 numbers, two expected");
    refused("schedule: {name: step}\n", "x.yaml:3:18: schedule.name: step needs schedule.every");
    override_refused("micro_batch=300",
                     "command line: micro_batch: 300 exceeds effective_batch 256");
    override_refused("data.name=idx", "command line: data.name: idx needs data.path");
}

TEST(config_overrides_win_and_a_failure_writes_nothing)
{
    hod_config c;
    const char *overrides[] = {"optimizer.lr=1e-2",
                               "memory_budget=1.5GiB",
                               "model.layers=[8, 4]",
                               "optimizer={name: sgd, momentum: 0.9}",
                               "optimizer.lr=0.5",
                               "output=a/b c",
                               "init=",
                               "log_every=3 epochs"};
    static const char text[] = LEAST "optimizer: {lr: 3}\ninit: x\n";
    if (hod_config_parse(&c, "x.yaml", text, strlen(text), overrides, HOD_COUNT(overrides)))
        FAIL("%s", hod_error());
    NEAR(c.optimizer.lr, 0.5, 0);
    EQ_INT(c.memory_budget, 3LL << 29);
    EQ_INT(c.model.layers.at[1], 4);
    NEAR(c.optimizer.momentum, 0.9, 0);
    EQ_STR(c.output, "a/b c");
    EQ_STR(c.init, "");
    CHECK(c.log_every.epochs && c.log_every.n == 3);
    hod_config before = c;
    CHECK(parse(&c, LEAST "epochs: x\n") == -1 && hod_error_take(NULL));
    CHECK(memcmp(&before, &c, sizeof c) == 0);
}

static char *printed(const hod_config *c)
{
    static char text[2][8192];
    static int turn;
    char *out = text[turn ^= 1];
    FILE *f = fmemopen(out, sizeof text[0], "w");
    CHECK(f && !hod_config_print(c, f));
    fclose(f);
    return out;
}

TEST(config_prints_what_it_reads)
{
    hod_config a, b;
    const char *overrides[] = {"recompute=0.25",
                               "output=\"a: #\\\"b\\\"\"",
                               "optimizer.lr=0.1",
                               "model.layers=[1, 2, 3]",
                               "optimizer.no_decay=[]",
                               "memory_budget=96MiB",
                               "eval_every=never",
                               "seed=77",
                               "data.augment.flip=true",
                               "compile.dynamic=false",
                               "micro_batch=7",
                               "schedule.every=2 epochs",
                               "threads=2"};
    if (hod_config_parse(&a, "x.yaml", LEAST, strlen(LEAST), overrides, HOD_COUNT(overrides)))
        FAIL("%s", hod_error());
    char *text = printed(&a);
    CHECK(strstr(text, "memory_budget: 96MiB\n"));
    CHECK(strstr(text, "  augment:\n    crop: 0\n    flip: true\n  normalize: true\n"));
    CHECK(strstr(text, "recompute: 0.25\n"));
    if (parse(&b, text))
        FAIL("%s in:\n%s", hod_error(), text);
    EQ_STR(b.output, "a: #\"b\"");
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    EQ_STR(printed(&b), text);
}

TEST(config_describes_every_key)
{
    static char text[16384];
    FILE *f = fmemopen(text, sizeof text, "w");
    CHECK(f && !hod_config_describe(f));
    fclose(f);
    char *words = strstr(text, "\n\n"); /* behind the keys: how sizes and periods are written */
    CHECK(words && strstr(words, "period: ") && strstr(words, "size: "));
    int lines = 1;
    for (const char *p = text; p < words; p++)
        lines += *p == '\n';
    EQ_INT(lines, hod__config_key_count());
    CHECK(strstr(text, "optimizer.name"));
}

TEST(config_loads_files)
{
    hod_config c;
    char want[200];
    snprintf(want, sizeof want, "%s: No such file or directory", scratch("absent.yaml"));
    ERROR_IS(want, hod_config_load(&c, scratch("absent.yaml"), NULL, 0));
    scratch_write("a.yaml", LEAST, strlen(LEAST));
    CHECK(!hod_config_load(&c, scratch("a.yaml"), NULL, 0));
    static char large[1 << 20];
    memset(large, '#', sizeof large);
    scratch_write("large.yaml", large, sizeof large);
    snprintf(want, sizeof want, "%s: larger than 1048575 bytes", scratch("large.yaml"));
    ERROR_IS(want, hod_config_load(&c, scratch("large.yaml"), NULL, 0));
    CHECK(hod_config_load(&c, "/tmp", NULL, 0) == -1 && hod_error_take(NULL));
}

TEST(config_survives_hostile_yaml)
{
    hod_config c;
    CHECK(parse(&c, "a: &a [*a]\n") == -1 && hod_error_take(NULL));
    CHECK(parse(&c, "model: &m {name: mlp, model: *m}\n") == -1 && hod_error_take(NULL));
    CHECK(parse(&c, "model: &m\n  name: *m\n") == -1 && hod_error_take(NULL));
    refused("model: &m {name: *m}\n", "x.yaml:3:12: model.name: given twice");
    refused("output: \"a\\0b\"\n", "x.yaml:3:9: output: a text with a NUL byte");
    refused("optimizer: {betas: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n",
            "x.yaml:3:20: optimizer.betas: a list of more than 16 entries");
}

TEST(config_parses_sizes)
{
    EQ_INT(hod_parse_bytes("96MiB"), 96 << 20);
    EQ_INT(hod_parse_bytes("1.5 GiB"), 3LL << 29);
    EQ_INT(hod_parse_bytes("4096"), 4096);
    EQ_INT(hod_parse_bytes("2GB"), 2000000000);
    ERROR_IS("\"-1\" is not a size like 96MiB, 1.5GiB or 4096", (int)hod_parse_bytes("-1"));
    ERROR_IS("\"1e300GiB\" is not a size like 96MiB, 1.5GiB or 4096",
             (int)hod_parse_bytes("1e300GiB"));
}

TEST(config_shipped_ones_are_valid)
{
    static const char *const names[] = {"demo",     "fashion-mnist",  "fashion-mnist-bn", "mlp",
                                        "mlp-tiny", "resnet18-cifar", "resnet50"};
    const char *root = getenv("HOD_SOURCE_DIR");
    for (int i = 0; i < HOD_COUNT(names); i++) {
        char path[512];
        hod_config c;
        snprintf(path, sizeof path, "%s/configs/%s.yaml", root ? root : ".", names[i]);
        if (hod_config_load(&c, path, NULL, 0))
            FAIL("%s", hod_error());
    }
}
