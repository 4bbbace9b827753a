/* A run that was interrupted goes on to the same bits. */
#include "harness.h"
#include "train_line.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UPDATES = 11, SAMPLES = 20, WINDOW = 6 }; /* 4 windows an epoch, the last of 2 samples */

typedef struct tiny {
    hod_module base;
    hod_module *fc1, *norm, *drop, *fc2;
} tiny;

static hod_tensor *tiny_forward(hod_module *self, hod_tensor *x) /* (N, 7) */
{
    tiny *m = (tiny *)self;
    hod_tensor *h = hod_relu(hod_call(m->norm, hod_call(m->fc1, x)));
    return hod_call(m->fc2, hod_call(m->drop, h));
}

static hod_module *tiny_new(void)
{
    tiny *m = hod_module_new(NULL, "tiny", tiny, tiny_forward);
    m->fc1 = hod_nn_linear(m, "fc1", 7, 9);
    m->norm = hod_nn_batch_norm2d(m, "norm", 9);
    m->drop = hod_nn_dropout(m, "drop", 0.2);
    m->fc2 = hod_nn_linear(m, "fc2", 9, 3);
    return hod_module_done(m);
}

static hod_loss tiny_loss(hod_module *net, const hod_batch *b)
{
    return hod_cross_entropy(hod_call(net, b->input), b->target);
}

static hod_dataset *data_new(int64_t count)
{
    return hod_synthetic_dataset(.shape = HOD_SHAPE(7), .classes = 3, .count = count);
}

static hod_trainer *trainer_new(hod_module *net, hod_compile_mode mode)
{
    return hod_trainer_new(net, tiny_loss, .effective_batch = WINDOW, .micro_batch = 2, .seed = 9,
                           .optimizer = hod_adamw(.lr = 0.01), .ema = 0.9, .updates = UPDATES,
                           .schedule = hod_one_cycle(.total = UPDATES), .clip_norm = 1,
                           .loader = {.workers = 1}, .compile = mode);
}

static void directory_new(char path[64])
{
    strcpy(path, "/tmp/hod-train-XXXXXX");
    CHECK(mkdtemp(path));
}

static void directory_free(const char *path)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", path);
    CHECK(system(command) == 0);
}

/* Losses of a run that is stopped after `stop` updates and continued by another trainer. */
static void run(int64_t stop, hod_compile_mode mode, double loss[UPDATES], double *accuracy)
{
    char dir[64];
    directory_new(dir);
    hod_dataset *data = data_new(SAMPLES);
    hod_module *net = NULL;
    hod_trainer *t = NULL;
    int64_t i = 0;
    for (int half = 0; half < 2; half++) {
        hod_update u;
        net = tiny_new();
        t = trainer_new(net, mode);
        EQ_INT(hod_trainer_resume(t, dir), half);
        while ((half || i < stop) && hod_trainer_step(t, data, &u)) {
            EQ_INT(u.index, i + 1);
            loss[i++] = u.loss;
        }
        CHECK(!hod_error());
        if (half)
            break;
        EQ_INT(hod_trainer_checkpoint(t, dir, 1), 0);
        hod_trainer_free(t);
        hod_module_free(net);
    }
    EQ_INT(i, UPDATES);
    hod_evaluation e;
    CHECK(hod_trainer_evaluate(t, data, &e) == 0);
    *accuracy = e.loss;
    hod_trainer_free(t);
    hod_module_free(net);
    hod_dataset_free(data);
    directory_free(dir);
}

static void check_resume(hod_compile_mode mode)
{
    double straight[UPDATES], broken[UPDATES], a, b;
    run(0, mode, straight, &a);
    const int64_t stops[] = {1, 3, 4, 6, 10}; /* within an epoch, at its end, in its short window */
    for (int i = 0; i < 5; i++) {
        run(stops[i], mode, broken, &b);
        for (int k = 0; k < UPDATES; k++)
            NEAR(broken[k], straight[k], 0);
        NEAR(b, a, 0);
    }
}

