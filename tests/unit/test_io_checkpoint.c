/* B21: a save is all or nothing, whatever interrupts it. */
#include "scratch.h"

#include "base/base.h"
#include "tensor/tensor.h"
#include <hod/io.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* Two tensors full of the same number; a mixture of states would show. */
static void save_state(const char *dir, int64_t update, float value, int keep)
{
    HOD_SCOPE(s);
    enum { N = 20000 };
    hod_tensor *a = hod_zeros(HOD_F32, HOD_SHAPE(N)), *b = hod_zeros(HOD_F32, HOD_SHAPE(N));
    float *x = hod_tensor_mutable_data(a), *y = hod_tensor_mutable_data(b);
    for (int i = 0; i < N; i++)
        x[i] = y[i] = value;
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)update);
    hod_named_tensor all[] = {{"a", a}, {"b", b}};
    hod_named_text note = {"update", text};
    if (hod_checkpoint_save(dir, update, all, 2, &note, 1, keep))
        return; /* the caller looks at the error */
}

/* The value of the newest checkpoint, which must be whole. */
static float load_state(const char *dir)
{
    char path[256];
    EQ_INT(hod_checkpoint_latest(dir, path, sizeof path), 1);
    hod_tensor_list *list = hod_load_tensors(path);
    CHECK(list);
    EQ_INT(list->n, 2);
    float value = *(const float *)hod_tensor_data(list->items[0].tensor);
    for (int t = 0; t < 2; t++) {
        const float *x = hod_tensor_data(list->items[t].tensor);
        for (int64_t i = 0; i < hod_tensor_numel(list->items[t].tensor); i++)
            if (x[i] != value)
                FAIL("a mixture of %g and %g", (double)value, (double)x[i]);
    }
    hod_tensor_list_free(list);
    return value;
}

static int files_in(const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, "ls -A %s | wc -l", dir);
    FILE *p = popen(command, "r");
    int n = -1;
    CHECK(p && fscanf(p, "%d", &n) == 1);
    pclose(p);
    return n;
}

TEST(io_checkpoint_keeps_the_newest)
{
    const char *dir = scratch("run/deep");
    char path[256];
    EQ_INT(hod_checkpoint_latest(dir, path, sizeof path), 0);
    for (int i = 1; i <= 5; i++)
        save_state(dir, 100 * i, (float)i, 2);
    CHECK(!hod_error());
    EQ_INT(files_in(dir), 2);
    NEAR(load_state(dir), 5, 0);
    EQ_INT(hod_checkpoint_latest(dir, path, 10), -1);
    CHECK(hod_error_take(NULL));
}

TEST(io_checkpoint_passes_over_damage)
{
    const char *dir = scratch("run");
    save_state(dir, 1, 1, 0);
    save_state(dir, 2, 2, 0);
    scratch_write("run/update-00000003.safetensors.tmp-1-0", "half", 4);
    scratch_write("run/update-00000004.safetensors", "half", 4);
    scratch_write("run/update-x.safetensors", "no", 2);
    NEAR(load_state(dir), 2, 0);
    CHECK(truncate(scratch("run/update-00000002.safetensors"), 90000) == 0);
    NEAR(load_state(dir), 1, 0);
    CHECK(truncate(scratch("run/update-00000001.safetensors"), 3) == 0);
    char path[256], want[256]; /* none is left: the newest says why */
    snprintf(want, sizeof want,
             "%s/update-00000004.safetensors: not a safetensors file: it holds 4 bytes", dir);
    ERROR_IS(want, hod_checkpoint_latest(dir, path, sizeof path));
}

TEST(io_directory_is_swept_of_what_the_dead_left)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    char dead[64], mine[64];
    snprintf(dead, sizeof dead, "run/loss.png.tmp-%d-2", (int)child);
    snprintf(mine, sizeof mine, "run/loss.png.tmp-%d-2", (int)getpid());
    CHECK(!hod_directory_prepare(scratch("run")));
    scratch_write(dead, "half", 4);
    scratch_write(mine, "half", 4);
    CHECK(!hod_directory_prepare(scratch("run")));
    CHECK(access(scratch(dead), F_OK) != 0 && access(scratch(mine), F_OK) == 0);
}

/* A bit that flips among the numbers leaves a file that looks whole. */
TEST(io_checkpoint_notices_a_flipped_bit)
{
    const char *dir = scratch("run");
    save_state(dir, 1, 1, 0);
    save_state(dir, 2, 2, 0);
    NEAR(load_state(dir), 2, 0);
    char path[256];
    snprintf(path, sizeof path, "%s/update-00000002.safetensors", dir);
    FILE *f = fopen(path, "r+b");
    CHECK(f && fseek(f, 90001, SEEK_SET) == 0);
    int byte = fgetc(f);
    CHECK(byte != EOF && fseek(f, 90001, SEEK_SET) == 0 && fputc(byte ^ 16, f) != EOF);
    CHECK(fclose(f) == 0);
    CHECK(!hod_load_tensors(path));
    hod_error_record e;
    CHECK(hod_error_take(&e) && e.kind == HOD_ERROR_FORMAT);
    CHECK(strstr(e.text, "update-00000002.safetensors: damaged: checksum "));
    NEAR(load_state(dir), 1, 0);
}

