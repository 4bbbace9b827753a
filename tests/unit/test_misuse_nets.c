/* Absurd calls of contractions, layers and losses: misuse.h says how, misuse_nets.def which. */
#include "misuse.h"

/* ---- contractions ---- */

static hod_tensor *cube(void)
{
    return filled(draw(3) ? HOD_F32 : any_dtype(), HOD_SHAPE(draw(4), 1 + draw(4), 1 + draw(4)));
}

static hod_tensor *some_einsum(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    static const char *const formulas[] = {"ij,jk->ik", "ij,jk",
                                           "i,i->",     "...i,...i->...",
                                           "ii->i",     "ab,cd->abcd",
                                           "",          "->",
                                           "i",         "ij->kl",
                                           "i-j",       "i,j,k",
                                           "...",       "....",
                                           "ij,,k",     "iii",
                                           "i,i->ii",   "a->b",
                                           "\xff\xfe",  "A,b->Ab",
                                           NULL,        "abcdefghijklmnopqrstuvwxyz"};
    hod_tensor *in[64];
    for (int i = 0; i < 64; i++)
        in[i] = i % 3 == 0 ? x : i % 3 == 1 ? y : z;
    return hod_einsum_of(formulas[draw(HOD_COUNT(formulas))], draw(8) ? (int)draw(4) : any_dim(),
                         in);
}

static hod_tensor *some_conv2d(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x, *w = draw(3) ? image() : x;
    return hod_conv2d(
        in, w, .stride = near(0), .padding = near(0), .dilation = near(0), .groups = near(1),
        .stride_hw = {near(0), near(0)}, .dilation_hw = {near(0), near(0)},
        .padding_tlbr = {near(0), near(1), near(0), near(0)}, .bias = draw(3) ? NULL : x);
}

static hod_tensor *some_conv1d(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? cube() : x, *w = draw(3) ? cube() : x;
    return hod_conv1d(in, w, .stride = near(0), .padding = near(0), .dilation = near(0),
                      .groups = near(1), .padding_lr = {near(0), near(1)}, .same = draw(4) == 0,
                      .bias = draw(3) ? NULL : x);
}

static hod_tensor *some_transposed(hod_tensor *x)
{
    if (draw(2))
        return hod_conv_transpose1d(draw(3) ? cube() : x, draw(3) ? cube() : x, .stride = near(2),
                                    .padding = near(0), .dilation = near(0), .groups = near(1),
                                    .output_padding = near(1), .bias = draw(3) ? NULL : x);
    return hod_conv_transpose2d(draw(3) ? image() : x, draw(3) ? image() : x, .stride = near(2),
                                .padding = near(0), .dilation = near(0), .groups = near(1),
                                .output_padding = near(1), .stride_hw = {near(0), near(0)},
                                .dilation_hw = {near(0), near(0)},
                                .output_padding_hw = {near(0), near(0)},
                                .padding_tlbr = {near(0), near(1), near(0), near(0)});
}

/* ---- sequences ---- */

static hod_tensor *some_attention(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    hod_tensor *q = draw(3) ? image() : x, *k = draw(3) ? q : draw(2) ? image() : y;
    hod_attention_options o = {.causal = draw(2),
                               .scale = draw(2) ? 0 : any_number(),
                               .dropout = draw(3) ? 0 : any_number()};
    return draw(2)
               ? hod_attention_with(q, k, draw(3) ? k : z, o)
               : hod_attention_masked_with(q, k, draw(3) ? k : z, draw(2) ? y : hod_gt(k, k), o);
}

