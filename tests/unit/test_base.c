/* Errors, scopes, texts, growing arrays and counted failures of memory. */
#include "base/base.h"
#include "base/scope.h"
#include "harness.h"

#include <pthread.h>
#include <stdio.h>

/* ---- errors ---- */

TEST(base_first_error_wins)
{
    CHECK(!hod_error());
    CHECK(!HOD_FAIL(ARGUMENT, "matmul: inner sizes %d and %d differ", 784, 512));
    EQ_INT(HOD_FAIL_RC(IO, "later"), -1);
    EQ_STR(hod_error(), "matmul: inner sizes 784 and 512 differ");
    EQ_INT(hod_error_kind_pending(), HOD_ERROR_ARGUMENT);
    hod_error_record r;
    CHECK(hod_error_take(&r));
    EQ_STR(r.text, "matmul: inner sizes 784 and 512 differ");
    CHECK(!hod_error());
    CHECK(!hod_error_take(&r));
}

TEST(base_error_keeps_one_line)
{
    HOD_FAIL(FORMAT, "config: a\nb\tc");
    EQ_STR(hod_error(), "config: a b c");
    hod_error_take(NULL);
}

TEST(base_error_is_cut_not_overrun)
{
    char text[2 * HOD_ERROR_TEXT];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    HOD_FAIL(VALUE, "%s", text);
    EQ_INT((int64_t)strlen(hod_error()), HOD_ERROR_TEXT - 1);
    hod__fail_context("loading");
    EQ_INT((int64_t)strlen(hod_error()), HOD_ERROR_TEXT - 1);
    CHECK(strncmp(hod_error(), "loading: xxx", 12) == 0);
    hod_error_take(NULL);
}

TEST(base_error_context_once)
{
    hod__fail_context("nothing pending");
    CHECK(!hod_error());
    HOD_FAIL(CONFIG, "key lr: not a number");
    hod__fail_context("configs/%s.yaml", "a");
    hod__fail_context("configs/%s.yaml", "a");
    EQ_STR(hod_error(), "configs/a.yaml: key lr: not a number");
    hod_error_take(NULL);
}

TEST(base_error_knows_its_place)
{
    hod_here("train.c", 42);
    HOD_FAIL(VALUE, "label 12 of 10 classes");
    hod_here("other.c", 1);
    hod_error_record r;
    hod_error_take(&r);
    EQ_STR(r.file, "train.c");
    EQ_INT(r.line, 42);
}

static void *look_from_another_thread(void *seen)
{
    *(bool *)seen = hod_error() != NULL;
    return NULL;
}

TEST(base_errors_belong_to_their_thread)
{
    HOD_FAIL(STATE, "mine");
    bool seen = true;
    pthread_t t;
    pthread_create(&t, NULL, look_from_another_thread, &seen);
    pthread_join(t, NULL);
    CHECK(!seen);
    hod_error_take(NULL);
}

TEST(base_finish_reports)
{
    EQ_INT(hod_finish(), 0);
    HOD_FAIL(IO, "x.gz: no such file");
    CHECK(freopen("/dev/null", "w", stderr));
    EQ_INT(hod_finish(), 1);
    CHECK(!hod_error());
}

/* ---- scopes ---- */

static int released;

static void count_release(void *object)
{
    released += *(int *)object;
}

static int one = 1, ten = 10, hundred = 100;

TEST(base_scope_releases_on_every_way_out)
{
    for (int i = 0; i < 3; i++) {
        HOD_SCOPE(s);
        hod__scope_own(&one, count_release);
        if (i == 0)
            continue;
        hod__scope_own(&ten, count_release);
        if (i == 1)
            break;
    }
    EQ_INT(released, 12);
    EQ_INT(hod__scope_live(), 0);
}

static hod_tensor *make_and_escape(void)
{
    HOD_SCOPE(s);
    hod__scope_own(&one, count_release);
    hod__scope_own(&ten, count_release);
    hod__scope_own(&one, count_release);
    return hod_escape((hod_tensor *)(void *)&ten);
}

TEST(base_escape_moves_to_the_scope_around)
{
    {
        HOD_SCOPE(outer);
        hod__scope_own(&hundred, count_release);
        {
            HOD_SCOPE(inner);
            CHECK((void *)make_and_escape() == &ten);
            EQ_INT(released, 2);
            EQ_INT(hod__scope_live(), 2);
            hod_escape((hod_tensor *)(void *)&ten);
            hod_escape((hod_tensor *)(void *)&hundred); /* not of this scope: stays where it is */
        }
        EQ_INT(released, 2);
        EQ_INT(hod__scope_live(), 2);
    }
    EQ_INT(released, 112);
    CHECK(!hod_escape(NULL));
}

