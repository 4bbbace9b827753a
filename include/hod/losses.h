/* Losses: each is a sum and the weight to divide it by, so that micro-batches add up exactly.
 *
 *     hod_loss l = hod_cross_entropy(hod_call(net, x), label, .ignore_index = -1);
 *     hod_loss b = hod_bce_with_logits(score, click, .pos_weight = w);
 *     hod_loss r = hod_iou_loss(boxes, truth, HOD_CIOU);
 *     hod_loss t = hod_ctc(hod_log_softmax(y, 2), text, frames, lengths, .zero_infinity = true);
 *
 * Of most there is the unsummed form, too: hod_NAME_each has the inputs' shape, hod_NAME_rows one
 * value a row. Targets take the type of the prediction; f16 and bf16 are computed in f32, and the
 * result stays f32. All but CTC are compositions with derivatives of every order, of targets, too,
 * where those are like the prediction (distribution_focal's are places).
 *
 * A tensor among the options that is left NULL is absent. So that a failed one is never taken for
 * that, losses with such options compute nothing while an error is pending.
 */
#ifndef HOD_LOSSES_H
#define HOD_LOSSES_H

#include <hod/tensor.h>

typedef struct hod_loss {
    hod_tensor *sum, *weight; /* 0-d; both NULL after an error */
} hod_loss;
HOD_API hod_tensor *hod_loss_mean(hod_loss loss); /* sum / weight */

/* ---- classes ---- */

typedef struct hod_cross_entropy_options {
    int64_t ignore_index; /* label that counts for nothing; 0: -100 */
    bool ignore_zero;     /* label 0, often a padding token, counts for nothing */
    double label_smoothing;
    hod_tensor *class_weight; /* (C); absent: 1 each */
    int end_;
} hod_cross_entropy_options;
/* logits (N,C), (N,C,d1,...) or (C); target integers (N), (N,d1,...) or 0-d: the loss of each
 * target times its class's weight, 0 where ignored. A label that is neither ignored nor in 0..C-1
 * is an error naming its row. A target of floats has the logits' shape and is a distribution over
 * the classes; nothing is ignored then. */
HOD_API hod_tensor *hod_cross_entropy_rows_with(hod_tensor *logits, hod_tensor *target,
                                                hod_cross_entropy_options o);
/* Their sum; the weight is the class weights' sum over the targets that count (without weights:
 * their number), for distributions the number of rows. */
HOD_API hod_loss hod_cross_entropy_with(hod_tensor *logits, hod_tensor *target,
                                        hod_cross_entropy_options o);
#define hod_cross_entropy(logits, ...) HOD_CROSS_ENTROPY_(logits, __VA_ARGS__, .end_ = 0)
#define HOD_CROSS_ENTROPY_(logits, target, ...)                                                    \
    hod_cross_entropy_with(logits, target, (hod_cross_entropy_options){__VA_ARGS__})
#define hod_cross_entropy_rows(logits, ...) HOD_CROSS_ENTROPY_ROWS_(logits, __VA_ARGS__, .end_ = 0)
#define HOD_CROSS_ENTROPY_ROWS_(logits, target, ...)                                               \
    hod_cross_entropy_rows_with(logits, target, (hod_cross_entropy_options){__VA_ARGS__})

/* Negative log likelihood: the same of log probabilities and labels; no label_smoothing. */
HOD_API hod_tensor *hod_nll_rows_with(hod_tensor *log_p, hod_tensor *target,
                                      hod_cross_entropy_options o);
HOD_API hod_loss hod_nll_with(hod_tensor *log_p, hod_tensor *target, hod_cross_entropy_options o);
#define hod_nll(log_p, ...) HOD_NLL_(log_p, __VA_ARGS__, .end_ = 0)
#define HOD_NLL_(log_p, target, ...)                                                               \
    hod_nll_with(log_p, target, (hod_cross_entropy_options){__VA_ARGS__})
#define hod_nll_rows(log_p, ...) HOD_NLL_ROWS_(log_p, __VA_ARGS__, .end_ = 0)
#define HOD_NLL_ROWS_(log_p, target, ...)                                                          \
    hod_nll_rows_with(log_p, target, (hod_cross_entropy_options){__VA_ARGS__})

/* Distribution focal loss: logits (N,K) over the places 0..K-1, target (N) a place between them:
 * cross entropy with its two neighbours, each by its nearness. Weight: N. */
