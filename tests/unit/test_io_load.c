/* Loading by name: B22, B23. */
#include "scratch.h"

#include "base/base.h"
#include "tensor/tensor.h"
#include <hod/io.h>

static hod_tensor *filled(float value, hod_shape shape)
{
    hod_tensor *t = hod_zeros(HOD_F32, shape);
    float *x = hod_tensor_mutable_data(t);
    for (int64_t i = 0; i < hod_tensor_numel(t); i++)
        x[i] = value;
    return t;
}

static double first(const hod_tensor *t)
{
    return (double)*(const float *)hod_tensor_data(t);
}

/* Stores scalars 1, 2, ... under `stored` and loads them strictly into `wanted`; the i-th wanted
 * must receive the value expect[i]. */
static void loads(const char *const *stored, const char *const *wanted, const int *expect, int n)
{
    HOD_SCOPE(s);
    hod_named_tensor from[8], to[8];
    for (int i = 0; i < n; i++) {
        from[i] = (hod_named_tensor){stored[i], filled((float)i + 1, HOD_SHAPE(1))};
        to[i] = (hod_named_tensor){wanted[i], filled(0, HOD_SHAPE(1))};
    }
    CHECK(!hod_save_tensors(scratch("names"), from, n, NULL, 0));
    hod_tensor_file *f = hod_tensor_file_open(scratch("names"));
    CHECK(f);
    if (hod_load_into(f, to, n, true, NULL))
        FAIL("%s", hod_error());
    for (int i = 0; i < n; i++)
        NEAR(first(to[i].tensor), expect[i], 0);
    hod_tensor_file_close(&f);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__})
#define ORDER(...) ((const int[]){__VA_ARGS__})

TEST(io_load_takes_wrappers_off)
{
    loads(NAMES("_orig_mod.module.fc.weight"), NAMES("fc.weight"), ORDER(1), 1);
    loads(NAMES("module._orig_mod.fc.weight"), NAMES("fc.weight"), ORDER(1), 1);
    loads(NAMES("encoder._orig_mod.fc.weight", "b"), NAMES("encoder.fc.weight", "b"), ORDER(1, 2),
          2);
    loads(NAMES("module.a", "module.b._orig_mod.c"), NAMES("b.c", "a"), ORDER(2, 1), 2);
}

TEST(io_load_keeps_a_submodule_called_module)
{
    loads(NAMES("module.weight"), NAMES("module.weight"), ORDER(1), 1);
    loads(NAMES("module.weight", "weight"), NAMES("weight", "module.weight"), ORDER(2, 1), 2);
    /* The same model, wrapped: one `module` is the wrapper's, the other the model's own. */
    loads(NAMES("module.module.weight", "module.weight"), NAMES("weight", "module.weight"),
          ORDER(2, 1), 2);
    loads(NAMES("_orig_mod.module.weight"), NAMES("module.weight"), ORDER(1), 1);
}

TEST(io_load_takes_whole_components_only)
{
    HOD_SCOPE(s);
    hod_named_tensor from = {"mymodule.fc", filled(1, HOD_SHAPE(1))};
    hod_named_tensor to = {"fc", filled(0, HOD_SHAPE(1))};
    CHECK(!hod_save_tensors(scratch("w"), &from, 1, NULL, 0));
    hod_tensor_file *f = hod_tensor_file_open(scratch("w"));
    char want[200];
    snprintf(want, sizeof want, "%s: missing fc; unexpected mymodule.fc", scratch("w"));
    ERROR_IS(want, hod_load_into(f, &to, 1, true, NULL));
    hod_tensor_file_close(&f);
    /* Nor is a beginning of a name the name. */
    from.name = "a._orig_mod.fc";
    to.name = "a.fc.weight";
    CHECK(!hod_save_tensors(scratch("w"), &from, 1, NULL, 0));
    f = hod_tensor_file_open(scratch("w"));
    snprintf(want, sizeof want, "%s: missing a.fc.weight; unexpected a._orig_mod.fc", scratch("w"));
    ERROR_IS(want, hod_load_into(f, &to, 1, true, NULL));
    hod_tensor_file_close(&f);
}