TEST(io_checkpoint_leaves_the_old_one_when_the_disk_is_full)
{
    const char *dir = scratch("run");
    save_state(dir, 1, 1, 0);
    struct rlimit limit = {100000, 100000}; /* each file holds 160 kB of numbers */
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    save_state(dir, 1, 2, 0); /* over the old one */
    char want[200];
    snprintf(want, sizeof want, "%s/update-00000001.safetensors: File too large", dir);
    EQ_STR(hod_error(), want);
    CHECK(hod_error_take(NULL));
    save_state(dir, 2, 2, 0);
    CHECK(hod_error_take(NULL));
    EQ_INT(files_in(dir), 1);
    NEAR(load_state(dir), 1, 0);
}

TEST(io_save_notices_what_only_the_last_flush_tells)
{
    HOD_SCOPE(s);
    hod_named_tensor a = {"a", hod_zeros(HOD_F32, HOD_SHAPE(10))};
    CHECK(!hod_save_tensors(scratch("small"), &a, 1, NULL, 0));
    struct rlimit limit = {50, 50}; /* the file is smaller than the stream's buffer */
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    char want[200];
    snprintf(want, sizeof want, "%s: File too large", scratch("small"));
    ERROR_IS(want, hod_save_tensors(scratch("small"), &a, 1, NULL, 0));
    hod_tensor_list *list = hod_load_tensors(scratch("small"));
    CHECK(list);
    hod_tensor_list_free(list);
}

TEST(io_checkpoint_survives_kills)
{
    const char *dir = scratch("run");
    save_state(dir, 1, 0.5f, 0);
    for (int kills = 0; kills < 50; kills++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (int i = 1;; i++)
                save_state(dir, 1, (float)i, 0); /* the same file, again and again */
        }
        nanosleep(&(struct timespec){0, 1000000 + kills * 137000 % 5000000}, NULL);
        CHECK(kill(child, SIGKILL) == 0);
        CHECK(waitpid(child, NULL, 0) == child);
        float value = load_state(dir);
        NEAR(value, value == 0.5f ? 0.5 : floor((double)value), 0);
    }
    save_state(dir, 1, 9, 0); /* sweeps away what the dead left */
    EQ_INT(files_in(dir), 1);
}

TEST(io_checkpoint_names_an_unusable_directory)
{
    scratch_write("file", "x", 1);
    char want[200], dir[200];
    snprintf(dir, sizeof dir, "%s/sub", scratch("file"));
    snprintf(want, sizeof want, "%s: Not a directory", dir);
    ERROR_IS(want, hod_directory_prepare(dir));
    snprintf(want, sizeof want, "%s: not a directory", scratch("file"));
    ERROR_IS(want, hod_directory_prepare(scratch("file")));
    ERROR_IS("/proc/hod: No such file or directory", hod_directory_prepare("/proc/hod"));
    ERROR_IS("/proc: no file can be made there: No such file or directory",
             hod_directory_prepare("/proc"));
    CHECK(!hod_directory_prepare(scratch("new")));
    EQ_INT(files_in(scratch("new")), 0);
}

TEST(io_event_is_one_line_of_json)
{
    FILE *f = fopen(scratch("events"), "w");
    CHECK(f);
    double loss[3] = {1, 0.5, NAN};
    CHECK(!hod_event(f, "update", HOD_INT("update", 3), HOD_NUMBER("lr", 0.25),
                     HOD_TEXT("file", "a \"b\"\n\xff"), HOD_FLAG("skipped", false),
                     HOD_NUMBERS("loss", loss, 3), HOD_NUMBER("scale", INFINITY)));
    CHECK(!hod_event(f, "end", HOD_TEXT("best", NULL)));
    fclose(f);
    size_t n;
    char *text = scratch_read("events", &n);
    EQ_STR(text, "{\"event\":\"update\",\"update\":3,\"lr\":0.25,\"file\":\"a \\\"b\\\"\\n?\","
                 "\"skipped\":false,\"loss\":[1.0,0.5,null],\"scale\":null}\n"
                 "{\"event\":\"end\",\"best\":null}\n");
    free(text);
    f = fopen("/dev/full", "w");
    if (f) {
        ERROR_IS("event end: No space left on device", hod_event(f, "end", HOD_INT("n", 1)));
        fclose(f);
    }
}