TEST(base_without_a_scope_the_thread_owns)
{
    hod__scope_own(&ten, count_release);
    EQ_INT(hod__scope_live(), 1);
    EQ_INT(hod_finish(), 0);
    EQ_INT(released, 10);
}

static void ending(void)
{
    released += 1000;
}

static void *own_and_end(void *unused)
{
    hod__scope_own(&ten, count_release);
    hod__at_thread_end(ending);
    hod__at_thread_end(ending);
    return unused;
}

TEST(base_thread_gives_back_when_it_ends)
{
    pthread_t t;
    pthread_create(&t, NULL, own_and_end, NULL);
    pthread_join(t, NULL);
    EQ_INT(released, 1010);
}

TEST(base_finish_inside_a_scope)
{
    {
        HOD_SCOPE(s);
        hod__scope_own(&one, count_release);
        EQ_INT(hod_finish(), 0);
        EQ_INT(released, 1);
        hod__scope_own(&ten, count_release);
    }
    EQ_INT(released, 11);
}

TEST(base_owning_without_memory_releases)
{
    hod__alloc_fail_after = 0;
    EQ_INT(hod__scope_own(&ten, count_release), -1);
    EQ_INT(released, 10);
    EQ_INT(hod_error_kind_pending(), HOD_ERROR_MEMORY);
    hod_error_take(NULL);
}

/* ---- memory, texts, arrays ---- */

TEST(base_alloc_fails_when_told)
{
    hod__alloc_fail_after = 1;
    void *a = hod__alloc(3, 4);
    CHECK(a);
    ERROR_IS("memory: 12 bytes wanted from the system", hod__alloc(3, 4));
    void *b = hod__alloc(3, 4);
    CHECK(b);
    free(a), free(b);
}

TEST(base_alloc_checks_the_product)
{
    CHECK(!hod__alloc(SIZE_MAX / 2, 3));
    EQ_INT(hod_error_kind_pending(), HOD_ERROR_MEMORY);
    hod_error_take(NULL);
}

TEST(base_mul_size)
{
    int64_t n = -7;
    CHECK(hod__mul_size(1ll << 31, 1ll << 31, &n));
    EQ_INT(n, 1ll << 62);
    CHECK(!hod__mul_size(1ll << 32, 1ll << 31, &n));
    CHECK(!hod__mul_size(-1, 1, &n));
    CHECK(!hod__mul_size(1, -1, &n));
}

TEST(base_push_grows_zeroed)
{
    struct pair {
        int a, b;
    } *v = NULL;
    int64_t n = 0, cap = 0;
    for (int i = 0; i < 100; i++) {
        struct pair *p = hod__push(&v, &n, &cap, sizeof *v);
        EQ_INT(p->a + p->b, 0);
        *p = (struct pair){i, -i};
    }
    EQ_INT(n, 100);
    EQ_INT(v[99].a, 99);
    EQ_INT(v[17].b, -17);
    free(v);
}

TEST(base_text_grows)
{
    hod_text t = {0};
    for (int i = 0; i < 1000; i++)
        hod__text(&t, "%d,", i % 10);
    hod__text_bytes(&t, "endless", 3);
    EQ_INT(t.n, 2003);
    char *s = hod__text_take(&t);
    EQ_STR(s + 1994, "7,8,9,end");
    free(s);
    s = hod__text_take(&t);
    EQ_STR(s, "");
    free(s);
}

TEST(base_text_fails_once_and_stays)
{
    hod_text t = {0};
    hod__text(&t, "abc");
    hod__alloc_fail_after = 0;
    for (int i = 0; i < 100; i++)
        hod__text(&t, "0123456789");
    CHECK(t.failed);
    CHECK(!hod__text_take(&t));
    EQ_INT(hod_error_kind_pending(), HOD_ERROR_MEMORY);
    hod_error_take(NULL);
}

TEST(base_format_and_strdup)
{
    char *a = hod__format("%s-%d", "run", 7), *b = hod__strdup(a);
    EQ_STR(b, "run-7");
    free(a), free(b);
}

TEST(base_hash_known_answer)
{
    /* XXH3-64 of nothing, from its specification; then that the seed and each byte matter. */
    EQ_INT((int64_t)hod__hash("", 0, 0), (int64_t)0x2d06800538d394c2ull);
    CHECK(hod__hash("abc", 3, 0) != hod__hash("abd", 3, 0));
    CHECK(hod__hash("abc", 3, 0) != hod__hash("abc", 3, 1));
}
