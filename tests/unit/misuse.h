/* Absurd calls, for test_misuse*.c: what draws their arguments, and what judges their results.
 *
 * A table of calls is run in rounds of 50: random functions with random tensors and numbers that no
 * one would mean. Every call gives a result, or NULL with one line that says why; none crashes,
 * hangs or takes memory without bound. Run under the asan preset, these are the tests of all checks
 * at the public border.
 *
 * HOD_MISUSE=FIRST-LAST chooses the rounds; a failure names its round.
 */
#ifndef HOD_TESTS_MISUSE_H
#define HOD_TESTS_MISUSE_H

#include "base/base.h"
#include "harness.h"
#include "ops/op.h"

#include <hod/hod.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- draws ---- */

static uint64_t misuse_state;

static inline uint32_t draw(uint32_t below)
{
    misuse_state = misuse_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(misuse_state >> 33) % below;
}

/* Mostly small numbers, now and then the ends of what 64 bits hold. */
static inline int64_t any_int(void)
{
    static const int64_t ends[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   INT64_MAX,
                                   INT64_MAX - 1,
                                   INT32_MIN,
                                   INT32_MAX,
                                   (int64_t)1 << 32,
                                   (int64_t)1 << 62,
                                   -100,
                                   -9,
                                   9,
                                   64,
                                   1000000000,
                                   1 << 20,
                                   -((int64_t)1 << 31)};
    return draw(6) ? (int64_t)draw(7) - 2 : ends[draw(HOD_COUNT(ends))];
}

static inline int any_dim(void)
{
    return draw(12) ? (int)draw(8) - 4 : (int)any_int();
}

static inline double any_number(void)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e300, -1e300, 1e-320, 256,
                                 -1,  0.5,      1e19,      1, 2,    -0.5,  0x1p63, 3e9};
    return odd[draw(HOD_COUNT(odd))];
}

static inline hod_dtype any_dtype(void)
{
    static const hod_dtype wrong[] = {HOD_DTYPES, (hod_dtype)99, (hod_dtype)-1};
    return draw(40) ? (hod_dtype)draw(HOD_DTYPES) : wrong[draw(3)];
}

static inline hod_shape any_shape(void)
{
    hod_shape s = {.n = (int)draw(5)};
    if (draw(30) == 0)
        s.n = draw(2) ? 8 : (int)any_int();
    for (int i = 0; i < HOD_MAX_DIMS; i++)
        s.d[i] = draw(12) ? (int64_t)draw(4) + (draw(8) != 0) : any_int();
    return s;
}

/* ---- tensors ---- */

/* Every value a number of the type may have, NaN among them. */
static inline hod_tensor *filled(hod_dtype dtype, hod_shape shape)
{
    hod_tensor *x = hod_empty(dtype, shape);
    unsigned char *p = hod_tensor_mutable_data(x);
    size_t n = (size_t)hod_tensor_numel(x) * (x ? hod_dtype_bytes(dtype) : 0);
    for (size_t i = 0; p && i < n; i++)
        p[i] = (unsigned char)(dtype == HOD_BOOL ? draw(2) : draw(3) ? draw(256) : 0);
    for (int64_t i = 0; p && dtype == HOD_I64 && i < hod_tensor_numel(x); i++)
        ((int64_t *)(void *)p)[i] = draw(10) ? draw(3) : any_int(); /* often good as an index */
    return x;
}

/* A tensor of any kind: empty, 0-d, of 8 dimensions, a strided view, repeated without end, NULL. */
static inline hod_tensor *any_tensor(void)
{
    hod_shape s = {.n = (int)draw(5)};
    if (draw(60) == 0)
        return NULL;
    if (draw(20) == 0)
        s.n = HOD_MAX_DIMS;
    for (int i = 0; i < s.n; i++)
        s.d[i] = s.n == HOD_MAX_DIMS ? 1 + draw(2) : draw(25) ? 1 + draw(4) : 0;
    hod_dtype dtype = draw(2) ? HOD_F32 : (hod_dtype)draw(HOD_DTYPES);
    hod_tensor *x = filled(dtype, s);
    if (x && dtype <= HOD_BF16 && draw(4) == 0)
        hod_requires_grad(x, true);
    for (int i = (int)draw(3); i > 0 && s.n > 1; i--) {
        hod_tensor *view =
            draw(2) ? hod_transpose(x, 0, (int)draw((uint32_t)s.n))
                    : hod_slice_step(x, (int)draw((uint32_t)s.n), draw(3), 9, 1 + draw(3));
        x = view ? view : x;
    }
    return x;
}

