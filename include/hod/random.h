/* Randomness that does not depend on how the work is cut.
 *
 * A draw is a function of (seed, update, global sample index, stream, element) through Philox
 * 4x32-10: the same in a batch of 256, in four micro-batches of 64, under recomputation, on any
 * rank and any thread. Nothing is advanced, so nothing can get out of step.
 *
 *     hod_random_begin(seed, update, b->index);      // the trainer does this per micro-batch
 *     y = hod_dropout(x, 0.1);                       // row n of x uses sample index[n]
 *
 * Each random operator takes the next stream number, counted from hod_random_begin. A thread that
 * never called it draws as after hod_random_begin(0, 0, NULL): the same in each run.
 */
#ifndef HOD_RANDOM_H
#define HOD_RANDOM_H

#include <hod/tensor.h>

/* Sets this thread's key: seed, update number and the sample index of each row, an i64 tensor
 * (N), kept. A NULL index stands for 0, 1, 2, ... 0 or -1. Restarts the stream count. */
HOD_API int hod_random_begin(uint64_t seed, int64_t update, hod_tensor *sample_index);

/* Philox 4x32-10 (Salmon et al., SC'11): 128 random bits of a counter and a key. */
HOD_API void hod_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A permutation of 0..n-1 that is a function of (seed, epoch) alone. */
HOD_API void hod_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t *out);

#ifndef HOD_NO_PLACES
#define hod_random_begin(...) HOD_OPERATOR(int, random_begin, __VA_ARGS__)
#endif

#endif
