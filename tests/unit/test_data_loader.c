/* The stream of samples must not notice how it is served: batch sizes, workers and interruptions
 * are the variations, the plain loop over samples is the oracle. */
#include "harness.h"

#include "data/data.h"
#include "tensor/tensor.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* A sample is its own number and one draw, as two i64; the target is its number. */
static int draw_item(void *job, int64_t index, hod_draws *draws, void *input, void *target)
{
    (void)job;
    int64_t out[2] = {index, (int64_t)hod_draw_bits(draws)};
    memcpy(input, out, sizeof out);
    memcpy(target, &index, sizeof index);
    return 0;
}

static hod_dataset *draws_of(int64_t count)
{
    hod_dataset *d = hod_dataset_new(count, draw_item, .dtype = HOD_I64, .shape = HOD_SHAPE(2),
                                     .classes = count);
    CHECK(d);
    return d;
}

/* Appends the batch's inputs to out[*n]. */
static void collect(const hod_batch *b, int64_t *out, int64_t *n)
{
    EQ_INT(hod_tensor_size(b->input, 0), b->n);
    CHECK(!hod_read_ints(b->input, out + 2 * *n, 2 * b->n));
    *n += b->n;
}

/* The first `epochs` epochs by batches of `want`. */
static int64_t serve(hod_loader *l, int64_t want, int epochs, int64_t *out)
{
    int64_t n = 0;
    for (int e = 0; e < epochs;) {
        hod_batch b;
        int rc = hod_loader_next(l, want, &b);
        CHECK(rc >= 0);
        if (rc == 0)
            e++;
        else
            collect(&b, out, &n);
    }
    return n;
}

