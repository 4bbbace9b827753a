/* The workers. See loader.h for the drawing and the invariants.
 *
 * Why a ring of samples and not of batches: the batch size may change at any call, and the stream
 * must not notice. Why a failure only marks its position: samples before it are good and are
 * served first, so what the caller sees does not depend on which worker was faster.
 *
 * A worker that never returns from a dataset's function cannot be stopped from outside without
 * breaking whatever it holds. The caller stops waiting for it, and the pool's memory stays until
 * the last of its users, who may be that worker, is gone.
 */
#include "data/loader.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <time.h>

enum { SLOT_EMPTY, SLOT_READY };
static const double farewell = 0.2; /* seconds for a worker that was already found missing */

typedef struct worker {
    hod_pool *pool;
    pthread_t thread;
    int number;
    int64_t at; /* the sample it works on, -1: none */
    int64_t position;
    bool gone; /* left its loop */
    void *raw;
    hod_scope scope; /* here and not in a frame, for worker_end to close it */
} worker;

struct hod_pool {
    pthread_mutex_t lock;
    pthread_cond_t room;     /* workers wait for free slots */
    pthread_cond_t progress; /* the caller waits for samples, idle workers or ends */
    int refs;                /* the caller and every worker */
    hod_feed feed;
    double timeout;
    bool stop, paused, lost; /* lost: some worker did not answer in time */
    int64_t cap, chunk, head, tail, failed_at;
    hod_error_record failure;
    uint8_t *state;
    char *inputs, *targets;
    int64_t *indices;
    int n_workers, alive, busy;
    worker *workers;
};

static void pool_free(hod_pool *p)
{
    for (int i = 0; i < p->n_workers; i++)
        free(p->workers[i].raw);
    free(p->workers);
    free(p->state);
    free(p->inputs);
    free(p->targets);
    free(p->indices);
    hod__feed_finish(&p->feed);
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->progress);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Gives one reference back; the lock is held and is released. */
static void pool_leave(hod_pool *p)
{
    bool last = --p->refs == 0;
    pthread_mutex_unlock(&p->lock);
    if (last)
        pool_free(p);
}

/* ---- a worker ---- */

/* Takes this thread's error as the reason why `position` cannot be had; the lock is held. */
static void note_failure(worker *w, int64_t position)
{
    hod_pool *p = w->pool;
    hod_error_record why;
    HOD_FAIL(STATE, "sample %lld: the thread ended", (long long)w->at);
    hod__fail_context("loader: worker %d", w->number);
    hod_error_take(&why);
    if (position < p->failed_at) {
        p->failed_at = position;
        p->failure = why;
    }
}

/* Prepares positions [from, to); the lock is held on entry and exit. */
static void prepare(worker *w, int64_t from, int64_t to)
{
    hod_pool *p = w->pool;
    for (int64_t position = from; position < to && !p->stop && !p->paused; position++) {
        int64_t slot = position % p->cap, index = hod__feed_index(&p->feed, position);
        w->at = index;
        w->position = position;
        pthread_mutex_unlock(&p->lock);
        p->indices[slot] = index;
        hod_scope_begin(&w->scope, __FILE__, __LINE__);
        int rc = hod__feed_sample(&p->feed, position, index, w->raw,
                                  p->inputs + slot * p->feed.input_bytes,
                                  p->targets + slot * p->feed.target_bytes);
        hod_scope_end(&w->scope);
        pthread_mutex_lock(&p->lock);
        if (rc) {
            note_failure(w, position);
            break;
        }
        p->state[slot] = SLOT_READY;
        if (position == p->tail)
            pthread_cond_signal(&p->progress);
    }
    w->at = -1;
}

/* Runs when the thread ends, also by pthread_exit inside a dataset's function. */
static void worker_end(void *arg)
{
    worker *w = arg;
    hod_pool *p = w->pool;
    if (w->at >= 0) { /* it left in the middle of a sample, where the lock is not held */
        hod_scope_end(&w->scope);
        pthread_mutex_lock(&p->lock);
        note_failure(w, w->position);
        p->busy--;
        w->at = -1;
    }
    w->gone = true;
    p->alive--;
    pthread_cond_broadcast(&p->progress);
    pool_leave(p);
}