/* The same, but perhaps of more elements than any memory holds: for what moves no element. */
static inline hod_tensor *endless(void)
{
    hod_shape s = {.n = 1 + (int)draw(3)};
    for (int i = 0; i < s.n; i++)
        s.d[i] = draw(2) ? 1 + draw(3) : (int64_t)1 << draw(62);
    hod_tensor *one = hod_full(HOD_F32, HOD_SHAPE(), 1), *x = hod_expand(one, s);
    hod_error_take(NULL);
    return x ? x : one;
}

/* Few numbers make sense for an image; most are drawn near them. */
static inline int64_t near(int64_t good)
{
    return draw(5) ? good : any_int();
}

static inline hod_tensor *image(void)
{
    return filled(draw(3) ? HOD_F32 : (hod_dtype)draw(HOD_DTYPES),
                  HOD_SHAPE(draw(3), 1 + draw(4), 1 + draw(5), 1 + draw(5)));
}

/* An index that often fits x: its shape, or a vector. */
static inline hod_tensor *any_index(hod_tensor *x)
{
    hod_shape s = draw(3) || !x ? HOD_SHAPE(draw(4)) : hod_tensor_shape(x);
    return filled(draw(6) ? HOD_I64 : (hod_dtype)draw(HOD_DTYPES), s);
}

/* ---- calls ---- */

typedef struct misuse_call {
    const char *name;
    hod_tensor *(*run)(hod_tensor *x, hod_tensor *y, hod_tensor *z);
    bool any_size; /* moves no element and so takes any size */
    bool symbolic; /* its result has no values */
} misuse_call;

/* The calls of a file, a row each: CALL(name, what to call with x, y, z), ANY_SIZE, SYMBOLIC. */
#define MISUSE_FUNCTION(name, ...)                                                                 \
    static hod_tensor *call_##name(hod_tensor *x, hod_tensor *y, hod_tensor *z)                    \
    {                                                                                              \
        (void)x, (void)y, (void)z;                                                                 \
        return __VA_ARGS__;                                                                        \
    }

/* ---- rounds ---- */

/* The result is there without an error, or the error without a result. */
static inline void judge(const char *name, int round, hod_tensor *y)
{
    const char *error = hod_error();
    if (y && error)
        FAIL("round %d, %s: a result and an error: %s", round, name, error);
    if (!y && !error)
        FAIL("round %d, %s: neither a result nor an error", round, name);
    if (error && !*error)
        FAIL("round %d, %s: an error without words", round, name);
    if (error && getenv("HOD_MISUSE_PRINT"))
        printf("%s  <-  %s\n", error, name);
    hod_error_take(NULL);
}

/* One call, and what follows: its backward, and a look at the values. */
static inline void misuse_once(int round, int n, const misuse_call *calls)
{
    HOD_SCOPE(s);
    hod_tensor *in[3], *y;
    char text[64];
    for (int i = 0; i < 3; i++)
        in[i] = any_tensor();
    if (draw(3) == 0)
        in[1] = in[0];
    hod_error_take(NULL);
    const misuse_call *call = &calls[draw((uint32_t)n)];
    if (call->any_size && draw(3) == 0)
        in[0] = endless();
    if (getenv("HOD_MISUSE_TRACE"))
        fprintf(stderr, "%d %s\n", round, call->name);
    y = call->run(in[0], in[1], in[2]);
    judge(call->name, round, y);
    if (!y || call->symbolic || hod_tensor_numel(y) > 1 << 24) /* a view that repeats without end */
        return;
    if (hod_tensor_numel(y) < 10000)
        hod_tensor_text(y, text, sizeof text);
    judge("text", round, y);
    if (hod_tensor_requires_grad(y) && hod_backward(hod_sum(y)) != 0 && !hod_error())
        FAIL("round %d, %s: no backward and no reason", round, call->name);
    hod_error_take(NULL);
}

static inline void misuse_rounds(int n, const misuse_call *calls)
{
    int first = 0, last = 200;
    const char *range = getenv("HOD_MISUSE");
    if (range)
        CHECK(sscanf(range, "%d-%d", &first, &last) == 2);
    CHECK(hod_memory_limit(HOD_MIB(64)) == 0);
    for (int round = first; round < last; round++) {
        misuse_state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
        for (int i = 0; i < 50; i++)
            misuse_once(round, n, calls);
    }
    CHECK(hod_memory_limit(0) == 0);
}

#endif