HOD_API hod_tensor *hod_distribution_focal_rows(hod_tensor *logits, hod_tensor *target);
HOD_API hod_loss hod_distribution_focal(hod_tensor *logits, hod_tensor *target);

/* ---- elements: target of x's shape, weight the number of elements ---- */

HOD_API hod_tensor *hod_mse_each(hod_tensor *x, hod_tensor *target); /* (x - t)^2 */
HOD_API hod_loss hod_mse(hod_tensor *x, hod_tensor *target);
HOD_API hod_tensor *hod_l1_each(hod_tensor *x, hod_tensor *target); /* |x - t| */
HOD_API hod_loss hod_l1(hod_tensor *x, hod_tensor *target);
/* d = |x - t|: d^2 / (2 beta) below beta, d - beta / 2 from there on. beta 0: d. */
HOD_API hod_tensor *hod_smooth_l1_each(hod_tensor *x, hod_tensor *target, double beta);
HOD_API hod_loss hod_smooth_l1(hod_tensor *x, hod_tensor *target, double beta);
/* beta times that: d^2 / 2 up to delta, delta (d - delta / 2) above. */
HOD_API hod_tensor *hod_huber_each(hod_tensor *x, hod_tensor *target, double delta);
HOD_API hod_loss hod_huber(hod_tensor *x, hod_tensor *target, double delta);
/* t (log t - x), x log probabilities; t, too, with log_target. 0 where t is 0. The weight is the
 * number of rows, shape[0], which makes the mean the divergence. */
HOD_API hod_tensor *hod_kl_div_each(hod_tensor *x, hod_tensor *target, bool log_target);
HOD_API hod_loss hod_kl_div(hod_tensor *x, hod_tensor *target, bool log_target);

typedef struct hod_bce_options {
    hod_tensor *weight;     /* of each element, broadcast; absent: 1 */
    hod_tensor *pos_weight; /* factor of the positive part, broadcast; absent: 1. Logits only */
    int end_;
} hod_bce_options;
/* Binary cross entropy of probabilities p in 0..1 with targets in 0..1. Logarithms end at -100, and
 * no gradient flows beyond. */
HOD_API hod_tensor *hod_bce_each_with(hod_tensor *p, hod_tensor *target, hod_bce_options o);
HOD_API hod_loss hod_bce_with(hod_tensor *p, hod_tensor *target, hod_bce_options o);
/* That of sigmoid(x), computed without overflow. */
HOD_API hod_tensor *hod_bce_with_logits_each_with(hod_tensor *x, hod_tensor *target,
                                                  hod_bce_options o);
HOD_API hod_loss hod_bce_with_logits_with(hod_tensor *x, hod_tensor *target, hod_bce_options o);
#define hod_bce(p, ...)             HOD_BCE_(hod_bce_with, p, __VA_ARGS__, .end_ = 0)
#define hod_bce_each(p, ...)        HOD_BCE_(hod_bce_each_with, p, __VA_ARGS__, .end_ = 0)
#define hod_bce_with_logits(x, ...) HOD_BCE_(hod_bce_with_logits_with, x, __VA_ARGS__, .end_ = 0)
#define hod_bce_with_logits_each(x, ...)                                                           \
    HOD_BCE_(hod_bce_with_logits_each_with, x, __VA_ARGS__, .end_ = 0)
#define HOD_BCE_(function, x, target, ...) function(x, target, (hod_bce_options){__VA_ARGS__})

/* Focal loss of sigmoid(x): binary cross entropy times (1 - p_t)^gamma and, with alpha >= 0, times
 * alpha for positives and 1 - alpha for negatives. Usual: alpha 0.25, gamma 2. */
HOD_API hod_tensor *hod_focal_each(hod_tensor *x, hod_tensor *target, double alpha, double gamma);
HOD_API hod_loss hod_focal(hod_tensor *x, hod_tensor *target, double alpha, double gamma);

/* ---- rows: one value a row, weight the number of rows ---- */

/* 1 - (2 sum(p t) + smooth) / (sum(p) + sum(t) + smooth), sums over all but the first dimension of
 * p and t (N,...). */
HOD_API hod_tensor *hod_dice_rows(hod_tensor *p, hod_tensor *target, double smooth);
HOD_API hod_loss hod_dice(hod_tensor *p, hod_tensor *target, double smooth);

