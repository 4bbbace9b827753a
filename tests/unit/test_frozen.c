/* Frozen parameters cost nothing: no activation is kept for them, no gradient buffer is made, and
 * the step's peak is the forward's. */
#include "autograd/autograd.h"
#include "harness.h"
#include "models/models.h"

enum { N = 16 };

static hod_module *frozen_resnet(void)
{
    hod_module *net = model_new("resnet8", .shape = HOD_SHAPE(3, 32, 32));
    CHECK(net && hod_module_freeze(net, true) == 0);
    return net;
}

static hod_batch batch(void)
{
    int64_t label[N];
    for (int i = 0; i < N; i++)
        label[i] = i % 10;
    return (hod_batch){.input = hod_full(HOD_F32, HOD_SHAPE(N, 3, 32, 32), 0.25),
                       .target = hod_from_ints(label, HOD_SHAPE(N)),
                       .n = N};
}

static hod_module *head_of(hod_module *net)
{
    hod_module *head = hod_module_find(net, "fc");
    CHECK(head);
    return head;
}

/* A forward without gradients, as evaluation runs it: the least that must be there. */
static int forward_only(void *net, hod_tensor *const *in, hod_tensor **out)
{
    HOD_NO_GRAD(off);
    hod_batch b = {.input = in[0], .target = in[1], .n = N};
    out[0] = model_classify(net, &b).sum;
    return out[0] ? 0 : -1;
}

static int whole_step(void *net, hod_tensor *const *in, hod_tensor **out)
{
    hod_batch b = {.input = in[0], .target = in[1], .n = N};
    hod_tensor *sum = model_classify(net, &b).sum;
    out[0] = hod_detach(sum);
    return hod_backward(sum);
}

static int64_t eager_peak(hod_body body, hod_module *net, hod_tensor *const *in)
{
    HOD_SCOPE(s);
    hod_tensor *out;
    hod_memory_reset_peak();
    int64_t before = hod_memory().allocated;
    CHECK(body(net, in, &out) == 0);
    return hod_memory().allocated_peak - before;
}

static int64_t arena(hod_body body, hod_module *net, hod_tensor *const *in)
{
    hod_tensor *out;
    hod_fn *f = hod_compile(body, net, .inputs = 2, .outputs = 1);
    CHECK(f && hod_fn_call(f, in, &out) == 0);
    int64_t bytes = hod_fn_report(f).arena_bytes;
    hod_fn_free(f);
    return bytes;
}

static void check_gradients(hod_module *net, const hod_module *head)
{
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);) {
        bool trained = w.item.module == head;
        CHECK((hod_grad(w.item.tensor) != NULL) == trained);
        CHECK(trained || !w.item.tensor->autograd || !w.item.tensor->autograd->slot.sum);
    }
}

TEST(frozen_backbone_peaks_where_the_forward_does)
{
    hod_module *net = frozen_resnet();
    hod_batch b = batch();
    hod_tensor *in[2] = {b.input, b.target};
    int64_t forward = eager_peak(forward_only, net, in);
    EQ_INT(hod_module_freeze(head_of(net), false), 0);
    int64_t step = eager_peak(whole_step, net, in);
    check_gradients(net, head_of(net));
    if (step > forward)
        FAIL("a step peaks at %lld bytes, its forward at %lld", (long long)step,
             (long long)forward);
    hod_module_free(net);
}

TEST(frozen_backbone_compiled_peaks_where_the_forward_does)
{
    hod_module *net = frozen_resnet();
    hod_batch b = batch();
    hod_tensor *in[2] = {b.input, b.target};
    int64_t forward = arena(forward_only, net, in);
    EQ_INT(hod_module_freeze(head_of(net), false), 0);
    int64_t step = arena(whole_step, net, in);
    check_gradients(net, head_of(net));
    if (step > forward)
        FAIL("a step plans %lld bytes, its forward %lld", (long long)step, (long long)forward);
    hod_module_free(net);
}
