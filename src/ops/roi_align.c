/* Boxes of an image brought to one size: each bin of a box is the mean of samples on a regular grid
 * in it, each between its four elements.
 *
 *     +-----+-----+      a bin of 2 x 2 samples: the elements around them, once each, with all that
 *     | o o |     |      the samples take of them
 *     | o o |     |
 *     +-----+-----+      y[bin] = (sum over rows wy (sum over columns wx x[row, column])) / samples
 *
 * Both sides of a box are alike and are found apart, once for all channels. Without a sampling
 * number a bin has as many samples along a side as it spans elements. A sample more than an
 * element outside the image counts 0. The transpose, roi_align_back, is the gradient for the image,
 * and each is the derivative of the other. For boxes that want a gradient there is a composition,
 * roi_composed.c.
 */
#include "ops/resample.h"

typedef struct roi_job {
    const hod_attrs_roi *a;
    int64_t images, channels, h, w, boxes;
    const void *box, *from; /* from: the images, or the gradient of the bins */
    void *to, *taps; /* of boxes, rows and then columns, as many for each bin as it can have */
    int64_t *begin;  /* of each box among them */
    int32_t *n;      /* how many a bin has: (K, height + width) */
} roi_job;

int hod__roi_image(double image, int64_t box, int64_t images)
{
    return image >= 0 && image < (double)images && image == floor(image)
               ? 0
               : HOD_FAIL_RC(VALUE, "roi_align: box %lld is of image %g, there are %lld",
                             (long long)box, image, (long long)images);
}

#define TYPED_BODY "ops/roi_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* ---- shapes ---- */

/* y (K,C,height,width) of images x in boxes; 0 or -1. */
static int aligned(const char *name, const hod_attrs_roi *a, const hod_meta *x,
                   const hod_meta *boxes, hod_meta *y)
{
    if (x->ndim != 4 || boxes->ndim != 2 || boxes->shape[1] != 5 || x->dtype != boxes->dtype ||
        !hod__is_computed(x->dtype) || x->shape[2] < 1 || x->shape[3] < 1 ||
        (x->shape[0] < 1 && boxes->shape[0] > 0) || a->size[0] < 1 || a->size[1] < 1 ||
        a->sampling < 0 || a->size[0] > INT32_MAX || a->size[1] > INT32_MAX ||
        a->sampling > INT32_MAX)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s %s in boxes %s %s to (%lld,%lld) with sampling %lld",
                           name, hod_dtype_name(x->dtype), HOD_META_TEXT(x),
                           hod_dtype_name(boxes->dtype), HOD_META_TEXT(boxes),
                           (long long)a->size[0], (long long)a->size[1], (long long)a->sampling);
    *y = (hod_meta){.dtype = x->dtype, .ndim = 4};
    y->shape[0] = boxes->shape[0];
    y->shape[1] = x->shape[1];
    y->shape[2] = a->size[0];
    y->shape[3] = a->size[1];
    return 0;
}

int hod__shape_roi_align(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return aligned("roi_align", &c->attrs->roi, &in[0], &in[1], out);
}

int hod__shape_roi_align_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    *out = hod__meta_of((hod_dtype)in[0].dtype, &c->attrs->roi.shape);
    return aligned("roi_align_back", &c->attrs->roi, out, &in[1], &y) != 0
               ? -1
               : hod__check_like("roi_align_back", &in[0], &y);
}

/* ---- kernels ---- */

enum { USUAL_TAPS = 9 /* of a bin */ };

/* The taps of all boxes; 0 or -1. */
static int find(roi_job *job, bool f64)
{
    job->begin = hod__alloc((size_t)job->boxes + 1, sizeof *job->begin);
    if (!job->begin || (f64 ? count_taps_f64(job) : count_taps_f32(job)) != 0)
        return -1;
    int64_t bins = job->a->size[0] + job->a->size[1];
    job->n = hod__alloc((size_t)job->boxes, (size_t)bins * sizeof *job->n);
    job->taps =
        hod__alloc((size_t)job->begin[job->boxes] + 1, f64 ? sizeof(tap_f64) : sizeof(tap_f32));
    if (!job->n || !job->taps)
        return -1;
    hod__parallel(job->boxes, hod__grain(bins * USUAL_TAPS), f64 ? find_boxes_f64 : find_boxes_f32,
                  job);
    return 0;
}

static void run(roi_job *job, bool f64, bool back)
{
    int64_t plane = job->a->size[0] * job->a->size[1] * USUAL_TAPS; /* of one box and channel */
    if (back)
        hod__parallel(job->channels, hod__grain(plane * job->boxes),
                      f64 ? add_channels_f64 : add_channels_f32, job);
    else
        hod__parallel(job->boxes * job->channels, hod__grain(plane),
                      f64 ? read_planes_f64 : read_planes_f32, job);
}

