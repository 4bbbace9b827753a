/* Programs against their slow twin: the same graph, run node by node by the eager kernels. */
#include "codegen/program.h"
#include "harness.h"
#include "tensor/tensor.h"
#include <hod/functional.h>
#include <math.h>

/* Values that are neither too regular nor far from 1. */
static double value_at(int64_t i, uint64_t seed)
{
    uint32_t out[4];
    hod_philox((uint32_t[4]){(uint32_t)i, (uint32_t)(i >> 32), 0, 0},
               (uint32_t[2]){(uint32_t)seed, 7}, out);
    return (out[0] >> 8) * 0x1p-24 * 2 - 1;
}

static hod_tensor *make_input(const hod_graph *g, int64_t i)
{
    hod_meta m = hod__node_meta(g, g->inputs[i].node);
    int64_t n = hod__numel(m.ndim, m.shape);
    double *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t k = 0; k < n; k++)
        v[k] = m.dtype == HOD_BOOL  ? value_at(k, (uint64_t)i) > 0
               : m.dtype > HOD_BF16 ? floor(8 * fabs(value_at(k, (uint64_t)i)))
                                    : value_at(k, (uint64_t)i);
    hod_tensor *t = hod_cast(hod_from_doubles(v, hod_shape_of(m.ndim, m.shape)), m.dtype);
    free(v);
    return t;
}

enum { MAX = 16 };

/* The largest difference between a and b relative to the largest magnitude of a; a NaN is as far as
 * can be. */
static double apart(const hod_tensor *a, const hod_tensor *b)
{
    int64_t n = hod_tensor_numel(a);
    double *x = calloc((size_t)n + 1, sizeof *x), *y = calloc((size_t)n + 1, sizeof *y);
    CHECK(hod_read_doubles(a, x, n) == 0 && hod_read_doubles(b, y, n) == 0);
    double most = 1e-30, far = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(x[i]));
        far = isnan(x[i]) || isnan(y[i]) ? INFINITY : fmax(far, fabs(x[i] - y[i]));
        if (getenv("SHOW") && i < 24)
            printf("[%lld] %g %g\n", (long long)i, x[i], y[i]);
    }
    free(x);
    free(y);
    return far / most;
}

/* Runs `text` both ways and compares outputs and effects. Returns the worst difference relative to
 * the largest magnitude of each result. */
static double difference(const char *text, bool present)
{
    HOD_SCOPE(s);
    hod_graph *g = hod__graph_parse(text);
    CHECK(g != NULL);
    CHECK(hod__graph_validate(g) == 0);
    hod_tensor *in[2][MAX], *out[2][MAX];
    hod_grad_slot slot[2][MAX] = {0};
    hod_grad_slot *slots[2][MAX];
    for (int w = 0; w < 2; w++)
        for (int64_t i = 0; i < g->n_inputs; i++) {
            in[w][i] = make_input(g, i);
            CHECK(in[w][i] != NULL);
            slot[w][i] = (hod_grad_slot){in[w][i], present};
            slots[w][i] = &slot[w][i];
        }
    CHECK(hod__graph_interpret(g, in[0], slots[0], out[0]) == 0);
    hod_program *p = hod__program_build(g, NULL);
    if (!p)
        printf("%s\n", hod_error());
    CHECK(p != NULL);
    if (getenv("SHOW")) {
        hod_text t = {0};
        hod__program_print_kernels(p, &t);
        hod__program_print(p, &t);
        printf("%s", t.data);
        hod__text_free(&t);
    }
    void *where[MAX];
    for (int64_t k = 0; k < g->n_outputs; k++) {
        hod_meta m = hod__node_meta(g, g->outputs[k]);
        out[1][k] = hod_empty(m.dtype, hod_shape_of(m.ndim, m.shape));
        where[k] = hod__data(out[1][k]);
    }
    int64_t bytes = hod__program_stats(p).arena_bytes;
    void *arena = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    memset(arena, 0xff, (size_t)bytes); /* NaN wherever a value is read before it is written */
    CHECK(hod__program_run(p, arena, in[1], slots[1], where) == 0);
    for (int64_t i = 0; i < g->n_inputs; i++)
        EQ_INT(slot[1][i].present, slot[0][i].present);
    double worst = 0;
    for (int64_t k = 0; k < g->n_outputs; k++)
        worst = fmax(worst, apart(out[0][k], out[1][k]));
    for (int64_t i = 0; i < g->n_inputs; i++)
        worst = fmax(worst, apart(in[0][i], in[1][i]));
    free(arena);
    hod__program_free(p);
    hod__graph_free(g);
    return worst;
}

