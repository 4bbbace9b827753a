/* Between a dataset and a batch: window, mirror, f32, normalisation, in one pass over the input.
 *
 *     padded    . . . . .      the window's corner (dy, dx) is drawn from 0..2*crop, so output
 *               . x x x .      row r is input row r + dy - crop, or black where there is none
 *               . x x x .
 *               . . . . .
 *
 * Padding is black before normalisation, as a camera would see it. The three draws are always
 * taken, so that turning one augmentation off leaves the others as they were.
 */
#include "data/data.h"

int hod__transform_prepare(hod_transform *t, const hod_dataset *d, const hod_loader_spec *spec)
{
    hod_shape s = d->spec.shape;
    *t = (hod_transform){.dtype = d->spec.dtype,
                         .numel = d->input_numel,
                         .planes = 1,
                         .rows = 1,
                         .columns = d->input_numel,
                         .planes_a_channel = 1,
                         .crop = spec->crop,
                         .flip = spec->flip};
    if (s.n >= 2) {
        t->columns = s.d[s.n - 1];
        t->rows = s.d[s.n - 2];
        t->planes = t->numel / (t->rows * t->columns);
    }
    for (int c = 0; c < HOD_MAX_CHANNELS; c++)
        t->shifts |= spec->std[c] != 0;
    int64_t channels = s.n > 2 ? s.d[0] : 1;
    if (spec->crop < 0)
        return HOD_FAIL_RC(ARGUMENT, "loader: crop %d", spec->crop);
    if ((spec->crop || spec->flip) && s.n < 2)
        return HOD_FAIL_RC(ARGUMENT,
                           "loader: crop and flip need images, %s has inputs of %d "
                           "dimensions",
                           d->name, s.n);
    if ((spec->crop || spec->flip || t->shifts) && d->spec.dtype == HOD_I64)
        return HOD_FAIL_RC(ARGUMENT, "loader: %s has i64 inputs, which are served as they are",
                           d->name);
    if (t->shifts && channels > HOD_MAX_CHANNELS)
        return HOD_FAIL_RC(ARGUMENT, "loader: mean and std for %lld channels, at most %d",
                           (long long)channels, HOD_MAX_CHANNELS);
    t->planes_a_channel = HOD_MAX(t->planes / channels, 1);
    memcpy(t->mean, spec->mean, sizeof t->mean);
    memcpy(t->std, spec->std, sizeof t->std);
    for (int c = 0; c < HOD_MAX_CHANNELS; c++)
        for (int b = 0; b < 256; b++) {
            float x = (float)b / 255.0f;
            t->bytes[c][b] = t->std[c] != 0 ? (x - t->mean[c]) / t->std[c] : x;
        }
    return 0;
}

/* Output columns that have an input column: [*from, *to), input column = output + shift. */
static void columns_inside(int64_t n, int64_t shift, int64_t *from, int64_t *to)
{
    *from = HOD_MAX(-shift, 0);
    *to = HOD_MIN(n - shift, n);
    if (*to < *from)
        *to = *from = n;
}

static void row_of_bytes(const float *table, const uint8_t *in, float *out, int64_t n,
                         int64_t shift, bool mirror)
{
    int64_t from = 0, to = 0;
    if (in)
        columns_inside(n, shift, &from, &to);
    for (int64_t i = 0; i < from; i++)
        out[mirror ? n - 1 - i : i] = table[0];
    for (int64_t i = to; i < n; i++)
        out[mirror ? n - 1 - i : i] = table[0];
    if (mirror)
        for (int64_t i = from; i < to; i++)
            out[n - 1 - i] = table[in[i + shift]];
    else
        for (int64_t i = from; i < to; i++)
            out[i] = table[in[i + shift]];
}

static void row_of_floats(float mean, float std, const float *in, float *out, int64_t n,
                          int64_t shift, bool mirror)
{
    int64_t from = 0, to = 0;
    if (in)
        columns_inside(n, shift, &from, &to);
    for (int64_t i = 0; i < n; i++) {
        float x = i >= from && i < to ? in[i + shift] : 0;
        out[mirror ? n - 1 - i : i] = std != 0 ? (x - mean) / std : x;
    }
}

void hod__transform_apply(const hod_transform *t, const void *raw, void *out, hod_draws *draws)
{
    if (t->dtype == HOD_I64) {
        memcpy(out, raw, (size_t)t->numel * sizeof(int64_t));
        return;
    }
    int64_t dy = hod_draw_below(draws, 2 * t->crop + 1) - t->crop;
    int64_t dx = hod_draw_below(draws, 2 * t->crop + 1) - t->crop;
    bool mirror = (hod_draw_bits(draws) & 1) && t->flip;
    float *y = out;
    for (int64_t p = 0; p < t->planes; p++) {
        int64_t c = t->shifts ? p / t->planes_a_channel : 0;
        for (int64_t r = 0; r < t->rows; r++, y += t->columns) {
            int64_t from = r + dy;
            bool inside = from >= 0 && from < t->rows;
            int64_t at = (p * t->rows + from) * t->columns;
            if (t->dtype == HOD_U8)
                row_of_bytes(t->bytes[c], inside ? (const uint8_t *)raw + at : NULL, y, t->columns,
                             dx, mirror);
            else
                row_of_floats(t->mean[c], t->std[c], inside ? (const float *)raw + at : NULL, y,
                              t->columns, dx, mirror);
        }
    }
}
