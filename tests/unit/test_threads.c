/* Threads of a user's: what threads.h allows, each in the hands of as many as it allows. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/memory.h>
#include <hod/ops.h>
#include <hod/threads.h>

#include <pthread.h>

enum { THREADS = 4, TURNS = 50 };

static hod_tensor *leaf(double v)
{
    return hod_requires_grad(hod_scalar(v), true);
}

/* Runs f for each of n jobs of `size` bytes at once, and waits. */
static void at_once(int n, void *(*f)(void *), void *jobs, size_t size)
{
    pthread_t t[THREADS];
    for (int i = 0; i < n; i++)
        CHECK(pthread_create(&t[i], NULL, f, (char *)jobs + (size_t)i * size) == 0);
    for (int i = 0; i < n; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

typedef struct job {
    hod_tensor *w, *out;
} job;

/* Over a leaf of another thread's: nothing here says that it is one, but the leaf. */
static void *square(void *context)
{
    job *j = context;
    j->out = hod_tensor_retain(hod_mul(j->w, j->w));
    return NULL;
}

TEST(threads_a_graph_is_built_here_and_gone_through_there)
{
    job j[THREADS];
    hod_tensor *w = leaf(3);
    for (int i = 0; i < THREADS; i++)
        j[i].w = w;
    at_once(THREADS, square, j, sizeof *j);
    for (int i = 0; i < THREADS; i++) { /* one after the other: they share the leaf */
        EQ_INT(hod_backward(j[i].out), 0);
        hod_tensor_release(j[i].out);
    }
    NEAR(hod_item(hod_grad(w)), 6 * THREADS, 0);
}

static void *backward(void *context)
{
    EQ_INT(hod_backward(context), 0);
    return NULL;
}

TEST(threads_backward_of_a_graph_of_another_thread)
{
    hod_tensor *w = leaf(3), *y = hod_mul(w, hod_exp(w));
    pthread_t t;
    CHECK(pthread_create(&t, NULL, backward, y) == 0);
    pthread_join(t, NULL);
    NEAR(hod_item(hod_grad(w)), hod_item(hod_exp(w)) * 4, 1e-5);
}

/* Each with a leaf of its own over the same values. */
static void *train(void *context)
{
    job *j = context;
    hod_tensor *mine = hod_requires_grad(hod_detach(j->w), true);
    for (int i = 0; i < TURNS; i++) {
        HOD_SCOPE(s);
        hod_tensor *g[1];
        EQ_INT(hod_grad_of(hod_mul(mine, mine), 1, &mine, g, HOD_ONES), 0);
        NEAR(hod_item(g[0]), 6, 0);
        EQ_INT(hod_backward(hod_mul(mine, mine)), 0);
    }
    j->out = hod_tensor_retain(hod_grad(mine));
    return NULL;
}

TEST(threads_share_weights_and_add_gradients)
{
    job j[THREADS];
    hod_tensor *w = hod_scalar(3), *sum = hod_scalar(0);
    for (int i = 0; i < THREADS; i++)
        j[i].w = w;
    at_once(THREADS, train, j, sizeof *j);
    for (int i = 0; i < THREADS; i++) {
        sum = hod_add(sum, j[i].out);
        hod_tensor_release(j[i].out);
    }
    NEAR(hod_item(sum), 6 * TURNS * THREADS, 0);
}

/* Modes, errors and what is owned are the thread's: nothing of it is seen here, or stays. */
static void *leave_all_behind(void *unused)
{
    (void)unused;
    hod_grad_mode off;
    hod_no_grad_begin(&off);
    hod_scope open;
    hod_scope_begin(&open, __FILE__, __LINE__);
    hod_tensor *w = hod_requires_grad(hod_zeros(HOD_F32, HOD_SHAPE(1000)), true);
    CHECK(w && !hod_add(w, hod_zeros(HOD_F32, HOD_SHAPE(3))) &&
          !hod_tensor_requires_grad(hod_exp(w)));
    return NULL;
}

TEST(threads_end_without_finish)
{
    int64_t bytes = hod_memory().allocated;
    for (int i = 0; i < 2; i++)
        at_once(1, leave_all_behind, NULL, 0);
    EQ_INT(hod_memory().allocated, bytes);
    CHECK(!hod_error() && hod_grad_enabled());
    CHECK(hod_tensor_requires_grad(hod_exp(leaf(1))));
}
