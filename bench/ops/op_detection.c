/* What detection and segmentation need: boxes that overlap, regions of images, losses of boxes, of
 * scores with few positives, and of masks, f32. */
#include "bench/ops/family.h"

/* x (N,C,H,H) and regions (K,5) in it; boxes (K,4) with scores (K), others (K,4) near them; logits
 * (K,80) with truth, of 0 and 1, and places (K) among them; masks of K / 16 images. */
typedef struct operands {
    hod_tensor *x, *leaf_x, *regions, *boxes, *leaf_boxes, *others, *scores;
    hod_tensor *logits, *leaf_logits, *truth, *places, *mask, *leaf_mask, *true_mask;
} operands;

/* k boxes x1 y1 x2 y2 in an image of the side, up to half of it wide. */
static hod_tensor *boxes_in(int64_t k, double side)
{
    hod_tensor *corner = op_uniform(HOD_SHAPE(k, 2), 0, side / 2);
    hod_tensor *size = op_uniform(HOD_SHAPE(k, 2), side / 8, side / 2);
    return hod_concat(2, (hod_tensor *[]){corner, hod_add(corner, size)}, 1);
}

static int make(int size, operands *o)
{
    int64_t n = (int64_t[]){1, 2, 4}[size], c = (int64_t[]){8, 32, 64}[size];
    int64_t h = (int64_t[]){16, 32, 64}[size], k = (int64_t[]){16, 256, 2048}[size];
    *o = (operands){.x = op_uniform(HOD_SHAPE(n, c, h, h), -1, 1)};
    hod_tensor *image = hod_floor(op_uniform(HOD_SHAPE(k / 4, 1), 0, (double)n));
    o->regions = hod_concat(2, (hod_tensor *[]){image, boxes_in(k / 4, (double)h)}, 1);
    o->boxes = boxes_in(k, 640);
    o->others = hod_add(o->boxes, op_uniform(HOD_SHAPE(k, 4), -5, 5));
    o->scores = op_uniform(HOD_SHAPE(k), 0, 1);
    o->logits = op_uniform(HOD_SHAPE(k, 80), -3, 3);
    o->truth = hod_cast(hod_gt_scalar(op_uniform(HOD_SHAPE(k, 80), 0, 1), 0.9), HOD_F32);
    o->places = op_uniform(HOD_SHAPE(k), 0, 78);
    o->mask = op_uniform(HOD_SHAPE(k / 16, 64, 64), 0, 1);
    o->true_mask =
        hod_cast(hod_gt_scalar(op_uniform(HOD_SHAPE(k / 16, 64, 64), 0, 1), 0.5), HOD_F32);
    o->leaf_logits = hod_requires_grad(hod_copy(o->logits), true);
    o->leaf_mask = hod_requires_grad(hod_copy(o->mask), true);
    o->leaf_x = hod_requires_grad(hod_copy(o->x), true);
    o->leaf_boxes = hod_requires_grad(hod_copy(o->boxes), true);
    return o->regions && o->others && o->scores && o->leaf_x && o->leaf_boxes && o->leaf_logits &&
                   o->truth && o->places && o->leaf_mask && o->true_mask
               ? 0
               : -1;
}

#define REGIONS(x) hod_roi_align(x, o->regions, .size = {7, 7}, .sampling = 2, .aligned = true)
#define BOTH(ROW, name, of, loss, ...)                                                             \
    ROW(name, hod_loss_mean(loss(o->of, __VA_ARGS__)))                                             \
    ROW(name##_grad, op_gradients(hod_loss_mean(loss(o->leaf_##of, __VA_ARGS__)), 1, &o->leaf_##of))
#define OPS(ROW)                                                                                   \
    ROW(nms, hod_nms(o->boxes, o->scores, 0.5))                                                    \
    ROW(roi_align, REGIONS(o->x))                                                                  \
    ROW(roi_align_grad, op_gradients(REGIONS(o->leaf_x), 1, &o->leaf_x))                           \
    BOTH(ROW, giou_loss, boxes, hod_iou_loss, o->others, HOD_GIOU)                                 \
    BOTH(ROW, diou_loss, boxes, hod_iou_loss, o->others, HOD_DIOU)                                 \
    BOTH(ROW, ciou_loss, boxes, hod_iou_loss, o->others, HOD_CIOU)                                 \
    BOTH(ROW, focal, logits, hod_focal, o->truth, 0.25, 2)                                         \
    BOTH(ROW, distribution_focal, logits, hod_distribution_focal, o->places)                       \
    BOTH(ROW, dice, mask, hod_dice, o->true_mask, 1)

OP_FAMILY(detection, OPS, "16 boxes", "256", "2048")
