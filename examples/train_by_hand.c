/* Trains a small residual network with a loop of one's own: what hod_trainer does, in the open.
 *
 *     cc -I. examples/train_by_hand.c models/m*.c models/r*.c $(pkg-config --cflags --libs hod) -lm
 *     train_by_hand [prefix of the dataset] [updates]
 *
 * Forward and backward of a micro-batch are one compiled function. Its gradients add up in the
 * parameters; after a window of them, one update divides by the sum of the weights. The window can
 * be cut in any other way and gives the same numbers.
 */
#include "models/models.h"

#include <stdlib.h>

enum { EFFECTIVE = 128, MICRO = 32 };

/* in: input, target. out: sum and weight of the loss. */
static int forward_backward(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_loss loss = hod_cross_entropy(hod_call(job, in[0]), in[1]);
    out[0] = hod_detach(loss.sum);
    out[1] = loss.weight;
    return hod_backward(loss.sum);
}

/* One window: the mean loss, or a negative number after an error. */
static double window(hod_fn *step, hod_loader *loader, hod_optimizer *opt, int64_t update)
{
    double sum = 0, weight = 0;
    for (int64_t left = EFFECTIVE; left > 0;) {
        HOD_SCOPE(s);
        hod_batch b;
        hod_tensor *loss[2];
        int rc = hod_loader_next(loader, left < MICRO ? left : MICRO, &b);
        if (rc == 0 && left < EFFECTIVE)
            break; /* the epoch's last window is short */
        if (rc == 0)
            continue;
        if (rc < 0 || hod_random_begin(1, update, b.index) != 0 ||
            hod_fn_call(step, (hod_tensor *[]){b.input, b.target}, loss) != 0)
            return -1;
        sum += hod_item(loss[0]);
        weight += hod_item(loss[1]);
        left -= b.n;
    }
    hod_update_result r;
    return hod_update(opt, &r, .factor = 1 / weight, .clip_norm = 1.0) == 0 ? sum / weight : -1;
}

/* The share of samples whose largest logit is the right one. */
static double accuracy(hod_module *net, hod_dataset *data)
{
    double right = 0;
    hod_loader *loader = hod_loader_new(data, .mean = {0.286F}, .std = {0.353F});
    hod_module_train(net, false);
    for (hod_batch b; hod_loader_next(loader, 100, &b) == 1;) {
        HOD_SCOPE(s);
        HOD_NO_GRAD(n);
        right += hod_item(hod_accuracy(net, &b).sum);
    }
    hod_loader_free(loader);
    return right / (double)hod_dataset_count(data);
}

int main(int argc, char **argv)
{
    const char *prefix = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist/t10k";
    int64_t updates = argc > 2 ? atol(argv[2]) : 100;
    hod_dataset *all = hod_idx_dataset(prefix);
    int64_t count = hod_dataset_count(all), held = count / 10; /* a tenth is held back */
    hod_dataset *train = hod_dataset_slice(all, held, count - held);
    hod_dataset *test = hod_dataset_slice(all, 0, held);
    hod_loader *loader = hod_loader_new(train, .seed = 1, .shuffle = true, .workers = 1,
                                        .mean = {0.286F}, .std = {0.353F});
    hod_module *net = model_new("resnet8", .shape = hod_dataset_shape(all));
    hod_optimizer *opt = hod_optimizer_new(net, hod_adamw(.lr = 2e-3, .weight_decay = 0.05));
    hod_fn *step = hod_compile(forward_backward, net, .inputs = 2, .outputs = 2);

    for (int64_t i = 0; i < updates && !hod_error(); i++) {
        double loss = window(step, loader, opt, i);
        if (loss >= 0 && i % 10 == 9)
            printf("%4lld  loss %.4f\n", (long long)i + 1, loss);
    }
    if (!hod_error())
        printf("accuracy on %lld held back: %.3f\n", (long long)held, accuracy(net, test));

    hod_fn_free(step);
    hod_optimizer_free(opt);
    hod_module_free(net);
    hod_loader_free(loader);
    hod_dataset_free(train);
    hod_dataset_free(test);
    hod_dataset_free(all);
    return hod_finish();
}
