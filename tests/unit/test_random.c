/* Philox against the known answers of its authors, and the properties of permutations. */
#include "base/base.h"
#include "harness.h"
#include "tensor/tensor.h"

static void known(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1,
                  const uint32_t want[4])
{
    uint32_t out[4];
    hod_philox((uint32_t[]){c0, c1, c2, c3}, (uint32_t[]){k0, k1}, out);
    for (int i = 0; i < 4; i++)
        EQ_INT(out[i], want[i]);
}

/* kat_vectors of Random123: nothing, everything, digits of pi. */
TEST(random_philox_known_answers)
{
    known(0, 0, 0, 0, 0, 0, (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    known(~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
          (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    known(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
          (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(random_shuffle_is_a_permutation)
{
    enum { N = 1000 };
    static int64_t p[N], q[N];
    bool seen[N] = {false};
    hod_shuffle(7, 3, N, p);
    for (int i = 0; i < N; i++) {
        CHECK(p[i] >= 0 && p[i] < N && !seen[p[i]]);
        seen[p[i]] = true;
    }
    hod_shuffle(7, 3, N, q);
    CHECK(memcmp(p, q, sizeof p) == 0);
    hod_shuffle(7, 4, N, q);
    CHECK(memcmp(p, q, sizeof p) != 0);
    hod_shuffle(8, 3, N, q);
    CHECK(memcmp(p, q, sizeof p) != 0);
    int64_t single = -1;
    hod_shuffle(1, 1, 0, NULL);
    hod_shuffle(1, 1, 1, &single);
    EQ_INT(single, 0);
}

TEST(random_shuffle_orders_are_equally_likely)
{
    /* 24 orders of 4, 24000 epochs: each expected 1000 times, standard deviation 31. Five of them
     * either way fail by chance once in a million; the draws are fixed, so once never. */
    int count[256] = {0}, kinds = 0;
    for (int64_t epoch = 0; epoch < 24000; epoch++) {
        int64_t p[4];
        hod_shuffle(1, epoch, 4, p);
        count[p[0] + 4 * p[1] + 16 * p[2] + 64 * p[3]]++;
    }
    for (int i = 0; i < 256; i++)
        if (count[i]) {
            NEAR(count[i], 1000, 155);
            kinds++;
        }
    EQ_INT(kinds, 24);
}

TEST(random_begin_sets_the_key)
{
    HOD_SCOPE(s);
    hod_tensor *index = hod_from_ints((int64_t[]){5, 6, 9}, HOD_SHAPE(3));
    EQ_INT(hod_random_begin(0x123456789abcdef0u, 17, index), 0);
    hod_random_key *k = hod__random();
    int64_t values[2];
    EQ_INT(hod_read_ints(k->key, values, 2), 0);
    EQ_INT(values[0], 0x123456789abcdef0);
    EQ_INT(values[1], 17);
    CHECK(k->index == index);
    k->stream = 4;
    hod_tensor *held = hod_tensor_retain(k->key);
    EQ_INT(hod_random_begin(1, 18, NULL), 0);
    EQ_INT(k->stream, 0);
    CHECK(k->key != held && !k->index);
    EQ_INT(hod_read_ints(held, values, 2), 0); /* whoever holds a key keeps its values */
    EQ_INT(values[1], 17);
    hod_tensor_release(held);
    int64_t before = hod_memory().allocations;
    EQ_INT(hod_random_begin(1, 19, NULL), 0); /* nobody holds this one: nothing is allocated */
    EQ_INT(hod_memory().allocations, before);
    ERROR_IS("random_begin: sample index is f32 (), wanted i64 (N)",
             hod_random_begin(1, 1, hod_scalar(1)));
}

TEST(random_key_without_begin)
{
    hod_random_key *k = hod__random();
    CHECK(k && k->key && !k->index && k->stream == 0);
    EQ_INT(hod_finish(), 0);
    EQ_INT(hod_memory().allocated, 0);
}