#define SAME(text) NEAR(difference(text, false), 0, 1e-6) /* sums in another order, f32 */

TEST(program_pointwise)
{
    SAME("graph t {\n"
         "%0 = input f32 (5,7) \"x\"\n"
         "%1 = input f32 (7) \"b\"\n"
         "%2 = add f32 (5,7) %0 %1\n"
         "%3 = tanh f32 (5,7) %2\n"
         "%4 = mul f32 (5,7) %3 %0\n"
         "return %4\n"
         "}\n");
}

TEST(program_softmax)
{
    SAME("graph t {\n"
         "%0 = input f32 (33,130) \"x\"\n"
         "%1 = amax f32 (33,1) %0 {dims=(1), keepdim=true}\n"
         "%2 = sub f32 (33,130) %0 %1\n"
         "%3 = exp f32 (33,130) %2\n"
         "%4 = sum f32 (33,1) %3 {dims=(1), keepdim=true}\n"
         "%5 = div f32 (33,130) %3 %4\n"
         "return %5\n"
         "}\n");
}

TEST(program_column_sum)
{
    SAME("graph t {\n"
         "%0 = input f32 (100,130) \"x\"\n"
         "%1 = mul f32 (100,130) %0 %0\n"
         "%2 = sum f32 (130) %1 {dims=(0)}\n"
         "%3 = sqrt f32 (130) %2\n"
         "return %3\n"
         "}\n");
}

TEST(program_long_sum)
{
    SAME("graph t {\n"
         "%0 = input f32 (96000) \"x\"\n"
         "%1 = mul f32 (96000) %0 %0\n"
         "%2 = sum f32 () %1 {dims=(0)}\n"
         "return %2\n"
         "}\n");
}

TEST(program_conv_group_norm)
{
    SAME("graph t {\n"
         "%0 = input f32 (3,3,9,9) \"x\"\n"
         "%1 = input f32 (32,3,3,3) \"w\"\n"
         "%2 = input f32 (32) \"gain\"\n"
         "%3 = conv2d f32 (3,32,9,9) %0 %1 {stride=(1,1), padding=(1,1,1,1), dilation=(1,1), "
         "groups=1}\n"
         "%4 = reshape f32 (3,4,8,9,9) %3 {shape=(3,4,8,9,9)}\n"
         "%5 = sum f32 (3,4,1,1,1) %4 {dims=(2,3,4), keepdim=true}\n"
         "%6 = full f32 () {value=0.00154320987654321}\n"
         "%7 = mul f32 (3,4,1,1,1) %5 %6\n"
         "%8 = sub f32 (3,4,8,9,9) %4 %7\n"
         "%9 = mul f32 (3,4,8,9,9) %8 %8\n"
         "%10 = sum f32 (3,4,1,1,1) %9 {dims=(2,3,4), keepdim=true}\n"
         "%11 = rsqrt f32 (3,4,1,1,1) %10\n"
         "%12 = mul f32 (3,4,8,9,9) %8 %11\n"
         "%13 = reshape f32 (3,32,9,9) %12 {shape=(3,32,9,9)}\n"
         "%14 = reshape f32 (32,1,1) %2 {shape=(32,1,1)}\n"
         "%15 = mul f32 (3,32,9,9) %13 %14\n"
         "%16 = relu f32 (3,32,9,9) %15\n"
         "return %16\n"
         "}\n");
}

static const char dense[] = "graph t {\n"
                            "%0 = input f32 (6,5) \"x\"\n"
                            "%1 = input f32 (4,5) \"w\"\n"
                            "%2 = input f32 (4,5) \"dw\" {role=gradient}\n"
                            "%3 = input f32 (4) \"db\" {role=gradient}\n"
                            "%4 = matmul f32 (6,4) %0 %1 {tb=true}\n"
                            "%5 = relu f32 (6,4) %4\n"
                            "%6 = matmul f32 (4,5) %5 %0 {ta=true}\n"
                            "%7 = accumulate f32 (4,5) %2 %6\n"
                            "%8 = sum f32 (4) %5 {dims=(0)}\n"
                            "%9 = accumulate f32 (4) %3 %8\n"
                            "return %5\n"
                            "}\n";

TEST(program_accumulate_first)
{
    NEAR(difference(dense, false), 0, 1e-6);
}

TEST(program_accumulate_more)
{
    NEAR(difference(dense, true), 0, 1e-6);
}