static int compare_ints(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

TEST(data_loader_draws_depend_on_the_sample_alone)
{
    /* B18: 64 items, 2 epochs, 128 distinct values; 0, 1 and 4 workers agree. */
    enum { N = 64 };
    hod_dataset *d = draws_of(N);
    int64_t first[4 * N], again[4 * N], sorted[2 * N];
    for (int workers = 0; workers <= 4; workers++) {
        hod_loader *l = hod_loader_new(d, .seed = 5, .shuffle = true, .workers = workers);
        CHECK(l);
        EQ_INT(serve(l, 5 + workers, 2, workers ? again : first), 2 * N);
        if (workers)
            CHECK(memcmp(first, again, sizeof first) == 0);
        hod_loader_free(l);
    }
    for (int i = 0; i < 2 * N; i++)
        sorted[i] = first[2 * i + 1];
    qsort(sorted, 2 * N, sizeof *sorted, compare_ints);
    for (int i = 1; i < 2 * N; i++)
        CHECK(sorted[i - 1] < sorted[i]);
    /* Another seed, other draws. */
    hod_loader *l = hod_loader_new(d, .seed = 6, .shuffle = true);
    CHECK(l);
    serve(l, N, 2, again);
    CHECK(memcmp(first, again, sizeof first) != 0);
    hod_loader_free(l);
    hod_dataset_free(d);
}

TEST(data_loader_serves_each_sample_once_an_epoch)
{
    enum { N = 37 };
    hod_dataset *d = draws_of(N);
    int64_t all[6 * N];
    hod_loader *l = hod_loader_new(d, .shuffle = true, .workers = 3, .ahead = 5);
    CHECK(l);
    EQ_INT(serve(l, 8, 3, all), 3 * N);
    for (int e = 0; e < 3; e++) {
        bool seen[N] = {0};
        for (int i = 0; i < N; i++) {
            int64_t index = all[2 * (e * N + i)];
            CHECK(!seen[index]);
            seen[index] = true;
        }
    }
    bool same = true;
    for (int i = 0; i < N; i++)
        same = same && all[2 * i] == all[2 * (N + i)];
    CHECK(!same); /* another order each epoch */
    hod_loader_free(l);
    hod_dataset_free(d);
}

TEST(data_loader_keeps_the_order_at_any_batch_size)
{
    enum { N = 50 };
    hod_dataset *d = draws_of(N);
    int64_t whole[4 * N], cut[4 * N];
    hod_loader *l = hod_loader_new(d, .shuffle = true, .seed = 1);
    CHECK(l);
    serve(l, N, 2, whole);
    hod_loader_free(l);
    for (int workers = 0; workers < 3; workers++) {
        l = hod_loader_new(d, .shuffle = true, .seed = 1, .workers = workers, .ahead = 7);
        CHECK(l);
        int64_t n = 0;
        for (int64_t want = 1; n < 2 * N; want = want % 11 + 3) { /* another size at each call */
            hod_batch b;
            int rc = hod_loader_next(l, want, &b);
            CHECK(rc >= 0);
            if (rc) {
                EQ_INT(b.epoch, n / N);
                EQ_INT(b.first, n % N);
                collect(&b, cut, &n);
            }
        }
        CHECK(memcmp(whole, cut, sizeof whole) == 0);
        hod_loader_free(l);
    }
    hod_dataset_free(d);
}

TEST(data_loader_resumes_within_an_epoch)
{
    /* B19: 10 ids, batch 2, stop after batch 2 of the second epoch. */
    enum { N = 10 };
    hod_dataset *d = draws_of(N);
    int64_t whole[6 * N], rest[6 * N];
    hod_loader *l = hod_loader_new(d, .shuffle = true, .seed = 9);
    CHECK(l);
    serve(l, 2, 3, whole);
    hod_loader_free(l);
    for (int workers = 0; workers < 3; workers++) {
        l = hod_loader_new(d, .shuffle = true, .seed = 9, .workers = workers);
        CHECK(l);
        hod_batch b;
        int64_t n = 0;
        for (int i = 0; i < 5 + 1 + 2; i++) /* epoch 0, its end, two batches */
            CHECK(hod_loader_next(l, 2, &b) >= 0);
        hod_position at = hod_loader_tell(l);
        EQ_INT(at.epoch, 1);
        EQ_INT(at.sample, 4);
        hod_loader_free(l);

        l = hod_loader_new(d, .shuffle = true, .seed = 9, .workers = workers);
        CHECK(l && !hod_loader_seek(l, at));
        EQ_INT(hod_loader_left(l), 6);
        n = serve(l, 2, 2, rest);
        EQ_INT(n, 6 + N);
        CHECK(memcmp(whole + 2 * (N + 4), rest, (size_t)(2 * n) * sizeof *rest) == 0);
        /* Back to the beginning with samples prepared ahead. */
        CHECK(!hod_loader_seek(l, (hod_position){0, 0}));
        EQ_INT(serve(l, 3, 3, rest), 3 * N);
        CHECK(memcmp(whole, rest, sizeof whole) == 0);
        hod_loader_free(l);
    }
    hod_dataset_free(d);
}

/* ---- B20: workers that fail ---- */

static int threads_now(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    int threads = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Threads: %d", &threads) == 1)
            break;
    if (f)
        fclose(f);
    return threads;
}

typedef enum { REFUSES, LEAVES, HANGS } way;

static atomic_bool released; /* what hangs goes on */

static int bad_item(void *job, int64_t index, hod_draws *draws, void *input, void *target)
{
    if (index == 7) {
        switch (*(way *)job) {
        case REFUSES: return hod_dataset_refuse("the disk is on fire");
        case LEAVES: pthread_exit(NULL);
        case HANGS:
            while (!atomic_load(&released))
                nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
    }
    return draw_item(NULL, index, draws, input, target);
}

static void meets_error(way *how, int workers, const char *message)
{
    hod_dataset *d = hod_dataset_new(32, bad_item, how, .dtype = HOD_I64, .shape = HOD_SHAPE(2),
                                     .classes = 32, .name = "burning");
    hod_loader *l = hod_loader_new(d, .workers = workers, .timeout = 2);
    CHECK(l);
    hod_batch b;
    EQ_INT(hod_loader_next(l, 4, &b), 1); /* what lies before the failure is served */
    hod_error_record why = {0};
    EQ_INT(hod_loader_next(l, 4, &b), -1);
    CHECK(hod_error_take(&why));
    char *found = strstr(why.text, message);
    if (!found)
        FAIL("\"%s\" lacks \"%s\"", why.text, message);
    EQ_INT(hod_loader_tell(l).sample, 4);
    if (*how == REFUSES) { /* the same call meets it again, and one can step over it */
        EQ_INT(hod_loader_next(l, 4, &b), -1);
        CHECK(hod_error_take(NULL));
        EQ_INT(hod_loader_next(l, 3, &b), 1);
        EQ_INT(b.first, 4);
        EQ_INT(*(const int64_t *)hod_tensor_data(b.index), 4);
        CHECK(!hod_loader_seek(l, (hod_position){0, 8}));
        EQ_INT(hod_loader_next(l, 4, &b), 1);
        EQ_INT(b.first, 8);
    }
    if (*how == LEAVES) {
        EQ_INT(hod_loader_next(l, 4, &b), -1);
        const char *again = workers == 1 ? "loader: every worker has ended" : message;
        CHECK(strstr(hod_error(), again) && hod_error_take(NULL));
    }
    hod_loader_free(l);
    hod_dataset_free(d);
}

TEST(data_loader_reports_an_item_that_fails)
{
    way how = REFUSES;
    meets_error(&how, 0, "loader: burning: sample 7: the disk is on fire");
    meets_error(&how, 1, "loader: worker 0: burning: sample 7: the disk is on fire");
    meets_error(&how, 4, ": burning: sample 7: the disk is on fire");
}

TEST(data_loader_reports_a_worker_that_ends)
{
    way how = LEAVES;
    meets_error(&how, 1, "loader: worker 0: sample 7: the thread ended");
    meets_error(&how, 4, ": sample 7: the thread ended");
}

/* It hangs still when the loader is gone, so nobody waited for it. Then it finds itself alone. */
TEST(data_loader_reports_a_worker_that_hangs)
{
    static way how = HANGS; /* read after the loader's end */
    way first = LEAVES;
    meets_error(&first, 1, "loader: worker 0: sample 7: the thread ended");
    int before = threads_now(); /* with those that a sanitizer starts beside the first thread */
    meets_error(&how, 1, "loader: worker 0: sample 7: not ready within 2 s");
    meets_error(&how, 3, ": sample 7: not ready within 2 s");
    CHECK(threads_now() > before);
    atomic_store(&released, true);
    while (threads_now() > before)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

TEST(data_loader_stops_at_any_time)
{
    hod_dataset *d = draws_of(1000);
    for (int i = 0; i < 200; i++) {
        hod_loader *l = hod_loader_new(d, .shuffle = true, .workers = 1 + i % 4);
        CHECK(l);
        hod_batch b;
        for (int k = 0; k < i % 3; k++)
            EQ_INT(hod_loader_next(l, 10, &b), 1);
        hod_loader_free(l);
    }
    hod_dataset_free(d);
}

TEST(data_loader_leaves_no_thread)
{
    hod_dataset *d = draws_of(100);
    int before = 0;
    for (int turn = 0; turn < 2; turn++) { /* the first turn may start a sanitizer's own thread */
        hod_loader *l = hod_loader_new(d, .workers = 4);
        CHECK(l);
        CHECK(threads_now() >= before + 4);
        hod_loader_free(l);
        /* A joined thread may be on the kernel's books for another moment. */
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        if (turn == 0)
            before = threads_now();
    }
    EQ_INT(threads_now(), before);
    hod_dataset_free(d);
}

/* ---- labels, memory ---- */

TEST(data_loader_names_a_bad_label)
{
    int64_t labels[4] = {0, 1, 12, 2};
    float x[4] = {0};
    hod_tensor *inputs = hod_from_floats(x, HOD_SHAPE(4, 1));
    hod_dataset *d = hod_tensor_dataset(inputs, hod_from_ints(labels, HOD_SHAPE(4)), 10);
    hod_loader *l = hod_loader_new(d);
    hod_batch b;
    ERROR_IS("loader: tensors: sample 2: label 12 is outside 0..9", hod_loader_next(l, 4, &b));
    hod_loader_free(l);
    hod_dataset_free(d);
    hod_finish();
}

TEST(data_loader_allocates_nothing_in_steady_state)
{
    hod_dataset *d = hod_synthetic_dataset(HOD_SHAPE(1, 8, 8), .count = 100);
    for (int workers = 0; workers < 3; workers++) {
        hod_loader *l = hod_loader_new(d, .shuffle = true, .workers = workers);
        CHECK(l);
        hod_batch b;
        while (hod_loader_next(l, 16, &b) == 1)
            continue;
        int64_t before = hod_memory().allocations;
        for (int e = 0; e < 3;)
            e += hod_loader_next(l, 16, &b) == 0;
        EQ_INT(hod_memory().allocations, before);
        hod_loader_free(l);
    }
    hod_dataset_free(d);
    EQ_INT(hod_memory().allocated, 0);
}

TEST(data_loader_leaves_a_kept_batch_alone)
{
    hod_dataset *d = draws_of(6);
    hod_loader *l = hod_loader_new(d);
    hod_batch b;
    EQ_INT(hod_loader_next(l, 3, &b), 1);
    hod_tensor *kept = hod_tensor_retain(b.target);
    EQ_INT(hod_loader_next(l, 3, &b), 1);
    int64_t was[3], is[3];
    CHECK(!hod_read_ints(kept, was, 3) && !hod_read_ints(b.target, is, 3));
    for (int i = 0; i < 3; i++) {
        EQ_INT(was[i], i);
        EQ_INT(is[i], 3 + i);
    }
    hod_tensor_release(kept);
    hod_loader_free(l);
    hod_dataset_free(d);
}

TEST(data_loader_refuses_nonsense)
{
    hod_dataset *d = draws_of(6);
    ERROR_IS("loader: -1 workers, 0 samples ahead, timeout 0 s", hod_loader_new(d, .workers = -1));
    ERROR_IS("loader: crop and flip need images, custom has inputs of 1 dimensions",
             hod_loader_new(d, .flip = true));
    hod_loader *l = hod_loader_new(d);
    hod_batch b;
    ERROR_IS("loader: 0 samples wanted", hod_loader_next(l, 0, &b));
    ERROR_IS("loader: no sample 7 of 6 in epoch 0", hod_loader_seek(l, (hod_position){0, 7}));
    hod_loader_free(l);
    hod_dataset_free(d);
}

TEST(data_loader_survives_allocation_failures)
{
    hod_dataset *d = draws_of(20);
    int failures = 0;
    for (int workers = 0; workers < 3; workers++)
        for (int64_t n = 0;; n++) {
            hod__alloc_fail_after = n;
            hod_loader *l = hod_loader_new(d, .shuffle = true, .workers = workers);
            hod_batch b;
            int rc = l ? hod_loader_next(l, 4, &b) : -1;
            hod__alloc_fail_after = -1;
            hod_loader_free(l);
            if (rc == 1)
                break;
            failures++;
            CHECK(hod_error_take(NULL));
            CHECK(n < 1000);
        }
    CHECK(failures > 10);
    hod_dataset_free(d);
}
