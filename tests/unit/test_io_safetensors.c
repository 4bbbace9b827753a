/* Safetensors: the bytes on disk, B24 and B25, and what a hostile header may claim. */
#include "scratch.h"

#include "base/base.h"
#include "tensor/tensor.h"
#include <hod/io.h>
#include <math.h>
#include <sys/resource.h>

static void *data_section(const char *name, size_t *n)
{
    char *file = scratch_read(name, n);
    uint64_t header;
    memcpy(&header, file, 8);
    EQ_INT(header % 8, 0); /* the data lie aligned */
    *n -= 8 + header;
    memmove(file, file + 8 + header, *n);
    return file;
}

TEST(io_safetensors_round_trip_of_all_dtypes)
{
    HOD_SCOPE(s);
    static const double values[6] = {0, 1, -2, 3.5, 100, -0.25};
    hod_named_tensor all[HOD_DTYPES + 2];
    static char names[HOD_DTYPES][8];
    for (int d = 0; d < HOD_DTYPES; d++) {
        char raw[6 * 8];
        for (size_t i = 0; i < sizeof raw; i++)
            raw[i] = (char)(d == HOD_BOOL ? i % 2 : i * 7 + (size_t)d);
        snprintf(names[d], sizeof names[d], "t.%d", d);
        all[d] = (hod_named_tensor){names[d], hod_from_data((hod_dtype)d, raw, HOD_SHAPE(2, 3))};
    }
    all[HOD_DTYPES] = (hod_named_tensor){"scalar", hod_from_doubles(values + 3, HOD_SHAPE())};
    all[HOD_DTYPES + 1] = (hod_named_tensor){"none", hod_empty(HOD_F32, HOD_SHAPE(0, 5))};
    hod_named_text notes[] = {{"made by", "a test"}, {"größe", "7"}};
    CHECK(!hod_save_tensors(scratch("a"), all, HOD_COUNT(all), notes, 2));

    hod_tensor_file *f = hod_tensor_file_open(scratch("a"));
    CHECK(f);
    EQ_INT(hod_tensor_file_count(f), HOD_COUNT(all));
    EQ_STR(hod_tensor_file_note(f, "größe"), "7");
    CHECK(!hod_tensor_file_note(f, "absent"));
    EQ_INT(hod_tensor_file_find(f, "absent"), -1);
    for (int i = 0; i < HOD_COUNT(all); i++) {
        int64_t at = hod_tensor_file_find(f, all[i].name);
        CHECK(at >= 0);
        hod_tensor *t = hod_tensor_file_read(f, at), *was = all[i].tensor;
        CHECK(t);
        EQ_INT(hod_tensor_dtype(t), hod_tensor_dtype(was));
        hod_tensor_info info = hod_tensor_file_info(f, at);
        EQ_INT(info.shape.n, hod_tensor_ndim(was));
        size_t bytes = (size_t)hod_tensor_numel(was) * hod_dtype_bytes(hod_tensor_dtype(was));
        CHECK(bytes == 0 || memcmp(hod_tensor_data(t), hod_tensor_data(was), bytes) == 0);
    }
    hod_tensor_file_close(&f);
    CHECK(!f);
}

TEST(io_safetensors_writes_row_major)
{
    /* B24: the transpose of [[1,2,3],[4,5,6]] is stored as 1,4,2,5,3,6. */
    HOD_SCOPE(s);
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5, 6}, HOD_SHAPE(2, 3));
    hod_tensor *t = hod__own(hod__tensor_alias(x));
    t->shape[0] = 3;
    t->shape[1] = 2;
    t->strides[0] = 1;
    t->strides[1] = 3;
    CHECK(!hod_save_tensors(scratch("t"), &(hod_named_tensor){"t", t}, 1, NULL, 0));
    size_t n;
    float *data = data_section("t", &n);
    EQ_INT(n, 24);
    CHECK(memcmp(data, (float[]){1, 4, 2, 5, 3, 6}, 24) == 0);
    free(data);
    hod_tensor_list *list = hod_load_tensors(scratch("t"));
    CHECK(list);
    float back[6];
    CHECK(!hod_read_floats(list->items[0].tensor, back, 6));
    CHECK(memcmp(back, (float[]){1, 4, 2, 5, 3, 6}, 24) == 0);
    EQ_INT(hod_tensor_size(list->items[0].tensor, 0), 3);
    hod_tensor_list_free(list);
}

