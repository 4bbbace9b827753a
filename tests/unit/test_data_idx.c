/* The IDX reader on good files, and on files damaged in every way we know. */
#include "scratch.h"

#include "data/data.h"
#include "data/idx.h"
#include "tensor/tensor.h"
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

static void write_gzip(const char *name, const void *data, size_t n)
{
    gzFile f = gzopen(scratch(name), "wb");
    CHECK(f && gzwrite(f, data, (unsigned)n) == (int)n && gzclose(f) == Z_OK);
}

static const uint8_t two_images[16 + 12] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                                            0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
static const uint8_t two_labels[8 + 2] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 0};

TEST(data_idx_reads_plain_and_gzip)
{
    scratch_write("a-images-idx3-ubyte", two_images, sizeof two_images);
    write_gzip("a-labels-idx1-ubyte.gz", two_labels, sizeof two_labels);
    hod_dataset *d = hod_idx_dataset(scratch("a"));
    CHECK(d);
    EQ_INT(hod_dataset_count(d), 2);
    EQ_INT(hod_dataset_classes(d), 10);
    EQ_INT(hod_dataset_shape(d).d[2], 3);
    hod_loader *l = hod_loader_new(d);
    hod_batch b;
    EQ_INT(hod_loader_next(l, 9, &b), 1);
    float x[12];
    int64_t y[2];
    CHECK(!hod_read_floats(b.input, x, 12) && !hod_read_ints(b.target, y, 2));
    NEAR(x[11], 1, 0);
    NEAR(x[0], 1 / 255.0, 1e-9); /* f32 rounding of 0.0039 */
    EQ_INT(y[0], 9);
    hod_loader_free(l);
    hod_dataset_free(d);
}

TEST(data_idx_names_a_missing_file)
{
    char want[160];
    snprintf(want, sizeof want, "%s-images-idx3-ubyte: no such file, nor with .gz",
             scratch("nowhere"));
    ERROR_IS(want, hod_idx_dataset(scratch("nowhere")));
}

/* Writes the images file, tries to read it and expects "<before><path>: <after>". */
static void fails(const char *name, const void *data, size_t n, const char *before,
                  const char *after)
{
    scratch_write(name, data, n);
    hod_idx x;
    EQ_INT(hod__idx_read(scratch(name), 3, &x), -1);
    hod_error_record why = {0};
    CHECK(hod_error_take(&why));
    CHECK(!x.data);
    char want[256];
    snprintf(want, sizeof want, "%s%s: %s", before, scratch(name), after);
    EQ_STR(why.text, want);
}

static void refused(const char *name, const void *data, size_t n, const char *reason)
{
    fails(name, data, n, "", reason);
}

static void damaged(const char *name, const void *data, size_t n, const char *reason)
{
    fails(name, data, n, "damaged gzip file: ", reason);
}

TEST(data_idx_refuses_headers_that_lie)
{
    uint8_t f[sizeof two_images + 1];
    memcpy(f, two_images, sizeof two_images);
    refused("empty", f, 0, "not an IDX file: it holds 0 bytes");
    refused("short", f, 3, "not an IDX file: it holds 3 bytes");
    refused("header", f, 10, "the file ends within its header");
    refused("few", f, sizeof two_images - 1, "header says 2 x 2 x 3 = 12 bytes, the file holds 11");
    f[sizeof two_images] = 0;
    refused("many", f, sizeof f, "header says 2 x 2 x 3 = 12 bytes, the file holds 13");
    f[2] = 13;
    refused("type", f, sizeof two_images,
            "not an IDX file of bytes in 3 dimensions: it begins with 00000d03, not 00000803");
    f[2] = 8;
    f[3] = 1;
    refused("dims", f, sizeof two_images,
            "not an IDX file of bytes in 3 dimensions: it begins with 00000801, not 00000803");
    f[3] = 3;
    memset(f + 4, 255, 12); /* the product overflows 64 bits */
    refused("huge", f, sizeof two_images, "header says 4294967295 x 4294967295 x 4294967295");
    memset(f + 4, 0, 4);
    refused("none", f, sizeof two_images, "header says 0 x 4294967295 x 4294967295");
}