TEST(io_load_is_strict_about_shapes)
{
    /* B23: (1,64,3,3) does not go into (32,64,3,3), and nothing else is touched. */
    HOD_SCOPE(s);
    hod_named_tensor from[] = {{"a", filled(5, HOD_SHAPE(2))},
                               {"conv.weight", filled(1, HOD_SHAPE(1, 64, 3, 3))}};
    hod_named_tensor to[] = {{"a", filled(0, HOD_SHAPE(2))},
                             {"conv.weight", filled(0, HOD_SHAPE(32, 64, 3, 3))}};
    CHECK(!hod_save_tensors(scratch("s"), from, 2, NULL, 0));
    hod_tensor_file *f = hod_tensor_file_open(scratch("s"));
    char want[200];
    snprintf(want, sizeof want,
             "%s: mismatched conv.weight: file f32 (1,64,3,3), wanted f32 (32,64,3,3)",
             scratch("s"));
    uint32_t version = hod_tensor_version(to[0].tensor);
    ERROR_IS(want, hod_load_into(f, to, 2, true, NULL));
    NEAR(first(to[0].tensor), 0, 0);
    EQ_INT(hod_tensor_version(to[0].tensor), version);
    /* Not strict: the same list, and the rest is loaded. */
    hod_load_report r;
    CHECK(!hod_load_into(f, to, 2, false, &r));
    EQ_STR(r.text, "mismatched conv.weight: file f32 (1,64,3,3), wanted f32 (32,64,3,3)\n");
    EQ_INT(r.loaded, 1);
    EQ_INT(r.mismatched, 1);
    NEAR(first(to[0].tensor), 5, 0);
    NEAR(first(to[1].tensor), 0, 0);
    hod_load_report_free(&r);
    hod_tensor_file_close(&f);
}

TEST(io_load_lists_everything)
{
    HOD_SCOPE(s);
    hod_named_tensor from[] = {{"fc1.weight", filled(1, HOD_SHAPE(1))},
                               {"fc1.weight.bad", filled(1, HOD_SHAPE(1))},
                               {"count", hod_from_ints((int64_t[]){3}, HOD_SHAPE(1))}};
    hod_named_tensor to[] = {{"fc1.weight", filled(0, HOD_SHAPE(1))},
                             {"fc2.weight", filled(0, HOD_SHAPE(1))},
                             {"count", filled(0, HOD_SHAPE(1))}};
    CHECK(!hod_save_tensors(scratch("l"), from, 3, NULL, 0));
    hod_tensor_file *f = hod_tensor_file_open(scratch("l"));
    char want[300];
    snprintf(want, sizeof want,
             "%s: missing fc2.weight; mismatched count: file i64 (1), wanted f32 (1); "
             "unexpected fc1.weight.bad",
             scratch("l"));
    hod_load_report r;
    ERROR_IS(want, hod_load_into(f, to, 3, true, &r));
    EQ_INT(r.missing, 1);
    EQ_INT(r.unexpected, 1);
    EQ_INT(r.mismatched, 1);
    hod_load_report_free(&r);
    /* More than a message holds: the rest is counted. */
    hod_named_tensor many[64];
    static char names[64][16];
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "weight.%02d", i);
        many[i] = (hod_named_tensor){names[i], to[0].tensor};
    }
    CHECK(hod_load_into(f, many, 64, true, NULL) == -1);
    hod_error_record why;
    CHECK(hod_error_take(&why));
    CHECK(strstr(why.text, "missing weight.00; missing weight.01"));
    CHECK(strstr(why.text, "; and ") && strstr(why.text, " more"));
    hod_tensor_file_close(&f);
}

TEST(io_load_converts_floats)
{
    HOD_SCOPE(s);
    double x[3] = {1.5, -1003, 0.1};
    hod_dtype floats[] = {HOD_F32, HOD_F64, HOD_F16, HOD_BF16};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            hod_named_tensor from = {"x", hod_zeros(floats[a], HOD_SHAPE(3))};
            hod_named_tensor to = {"x", hod_zeros(floats[b], HOD_SHAPE(3))};
            hod_named_tensor wide = {"x", hod_from_doubles(x, HOD_SHAPE(3))};
            CHECK(!hod_save_tensors(scratch("w"), &wide, 1, NULL, 0));
            hod_tensor_file *f = hod_tensor_file_open(scratch("w"));
            CHECK(!hod_load_into(f, &from, 1, true, NULL));
            hod_tensor_file_close(&f);
            CHECK(!hod_save_tensors(scratch("c"), &from, 1, NULL, 0));
            f = hod_tensor_file_open(scratch("c"));
            CHECK(!hod_load_into(f, &to, 1, true, NULL));
            hod_tensor_file_close(&f);
            double y[3];
            CHECK(!hod_read_doubles(to.tensor, y, 3));
            NEAR(y[0], 1.5, 0);
            NEAR(y[1], -1003, a == 3 || b == 3 ? 2 : 0); /* half a bf16 step below 1024 */
            NEAR(y[2], 0.1, 0.1 * 0x1p-8);               /* bf16 has 8 bits */
        }
}

TEST(io_load_counts_a_tied_name_as_loaded)
{
    HOD_SCOPE(s);
    hod_named_tensor from = {"embed", filled(4, HOD_SHAPE(2))};
    CHECK(!hod_save_tensors(scratch("t"), &from, 1, NULL, 0));
    hod_tensor *w = filled(0, HOD_SHAPE(2));
    hod_named_tensor to[] = {{"embed", w}, {"head", w}};
    hod_tensor_file *f = hod_tensor_file_open(scratch("t"));
    CHECK(!hod_load_into(f, to, 2, true, NULL));
    NEAR(first(w), 4, 0);
    hod_tensor_file_close(&f);
}
