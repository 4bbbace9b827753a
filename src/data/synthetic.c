/* Made-up images: a pattern a class, plus noise, all from Philox.
 *
 *     byte i of sample n = 128 + 32 * sign(class, i) + noise(n, i),  noise in -64..63
 *
 * A network learns to tell the classes apart within a few updates, so a benchmark shows a loss that
 * falls. Small sets are made once, larger ones sample by sample, with the same bytes.
 */
#include "data/data.h"
#include <hod/random.h>

static const int64_t keep_bytes = (int64_t)64 << 20; /* sets up to this size are made once */

typedef struct synthetic {
    uint64_t seed;
    int64_t classes, numel;
    uint8_t *made; /* count * numel bytes, or NULL */
} synthetic;

static void philox(const synthetic *s, uint32_t what, int64_t number, int64_t block,
                   uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32) ^ 0x73796e74}; /* "synt" */
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)number, (uint32_t)(number >> 32), what};
    hod_philox(counter, key, out);
}

/* 16 bytes a block of noise; one sign a bit, 128 a block. */
static void make_image(const synthetic *s, int64_t index, uint8_t *out)
{
    int64_t class = index % s->classes;
    uint32_t noise[4], signs[4];
    for (int64_t i = 0; i < s->numel; i++) {
        if (i % 128 == 0)
            philox(s, 1, class, i / 128, signs);
        if (i % 16 == 0)
            philox(s, 0, index, i / 16, noise);
        uint32_t byte = noise[i / 4 % 4] >> (8 * (i % 4)) & 127;
        uint32_t up = signs[i / 32 % 4] >> (i % 32) & 1;
        out[i] = (uint8_t)((up ? 160 : 96) + byte - 64);
    }
}

static int synthetic_item(void *job, int64_t index, hod_draws *draws, void *input, void *target)
{
    (void)draws;
    const synthetic *s = job;
    if (s->made)
        memcpy(input, s->made + index * s->numel, (size_t)s->numel);
    else
        make_image(s, index, input);
    int64_t label = index % s->classes;
    memcpy(target, &label, sizeof label);
    return 0;
}

static void synthetic_release(void *job)
{
    synthetic *s = job;
    free(s->made);
    free(s);
}

hod_dataset *hod_synthetic_dataset_make(hod_synthetic_spec spec)
{
    synthetic *s = hod__alloc(1, sizeof *s);
    if (!s)
        return NULL;
    int64_t count = spec.count ? spec.count : 1024;
    s->seed = spec.seed;
    s->classes = spec.classes ? spec.classes : 10;
    hod_dataset *d =
        hod_dataset_new(count, synthetic_item, s, synthetic_release, .name = "synthetic",
                        .shape = spec.shape, .dtype = HOD_U8, .classes = s->classes);
    if (!d)
        return NULL;
    s->numel = d->input_numel;
    int64_t bytes;
    if (!hod__mul_size(count, s->numel, &bytes) || bytes > keep_bytes)
        return d;
    uint8_t *made = hod__alloc((size_t)bytes, 1);
    for (int64_t i = 0; made && i < count; i++)
        make_image(s, i, made + i * s->numel);
    s->made = made;
    if (!made) {
        hod_dataset_free(d);
        return NULL;
    }
    return d;
}
