/* Interpolation and sampling of images. */
#include "golden.h"
#include <math.h>
#include <string.h>

static int interpolate(gold *c, hod_interpolation mode)
{
    hod_interpolate_options o = {.mode = mode, .align_corners = FLAG(align_corners, false)};
    if (HAS(size))
        gold_ints(c, "size", 2, o.size, 0);
    json_t *scale = gold_json(c, "scale_factor");
    for (int i = 0; i < 2 && HAS(scale_factor); i++)
        o.scale[i] =
            json_number_value(json_is_array(scale) ? json_array_get(scale, (size_t)i) : scale);
    for (int i = 0; i < 2 && FLAG(recompute_scale_factor, false); i++) {
        double side =
            i + 2 < hod_tensor_ndim(T(input)) ? (double)hod_tensor_size(T(input), i + 2) : 0;
        o.size[i] = (int64_t)floor(side * o.scale[i]); /* the size's own scale */
        o.scale[i] = 0;
    }
    if (hod_tensor_ndim(T(input)) == 5)
        return gold_skip(c, "volumes");
    return gold_one(c, hod_interpolate_with(T(input), o));
}

static int bind_nearest(gold *c)
{
    return interpolate(c, HOD_NEAREST);
}

static int bind_nearest_exact(gold *c)
{
    return interpolate(c, HOD_NEAREST_EXACT);
}

static int bind_linear(gold *c)
{
    return interpolate(c, HOD_LINEAR);
}

static int bind_grid_sample(gold *c)
{
    const char *mode = TEXT(mode, "bilinear"), *padding = TEXT(padding_mode, "zeros");
    if (strcmp(mode, "bicubic") == 0 || hod_tensor_ndim(T(input)) == 5)
        return gold_skip(c, "bicubic, volumes");
    return gold_one(c, hod_grid_sample(T(input), T(grid),
                                       .mode = strcmp(mode, "nearest") == 0 ? HOD_SAMPLE_NEAREST
                                                                            : HOD_SAMPLE_LINEAR,
                                       .padding = strcmp(padding, "zeros") == 0 ? HOD_SAMPLE_ZEROS
                                                  : strcmp(padding, "border") == 0
                                                      ? HOD_SAMPLE_BORDER
                                                      : HOD_SAMPLE_REFLECTION,
                                       .align_corners = FLAG(align_corners, false)));
}

static int bind_roi_align(gold *c)
{
    hod_roi_align_options o = {.scale = REAL(spatial_scale, 1),
                               .sampling = INT(sampling_ratio, 0),
                               .aligned = FLAG(aligned, false)};
    gold_ints(c, "output_size", 2, o.size, 1);
    return gold_one(c, hod_roi_align_with(T(input), T(boxes), o));
}

static const gold_binding rows[] = {
    ROW("interpolate.nearest", bind_nearest), ROW("interpolate.nearest-exact", bind_nearest_exact),
    ROW("interpolate.linear", bind_linear),   ROW("interpolate.bilinear", bind_linear),
    ROW("grid_sample", bind_grid_sample),     ROW("roi_align", bind_roi_align),
};
GOLD_FAMILY(resample, 184, 170)