/* Weights mostly of 3 hidden values, for inputs like cube() or for whatever comes. */
static hod_tensor *some_rnn(hod_tensor *x, hod_tensor *y)
{
    hod_tensor *in = draw(3) ? cube() : x, *lengths = draw(3) ? NULL
                                                      : draw(2)
                                                          ? y
                                                          : filled(HOD_I64, HOD_SHAPE(draw(4)));
    bool lstm = draw(2);
    int64_t gates = (lstm ? 4 : 3) * 3,
            inner = in && hod_tensor_ndim(in) ? hod_tensor_size(in, -1) : 1;
    hod_rnn_weights w[4];
    for (int i = 0; i < 4; i++)
        w[i] = (hod_rnn_weights){filled(HOD_F32, HOD_SHAPE(near(gates), i < 2 ? inner : 3)),
                                 filled(HOD_F32, HOD_SHAPE(gates, near(3))),
                                 filled(HOD_F32, HOD_SHAPE(gates)),
                                 draw(9) ? filled(HOD_F32, HOD_SHAPE(gates)) : y};
    hod_rnn_options o = {.layers = draw(9) ? (int)draw(2) : any_dim(),
                         .bidirectional = draw(4) == 0,
                         .batch_first = draw(2),
                         .no_bias = draw(4) == 0,
                         .dropout = draw(5) ? 0 : any_number(),
                         .lengths = lengths,
                         .h = draw(5) ? NULL : y};
    if (o.layers > 1)
        o.layers = 2 - o.bidirectional; /* w holds 4 */
    return (lstm ? hod_lstm_with(in, w, o) : hod_gru_with(in, w, o)).y;
}

static hod_tensor *some_ctc(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    hod_tensor *in = draw(3) ? cube() : x;
    int64_t n = in && hod_tensor_ndim(in) == 3 ? hod_tensor_size(in, 1) : 2;
    hod_tensor *target = draw(3) ? filled(HOD_I64, HOD_SHAPE(n, draw(3))) : y;
    hod_tensor *lengths = draw(3) ? filled(HOD_I64, HOD_SHAPE(n)) : z;
    hod_ctc_options o = {.blank = near(0), .zero_infinity = draw(2)};
    return draw(2) ? hod_ctc_rows_with(in, target, lengths, draw(3) ? lengths : y, o)
                   : hod_ctc_with(in, target, lengths, draw(3) ? lengths : y, o).sum;
}

/* ---- images ---- */

static hod_tensor *some_pool(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x;
    hod_pool2d_options o = {near(2),
                            near(0),
                            near(0),
                            near(0),
                            .kernel_hw = {near(0), near(0)},
                            .stride_hw = {near(0), near(0)},
                            .padding_tlbr = {near(0), near(0), near(0), near(0)},
                            .exclude_pad = draw(2),
                            .dilation_hw = {near(0), near(0)},
                            .ceil_mode = draw(2),
                            .divisor = near(0)};
    return draw(2) ? hod_max_pool2d_with(in, o) : hod_avg_pool2d_with(in, o);
}

static hod_tensor *some_line_pool(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? hod_flatten(image(), 2) : x;
    hod_pool1d_options o = {
        near(2),           near(0), near(0), near(0), .ceil_mode = draw(2), .exclude_pad = draw(2),
        .divisor = near(0)};
    return draw(2) ? hod_max_pool1d_with(in, o) : hod_avg_pool1d_with(in, o);
}

static hod_tensor *some_adaptive(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x;
    switch (draw(4)) {
    case 0: return hod_adaptive_avg_pool2d(in, near(1), near(1));
    case 1: return hod_adaptive_max_pool2d(in, near(1), near(1));
    case 2: return hod_adaptive_avg_pool1d(in, near(1));
    default: return hod_adaptive_max_pool1d(in, near(1));
    }
}

static hod_tensor *some_interpolation(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x;
    hod_interpolate_options o = {.mode = (hod_interpolation)draw(3), .align_corners = draw(2)};
    for (int i = 0; i < 2; i++)
        if (draw(2))
            o.size[i] = near(3);
        else
            o.scale[i] = draw(4) ? 1.5 : any_number();
    return hod_interpolate_with(in, o);
}

static hod_tensor *some_sampling(hod_tensor *x, hod_tensor *y)
{
    hod_tensor *in = draw(3) ? image() : x, *at = draw(3) ? image() : y;
    hod_grid_sample_options o = {.mode = (hod_sample_mode)draw(4),
                                 .padding = (hod_sample_padding)draw(4),
                                 .align_corners = draw(2)};
    if (draw(2))
        return hod_grid_sample_with(in, draw(3) ? hod_slice(at, 3, 0, 2) : at, o);
    at = draw(3) ? hod_mul_scalar(hod_uniform(HOD_SHAPE(draw(4), 5)), draw(5) ? 4 : any_number())
                 : at;
    return hod_roi_align(in, at, .size = {near(2), near(2)}, .sampling = near(0),
                         .scale = draw(4) ? 0.5 : any_number(), .aligned = draw(2));
}

