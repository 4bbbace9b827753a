/* Overlap of axis-aligned boxes and what is taken off it: GIoU, DIoU, CIoU.
 *
 *     +--------+ . . +        a, b     the boxes
 *     | a  +---|---+ .        a * b    their intersection
 *     |    |a*b|   | .        hull     the least box around both, dotted
 *     +----|---+ b | .
 *     .    +-------+ .        empty boxes overlap by 0, not by NaN
 *
 * A loss has 1e-7 in each divisor, as torchvision's losses have; a measure has not: a box of any
 * size is itself.
 */
#include "ops/loss_parts.h"

static const double tiny = 1e-7;

/* One box in parts, each (...). */
typedef struct box {
    hod_tensor *x1, *y1, *x2, *y2, *w, *h;
} box;

static box box_of(hod_tensor *t)
{
    box b = {hod_select(t, -1, 0),
             hod_select(t, -1, 1),
             hod_select(t, -1, 2),
             hod_select(t, -1, 3),
             NULL,
             NULL};
    b.w = hod_sub(b.x2, b.x1);
    b.h = hod_sub(b.y2, b.y1);
    return b;
}

static hod_tensor *area(const box *b)
{
    return hod_mul(b->w, b->h);
}

static box hull_of(const box *a, const box *b)
{
    box c = {hod_minimum(a->x1, b->x1),
             hod_minimum(a->y1, b->y1),
             hod_maximum(a->x2, b->x2),
             hod_maximum(a->y2, b->y2),
             NULL,
             NULL};
    c.w = hod_sub(c.x2, c.x1);
    c.h = hod_sub(c.y2, c.y1);
    return c;
}

static hod_tensor *intersection(const box *a, const box *b)
{
    hod_tensor *w = hod_sub(hod_minimum(a->x2, b->x2), hod_maximum(a->x1, b->x1));
    hod_tensor *h = hod_sub(hod_minimum(a->y2, b->y2), hod_maximum(a->y1, b->y1));
    return hod_mul(hod_relu(w), hod_relu(h));
}

typedef hod_tensor *divide(hod_tensor *a, hod_tensor *b);

/* 0 where b is 0: so is a there. */
static hod_tensor *over(hod_tensor *a, hod_tensor *b)
{
    return b ? hod_div(a, hod_where(hod_eq_scalar(b, 0), hod__number(b, 1), b)) : NULL;
}

/* A loss's. */
static hod_tensor *over_more(hod_tensor *a, hod_tensor *b)
{
    return hod_div(a, hod_add_scalar(b, tiny));
}

/* Squared distance of the centres over the hull's squared diagonal. */
static hod_tensor *apart(const box *a, const box *b, divide *by)
{
    box hull = hull_of(a, b);
    hod_tensor *dx = hod_sub(hod_add(a->x1, a->x2), hod_add(b->x1, b->x2));
    hod_tensor *dy = hod_sub(hod_add(a->y1, a->y2), hod_add(b->y1, b->y2));
    hod_tensor *distance = hod_mul_scalar(hod_add(hod_square(dx), hod_square(dy)), 0.25);
    hod_tensor *diagonal = hod_add(hod_square(hull.w), hod_square(hull.h));
    return by(distance, diagonal);
}

/* The angle of the diagonal; a box without height has its width's. */
static hod_tensor *aspect(const box *b)
{
    if (!b->h)
        return NULL;
    hod_tensor *flat = hod_eq_scalar(b->h, 0);
    return hod_atan(hod_div(b->w, hod_where(flat, hod__number(b->h, tiny), b->h)));
}

/* v = (difference of angles)^2 4 / pi^2, times v / (1 - iou + v), which is held constant. */
static hod_tensor *skew(const box *a, const box *b, hod_tensor *iou)
{
    hod_tensor *v = hod_mul_scalar(hod_square(hod_sub(aspect(b), aspect(a))),
                                   0.40528473456935109 /* 4 / pi^2 */);
    if (!v || !iou)
        return NULL;
    hod_tensor *fixed = hod__stop_gradient(v);
    hod_tensor *rest = hod_sub(hod__number(iou, 1 + tiny), hod__stop_gradient(iou));
    return hod_mul(hod_div(fixed, hod_add(rest, fixed)), v);
}

static bool is_box(const hod_tensor *t)
{
    if (t->ndim >= 1 && t->shape[t->ndim - 1] == 4)
        return true;
    hod__fail(HOD_ERROR_ARGUMENT, "box_iou: %s are no boxes (...,4)", HOD_SHAPE_TEXT(t));
    return false;
}

static hod_tensor *overlap(hod_tensor *x, hod_tensor *y, hod_iou_kind kind, divide *by)
{
    if (hod__null("box_iou", "x", x) || hod__null("box_iou", "y", y) || !is_box(x) || !is_box(y))
        return NULL;
    if ((unsigned)kind > HOD_CIOU)
        return HOD_FAIL(ARGUMENT, "box_iou: kind %d, wanted HOD_IOU to HOD_CIOU", (int)kind);
    x = hod__computed(x);
    y = hod__cast_like(y, x);
    box a = box_of(x), b = box_of(y);
    hod_tensor *both = intersection(&a, &b);
    hod_tensor *either = hod_sub(hod_add(area(&a), area(&b)), both);
    hod_tensor *iou = by(both, either);
    if (kind == HOD_IOU)
        return iou;
    if (kind == HOD_GIOU) {
        box hull = hull_of(&a, &b);
        hod_tensor *whole = area(&hull);
        return hod_sub(iou, by(hod_sub(whole, either), whole));
    }
    hod_tensor *diou = hod_sub(iou, apart(&a, &b, by));
    return kind == HOD_DIOU ? diou : hod_sub(diou, skew(&a, &b, iou));
}

hod_tensor *hod_box_iou(hod_tensor *x, hod_tensor *y, hod_iou_kind kind)
{
    return overlap(x, y, kind, over);
}

hod_tensor *hod_iou_loss_rows(hod_tensor *a, hod_tensor *b, hod_iou_kind kind)
{
    hod_tensor *iou = overlap(a, b, kind, over_more);
    return iou ? hod_sub(hod__number(iou, 1), iou) : NULL;
}

hod_loss hod_iou_loss(hod_tensor *a, hod_tensor *b, hod_iou_kind kind)
{
    return hod__loss_of_elements(hod_iou_loss_rows(a, b, kind));
}