TEST(program_update)
{
    SAME("graph t {\n"
         "%0 = input f32 (40,5) \"p\" {role=state}\n"
         "%1 = input f32 (40,5) \"g\"\n"
         "%2 = input f32 () \"lr\"\n"
         "%3 = mul f32 (40,5) %1 %2\n"
         "%4 = sub f32 (40,5) %0 %3\n"
         "%5 = assign f32 (40,5) %0 %4\n"
         "return\n"
         "}\n");
}

TEST(program_views)
{
    SAME("graph t {\n"
         "%0 = input f32 (4,6) \"x\"\n"
         "%1 = exp f32 (4,6) %0\n"
         "%2 = permute f32 (6,4) %1 {order=(1,0)}\n"
         "%3 = slice f32 (3,4) %2 {start=1, stop=6, step=2}\n"
         "%4 = reshape f32 (4,3,2) %1 {shape=(4,3,2)}\n"
         "%5 = sum f32 (4,3) %4 {dims=(2)}\n"
         "%6 = permute f32 (3,4) %5 {order=(1,0)}\n"
         "%7 = add f32 (3,4) %3 %6\n"
         "return %7 %2\n"
         "}\n");
}

/* The pooling kernel reads blocked memory (after a convolution) or plain memory (an input). */
#define POOL "{kernel=(3,3), stride=(2,2), padding=(1,1,1,1), dilation=(1,1)}"
TEST(program_pool_plain)
{
    SAME("graph t {\n"
         "%0 = input f32 (2,3,9,8) \"x\"\n"
         "%1 = max_pool2d f32 (2,3,5,4) %0 " POOL "\n"
         "%2 = avg_pool2d f32 (2,3,5,4) %0 " POOL "\n"
         "%3 = mul f32 (2,3,5,4) %1 %2\n"
         "%4 = max_pool2d_back f32 (2,3,9,8) %3 %0 " POOL "\n"
         "return %3 %4\n"
         "}\n");
}

TEST(program_pool_blocked)
{
    SAME("graph t {\n"
         "%0 = input f32 (2,3,9,8) \"x\"\n"
         "%1 = input f32 (32,3,1,1) \"w\"\n"
         "%2 = conv2d f32 (2,32,9,8) %0 %1 {stride=(1,1), dilation=(1,1), groups=1}\n"
         "%3 = max_pool2d f32 (2,32,5,4) %2 " POOL "\n"
         "%4 = input f32 (2,32,5,4) \"g\"\n"
         "%5 = mul f32 (2,32,5,4) %3 %4\n"
         "%6 = max_pool2d_back f32 (2,32,9,8) %5 %2 " POOL "\n"
         "%7 = mul f32 (2,32,9,8) %6 %2\n"
         "return %5 %7\n"
         "}\n");
}

/* A mask is drawn again by the backward reader, from the same place: nothing is stored. */
TEST(program_dropout)
{
    SAME("graph t {\n"
         "%0 = input f32 (6,300) \"x\"\n"
         "%1 = input i64 (2) \"key\"\n"
         "%2 = input i64 (6) \"index\"\n"
         "%3 = uniform f32 (6,300) %1 %2 {stream=3, shape=(6,300)}\n"
         "%4 = full f32 () {value=0.25}\n"
         "%5 = ge bool (6,300) %3 %4\n"
         "%6 = full f32 () {value=0}\n"
         "%7 = where f32 (6,300) %5 %0 %6\n"
         "%8 = tanh f32 (6,300) %7\n"
         "%9 = where f32 (6,300) %5 %8 %6 !backward\n"
         "return %8 %9\n"
         "}\n");
}

/* An activation between two convolutions is let go, and made again for the weight gradient. */
TEST(program_remakes_an_activation)
{
    SAME("graph t {\n"
         "%0 = input f32 (4,16,12,12) \"x\"\n"
         "%1 = input f32 (16,16,3,3) \"w\"\n"
         "%2 = conv2d f32 (4,16,12,12) %0 %1 {stride=(1,1), padding=(1,1,1,1), dilation=(1,1), "
         "groups=1}\n"
         "%3 = tanh f32 (4,16,12,12) %2\n"
         "%4 = conv2d f32 (4,16,12,12) %3 %1 {stride=(1,1), padding=(1,1,1,1), dilation=(1,1), "
         "groups=1}\n"
         "%5 = mul f32 (4,16,12,12) %4 %2 !backward\n"
         "%6 = conv2d_weight f32 (16,16,3,3) %3 %5 {stride=(1,1), padding=(1,1,1,1), "
         "dilation=(1,1), groups=1, shape=(16,16,3,3)} !backward\n"
         "return %4 %6\n"
         "}\n");
}