TEST(train_files_resume_is_exact)
{
    check_resume(HOD_COMPILE_EAGER);
}

TEST(train_files_resume_is_exact_compiled)
{
    check_resume(HOD_COMPILE_DEFAULT);
}

TEST(train_files_refuse_another_run)
{
    char dir[64], path[128], text[256];
    directory_new(dir);
    snprintf(path, sizeof path, "%s/run.safetensors", dir);
    hod_dataset *data = data_new(SAMPLES);
    hod_module *net = tiny_new();
    hod_trainer *t = trainer_new(net, HOD_COMPILE_EAGER), *other;
    hod_update u;
    CHECK(hod_trainer_step(t, data, &u));
    EQ_INT(hod_trainer_save(t, path), 0);
    snprintf(text, sizeof text, "trainer: %s comes after the first step", path);
    ERROR_IS(text, hod_trainer_load(t, path));

    hod_module *fresh = tiny_new();
    other = hod_trainer_new(fresh, tiny_loss, .effective_batch = WINDOW, .seed = 8,
                            .optimizer = hod_adamw(.lr = 0.01), .ema = 0.9);
    snprintf(text, sizeof text, "%s: seed is 9 there, 8 here", path);
    ERROR_IS(text, hod_trainer_load(other, path));
    hod_trainer_free(other);

    other = trainer_new(fresh, HOD_COMPILE_EAGER);
    EQ_INT(hod_trainer_load(other, path), 0);
    hod_dataset *longer = data_new(SAMPLES + 1);
    ERROR_IS("trainer: the loaded run has a dataset of 20 samples, synthetic has 21",
             hod_trainer_step(other, longer, &u));
    hod_trainer_free(other);

    line l = line_new(1, 1, (float[]){1}, NULL);
    other = hod_trainer_new(l.net, line_loss, .effective_batch = WINDOW, .seed = 9,
                            .optimizer = hod_adamw(.lr = 0.01), .ema = 0.9);
    CHECK(hod_trainer_load(other, path) == -1);
    CHECK(hod_error_take(NULL));
    NEAR(line_w(&l), 0, 0);
    EQ_INT(hod_trainer_progress(other).updates, 0);
    hod_trainer_free(other);

    line_free(&l);
    hod_trainer_free(t);
    hod_module_free(net);
    hod_module_free(fresh);
    hod_dataset_free(data);
    hod_dataset_free(longer);
    directory_free(dir);
}

/* A network comes back from its own file and from a run's. */
TEST(train_files_hold_the_network)
{
    char dir[64], path[2][128];
    directory_new(dir);
    snprintf(path[0], sizeof path[0], "%s/net.safetensors", dir);
    snprintf(path[1], sizeof path[1], "%s/run.safetensors", dir);
    hod_dataset *data = data_new(SAMPLES);
    hod_module *net = tiny_new(), *read = tiny_new();
    hod_trainer *t = trainer_new(net, HOD_COMPILE_EAGER);
    hod_update u;
    CHECK(hod_trainer_step(t, data, &u));
    EQ_INT(hod_save(net, path[0]), 0);
    EQ_INT(hod_trainer_save(t, path[1]), 0);
    for (int i = 0; i < 2; i++) {
        HOD_SCOPE(s);
        CHECK(hod_module_init(read, 99) == 0);
        EQ_INT(hod_load(read, path[i]), 0);
        hod_module_train(net, false);
        hod_module_train(read, false);
        hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(4, 7), 0.5);
        hod_tensor *same = hod_eq(hod_call(net, x), hod_call(read, x));
        NEAR(hod_item(hod_sum(hod_cast(same, HOD_F32))), 12, 0);
    }
    hod_trainer_free(t);
    hod_module_free(net);
    hod_module_free(read);
    hod_dataset_free(data);
    directory_free(dir);
}