static void *worker_run(void *arg)
{
    worker *w = arg;
    hod_pool *p = w->pool;
    pthread_cleanup_push(worker_end, w);
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        int64_t to = HOD_MIN(HOD_MIN(p->head + p->chunk, p->tail + p->cap), p->failed_at);
        if (p->paused || p->head >= to) {
            pthread_cond_wait(&p->room, &p->lock);
            continue;
        }
        int64_t from = p->head;
        p->head = to;
        p->busy++;
        prepare(w, from, to);
        p->busy--;
        pthread_cond_signal(&p->progress);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

/* ---- the caller ---- */

static struct timespec deadline_in(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double whole = floor(seconds);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

/* The sample that a worker has been at for too long, as an error; the lock is held. */
static int late(hod_pool *p)
{
    p->lost = true;
    const worker *slowest = NULL;
    for (int i = 0; i < p->n_workers; i++)
        if (p->workers[i].at >= 0 && (!slowest || p->workers[i].position < slowest->position))
            slowest = &p->workers[i];
    if (!slowest)
        return HOD_FAIL_RC(STATE, "loader: no sample within %g s", p->timeout);
    return HOD_FAIL_RC(STATE, "loader: worker %d: sample %lld: not ready within %g s",
                       slowest->number, (long long)slowest->at, p->timeout);
}

int hod__pool_take(hod_pool *p, int64_t *n, const void **input, const void **target,
                   const int64_t **index)
{
    struct timespec until = deadline_in(p->timeout);
    pthread_mutex_lock(&p->lock);
    int64_t slot = p->tail % p->cap;
    int rc = 0;
    while (p->state[slot] != SLOT_READY && rc == 0) {
        if (p->failed_at == p->tail)
            rc = (hod__fail(p->failure.kind, "%s", p->failure.text), -1);
        else if (p->alive == 0)
            rc = HOD_FAIL_RC(STATE, "loader: every worker has ended");
        else if (pthread_cond_timedwait(&p->progress, &p->lock, &until) == ETIMEDOUT &&
                 p->state[slot] != SLOT_READY)
            rc = late(p);
    }
    int64_t ready = 0, most = HOD_MIN(*n, p->cap - slot);
    while (ready < most && p->state[slot + ready] == SLOT_READY)
        ready++;
    pthread_mutex_unlock(&p->lock);
    *n = ready;
    *input = p->inputs + slot * p->feed.input_bytes;
    *target = p->targets + slot * p->feed.target_bytes;
    *index = p->indices + slot;
    return rc;
}

void hod__pool_advance(hod_pool *p, int64_t n)
{
    pthread_mutex_lock(&p->lock);
    for (int64_t i = 0; i < n; i++)
        p->state[(p->tail + i) % p->cap] = SLOT_EMPTY;
    p->tail += n;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
}

int hod__pool_seek(hod_pool *p, int64_t position)
{
    struct timespec until = deadline_in(p->lost ? farewell : p->timeout);
    pthread_mutex_lock(&p->lock);
    p->paused = true;
    int rc = 0;
    while (p->busy > 0 && rc == 0)
        if (pthread_cond_timedwait(&p->progress, &p->lock, &until) == ETIMEDOUT && p->busy > 0)
            rc = late(p);
    if (rc == 0) {
        p->head = p->tail = position;
        p->failed_at = INT64_MAX;
        memset(p->state, SLOT_EMPTY, (size_t)p->cap);
        p->lost = false;
    }
    p->paused = false;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

hod_feed *hod__pool_feed(hod_pool *p)
{
    return &p->feed;
}

void hod__pool_stop(hod_pool *p)
{
    if (!p)
        return;
    struct timespec until = deadline_in(p->lost ? farewell : p->timeout);
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->room);
    for (int i = 0; i < p->n_workers; i++) {
        worker *w = &p->workers[i];
        while (!w->gone && pthread_cond_timedwait(&p->progress, &p->lock, &until) != ETIMEDOUT)
            continue;
        bool gone = w->gone;
        pthread_t thread = w->thread;
        if (!gone) {
            pthread_detach(thread);
            continue;
        }
        pthread_mutex_unlock(&p->lock); /* the thread may still be on its way out of it */
        pthread_join(thread, NULL);
        pthread_mutex_lock(&p->lock);
    }
    pool_leave(p);
}

/* ---- making it ---- */

static int pool_allocate(hod_pool *p, int workers)
{
    size_t cap = (size_t)p->cap;
    p->state = hod__alloc(cap, 1);
    p->inputs = hod__alloc(cap, (size_t)p->feed.input_bytes);
    p->targets = hod__alloc(cap, (size_t)p->feed.target_bytes);
    p->indices = hod__alloc(cap, sizeof *p->indices);
    p->workers = hod__alloc((size_t)workers, sizeof *p->workers);
    if (!p->state || !p->inputs || !p->targets || !p->indices || !p->workers)
        return -1;
    for (int i = 0; i < workers; i++) {
        worker *w = &p->workers[p->n_workers++];
        *w = (worker){.pool = p, .number = i, .at = -1};
        w->raw = hod__alloc((size_t)p->feed.dataset->input_bytes, 1);
        if (!w->raw)
            return -1;
    }
    return 0;
}

/* Starts the threads with all signals blocked: those are the caller's affair. */
static int pool_launch(hod_pool *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n_workers && rc == 0; i++) {
        rc = pthread_create(&p->workers[i].thread, NULL, worker_run, &p->workers[i]);
        if (rc) { /* the rest never existed */
            for (int k = i; k < p->n_workers; k++)
                free(p->workers[k].raw);
            p->n_workers = i;
        } else {
            p->refs++;
            p->alive++;
        }
    }
    pthread_mutex_unlock(&p->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? HOD_FAIL_RC(STATE, "loader: worker %d: %s", p->n_workers, strerror(rc)) : 0;
}

hod_pool *hod__pool_start(hod_feed *feed, int workers, int64_t ahead, double timeout)
{
    hod_pool *p = hod__alloc(1, sizeof *p);
    if (!p) {
        hod__feed_finish(feed);
        return NULL;
    }
    p->feed = *feed;
    *feed = (hod_feed){0};
    p->refs = 1;
    p->timeout = timeout;
    p->failed_at = INT64_MAX;
    p->cap = HOD_MIN(ahead, p->feed.count);
    p->chunk = HOD_MIN(HOD_MAX(p->cap / (4 * workers), 1), 16);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->room, &monotonic);
    pthread_cond_init(&p->progress, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pool_allocate(p, workers)) {
        pool_free(p);
        return NULL;
    }
    if (pool_launch(p)) {
        hod__pool_stop(p);
        return NULL;
    }
    return p;
}
