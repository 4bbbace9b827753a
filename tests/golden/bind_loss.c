/* Losses. */
#include "golden.h"
#include <hod/losses.h>
#include <math.h>
#include <string.h>

/* ---- classes ---- */

static hod_cross_entropy_options class_options(gold *c)
{
    int64_t ignore = INT(ignore_index, -100);
    hod_cross_entropy_options o = {.label_smoothing = REAL(label_smoothing, 0)};
    o.ignore_index = ignore;
    o.ignore_zero = ignore == 0;
    o.class_weight = HAS(weight) ? T(weight) : NULL;
    return o;
}

static int bind_cross_entropy(gold *c)
{
    hod_cross_entropy_options o = class_options(c);
    return gold_reduced(c, hod_cross_entropy_with(T(input), T(target), o),
                        hod_cross_entropy_rows_with(T(input), T(target), o));
}

static int bind_nll(gold *c)
{
    hod_cross_entropy_options o = class_options(c);
    return gold_reduced(c, hod_nll_with(T(input), T(target), o),
                        hod_nll_rows_with(T(input), T(target), o));
}

static int bind_dfl(gold *c)
{
    return gold_reduced(c, hod_distribution_focal(T(input), T(target)),
                        hod_distribution_focal_rows(T(input), T(target)));
}

/* ---- elements ---- */

