/* Sampling for one element type; grid_sample.c includes this body for f32 and f64.
 *
 * Where the places of BLOCK points lie is found once and serves many channels. */

/* K corners of each point: 4, or 1 of weight 1. A corner outside the image counts as 0. */
#define spots T(spots)
typedef struct spots {
    int64_t at[4][BLOCK]; /* the corner's element in a plane */
    elem weight[4][BLOCK];
    elem part[2][BLOCK];   /* across, down: beyond the lower corner */
    elem slope[2][BLOCK];  /* d place / d grid */
    uint8_t inside[BLOCK]; /* bit k: corner k lies in the image */
} spots;

/* at, folded at low and high until it lies between. */
static elem T(reflected)(elem at, elem low, elem high, elem *slope)
{
    if (low == high) {
        *slope = 0;
        return at * 0;
    }
    elem span = high - low, away = at - low;
    *slope = away < 0 ? -*slope : away == 0 ? 0 : *slope;
    away = away < 0 ? -away : away;
    elem rest = (elem)fmod(away, span);
    if (fmod(floor(away / span), 2) == 0)
        return rest + low;
    *slope = -*slope;
    return span - rest + low;
}

/* g in [-1, 1] along a side of `size` elements, as a place counted in elements. */
static elem T(place)(const hod_attrs_sample *a, elem g, int64_t size, elem *slope)
{
    elem n = (elem)size, at = g + 1;
    at = a->corners ? at * (elem)0.5 * (n - 1) : (at * n - 1) * (elem)0.5;
    *slope = (a->corners ? n - 1 : n) * (elem)0.5;
    if (a->padding == HOD_SAMPLE_ZEROS)
        return at;
    if (a->padding == HOD_SAMPLE_REFLECTION)
        at = a->corners ? T(reflected)(at, 0, n - 1, slope)
                        : T(reflected)(at, (elem)-0.5, n - (elem)0.5, slope);
    if (at <= 0 || at >= n - 1)
        *slope = 0;
    return at < 0 ? 0 : at > n - 1 ? n - 1 : at;
}

/* Without a call for places that are near. */
static elem T(floored)(elem x)
{
    if (!(x > -1e9f && x < 1e9f))
        return (elem)floor(x);
    elem whole_part = (elem)(int32_t)x;
    return whole_part > x ? whole_part - 1 : whole_part;
}

static void T(set_corner)(const sample_job *job, spots *p, int64_t i, int k, elem y, elem x)
{
    bool inside = y >= 0 && y <= (elem)(job->h - 1) && x >= 0 && x <= (elem)(job->w - 1);
    p->at[k][i] = inside ? (int64_t)y * job->w + (int64_t)x : 0;
    p->inside[i] = (uint8_t)(p->inside[i] | inside << k);
}

/* n points of image `image` from `first` on. */
static void T(set_points)(const sample_job *job, int64_t image, int64_t first, int64_t n, spots *p)
{
    const elem *grid = (const elem *)job->grid + 2 * (image * job->points + first);
    for (int64_t i = 0; i < n; i++) {
        elem x = T(place)(job->a, grid[2 * i], job->w, &p->slope[0][i]);
        elem y = T(place)(job->a, grid[2 * i + 1], job->h, &p->slope[1][i]);
        p->inside[i] = 0;
        if (job->corners == 1) {
            T(set_corner)(job, p, i, 0, (elem)rint(y), (elem)rint(x));
            continue;
        }
        elem low_x = T(floored)(x), low_y = T(floored)(y);
        p->part[0][i] = x - low_x;
        p->part[1][i] = y - low_y;
        for (int k = 0; k < 4; k++) {
            elem wy = k >> 1 ? y - low_y : 1 - (y - low_y),
                 wx = k & 1 ? x - low_x : 1 - (x - low_x);
            p->weight[k][i] = wy * wx;
            T(set_corner)(job, p, i, k, low_y + (elem)(k >> 1), low_x + (elem)(k & 1));
        }
    }
}