TEST(io_safetensors_keeps_ties)
{
    /* B24: a tied 4x2 pair takes 32 bytes and is one tensor after loading. */
    HOD_SCOPE(s);
    hod_tensor *w = hod_zeros(HOD_F32, HOD_SHAPE(4, 2));
    hod_tensor *alias = hod__own(hod__tensor_alias(w));
    hod_named_tensor all[] = {{"embed.weight", w}, {"head.weight", alias}, {"other", NULL}};
    all[2].tensor = hod_zeros(HOD_F32, HOD_SHAPE(2, 2));
    CHECK(!hod_save_tensors(scratch("tied"), all, 2, NULL, 0));
    size_t n;
    free(data_section("tied", &n));
    EQ_INT(n, 32);
    hod_tensor_list *list = hod_load_tensors(scratch("tied"));
    CHECK(list);
    EQ_INT(list->n, 2);
    CHECK(list->items[0].tensor == list->items[1].tensor);
    ((float *)hod_tensor_mutable_data(list->items[0].tensor))[0] = 7;
    float head[8];
    CHECK(!hod_read_floats(list->items[1].tensor, head, 8));
    NEAR(head[0], 7, 0);
    hod_tensor_list_free(list);

    hod_tensor_file *f = hod_tensor_file_open(scratch("tied"));
    EQ_STR(hod_tensor_file_info(f, 1).name, "head.weight");
    EQ_STR(hod_tensor_file_info(f, 1).tied_to, "embed.weight");
    CHECK(!hod_load_into(f, all, 2, true, NULL)); /* into the tied model */
    hod_tensor_file_close(&f);
    /* The same storage seen in another shape is another tensor. */
    alias->shape[0] = 2;
    alias->shape[1] = 4;
    alias->strides[0] = 4;
    CHECK(!hod_save_tensors(scratch("views"), all, 2, NULL, 0));
    free(data_section("views", &n));
    EQ_INT(n, 64);
}

/* ---- B25 ---- */

static void refused(const void *data, size_t n, const char *reason)
{
    scratch_write("bad", data, n);
    char want[300];
    snprintf(want, sizeof want, "%s: %s", scratch("bad"), reason);
    ERROR_IS(want, hod_tensor_file_open(scratch("bad")));
}

TEST(io_safetensors_refuses_bad_lengths)
{
    static char f[64];
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    refused(f, 0, "not a safetensors file: it holds 0 bytes");
    refused(f, 5, "not a safetensors file: it holds 5 bytes");
    memset(f, 0xff, 8);
    f[8] = '{';
    refused(f, 64,
            "not a safetensors file: header length 18446744073709551615, first byte 7b, "
            "file of 64 bytes");
    memcpy(f, (uint64_t[]){64}, 8); /* the whole file */
    refused(f, 64, "not a safetensors file: header length 64, first byte 7b, file of 64 bytes");
    memcpy(f, (uint64_t[]){0}, 8);
    refused(f, 64, "not a safetensors file: header length 0, first byte 7b, file of 64 bytes");
    memcpy(f, (uint64_t[]){2}, 8);
    f[8] = '[';
    refused(f, 64, "not a safetensors file: header length 2, first byte 5b, file of 64 bytes");
    memcpy(f, "PK\3\4rest of a zip", 18);
    refused(f, 64,
            "a zip archive, not a safetensors file; PyTorch checkpoints have to be "
            "converted");
    /* A length that the file really has, but beyond the cap. */
    memcpy(f, (uint64_t[]){200000000}, 8);
    f[8] = '{';
    scratch_write("bad", f, 64);
    CHECK(truncate(scratch("bad"), 300000000) == 0);
    CHECK(!hod_tensor_file_open(scratch("bad")));
    CHECK(strstr(hod_error(), "header length 200000000") && hod_error_take(NULL));
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 10000); /* kB */
    char want[200];
    snprintf(want, sizeof want, "%s: No such file or directory", scratch("absent"));
    ERROR_IS(want, hod_tensor_file_open(scratch("absent")));
    ERROR_IS("/tmp: not a regular file", hod_tensor_file_open("/tmp"));
}