static int eval(const hod_op_call *c, hod_tensor *out, bool back)
{
    hod_tensor *in[2];
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0 && back)
        rc = hod__eval_zero(out);
    if (rc == 0 && hod_tensor_numel(in[0]) > 0 && hod_tensor_numel(out) > 0) {
        const hod_tensor *image = back ? out : in[0];
        bool f64 = out->dtype == HOD_F64;
        roi_job job = {.a = &c->attrs->roi,
                       .images = image->shape[0],
                       .channels = image->shape[1],
                       .h = image->shape[2],
                       .w = image->shape[3],
                       .boxes = in[1]->shape[0],
                       .box = hod__data(in[1]),
                       .from = hod__data(in[0]),
                       .to = hod__data(out)};
        rc = find(&job, f64);
        if (rc == 0)
            run(&job, f64, back);
        free(job.taps);
        free(job.n);
        free(job.begin);
    }
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_roi_align(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false);
}

int hod__eval_roi_align_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, true);
}

/* ---- derivatives ---- */

/* Linear in the image; boxes that want a gradient do not come here. */
hod_tensor *hod__vjp_roi_align(const hod_vjp *v, int i)
{
    if (i == 1)
        return HOD_NO_GRADIENT;
    hod_attrs a = *v->attrs;
    a.roi.shape = hod_shape_of(4, v->meta[0].shape);
    return hod__op(HOD_OP_roi_align_back, &a, 2, (hod_tensor *[]){v->g, v->x[1]});
}

hod_tensor *hod__vjp_roi_align_back(const hod_vjp *v, int i)
{
    if (i == 1)
        return HOD_NO_GRADIENT;
    hod_attrs a = *v->attrs;
    a.roi.shape = (hod_shape){0};
    return hod__op(HOD_OP_roi_align, &a, 2, (hod_tensor *[]){v->g, v->x[1]});
}

/* ---- front ---- */

hod_tensor *hod_roi_align_with(hod_tensor *x, hod_tensor *boxes, hod_roi_align_options o)
{
    if (hod__null("roi_align", "x", x) || hod__null("roi_align", "boxes", boxes))
        return NULL;
    if (x->ndim != 4 || boxes->ndim != 2 || boxes->shape[1] != 5)
        return HOD_FAIL(ARGUMENT, "roi_align: %s in boxes %s, wanted (N,C,H,W) in (K,5)",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(boxes));
    if (!hod__is_float(x->dtype) || !hod__is_float(boxes->dtype))
        return HOD_FAIL(ARGUMENT, "roi_align: not defined for %s in boxes of %s",
                        hod_dtype_name((hod_dtype)x->dtype),
                        hod_dtype_name((hod_dtype)boxes->dtype));
    for (int i = 0; i < 2; i++)
        if (o.size[i] < 1 || o.size[i] > INT32_MAX || o.sampling < 0 || o.sampling > INT32_MAX ||
            x->shape[2 + i] < 1)
            return HOD_FAIL(ARGUMENT,
                            "roi_align: %lld elements to .size %lld with .sampling %lld, wanted 1 "
                            "or more (of samples 0, too)",
                            (long long)x->shape[2 + i], (long long)o.size[i],
                            (long long)o.sampling);
    if (!hod__countable(x->shape[0], x->shape[2], x->shape[3]))
        return HOD_FAIL(ARGUMENT, "roi_align: more places than 64 bits count");
    if (x->shape[0] < 1 && boxes->shape[0] > 0)
        return HOD_FAIL(ARGUMENT, "roi_align: boxes %s of no image", HOD_SHAPE_TEXT(boxes));
    hod_dtype t = hod__promote(x, boxes);
    hod_tensor *c = hod__computed(hod__cast_to(x, t)), *b = hod__computed(hod__cast_to(boxes, t));
    HOD_ATTRS(a);
    a.roi.size[0] = o.size[0];
    a.roi.size[1] = o.size[1];
    a.roi.sampling = o.sampling;
    a.roi.scale = o.scale == 0 ? 1 : o.scale;
    a.roi.aligned = o.aligned;
    bool slope = boxes->requires_grad && hod__tape_listens();
    hod_tensor *y = slope && c && b ? hod__roi_align_composed(c, b, &a.roi)
                                    : hod__op(HOD_OP_roi_align, &a, 2, (hod_tensor *[]){c, b});
    return y ? hod__cast_to(y, t) : NULL;
}