TEST(data_idx_refuses_large_claims_without_allocating)
{
    uint8_t f[sizeof two_images];
    memcpy(f, two_images, sizeof f);
    memcpy(f + 4, (uint8_t[]){0, 1, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x10, 0}, 12); /* 2^40 bytes */
    write_gzip("claim.gz", f, sizeof f);
    hod_idx x;
    hod__alloc_fail_after = 0; /* any buffer at all would be another error */
    EQ_INT(hod__idx_read(scratch("claim.gz"), 3, &x), -1);
    hod__alloc_fail_after = -1;
    CHECK(strstr(hod_error(), "header says 65536 x 4096 x 4096 = 1099511627776 bytes, more than"));
    CHECK(hod_error_take(NULL));
    /* Within what deflate could have shrunk, but not there: found while reading. */
    memcpy(f + 4, (uint8_t[]){0, 0, 0, 1, 0, 0, 0, 100, 0, 0, 0, 100}, 12);
    write_gzip("claim2.gz", f, sizeof f);
    EQ_INT(hod__idx_read(scratch("claim2.gz"), 3, &x), -1);
    CHECK(strstr(hod_error(), "header says 1 x 100 x 100 = 10000 bytes, the file holds 12"));
    CHECK(hod_error_take(NULL));
    /* And more than it says. */
    memcpy(f + 4, (uint8_t[]){0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3}, 12);
    write_gzip("more.gz", f, sizeof f);
    EQ_INT(hod__idx_read(scratch("more.gz"), 3, &x), -1);
    CHECK(strstr(hod_error(), "header says 1 x 2 x 3 = 6 bytes, the file holds more"));
    CHECK(hod_error_take(NULL));
}

TEST(data_idx_refuses_damaged_gzip)
{
    enum { BYTES = 16 + 10000 };
    static uint8_t f[BYTES], z[BYTES + 1000];
    memcpy(f, (uint8_t[]){0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 100, 0, 0, 0, 100}, 16);
    hod_draws draws = hod_draws_of(0, 0, 0);
    for (int i = 16; i < BYTES; i++)
        f[i] = (uint8_t)hod_draw_bits(&draws);
    write_gzip("good.gz", f, BYTES);
    FILE *in = fopen(scratch("good.gz"), "rb");
    CHECK(in);
    size_t n = fread(z, 1, sizeof z, in);
    fclose(in);
    hod_idx x;
    CHECK(!hod__idx_read(scratch("good.gz"), 3, &x));
    CHECK(memcmp(x.data, f + 16, 10000) == 0);
    free(x.data);
    for (size_t cut = 20; cut < n; cut += cut < n - 10 ? n / 7 : 1) { /* also inside the trailer */
        char want[80];
        snprintf(want, sizeof want, "the gzip file is cut off after %zu bytes", cut);
        refused("cut.gz", z, cut, want);
    }
    z[n - 6] ^= 1; /* the CRC */
    damaged("crc.gz", z, n, "incorrect data check");
    z[n - 6] ^= 1;
    z[n - 1] ^= 1; /* the length */
    damaged("length.gz", z, n, "incorrect length check");
}

TEST(data_idx_checks_labels)
{
    uint8_t labels[sizeof two_labels];
    memcpy(labels, two_labels, sizeof labels);
    labels[9] = 12;
    scratch_write("b-images-idx3-ubyte", two_images, sizeof two_images);
    scratch_write("b-labels-idx1-ubyte", labels, sizeof labels);
    char want[256];
    snprintf(want, sizeof want, "%s: sample 1: label 12 is outside 0..9",
             scratch("b-labels-idx1-ubyte"));
    ERROR_IS(want, hod_idx_dataset(scratch("b")));
    labels[7] = 1;
    scratch_write("b-labels-idx1-ubyte", labels, sizeof labels - 1);
    snprintf(want, sizeof want, "%s: 1 labels for the 2 images of %s",
             scratch("b-labels-idx1-ubyte"), scratch("b-images-idx3-ubyte"));
    ERROR_IS(want, hod_idx_dataset(scratch("b")));
}

TEST(data_idx_reads_fashion_mnist)
{
    static const char prefix[] = "/usr/share/datasets/fashion-mnist/t10k";
    if (access("/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz", R_OK))
        SKIP("the dataset-fashion-mnist package is not installed");
    hod_dataset *d = hod_idx_dataset(prefix);
    CHECK(d);
    EQ_STR(hod_dataset_name(d), "fashion-mnist/t10k");
    EQ_INT(hod_dataset_count(d), 10000);
    float mean[HOD_MAX_CHANNELS], std[HOD_MAX_CHANNELS];
    CHECK(!hod_dataset_moments(d, 0, mean, std));
    NEAR(mean[0], 0.2868, 5e-5); /* published for this set to four digits */
    NEAR(std[0], 0.3524, 5e-5);
    hod_dataset_free(d);
}
