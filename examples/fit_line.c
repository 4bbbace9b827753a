/* Fits a line to noisy points of y = 3x - 1.
 *
 *   cc fit_line.c $(pkg-config --cflags --libs hod) -Wl,-rpath,$(pkg-config --variable=libdir hod)
 */
#include <hod/hod.h>

enum { N = 100, STEPS = 200 };

int main(void)
{
    float x[N], y[N];
    hod_draws noise = hod_draws_of(1, 0, 0);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i / N;
        y[i] = 3 * x[i] - 1 + 0.1f * ((float)hod_draw_unit(&noise) - 0.5f);
    }
    hod_tensor *xs = hod_from_floats(x, HOD_SHAPE(N, 1)), *ys = hod_from_floats(y, HOD_SHAPE(N, 1));
    hod_module *line = hod_nn_linear(NULL, "line", 1, 1);
    hod_optimizer *sgd = hod_optimizer_new(line, hod_sgd(.lr = 0.2, .momentum = 0.9));

    for (int i = 0; i < STEPS && !hod_error(); i++) {
        HOD_SCOPE(s); /* what the step makes dies here */
        hod_loss loss = hod_mse(hod_call(line, xs), ys);
        hod_backward(loss.sum);
        hod_update_all(sgd, .weight = loss.weight);
    }
    for (hod_walk w = hod_parameters(line); hod_walk_next(&w);)
        printf("%-6s %7.3f\n", w.item.name, hod_item(w.item.tensor));
    hod_optimizer_free(sgd);
    hod_module_free(line);
    return hod_finish(); /* prints the first error, if there was one */
}
