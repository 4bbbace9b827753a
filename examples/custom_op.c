/* An operator of one's own and hooks: fits a sine with an activation that hod does not have.
 *
 *     cc custom_op.c $(pkg-config --cflags --libs hod) -lm
 *     custom_op [graph.dot]        dot -Tsvg graph.dot > graph.svg
 *
 * snake(x) = x + sin²(a x) / a (Ziyin et al., 2020), with a learned frequency a for each unit. It
 * is written in operators, so it can be differentiated twice and is compiled with the rest. Beside
 * it a rounding whose derivative is pretended to be 1, written as a loop.
 */
#include <hod/hod.h>

#include <math.h>

/* x: (N, H), a: (H) */
static int snake_forward(hod_custom_call *c, hod_tensor *const *in, hod_tensor **out)
{
    hod_tensor *x = in[0], *a = in[1];
    out[0] = hod_add(x, hod_div(hod_square(hod_sin(hod_mul(a, x))), a));
    return hod_custom_save(c, x) == 0 ? hod_custom_save(c, a) : -1;
}

/* d/dx = 1 + sin(2ax), d/da = (x sin(2ax) - sin²(ax) / a) / a, summed over the batch */
static int snake_backward(hod_custom_call *c, hod_tensor *const *g, hod_tensor **dx)
{
    hod_tensor *x = hod_custom_saved(c, 0), *a = hod_custom_saved(c, 1);
    hod_tensor *ax = hod_mul(a, x), *s = hod_sin(hod_mul_scalar(ax, 2));
    dx[0] = hod_mul(g[0], hod_add_scalar(s, 1));
    hod_tensor *da = hod_sub(hod_mul(x, s), hod_div(hod_square(hod_sin(ax)), a));
    dx[1] = hod_sum_over(hod_mul(g[0], hod_div(da, a)), HOD_SHAPE(0), false);
    return 0;
}

static const hod_custom_op snake = {
    .name = "snake", .inputs = 2, .forward = snake_forward, .backward = snake_backward};

/* Rounds to multiples of 1/64 in a loop over memory. */
static int round_forward(hod_custom_call *c, hod_tensor *const *in, hod_tensor **out)
{
    (void)c;
    hod_tensor *x = hod_contiguous(in[0]);
    out[0] = hod_empty(HOD_F32, hod_tensor_shape(x));
    const float *from = hod_tensor_data(x);
    float *to = hod_tensor_mutable_data(out[0]);
    if (!from || !to)
        return -1;
    for (int64_t i = 0; i < hod_tensor_numel(x); i++)
        to[i] = roundf(from[i] * 64) / 64;
    return 0;
}

static int round_backward(hod_custom_call *c, hod_tensor *const *g, hod_tensor **dx)
{
    (void)c;
    dx[0] = g[0];
    return 0;
}

static const hod_custom_op rounded = {
    .name = "rounded", .forward = round_forward, .backward = round_backward};

/* ---- the network ---- */

typedef struct net {
    hod_module base;
    hod_module *in, *out;
    hod_tensor *a;
} net;

static hod_tensor *net_forward(hod_module *self, hod_tensor *x)
{
    net *m = (net *)self;
    hod_tensor *h = hod_custom(&snake, NULL, hod_call(m->in, x), m->a);
    return hod_call(m->out, hod_custom(&rounded, NULL, h));
}

static hod_module *net_new(int64_t hidden)
{
    net *m = hod_module_new(NULL, NULL, net, net_forward);
    m->in = hod_nn_linear(m, "in", 1, hidden);
    m->a = hod_parameter_new(&m->base, "a", HOD_NORM_GAIN, HOD_SHAPE(hidden),
                             (hod_init){.kind = HOD_INIT_ONES});
    m->out = hod_nn_linear(m, "out", hidden, 1);
    return hod_module_done(m);
}

/* ---- hooks ---- */

/* The largest gradient that came back into a module. */
static hod_tensor *watch(void *context, hod_module *m, hod_tensor *dx, hod_tensor *dy)
{
    (void)m;
    (void)dx;
    double *largest = context;
    *largest = hod_item(hod_sqrt(hod_sum(hod_square(dy))));
    return dx;
}

/* Frequencies learn at a tenth of the rate. */
static hod_tensor *slower(void *context, hod_tensor *g)
{
    return hod_mul_scalar(g, *(double *)context);
}

static hod_tensor *check_snake(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    return hod_custom(&snake, context, in[0], in[1]);
}

int main(int argc, char **argv)
{
    hod_tensor *x = hod_mul_scalar(hod_sub_scalar(hod_arange(HOD_F32, 64), 32), 0.1);
    x = hod_reshape(x, HOD_SHAPE(64, 1));
    hod_tensor *y = hod_sin(hod_mul_scalar(x, 2));

    hod_gradcheck_report r, r2;
    hod_tensor *some[] = {
        hod_reshape(hod_from_floats((float[]){-1, 0.5F, 2, 1}, HOD_SHAPE(4)), HOD_SHAPE(2, 2)),
        hod_from_floats((float[]){0.7F, 1.3F}, HOD_SHAPE(2))};
    if (hod_gradcheck(check_snake, 2, some, &r, NULL) == 0 &&
        hod_gradgradcheck(check_snake, 2, some, &r2, NULL) == 0)
        printf("snake: first derivative %s, second %s\n", r.passed ? "right" : "wrong",
               r2.passed ? "right" : "wrong");

    hod_module *m = net_new(16);
    hod_optimizer *opt = hod_optimizer_new(m, hod_adam(.lr = 0.02));
    double norm = 0, tenth = 0.1;
    if (!m || hod_module_add_hook(m, HOD_HOOK_BACKWARD, watch, &norm) != 0 ||
        hod_add_grad_hook(((net *)m)->a, slower, &tenth) != 0)
        return hod_finish();
    for (int i = 0; i < 400 && !hod_error(); i++) {
        HOD_SCOPE(s);
        hod_tensor *loss = hod_mean(hod_square(hod_sub(hod_call(m, x), y)));
        if (i == 0 && argc > 1) {
            FILE *f = fopen(argv[1], "w");
            if (f && (hod_print_graph_dot(loss, f) != 0 || fclose(f) != 0))
                hod_refuse("%s: not written", argv[1]);
        }
        if (hod_backward(loss) == 0 && i % 100 == 99)
            printf("%4d  loss %.5f  |dy| %.5f\n", i + 1, hod_item(loss), norm);
        hod_update_all(opt, .clip_norm = 1.0);
    }
    hod_optimizer_free(opt);
    hod_module_free(m);
    return hod_finish();
}
