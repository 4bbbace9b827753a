/* The one mapping from a random operator's place to its value: text that the eager kernel includes
 * and that is printed at the top of every generated kernel, so the two agree to the bit.
 *
 * Philox 4x32-10 (Salmon et al., SC'11). The value of element e of sample `index` in stream
 * `stream`, under (seed, update), is word e % 4 of the block with
 *
 *     key      k = mix(mix(seed) ^ update)                         low word, high word
 *     counter  { lo(e / 4), lo(stream), lo(index), hi(index) ^ hi(e / 4) }
 *
 * and its upper 24 bits make a float in [0, 1). For one seed, mix being a bijection, different
 * updates have different keys. Scalars, not arrays: compilers vectorise a loop over e.
 */

#define R_INLINE static inline __attribute__((always_inline, unused))

/* A bijection of 64 bits in which every input bit moves every output bit (two rounds of xor-shift
 * and odd multiplication). */
R_INLINE unsigned long long r_mix(unsigned long long x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* The key of a window; loop-invariant, made once a kernel. */
R_INLINE unsigned long long r_uniform_key(unsigned long long seed, unsigned long long update)
{
    return r_mix(r_mix(seed) ^ update);
}

/* One round of Philox on x0..x3, and the key's step. A macro: gcc at -O2 would keep a loop of ten,
 * and a loop around it would not vectorise. */
#define R_PHILOX_ROUND                                                                             \
    do {                                                                                           \
        unsigned long long p = 0xd2511f53ull * x0, q = 0xcd9e8d57ull * x2;                         \
        x0 = (unsigned)(q >> 32) ^ x1 ^ k0;                                                        \
        x1 = (unsigned)q;                                                                          \
        x2 = (unsigned)(p >> 32) ^ x3 ^ k1;                                                        \
        x3 = (unsigned)p;                                                                          \
        k0 += 0x9e3779b9u;                                                                         \
        k1 += 0xbb67ae85u;                                                                         \
    } while (0);
#define R_PHILOX                                                                                   \
    R_PHILOX_ROUND R_PHILOX_ROUND R_PHILOX_ROUND R_PHILOX_ROUND R_PHILOX_ROUND R_PHILOX_ROUND      \
        R_PHILOX_ROUND R_PHILOX_ROUND R_PHILOX_ROUND R_PHILOX_ROUND

/* The four words of a block, as 64 bits on the way: wide multipliers take them as they are. */
R_INLINE void r_random_block(unsigned long long key, unsigned long long stream,
                             unsigned long long index, unsigned long long block, unsigned *w0,
                             unsigned *w1, unsigned *w2, unsigned *w3)
{
    unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
    unsigned long long x0 = (unsigned)block, x1 = (unsigned)stream;
    unsigned long long x2 = (unsigned)index, x3 = (index >> 32) ^ (block >> 32);
    R_PHILOX
    *w0 = (unsigned)x0;
    *w1 = (unsigned)x1;
    *w2 = (unsigned)x2;
    *w3 = (unsigned)x3;
}

/* 32 random bits. */
R_INLINE unsigned r_random_bits(unsigned long long key, unsigned long long stream,
                                unsigned long long index, unsigned long long e)
{
    unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
    unsigned x0 = (unsigned)(e >> 2), x1 = (unsigned)stream;
    unsigned x2 = (unsigned)index, x3 = (unsigned)(index >> 32) ^ (unsigned)(e >> 34);
    R_PHILOX
    unsigned low = (e & 1) ? x1 : x0, high = (e & 1) ? x3 : x2;
    return (e & 2) ? high : low;
}

/* A word's upper 24 bits as a float in [0, 1). */
R_INLINE float r_unit(unsigned word)
{
    return (float)(int)(word >> 8) * 0x1p-24f;
}

/* Uniform in [0, 1), a multiple of 2^-24. */
R_INLINE float r_uniform(unsigned long long key, unsigned long long stream,
                         unsigned long long index, unsigned long long e)
{
    return r_unit(r_random_bits(key, stream, index, e));
}