static elem T(corner)(const spots *p, int64_t i, int k, const elem *x)
{
    return p->inside[i] >> k & 1 ? x[p->at[k][i]] : 0;
}

static void T(read_nearest)(const spots *p, int64_t n, const elem *x, elem *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        elem v = x[p->at[0][i]];
        y[i] = p->inside[i] ? v : 0;
    }
}

static void T(read_linear)(const spots *p, int64_t n, const elem *x, elem *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        if (p->inside[i] == 15) {
            y[i] = x[p->at[0][i]] * p->weight[0][i] + x[p->at[1][i]] * p->weight[1][i] +
                   x[p->at[2][i]] * p->weight[2][i] + x[p->at[3][i]] * p->weight[3][i];
            continue;
        }
        elem sum = 0; /* a weight of NaN shows outside, too */
        for (int k = 0; k < 4; k++)
            sum += T(corner)(p, i, k, x) * p->weight[k][i];
        y[i] = sum;
    }
}

static void T(add_points)(int corners, const spots *p, int64_t n, const elem *restrict g,
                          elem *restrict dx)
{
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < corners; k++)
            if (p->inside[i] >> k & 1)
                dx[p->at[k][i]] += corners == 1 ? g[i] : g[i] * p->weight[k][i];
}

/* [begin, end): planes of all images: points are read from x, or g is added to x's gradient. */
static void T(sample_planes)(void *context, int64_t begin, int64_t end)
{
    const sample_job *job = context;
    int64_t pixels = job->h * job->w;
    spots p;
    for (int64_t plane = begin, next; plane < end; plane = next) {
        int64_t image = plane / job->channels;
        next = HOD_MIN(end, (image + 1) * job->channels);
        for (int64_t first = 0; first < job->points; first += BLOCK) {
            int64_t n = HOD_MIN(BLOCK, job->points - first);
            T(set_points)(job, image, first, n, &p);
            for (int64_t c = plane; c < next; c++) {
                int64_t y = c * job->points + first, x = c * pixels;
                if (job->back)
                    T(add_points)(job->corners, &p, n, (elem *)job->g + y, (elem *)job->to + x);
                else if (job->corners == 1)
                    T(read_nearest)(&p, n, (elem *)job->x + x, (elem *)job->to + y);
                else
                    T(read_linear)(&p, n, (elem *)job->x + x, (elem *)job->to + y);
            }
        }
    }
}

/* What a step of the places of n points changes, over all channels of an image. */
static void T(slope_points)(const sample_job *job, const spots *p, int64_t image, int64_t first,
                            int64_t n)
{
    elem sum[2][BLOCK] = {0}, *to = (elem *)job->to + 2 * (image * job->points + first);
    for (int64_t c = image * job->channels; c < (image + 1) * job->channels; c++) {
        const elem *x = (const elem *)job->x + c * job->h * job->w;
        const elem *g = (const elem *)job->g + c * job->points + first;
        for (int64_t i = 0; i < n; i++) {
            elem v[4], px = p->part[0][i], py = p->part[1][i];
            for (int k = 0; k < 4; k++)
                v[k] = T(corner)(p, i, k, x);
            sum[0][i] += g[i] * ((v[1] - v[0]) * (1 - py) + (v[3] - v[2]) * py);
            sum[1][i] += g[i] * ((v[2] - v[0]) * (1 - px) + (v[3] - v[1]) * px);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        to[2 * i] = sum[0][i] * p->slope[0][i];
        to[2 * i + 1] = sum[1][i] * p->slope[1][i];
    }
}

/* [begin, end): blocks of points of all images. */
static void T(slope_blocks)(void *context, int64_t begin, int64_t end)
{
    const sample_job *job = context;
    int64_t blocks = (job->points + BLOCK - 1) / BLOCK;
    spots p;
    for (int64_t b = begin; b < end; b++) {
        int64_t image = b / blocks, first = b % blocks * BLOCK;
        int64_t n = HOD_MIN(BLOCK, job->points - first);
        T(set_points)(job, image, first, n, &p);
        T(slope_points)(job, &p, image, first, n);
    }
}

#undef spots
