/* The place in an error is the line of the call that failed, whatever its arguments called. Only
 * public headers here: inside the library calls note no places. */
#include "harness.h"

#include <hod/hod.h>
#include <stdio.h>
#include <string.h>

/* Takes the pending error; whether it is of this file's line. */
static bool failed_at(int line)
{
    hod_error_record r = {0};
    if (!hod_error_take(&r))
        return false;
    bool here = r.file && strcmp(r.file, __FILE__) == 0 && r.line == line;
    if (!here)
        fprintf(stderr, "%s:%d instead of line %d: %s\n", r.file ? r.file : "?", r.line, line,
                r.text);
    return here;
}

static hod_tensor *inner(hod_tensor *x)
{
    return hod_relu(hod_neg(x));
}

static hod_tensor *doubled(hod_module *self, hod_tensor *x)
{
    (void)self;
    return hod_add(x, x);
}

static int body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = inner(in[0]);
    return 0;
}

TEST(places_of_nested_calls)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3)), *z = hod_zeros(HOD_F32, HOD_SHAPE(4));
    CHECK(!hod_add(inner(x), z));
    CHECK(failed_at(__LINE__ - 1));
    CHECK(!hod_add(z, hod_relu(inner(hod_relu(x)))));
    CHECK(failed_at(__LINE__ - 1));
    hod_tensor *y = hod_relu( //
        hod_matmul(z,         //
                   hod_neg(x)));
    int last = __LINE__ - 1;
    CHECK(!y);
    hod_error_record r = {0};
    CHECK(hod_error_take(&r));
    CHECK(r.line >= last - 2 && r.line <= last);
    CHECK(!hod_loss_mean(hod_mse(inner(x), z)));
    CHECK(failed_at(__LINE__ - 1));
    CHECK(!hod_conv2d(inner(x), z, .stride = 2));
    CHECK(failed_at(__LINE__ - 1));
}

TEST(places_of_modules_and_optimizers)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3));
    CHECK(x && !hod_nn_linear(NULL, "l", -1, 3));
    CHECK(failed_at(__LINE__ - 1));
    hod_module *net = hod_nn_linear(NULL, "net", 3, 3);
    CHECK(!hod_call(net, hod_sum(doubled(net, x))));
    CHECK(failed_at(__LINE__ - 1));
    CHECK(!hod_optimizer_new(net, hod_sgd(.lr = 1, .nesterov = true)));
    CHECK(failed_at(__LINE__ - 1));
    hod_optimizer *o = hod_optimizer_new(net, hod_sgd(.lr = 1));
    CHECK(hod_update_all(o, .clip_norm = -hod_item(hod_sum(hod_full(HOD_F32, HOD_SHAPE(), 1)))));
    CHECK(failed_at(__LINE__ - 1));
    CHECK(!hod_trainer_new(net, NULL));
    CHECK(failed_at(__LINE__ - 1));
    hod_fn *f = hod_compile(body, NULL, .inputs = 1, .outputs = 1);
    CHECK(hod_fn_call(f, (hod_tensor *[]){hod_placeholder(HOD_F32, HOD_SHAPE(2))}, &x) == -1);
    CHECK(failed_at(__LINE__ - 1));
    hod_fn_free(f);
    hod_optimizer_free(o);
    hod_module_free(net);
}

/* Outside every call there is no place, and deep recursion neither overruns nor forgets. */
static hod_tensor *deep(hod_tensor *x, int n)
{
    return n == 0 ? inner(x) : hod_neg(deep(x, n - 1));
}

TEST(places_end_with_their_calls)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3));
    CHECK(hod_tensor_ndim(deep(x, 300)) == 2);
    CHECK(!hod_refuse("by hand"));
    hod_error_record r = {0};
    CHECK(hod_error_take(&r));
    CHECK(!r.file);
    CHECK(!hod_reshape(deep(x, 300), HOD_SHAPE(5)));
    CHECK(failed_at(__LINE__ - 1));
}

/* Options may be left out altogether. */
TEST(places_options_are_optional)
{
    hod_module *net = hod_nn_linear(NULL, "net", 3, 3);
    hod_fn *f = hod_compile(body, NULL);
    CHECK(f);
    hod_fn_free(f);
    ERROR_IS("trainer: effective_batch is 0, wanted 1 or more", hod_trainer_new(net, NULL));
    hod_module_free(net);
}