/* exp(s) may not be made again for the backward reader: s has changed by then. */
TEST(program_keeps_what_an_effect_changes)
{
    SAME("graph t {\n"
         "%0 = input f32 (64,64) \"x\"\n"
         "%1 = input f32 (64,64) \"s\" {role=state}\n"
         "%2 = exp f32 (64,64) %1\n"
         "%3 = mul f32 (64,64) %0 %2\n"
         "%4 = assign f32 (64,64) %1 %0\n"
         "%5 = tanh f32 (64,64) %3\n"
         "%6 = mul f32 (64,64) %5 %2 !backward\n"
         "return %5 %6\n"
         "}\n");
}

/* A later sweep makes values again: from what memory held before,
 * not from what a first one wrote. */
TEST(program_effects_wait_for_the_last_sweep)
{
    NEAR(difference("graph t {\n"
                    "%0 = input f32 (4,40) \"x\"\n"
                    "%1 = input f32 (4,40) \"dx\" {role=gradient}\n"
                    "%2 = amax f32 (4,1) %0 {dims=(1), keepdim=true}\n"
                    "%3 = accumulate f32 (4,40) %1 %0\n"
                    "%4 = abs f32 (4,40) %3\n"
                    "%5 = sub f32 (4,40) %4 %2\n"
                    "return %5\n"
                    "}\n",
                    true),
         0, 1e-6);
    SAME("graph t {\n"
         "%0 = input f32 (4,40) \"s\" {role=state}\n"
         "%1 = sum f32 (4,1) %0 {dims=(1), keepdim=true}\n"
         "%2 = mul f32 (4,40) %0 %0\n"
         "%3 = sub f32 (4,40) %0 %1\n"
         "%4 = assign f32 (4,40) %0 %2\n"
         "return %3\n"
         "}\n");
}

/* The kernel of %5 and %7 stores the one, then reads %3 for the other: %5 may not lie in %3. */
TEST(program_results_behind_a_fold_keep_their_own_memory)
{
    SAME("graph t {\n"
         "%0 = input f32 (3,3,4,6) \"x\"\n"
         "%1 = input f32 (3,3,4,6) \"y\"\n"
         "%2 = sum f32 (1,1,4,6) %0 {dims=(0,1), keepdim=true}\n"
         "%3 = tanh f32 (1,1,4,6) %2\n"
         "%4 = sum f32 (1,1,4,6) %1 {dims=(0,1), keepdim=true}\n"
         "%5 = tanh f32 (1,1,4,6) %4\n"
         "%6 = input bool (1,1,4,6) \"n\"\n"
         "%7 = where f32 (1,1,4,6) %6 %5 %3\n"
         "%8 = sum f32 (1,1,1,6) %7 {dims=(1,2), keepdim=true}\n"
         "%9 = unslice f32 (1,1,8,6) %5 {dim=2, start=2, step=1, size=8}\n"
         "%10 = permute f32 (1,6,1,8) %9 {order=(0,3,1,2)}\n"
         "return %8 %10\n"
         "}\n");
}

/* Without elements the eager kernels run the program; the slot is filled all the same. */
/* Equal kernels in one call: the first must not write where the second still reads. */
TEST(program_joined_kernels_share_an_operand)
{
    SAME("graph t {\n"
         "%0 = input f32 (4,3) \"x\"\n"
         "%1 = cumsum f32 (4,3) %0 {dim=0}\n"
         "%2 = full f32 () {value=0.5}\n"
         "%3 = mul f32 (4,3) %1 %2\n"
         "%4 = full f32 () {value=-3}\n"
         "%5 = mul f32 (4,3) %1 %4\n"
         "%6 = cumsum f32 (4,3) %3 {dim=1}\n"
         "%7 = cumsum f32 (4,3) %5 {dim=1}\n"
         "return %6 %7\n"
         "}\n");
}

TEST(program_accumulate_beside_nothing)
{
    SAME("graph t {\n"
         "%0 = input f32 (0,3) \"x\"\n"
         "%1 = input f32 (3) \"db\" {role=gradient}\n"
         "%2 = sum f32 (3) %0 {dims=(0)}\n"
         "%3 = accumulate f32 (3) %1 %2\n"
         "return %2\n"
         "}\n");
}
