/* Boxes: which of those that overlap are kept, regions read out of images, and their losses, f32. */
#include "bench/ops/family.h"

/* x (N,C,H,H) and regions (K,5) in it; boxes (K,4) with scores (K), others (K,4) near them. */
typedef struct operands {
    hod_tensor *x, *leaf_x, *regions, *boxes, *leaf_boxes, *others, *scores;
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
    o->leaf_x = hod_requires_grad(hod_copy(o->x), true);
    o->leaf_boxes = hod_requires_grad(hod_copy(o->boxes), true);
    return o->regions && o->others && o->scores && o->leaf_x && o->leaf_boxes ? 0 : -1;
}

#define REGIONS(x)        hod_roi_align(x, o->regions, .size = {7, 7}, .sampling = 2, .aligned = true)
#define LOSS(boxes, kind) hod_loss_mean(hod_iou_loss(boxes, o->others, kind))
#define BOTH(ROW, name, kind)                                                                      \
    ROW(name, LOSS(o->boxes, kind))                                                                \
    ROW(name##_grad, op_gradients(LOSS(o->leaf_boxes, kind), 1, &o->leaf_boxes))
#define OPS(ROW)                                                                                   \
    ROW(nms, hod_nms(o->boxes, o->scores, 0.5))                                                    \
    ROW(roi_align, REGIONS(o->x))                                                                  \
    ROW(roi_align_grad, op_gradients(REGIONS(o->leaf_x), 1, &o->leaf_x))                           \
    BOTH(ROW, giou_loss, HOD_GIOU)                                                                 \
    BOTH(ROW, diou_loss, HOD_DIOU)                                                                 \
    BOTH(ROW, ciou_loss, HOD_CIOU)

OP_FAMILY(boxes, OPS, "16 boxes", "256", "2048")