/* a . b / (max(|a|, eps) max(|b|, eps)) along dim, which is dropped; a and b broadcast. */
HOD_API hod_tensor *hod_cosine_similarity(hod_tensor *a, hod_tensor *b, int dim, double eps);
/* a, b (N,D), y (N): 1 - cos where y is 1, max(0, cos - margin) where it is -1. */
HOD_API hod_tensor *hod_cosine_embedding_rows(hod_tensor *a, hod_tensor *b, hod_tensor *y,
                                              double margin);
HOD_API hod_loss hod_cosine_embedding(hod_tensor *a, hod_tensor *b, hod_tensor *y, double margin);

typedef struct hod_triplet_options {
    double margin; /* 0: 1 */
    double p;      /* 0: the 2-norm */
    double eps;    /* added to differences; 0: 1e-6 */
    bool swap;     /* the negative's distance is the lesser of those to anchor and positive */
    int end_;
} hod_triplet_options;
/* max(0, |a - positive| - |a - negative| + margin), norms along the last dimension. */
HOD_API hod_tensor *hod_triplet_margin_rows_with(hod_tensor *anchor, hod_tensor *positive,
                                                 hod_tensor *negative, hod_triplet_options o);
HOD_API hod_loss hod_triplet_margin_with(hod_tensor *anchor, hod_tensor *positive,
                                         hod_tensor *negative, hod_triplet_options o);
#define hod_triplet_margin(anchor, positive, ...)                                                  \
    HOD_TRIPLET_(hod_triplet_margin_with, anchor, positive, __VA_ARGS__, .end_ = 0)
#define hod_triplet_margin_rows(anchor, positive, ...)                                             \
    HOD_TRIPLET_(hod_triplet_margin_rows_with, anchor, positive, __VA_ARGS__, .end_ = 0)
#define HOD_TRIPLET_(function, anchor, positive, negative, ...)                                    \
    function(anchor, positive, negative, (hod_triplet_options){__VA_ARGS__})

/* ---- boxes: (...,4) as x1, y1, x2, y2 with x1 <= x2, y1 <= y2 ---- */

typedef enum hod_iou_kind {
    HOD_IOU,  /* intersection over union, 0 for two empty boxes */
    HOD_GIOU, /* less the share of the enclosing box that is in neither */
    HOD_DIOU, /* less the squared distance of centres over the enclosing diagonal's */
    HOD_CIOU, /* less that and the difference of aspect ratios, whose factor is held constant */
} hod_iou_kind;
/* Of boxes a and b, which broadcast: (N,1,4) with (M,4) gives all pairs. */
HOD_API hod_tensor *hod_box_iou(hod_tensor *a, hod_tensor *b, hod_iou_kind kind);
/* Sum of 1 - iou, with 1e-7 in each divisor as torchvision's losses have; weight: the number of
 * boxes. */
HOD_API hod_loss hod_iou_loss(hod_tensor *a, hod_tensor *b, hod_iou_kind kind);
HOD_API hod_tensor *hod_iou_loss_rows(hod_tensor *a, hod_tensor *b, hod_iou_kind kind); /* (...) */

/* ---- sequences ---- */

typedef struct hod_ctc_options {
    int64_t blank;      /* class between labels */
    bool zero_infinity; /* a target that no alignment fits costs 0 instead of infinity */
    bool per_label;     /* each loss is divided by its target's length (at least 1) */
    int end_;
} hod_ctc_options;
/* Connectionist temporal classification: -log of the probability of all alignments that spell the
 * target. log_p (T,N,C) or (T,C) log probabilities; target (N,S), or (sum of lengths) one after
 * another, i64 or i32; input_length and target_length (N), of which only so many frames and labels
 * are read. Results (N). Where no alignment fits (fewer frames than labels and repeats) the loss is
 * +inf and the gradient 0. Differentiable once. Weight: N. */
HOD_API hod_tensor *hod_ctc_rows_with(hod_tensor *log_p, hod_tensor *target,
                                      hod_tensor *input_length, hod_tensor *target_length,
                                      hod_ctc_options o);
HOD_API hod_loss hod_ctc_with(hod_tensor *log_p, hod_tensor *target, hod_tensor *input_length,
                              hod_tensor *target_length, hod_ctc_options o);
#define hod_ctc(log_p, target, input_length, ...)                                                  \
    HOD_CTC_(hod_ctc_with, log_p, target, input_length, __VA_ARGS__, .end_ = 0)
#define hod_ctc_rows(log_p, target, input_length, ...)                                             \
    HOD_CTC_(hod_ctc_rows_with, log_p, target, input_length, __VA_ARGS__, .end_ = 0)
