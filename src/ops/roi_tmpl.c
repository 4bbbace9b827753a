/* Boxes for one element type; roi_align.c includes this body for f32 and f64.
 *
 * A bin takes a share of some elements along a side: its taps, in the order in which its samples
 * meet them. Those of all bins of all boxes are found first. */

#define tap        T(tap)
#define image_of   T(image_of)
#define box_of     T(box_of)
#define read_plane T(read_plane)
#define add_plane  T(add_plane)
typedef struct tap {
    int64_t at;
    elem share;
} tap;

/* Side 0, the rows, or 1, the columns, of a box. */
#define roi_side T(roi_side)
typedef struct roi_side {
    elem first, bin; /* where it begins, and what a bin spans, in elements */
    elem number;     /* samples of a bin; NaN or beyond 32 bits where the box says so */
    elem divisor;    /* the same, at least 1 */
} roi_side;

static roi_side T(side_of)(const roi_job *job, int64_t k, int side)
{
    const hod_attrs_roi *a = job->a;
    const elem *box = (const elem *)job->box + 5 * k + 1; /* x1 y1 x2 y2 */
    const elem scale = (elem)a->scale, half = a->aligned ? (elem)0.5 : 0;
    roi_side s = {.first = box[1 - side] * scale - half};
    elem length = box[3 - side] * scale - half - s.first;
    length = !a->aligned && length < 1 ? 1 : length;
    s.bin = length / (elem)a->size[side];
    s.number = a->sampling > 0 ? (elem)a->sampling : (elem)ceil(s.bin);
    s.divisor = s.number > 1 ? s.number : 1;
    return s;
}

static int64_t image_of(const roi_job *job, int64_t k)
{
    return (int64_t)((const elem *)job->box)[5 * k];
}

/* The most taps that a bin can have. */
static int64_t T(most_taps)(const roi_job *job, const roi_side *s, int side)
{
    return s->number > 0 ? 2 * HOD_MIN((int64_t)s->number, side ? job->w : job->h) : 0;
}

/* Counts the taps of all boxes; refuses boxes that there cannot be. */
static int T(count_taps)(const roi_job *job)
{
    for (int64_t k = 0; k < job->boxes; k++) {
        if (hod__roi_image((double)((const elem *)job->box)[5 * k], k, job->images) != 0)
            return -1;
        job->begin[k + 1] = job->begin[k];
        for (int side = 0; side < 2; side++) {
            roi_side s = T(side_of)(job, k, side);
            if (!(s.number <= (elem)INT32_MAX))
                return HOD_FAIL_RC(ARGUMENT, "roi_align: %g samples in a bin", (double)s.number);
            job->begin[k + 1] += job->a->size[side] * T(most_taps)(job, &s, side);
        }
    }
    return 0;
}

/* Another share of an element, which one of the last two taps may have already. */
static int32_t T(add_tap)(tap *taps, int32_t n, int64_t at, elem share)
{
    for (int32_t i = n - 1; i >= 0 && i >= n - 2; i--)
        if (taps[i].at == at) {
            taps[i].share += share;
            return n;
        }
    taps[n] = (tap){at, share};
    return n + 1;
}

/* The taps of bin i along a side of `size` elements. */
static int32_t T(find_taps)(const roi_side *s, int64_t size, int64_t i, tap *taps)
{
    int32_t n = 0;
    const elem step = s->bin / s->divisor, last = (elem)(size - 1);
    for (int64_t j = 0; (elem)j < s->number; j++) {
        elem at = s->first + (elem)i * s->bin + ((elem)j + (elem)0.5) * step;
        if (!(at >= -1 && at <= (elem)size))
            continue;
        at = at > 0 ? at : 0;
        elem low = (elem)floor(at);
        low = low < last ? low : last;
        elem part = low < last ? at - low : 0;
        n = T(add_tap)(taps, n, (int64_t)low, 1 - part);
        n = T(add_tap)(taps, n, HOD_MIN((int64_t)low + 1, size - 1), part);
    }
    return n;
}

