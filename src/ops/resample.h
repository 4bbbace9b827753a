/* What sampling at a grid and in boxes share: an image as rows, one an element. */
#ifndef HOD_OPS_RESAMPLE_H
#define HOD_OPS_RESAMPLE_H

#include "ops/rules.h"
#include <math.h>

typedef struct hod_image_rows {
    hod_tensor *rows;  /* (N H W, C) */
    hod_tensor *image; /* i64, which of the N: broadcasts with places */
    int64_t h, w;
} hod_image_rows;

/* Do 64 bits count n h w? A tensor without channels or images may have any such sizes. */
bool hod__countable(int64_t n, int64_t h, int64_t w);
/* x (N,C,H,W), countable, as rows (N H W, C). */
hod_tensor *hod__rows_of_image(hod_tensor *x);
/* Elements at y and x, floats that are brought to the nearest inside: the places' shape + (C). */
hod_tensor *hod__image_element(const hod_image_rows *m, hod_tensor *y, hod_tensor *x);
/* 0 and 1 along one of two new dimensions before those of t, to reach both neighbours of t. */
hod_tensor *hod__both(hod_tensor *t, int before);
/* Their weights: 1 - part of the first, part of the second. */
hod_tensor *hod__share(hod_tensor *part, hod_tensor *both);
/* Whole floats as an index in 0..last; NaN is one of them. */
hod_tensor *hod__index_within(hod_tensor *at, int64_t last);

/* Is it the number of one of so many images? -1 with an error that names the box. */
int hod__roi_image(double image, int64_t box, int64_t images);
/* roi_align of f32 or f64 in boxes of the same type, in operators. */
hod_tensor *hod__roi_align_composed(hod_tensor *x, hod_tensor *boxes, const hod_attrs_roi *a);

#endif