/* ---- losses ---- */

static hod_tensor *some_loss_of_classes(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    hod_tensor *target = y;
    if (draw(2) && x && hod_tensor_ndim(x) > 0)
        target = filled(HOD_I64, HOD_SHAPE(hod_tensor_size(x, 0)));
    hod_cross_entropy_options o = {.ignore_index = any_int(),
                                   .label_smoothing = draw(2) ? 0 : any_number(),
                                   .class_weight = draw(3) ? NULL : z};
    switch (draw(6)) {
    case 0: return hod_cross_entropy_rows_with(x, target, o);
    case 1: return hod_cross_entropy_with(x, target, o).sum;
    case 2: return hod_nll_rows_with(x, target, o);
    case 3: return hod_loss_mean(hod_nll_with(x, target, o));
    case 4: return hod_distribution_focal_rows(x, target);
    default: return hod_distribution_focal(x, draw(2) ? target : y).weight;
    }
}

static hod_tensor *some_loss_of_elements(hod_tensor *x, hod_tensor *y)
{
    double c = any_number();
    bool log = draw(2);
    switch (draw(10)) {
    case 0: return hod_mse_each(x, y);
    case 1: return hod_loss_mean(hod_mse(x, y));
    case 2: return hod_l1_each(x, y);
    case 3: return hod_loss_mean(hod_l1(x, y));
    case 4: return hod_smooth_l1_each(x, y, c);
    case 5: return hod_loss_mean(hod_smooth_l1(x, y, c));
    case 6: return hod_huber_each(x, y, c);
    case 7: return hod_huber(x, y, c).sum;
    case 8: return hod_kl_div_each(x, y, log);
    default: return hod_loss_mean(hod_kl_div(x, y, log));
    }
}

static hod_tensor *some_binary_loss(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    hod_bce_options o = {.weight = draw(3) ? NULL : z, .pos_weight = draw(3) ? NULL : z};
    switch (draw(6)) {
    case 0: return hod_bce_each_with(x, y, o);
    case 1: return hod_loss_mean(hod_bce_with(x, y, o));
    case 2: return hod_bce_with_logits_each_with(x, y, o);
    case 3: return hod_loss_mean(hod_bce_with_logits_with(x, y, o));
    case 4: return hod_focal_each(x, y, any_number(), any_number());
    default: return hod_focal(x, y, any_number(), any_number()).sum;
    }
}

static hod_tensor *some_loss_of_rows(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    double c = any_number();
    hod_triplet_options o = {.margin = any_number(), .p = any_number()};
    switch (draw(7)) {
    case 0: return hod_dice_rows(x, y, c);
    case 1: return hod_loss_mean(hod_dice(x, y, c));
    case 2: return hod_cosine_similarity(x, y, any_dim(), c);
    case 3: return hod_cosine_embedding_rows(x, y, z, c);
    case 4: return hod_cosine_embedding(x, y, z, c).sum;
    case 5: return hod_triplet_margin_rows_with(x, y, z, o);
    default: return hod_triplet_margin_with(x, y, draw(2) ? x : z, o).sum;
    }
}

static hod_tensor *some_loss_of_boxes(hod_tensor *x, hod_tensor *y)
{
    hod_tensor *a = draw(3) ? filled(HOD_F32, HOD_SHAPE(draw(4), 4)) : x;
    hod_tensor *b = draw(3) ? a : y;
    hod_iou_kind kind = (hod_iou_kind)draw(6);
    return draw(2)   ? hod_box_iou(a, b, kind)
           : draw(2) ? hod_iou_loss_rows(a, b, kind)
                     : hod_iou_loss(a, b, kind).sum;
}

#define CALL MISUSE_FUNCTION
#include "misuse_nets.def"
#undef CALL

static const misuse_call calls[] = {
#define CALL(id, ...) {.name = #id, .run = call_##id},
#include "misuse_nets.def"
};

TEST(misuse_nets_is_a_result_or_an_error)
{
    misuse_rounds(HOD_COUNT(calls), calls);
}