/* [begin, end): boxes. */
static void T(find_boxes)(void *context, int64_t begin, int64_t end)
{
    const roi_job *job = context;
    for (int64_t k = begin; k < end; k++) {
        tap *taps = (tap *)job->taps + job->begin[k];
        int32_t *n = job->n + k * (job->a->size[0] + job->a->size[1]);
        for (int side = 0; side < 2; side++) {
            roi_side s = T(side_of)(job, k, side);
            int64_t most = T(most_taps)(job, &s, side);
            for (int64_t i = 0; i < job->a->size[side]; i++, taps += most)
                *n++ = T(find_taps)(&s, side ? job->w : job->h, i, taps);
        }
    }
}

/* What finds the taps of one box again. */
#define roi_box T(roi_box)
typedef struct roi_box {
    const tap *rows, *columns;       /* of the first bins */
    int64_t most_rows, most_columns; /* from bin to bin */
    const int32_t *n_rows, *n_columns;
    elem samples; /* of a bin, at least 1 */
} roi_box;

static roi_box box_of(const roi_job *job, int64_t k)
{
    roi_side y = T(side_of)(job, k, 0), x = T(side_of)(job, k, 1);
    roi_box b = {.rows = (const tap *)job->taps + job->begin[k],
                 .most_rows = T(most_taps)(job, &y, 0),
                 .most_columns = T(most_taps)(job, &x, 1),
                 .n_rows = job->n + k * (job->a->size[0] + job->a->size[1])};
    b.columns = b.rows + job->a->size[0] * b.most_rows;
    b.n_columns = b.n_rows + job->a->size[0];
    b.samples = y.divisor * x.divisor;
    return b;
}

/* One channel of one box: y (bins) of the image's plane x. */
static void read_plane(const roi_job *job, const roi_box *b, const elem *x, elem *y)
{
    for (int64_t i = 0; i < job->a->size[0]; i++)
        for (int64_t j = 0; j < job->a->size[1]; j++) {
            const tap *rows = b->rows + i * b->most_rows,
                      *columns = b->columns + j * b->most_columns;
            wide sum = 0;
            for (int32_t r = 0; r < b->n_rows[i]; r++) {
                const elem *line = x + rows[r].at * job->w;
                elem part = 0;
                for (int32_t c = 0; c < b->n_columns[j]; c++)
                    part += line[columns[c].at] * columns[c].share;
                sum += part * rows[r].share;
            }
            *y++ = (elem)sum / b->samples;
        }
}

/* Its transpose: g (bins) added to the plane. */
static void add_plane(const roi_job *job, const roi_box *b, const elem *g, elem *x)
{
    for (int64_t i = 0; i < job->a->size[0]; i++)
        for (int64_t j = 0; j < job->a->size[1]; j++) {
            const tap *rows = b->rows + i * b->most_rows,
                      *columns = b->columns + j * b->most_columns;
            const elem share = *g++ / b->samples;
            for (int32_t r = 0; r < b->n_rows[i]; r++) {
                elem *line = x + rows[r].at * job->w, of_row = share * rows[r].share;
                for (int32_t c = 0; c < b->n_columns[j]; c++)
                    line[columns[c].at] += of_row * columns[c].share;
            }
        }
}

/* [begin, end): channels of boxes. */
static void T(read_planes)(void *context, int64_t begin, int64_t end)
{
    const roi_job *job = context;
    const int64_t bins = job->a->size[0] * job->a->size[1], pixels = job->h * job->w;
    for (int64_t p = begin; p < end;) {
        int64_t k = p / job->channels, next = HOD_MIN(end, (k + 1) * job->channels);
        const elem *image = (const elem *)job->from + image_of(job, k) * job->channels * pixels;
        roi_box b = box_of(job, k);
        for (; p < next; p++)
            read_plane(job, &b, image + p % job->channels * pixels, (elem *)job->to + p * bins);
    }
}

/* [begin, end): channels, for whose planes the boxes come in order. */
static void T(add_channels)(void *context, int64_t begin, int64_t end)
{
    const roi_job *job = context;
    const int64_t bins = job->a->size[0] * job->a->size[1], pixels = job->h * job->w;
    for (int64_t c = begin; c < end; c++)
        for (int64_t k = 0; k < job->boxes; k++) {
            roi_box b = box_of(job, k);
            int64_t plane = image_of(job, k) * job->channels + c;
            add_plane(job, &b, (const elem *)job->from + (k * job->channels + c) * bins,
                      (elem *)job->to + plane * pixels);
        }
}

#undef tap
#undef image_of
#undef box_of
#undef read_plane
#undef add_plane
#undef roi_side
#undef roi_box
