/* Environment variables: a value that means nothing is one line on standard error, however often it
 * is looked at, and then as if it were not set. */
#include "codegen/cache.h"
#include "graph/graph.h"
#include "harness.h"
#include "ops/op.h"

#include <hod/compile.h>
#include <hod/functional.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int twice(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_add(in[0], in[0]);
    return out[0] ? 0 : -1;
}

static void call(hod_compile_mode mode)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(twice, NULL, .inputs = 1, .outputs = 1, .mode = mode);
    for (int i = 0; i < 2; i++) {
        hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(3), 2), *y;
        EQ_INT(hod_fn_call(f, &x, &y), 0);
        NEAR(hod_item(hod_sum(y)), 12, 0);
    }
    hod_fn_free(f);
}

static void default_call(void)
{
    call(HOD_COMPILE_DEFAULT);
}

static void static_call(void)
{
    call(HOD_COMPILE_REDUCE_OVERHEAD);
}

static void cache_size(void)
{
    EQ_INT(hod__cache_most(), 256000000);
}

static void cache_directory(void)
{
    char dir[HOD_CACHE_PATH];
    CHECK(!hod__cache_directory(dir));
}

static void passes(void)
{
    hod_graph *g = hod__graph_parse("graph g {\n  %0 = input f32 (2) \"x\"\n"
                                    "  %1 = neg f32 (2) %0\n  return %1\n}\n");
    CHECK(g && hod__graph_optimize(g) == 0);
    EQ_INT(g->n, 2);
    hod__graph_free(g);
}

/* What `use`, called twice, writes to standard error. */
static void heard(void (*use)(void), char *text, size_t room)
{
    FILE *f = tmpfile();
    int before = dup(2);
    CHECK(f && before >= 0 && dup2(fileno(f), 2) == 2);
    use();
    use();
    CHECK(dup2(before, 2) == 2);
    close(before);
    rewind(f);
    size_t n = fread(text, 1, room - 1, f);
    text[n] = 0;
    fclose(f);
}

TEST(environment_of_no_meaning_is_one_line)
{
    static const struct {
        const char *name, *value, *words;
        void (*use)(void);
    } rows[] = {
        {"HOD_COMPILE", "yes", "known are 0, 1, interpret, require", default_call},
        {"HOD_CHECK_SPANS", "true", "known are 0, 1", default_call},
        {"HOD_CHECK_STATIC", "2", "known are 0, 1", static_call},
        {"HOD_CACHE_MB", "1.5", "wanted are megabytes, 1 to 16777216", cache_size},
        {"HOD_CACHE_DIR", "/dev/null", "no directory of yours alone: nothing is kept",
         cache_directory},
        {"HOD_PRINT", "opt_nothing", "known are all, ", passes},
        {"HOD_SKIP", "opt_nothing", "known are all, ", passes},
        {"HOD_ENABLE", "opt_nothing", "known are all, ", passes},
    };
    for (size_t i = 0; i < HOD_COUNT(rows); i++) {
        char text[4096], want[256];
        setenv(rows[i].name, rows[i].value, 1);
        heard(rows[i].use, text, sizeof text);
        unsetenv(rows[i].name);
        snprintf(want, sizeof want, "hod: %s=%s is ignored; %s", rows[i].name, rows[i].value,
                 rows[i].words);
        if (strncmp(text, want, strlen(want)) != 0 || strchr(text, '\n') != strrchr(text, '\n'))
            FAIL("wanted one line \"%s\", heard \"%s\"", want, text);
    }
}

TEST(environment_of_some_meaning_is_quiet)
{
    static const struct {
        const char *name, *value;
        void (*use)(void);
    } rows[] = {{"HOD_COMPILE", "0", default_call},     {"HOD_COMPILE", "", default_call},
                {"HOD_CHECK_SPANS", "1", default_call}, {"HOD_CHECK_STATIC", "0", static_call},
                {"HOD_CACHE_MB", "256", cache_size},    {"HOD_CACHE_MB", "", cache_size}};
    for (size_t i = 0; i < HOD_COUNT(rows); i++) {
        char text[256];
        setenv(rows[i].name, rows[i].value, 1);
        heard(rows[i].use, text, sizeof text);
        unsetenv(rows[i].name);
        EQ_STR(text, "");
    }
}