static void header_refused(const char *json, size_t data, const char *reason)
{
    static char f[4096];
    uint64_t n = strlen(json);
    memset(f, 0, sizeof f);
    memcpy(f, &n, 8);
    memcpy(f + 8, json, n);
    refused(f, 8 + n + data, reason);
}

TEST(io_safetensors_refuses_headers_that_lie)
{
    header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8,
                   "a: bytes 0 to 4 of 8 do not hold F32 of its shape");
    header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 8,
                   "a: bytes 4 to 12 of 8 do not hold F32 of its shape");
    header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8,
                   "a: bytes -8 to 0 of 8 do not hold F32 of its shape");
    header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
                   "\"data_offsets\":[0,0]}}",
                   0, "a: bytes 0 to 0 of 0 do not hold F32 of its shape");
    header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0,
                   "a: size 0 of the shape is no size");
    header_refused("{\"a\":{\"dtype\":\"F8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
                   "a: dtype F8 is not supported");
    header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],"
                   "\"data_offsets\":[0,1]}}",
                   1, "a: a shape of 9 sizes, at most 8");
    header_refused("{\"a\":7}", 0, "a: dtype, shape and two data_offsets expected");
    header_refused("{\"__metadata__\":{\"a\":7}}", 0, "__metadata__: \"a\" is not a text");
    header_refused("{\"__metadata__\":[]}", 0, "__metadata__ is not an object");
    header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                   3, "b begins at byte 2, the one before ends at 1");
    header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                   2, "b begins at byte 1, the one before ends at 2");
    header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 3,
                   "the tensors take 1 bytes, the file holds 3");
    header_refused("{\"a\":1,\"a\":2}", 0,
                   "the header is not JSON: duplicate object key near '\"a\"' at byte 18");
    header_refused("{", 1,
                   "not a safetensors file: header length 1, first byte 7b, file of 10 bytes");
}

TEST(io_safetensors_refuses_bad_names)
{
    HOD_SCOPE(s);
    hod_tensor *w = hod_zeros(HOD_F32, HOD_SHAPE(1)), *v = hod_zeros(HOD_F32, HOD_SHAPE(1));
    char want[300];
    hod_named_tensor twice[] = {{"a", w}, {"a", v}};
    snprintf(want, sizeof want, "%s: two things are named \"a\"", scratch("x"));
    ERROR_IS(want, hod_save_tensors(scratch("x"), twice, 2, NULL, 0));
    snprintf(want, sizeof want, "%s: \"\" is no name for a tensor", scratch("x"));
    ERROR_IS(want, hod_save_tensors(scratch("x"), &(hod_named_tensor){"", w}, 1, NULL, 0));
    snprintf(want, sizeof want, "%s: the name \"\xff\" is not UTF-8", scratch("x"));
    ERROR_IS(want, hod_save_tensors(scratch("x"), &(hod_named_tensor){"\xff", w}, 1, NULL, 0));
    CHECK(access(scratch("x"), F_OK) != 0);
    ERROR_IS("/dev/null: exists and is not a regular file",
             hod_save_tensors("/dev/null", twice, 1, NULL, 0));
}

TEST(io_safetensors_survives_allocation_failures)
{
    HOD_SCOPE(s);
    hod_tensor *w = hod_zeros(HOD_F32, HOD_SHAPE(2, 2));
    hod_named_tensor all[] = {{"a", w}, {"b", hod_zeros(HOD_F32, HOD_SHAPE(3))}, {"c", w}};
    int failures = 0;
    for (int64_t n = 0;; n++) {
        hod__alloc_fail_after = n;
        hod_tensor_list *list = NULL;
        int rc = hod_save_tensors(scratch("m"), all, 3, &(hod_named_text){"k", "v"}, 1);
        if (rc == 0)
            list = hod_load_tensors(scratch("m"));
        hod__alloc_fail_after = -1;
        bool done = list;
        hod_tensor_list_free(list);
        if (done)
            break;
        failures++;
        CHECK(hod_error_take(NULL));
        CHECK(n < 1000);
    }
    CHECK(failures > 10);
}
