/* All of hod. A whole training:
 *
 *     static hod_loss classify(hod_module *net, const hod_batch *b)        // (sum, weight)
 *     {
 *         return hod_cross_entropy(hod_call(net, b->input), b->target, .ignore_index = -1);
 *     }
 *
 *     hod_trainer *t = hod_trainer_new(net, classify, .effective_batch = 256,
 *                                      .memory_budget = HOD_MIB(96),
 *                                      .optimizer = hod_adamw(.lr = 1e-3));
 *     for (hod_update u; hod_trainer_step(t, data, &u);)
 *         printf("%lld  loss %.4f\n", (long long)u.index, u.loss);
 *     return hod_finish();
 *
 * Each header stands alone and begins with what it is for.
 */
#ifndef HOD_HOD_H
#define HOD_HOD_H

#include <hod/attention.h>
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/config.h>
#include <hod/data.h>
#include <hod/contractions.h>
#include <hod/elementwise.h>
#include <hod/error.h>
#include <hod/functional.h>
#include <hod/io.h>
#include <hod/losses.h>
#include <hod/memory.h>
#include <hod/movement.h>
#include <hod/nn.h>
#include <hod/ops.h>
#include <hod/optim.h>
#include <hod/ordering.h>
#include <hod/plot.h>
#include <hod/random.h>
#include <hod/reductions.h>
#include <hod/rnn.h>
#include <hod/rows.h>
#include <hod/schedule.h>
#include <hod/scope.h>
#include <hod/tensor.h>
#include <hod/threads.h>
#include <hod/trainer.h>

#endif
