/* Philox, this thread's key, and permutations.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11) enciphers a 128-bit counter under a 64-bit key: ten rounds of two 32x32 -> 64 products.
 * There is no state: draw number i of a stream is computed, not reached.
 */
#include "base/scope.h"
#include "tensor/tensor.h"

void hod_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * x0, b = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)a;
        k0 += 0x9E3779B9u; /* golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* ---- the key of this thread ---- */

static _Thread_local hod_random_key mine;

static void forget(void)
{
    hod_tensor_release(mine.key);
    hod_tensor_release(mine.index);
    mine = (hod_random_key){0};
}

/* Writes the key tensor. Somebody may still hold the last one (a tape waits for its backward):
 * then it keeps its values and a new one takes over. */
static int write_key(uint64_t seed, int64_t update)
{
    bool alone = mine.key && atomic_load(&mine.key->refs) == 1 &&
                 atomic_load(&mine.key->storage->refs) == 1;
    if (!alone) {
        hod_meta meta = {.dtype = HOD_I64, .ndim = 1, .shape = {2}};
        hod_storage *s = hod__storage_new(hod__cpu(), 2 * sizeof(int64_t));
        hod_tensor *key = hod__tensor_new(&meta, s);
        hod__storage_release(s);
        if (!key || hod__at_thread_end(forget)) {
            hod_tensor_release(key);
            return -1;
        }
        hod_tensor_release(mine.key);
        mine.key = key;
    }
    int64_t *k = hod__data(mine.key);
    memcpy(&k[0], &seed, sizeof seed);
    k[1] = update;
    return 0;
}

int hod_random_begin(uint64_t seed, int64_t update, hod_tensor *sample_index)
{
    if (sample_index && (sample_index->dtype != HOD_I64 || sample_index->ndim != 1))
        return HOD_FAIL_RC(ARGUMENT, "random_begin: sample index is %s %s, wanted i64 (N)",
                           hod_dtype_name(sample_index->dtype), HOD_SHAPE_TEXT(sample_index));
    if (write_key(seed, update))
        return -1;
    hod_tensor_retain(sample_index);
    hod_tensor_release(mine.index);
    mine.index = sample_index;
    mine.seed = seed;
    mine.update = update;
    mine.stream = 0;
    return 0;
}

hod_random_key *hod__random(void)
{
    return mine.key || write_key(0, 0) == 0 ? &mine : NULL;
}

/* ---- permutations ---- */

/* A row of 64-bit draws: two from each Philox block. */
typedef struct draws {
    uint32_t key[2];
    uint64_t epoch, block;
    uint64_t ready[2];
    int n;
} draws;

static uint64_t draw(draws *d)
{
    if (d->n == 0) {
        uint32_t c[4] = {(uint32_t)d->block, (uint32_t)(d->block >> 32), (uint32_t)d->epoch,
                         (uint32_t)(d->epoch >> 32)};
        uint32_t x[4];
        hod_philox(c, d->key, x);
        d->ready[1] = (uint64_t)x[1] << 32 | x[0];
        d->ready[0] = (uint64_t)x[3] << 32 | x[2];
        d->block++;
        d->n = 2;
    }
    return d->ready[--d->n];
}

/* Uniform in [0, n), without bias: the high half of a 128-bit product, the few low halves that
 * would favour some values drawn again (Lemire, "Fast random integer generation in an interval",
 * 2019). */
static uint64_t draw_below(draws *d, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)draw(d) * n;
    if ((uint64_t)product < n) {
        uint64_t first_fair = (0 - n) % n; /* 2^64 mod n */
        while ((uint64_t)product < first_fair)
            product = (wide)draw(d) * n;
    }
    return (uint64_t)(product >> 64);
}

void hod_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t *out)
{
    /* "shuf" keeps these draws apart from those of operators under the same seed. */
    draws d = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ 0x73687566u},
               .epoch = (uint64_t)epoch};
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)draw_below(&d, (uint64_t)i + 1), t = out[i];
        out[i] = out[j];
        out[j] = t;
    }
}