#define PAIR(name, function, ...)                                                                  \
    static int bind_##name(gold *c)                                                                \
    {                                                                                              \
        return gold_reduced(c, function(T(input), T(target) __VA_ARGS__),                          \
                            function##_each(T(input), T(target) __VA_ARGS__));                     \
    }
PAIR(mse, hod_mse, )
PAIR(l1, hod_l1, )
PAIR(smooth_l1, hod_smooth_l1, , REAL(beta, 1))
PAIR(huber, hod_huber, , REAL(delta, 1))
PAIR(focal, hod_focal, , REAL(alpha, 0.25), REAL(gamma, 2))

static hod_bce_options bce_options(gold *c)
{
    return (hod_bce_options){.weight = HAS(weight) ? T(weight) : NULL,
                             .pos_weight = HAS(pos_weight) ? T(pos_weight) : NULL};
}

static int bind_bce(gold *c)
{
    hod_bce_options o = bce_options(c);
    return gold_reduced(c, hod_bce_with(T(input), T(target), o),
                        hod_bce_each_with(T(input), T(target), o));
}

static int bind_bce_with_logits(gold *c)
{
    hod_bce_options o = bce_options(c);
    return gold_reduced(c, hod_bce_with_logits_with(T(input), T(target), o),
                        hod_bce_with_logits_each_with(T(input), T(target), o));
}

/* "mean" of all elements, which is no divergence; hod's mean is PyTorch's "batchmean". */
static int bind_kl_div(gold *c)
{
    hod_tensor *each = hod_kl_div_each(T(input), T(target), FLAG(log_target, false));
    if (strcmp(TEXT(reduction, "mean"), "mean") == 0)
        return gold_one(c, hod_mean(each));
    hod_loss l = hod_kl_div(T(input), T(target), FLAG(log_target, false));
    if (strcmp(TEXT(reduction, "mean"), "batchmean") == 0)
        return gold_one(c, hod_loss_mean(l));
    return gold_reduced(c, l, each);
}

/* ---- rows ---- */

static int bind_dice(gold *c)
{
    double smooth = REAL(smooth, 1);
    return gold_reduced(c, hod_dice(T(input), T(target), smooth),
                        hod_dice_rows(T(input), T(target), smooth));
}

static int bind_cosine_similarity(gold *c)
{
    if (gold_scalar_dim(c))
        return gold_skip(c, "a 0-d tensor has no dimension to name");
    return gold_one(c,
                    hod_cosine_similarity(T(input), T(other), (int)INT(dim, 1), REAL(eps, 1e-8)));
}

static int bind_cosine_embedding(gold *c)
{
    double margin = REAL(margin, 0);
    return gold_reduced(c, hod_cosine_embedding(T(input), T(other), T(target), margin),
                        hod_cosine_embedding_rows(T(input), T(other), T(target), margin));
}

static int bind_triplet_margin(gold *c)
{
    hod_triplet_options o = {.margin = REAL(margin, 1),
                             .p = REAL(p, 2),
                             .eps = REAL(eps, 1e-6),
                             .swap = FLAG(swap, false)};
    return gold_reduced(c, hod_triplet_margin_with(T(anchor), T(positive), T(negative), o),
                        hod_triplet_margin_rows_with(T(anchor), T(positive), T(negative), o));
}

static int bind_iou(gold *c)
{
    const char *kinds[] = {"iou", "giou", "diou", "ciou"}, *kind = TEXT(kind, "iou");
    int k = 0;
    while (k < 3 && strcmp(kinds[k], kind) != 0)
        k++;
    return gold_reduced(c, hod_iou_loss(T(input), T(target), (hod_iou_kind)k),
                        hod_iou_loss_rows(T(input), T(target), (hod_iou_kind)k));
}

/* ---- sequences ---- */

static hod_tensor *lengths(gold *c, const char *name)
{
    if (gold_is_tensor(c, name))
        return gold_tensor(c, name);
    int64_t v[GOLD_MAX_TENSORS];
    int n = (int)json_array_size(gold_json(c, name));
    gold_ints(c, name, n, v, 0);
    return hod_from_ints(v, HOD_SHAPE(n));
}

static bool no_alignment(const gold *c)
{
    const gold_array *g = c->k->g;
    for (int64_t i = 0; g && g->values && i < g->n; i++)
        if (isnan(g->values[i]))
            return true;
    return false;
}

/* The cases hold logits. */
static int bind_ctc(gold *c)
{
    if (no_alignment(c))
        return gold_skip(c, "no alignment fits: PyTorch's gradient is NaN, hod's is 0");
    hod_tensor *log_p = hod_log_softmax(T(log_probs), -1);
    hod_ctc_options o = {.blank = INT(blank, 0), .zero_infinity = FLAG(zero_infinity, false)};
    o.per_label = strcmp(TEXT(reduction, "mean"), "mean") == 0;
    hod_tensor *in = lengths(c, "input_lengths"), *labels = lengths(c, "target_lengths");
    return gold_reduced(c, hod_ctc_with(log_p, T(targets), in, labels, o),
                        hod_ctc_rows_with(log_p, T(targets), in, labels, o));
}

/* test_losses.c checks the other kinds by differences. */
#define FIXED "CIoU holds a factor constant, which differences do not know"

static const gold_binding rows[] = {
    ROW("cross_entropy", bind_cross_entropy, .f32 = 1e-5),
    ROW("nll_loss", bind_nll),
    ROW("dfl", bind_dfl),
    ROW("mse_loss", bind_mse),
    ROW("l1_loss", bind_l1),
    ROW("smooth_l1_loss", bind_smooth_l1),
    ROW("huber_loss", bind_huber),
    ROW("focal", bind_focal),
    ROW("binary_cross_entropy", bind_bce),
    ROW("binary_cross_entropy_with_logits", bind_bce_with_logits),
    ROW("kl_div", bind_kl_div),
    ROW("dice", bind_dice),
    ROW("cosine_similarity", bind_cosine_similarity),
    ROW("cosine_embedding_loss", bind_cosine_embedding),
    ROW("triplet_margin_loss", bind_triplet_margin),
    ROW("iou", bind_iou, .empty = {[GOLD_GRADCHECK] = FIXED, [GOLD_GRADGRADCHECK] = FIXED}),
    ROW("ctc_loss", bind_ctc, .empty[GOLD_GRADGRADCHECK] = "differentiable once"),
};
GOLD_FAMILY(loss, 442, 429)