#define HOD_CTC_(function, log_p, target, input_length, target_length, ...)                        \
    function(log_p, target, input_length, target_length, (hod_ctc_options){__VA_ARGS__})

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(loss, hod_loss)
#define hod_loss_mean(...) HOD_OPERATOR(tensor, loss_mean, __VA_ARGS__)
#define hod_cross_entropy_rows_with(...) HOD_OPERATOR(tensor, cross_entropy_rows_with, __VA_ARGS__)
#define hod_cross_entropy_with(...) HOD_OPERATOR(loss, cross_entropy_with, __VA_ARGS__)
#define hod_nll_rows_with(...)      HOD_OPERATOR(tensor, nll_rows_with, __VA_ARGS__)
#define hod_nll_with(...)           HOD_OPERATOR(loss, nll_with, __VA_ARGS__)
#define hod_distribution_focal_rows(...) HOD_OPERATOR(tensor, distribution_focal_rows, __VA_ARGS__)
#define hod_distribution_focal(...) HOD_OPERATOR(loss, distribution_focal, __VA_ARGS__)
#define hod_mse_each(...)           HOD_OPERATOR(tensor, mse_each, __VA_ARGS__)
#define hod_mse(...)                HOD_OPERATOR(loss, mse, __VA_ARGS__)
#define hod_l1_each(...)            HOD_OPERATOR(tensor, l1_each, __VA_ARGS__)
#define hod_l1(...)                 HOD_OPERATOR(loss, l1, __VA_ARGS__)
#define hod_smooth_l1_each(...)     HOD_OPERATOR(tensor, smooth_l1_each, __VA_ARGS__)
#define hod_smooth_l1(...)          HOD_OPERATOR(loss, smooth_l1, __VA_ARGS__)
#define hod_huber_each(...)         HOD_OPERATOR(tensor, huber_each, __VA_ARGS__)
#define hod_huber(...)              HOD_OPERATOR(loss, huber, __VA_ARGS__)
#define hod_kl_div_each(...)        HOD_OPERATOR(tensor, kl_div_each, __VA_ARGS__)
#define hod_kl_div(...)             HOD_OPERATOR(loss, kl_div, __VA_ARGS__)
#define hod_bce_each_with(...)      HOD_OPERATOR(tensor, bce_each_with, __VA_ARGS__)
#define hod_bce_with(...)           HOD_OPERATOR(loss, bce_with, __VA_ARGS__)
#define hod_bce_with_logits_each_with(...)                                                         \
    HOD_OPERATOR(tensor, bce_with_logits_each_with, __VA_ARGS__)
#define hod_bce_with_logits_with(...)  HOD_OPERATOR(loss, bce_with_logits_with, __VA_ARGS__)
#define hod_focal_each(...)            HOD_OPERATOR(tensor, focal_each, __VA_ARGS__)
#define hod_focal(...)                 HOD_OPERATOR(loss, focal, __VA_ARGS__)
#define hod_dice_rows(...)             HOD_OPERATOR(tensor, dice_rows, __VA_ARGS__)
#define hod_dice(...)                  HOD_OPERATOR(loss, dice, __VA_ARGS__)
#define hod_cosine_similarity(...)     HOD_OPERATOR(tensor, cosine_similarity, __VA_ARGS__)
#define hod_cosine_embedding_rows(...) HOD_OPERATOR(tensor, cosine_embedding_rows, __VA_ARGS__)
#define hod_cosine_embedding(...)      HOD_OPERATOR(loss, cosine_embedding, __VA_ARGS__)
#define hod_triplet_margin_rows_with(...)                                                          \
    HOD_OPERATOR(tensor, triplet_margin_rows_with, __VA_ARGS__)
#define hod_triplet_margin_with(...) HOD_OPERATOR(loss, triplet_margin_with, __VA_ARGS__)
#define hod_box_iou(...)             HOD_OPERATOR(tensor, box_iou, __VA_ARGS__)
#define hod_iou_loss(...)            HOD_OPERATOR(loss, iou_loss, __VA_ARGS__)
#define hod_iou_loss_rows(...)       HOD_OPERATOR(tensor, iou_loss_rows, __VA_ARGS__)
#define hod_ctc_rows_with(...)       HOD_OPERATOR(tensor, ctc_rows_with, __VA_ARGS__)
#define hod_ctc_with(...)            HOD_OPERATOR(loss, ctc_with, __VA_ARGS__)
#endif

#endif
