/* The kernels of normalisation for one `real` (norm_rows.c says over what): rows_tmpl.c includes it
 * for f32 and f64. Sums are of f64, in an order that depends on sizes alone. */

/* Adds up two expressions over n elements. */
#define ADD_UP2(sum, value, sum2, value2)                                                          \
    {                                                                                              \
        wide all_ = 0, all2_ = 0;                                                                  \
        PRAGMA(omp simd reduction(+ : all_, all2_))                                                \
        for (int64_t e = 0; e < n; e++) {                                                          \
            all_ += (wide)(value);                                                                 \
            all2_ += (wide)(value2);                                                               \
        }                                                                                          \
        sum += all_;                                                                               \
        sum2 += all2_;                                                                             \
    }
#define PRAGMA(text) _Pragma(#text)

/* One pass finds a mean and a deviation from sums of d = x - x0 and of d d, in f64. What cancels in
 * their difference is harmless when x0 is the set's first element: of n elements none is further
 * from their mean than sqrt(n) deviations. */

/* Adds n elements of x to the two sums. */
static void T(add_moments)(int64_t n, const real *restrict x, real x0, wide *sum, wide *square)
{
    wide sd = 0, sdd = 0;
    PRAGMA(omp simd reduction(+ : sd, sdd))
    for (int64_t e = 0; e < n; e++) {
        const wide d = (wide)x[e] - (wide)x0;
        sd += d;
        sdd = D_MA(d, d, sdd);
    }
    *sum += sd;
    *square += sdd;
}

/* The mean as it will be rounded, and 1 / sqrt(variance + eps) around that. */
static void T(finish_moments)(const hod_attrs_norm *a, real x0, wide sum, wide square, real *mean,
                              real *scale)
{
    const wide count = (wide)(a->n * a->pieces);
    *mean = a->centred ? (real)((wide)x0 + sum / count) : 0;
    const wide q = (wide)*mean - (wide)x0, var = square / count - q * (2 * (sum / count) - q);
    *scale = r_rsqrt((real)(var < 0 ? 0 : var) + (real)a->eps);
}

/* Of set s: its mean (0 where nothing is centred) and 1 / sqrt(variance + eps). */
static void T(moments)(const hod_norm_call *c, int64_t s, real *mean, real *scale)
{
    const hod_attrs_norm *a = c->attrs;
    const int64_t n = a->n;
    if (a->given) {
        *mean = ((const real *)c->mean)[s % a->groups];
        *scale = r_rsqrt(((const real *)c->var)[s % a->groups] + (real)a->eps);
        return;
    }
    const real *x = (const real *)c->x + s * n, x0 = a->centred ? x[0] : 0;
    wide sum = 0, square = 0;
    for (int64_t p = 0; p < a->pieces; p++)
        T(add_moments)(n, x + p * a->sets * n, x0, &sum, &square);
    T(finish_moments)(a, x0, sum, square, mean, scale);
}

static void T(norm)(const hod_norm_call *c, int64_t s)
{
    const hod_attrs_norm *a = c->attrs;
    const int64_t n = a->n, runs = n / a->run, first = s % a->groups * runs;
    const real *w = c->w ? (const real *)c->w + first : NULL;
    const real *b = c->b ? (const real *)c->b + first : NULL;
    real mean, scale;
    T(moments)(c, s, &mean, &scale);
    for (int64_t p = 0; p < a->pieces; p++) {
        int64_t at = (p * a->sets + s) * n;
        const real *restrict x = (const real *)c->x + at;
        real *restrict y = (real *)c->y + at;
        if (!w)
            for (int64_t e = 0; e < n; e++)
                y[e] = (x[e] - mean) * scale;
        else if (a->run == 1 && b)
            for (int64_t e = 0; e < n; e++)
                y[e] = (x[e] - mean) * scale * w[e] + b[e];
        else if (a->run == 1)
            for (int64_t e = 0; e < n; e++)
                y[e] = (x[e] - mean) * scale * w[e];
        else
            for (int64_t r = 0; r < runs; r++) {
                const real wr = w[r], br = b ? b[r] : 0;
                for (int64_t e = r * a->run; e < (r + 1) * a->run; e++)
                    y[e] = (x[e] - mean) * scale * wr + br;
            }
    }
}

/* Gradients of set s. With h = (x - mean) scale and u = g w,
 *
 *     dx = scale (u - mean(u) - h mean(u h)), without mean(u) where nothing is centred,
 *          and without both where the statistics are given
 *     dw = sum of g h        db = sum of g            over the elements that have the weight
 */
static void T(norm_back)(const hod_norm_call *c, int64_t s, double *dw, double *db)
{
    const hod_attrs_norm *a = c->attrs;
    const int64_t runs = a->n / a->run, first = s % a->groups * runs;
    const real *w = c->w ? (const real *)c->w + first : NULL;
    const wide count = (wide)(a->n * a->pieces);
    real mean, scale;
    wide su = 0, suh = 0;
    T(moments)(c, s, &mean, &scale);
    for (int64_t p = 0; p < a->pieces; p++) {
        int64_t at = (p * a->sets + s) * a->n;
        const real *restrict x = (const real *)c->x + at, *restrict g = (const real *)c->g + at;
        if (a->run == 1 && w) {
            const int64_t n = a->n;
            ADD_UP2(su, g[e] * w[e], suh, g[e] * w[e] * ((x[e] - mean) * scale))
            continue;
        }
        const int64_t n = w ? a->run : a->n;
        for (int64_t r = 0; r < a->n / n; r++, x += n, g += n) {
            wide sg = 0, sgh = 0;
            ADD_UP2(sg, g[e], sgh, g[e] * ((x[e] - mean) * scale))
            su += sg * (w ? (wide)w[r] : 1);
            suh += sgh * (w ? (wide)w[r] : 1);
            if (w) {
                dw[first + r] += sgh;
                db[first + r] += sg;
            }
        }
    }
    const real less = a->centred && !a->given ? (real)(su / count) : 0;
    const real along = a->given ? 0 : (real)(suh / count);
    for (int64_t p = 0; p < a->pieces; p++) {
        int64_t at = (p * a->sets + s) * a->n;
        const real *restrict x = (const real *)c->x + at, *restrict g = (const real *)c->g + at;
        real *restrict dx = (real *)c->y + at;
        if (a->run == 1 && w) {
            double *restrict dwr = dw + first, *restrict dbr = db + first;
            for (int64_t e = 0; e < a->n; e++) {
                const real h = (x[e] - mean) * scale;
                dx[e] = scale * (g[e] * w[e] - less - h * along);
                dwr[e] += (double)(g[e] * h);
                dbr[e] += (double)g[e];
            }
        } else
            for (int64_t r = 0, n = w ? a->run : a->n; r < a->n / n; r++) {
                const real wr = w ? w[r] : 1;
                for (int64_t e = r * n; e < (r + 1) * n; e++)
                    dx[e] = scale * (g[e] * wr - less - (x[e] - mean) * scale * along);
            }
    }
}

/* ---- gradients of rows: layer and rms norm ---- */

/* What norm_back does for a set, for m neighbouring ones that share their weights: everything is
 * summed in one pass, and m rows are added to dw and db at once. */
R_FN void T(back_of_rows)(const hod_norm_call *c, int64_t s, const int m, double *dw, double *db)
{
    const hod_attrs_norm *a = c->attrs;
    const int64_t n = a->n;
    const real *restrict x = (const real *)c->x + s * n, *restrict g = (const real *)c->g + s * n;
    const real *restrict w = c->w;
    real *restrict dx = (real *)c->y + s * n, mean[NORM_ROWS], scale[NORM_ROWS];
    real less[NORM_ROWS], along[NORM_ROWS];
    for (int k = 0; k < m; k++) {
        const real *xk = x + k * n, *gk = g + k * n, x0 = a->centred ? xk[0] : 0;
        wide sd = 0, sdd = 0, su = 0, sud = 0;
        PRAGMA(omp simd reduction(+ : sd, sdd, su, sud))
        for (int64_t e = 0; e < n; e++) {
            const wide d = (wide)xk[e] - (wide)x0, u = (wide)(gk[e] * w[e]);
            sd += d;
            su += u;
            sdd = D_MA(d, d, sdd);
            sud = D_MA(u, d, sud);
        }
        T(finish_moments)(a, x0, sd, sdd, &mean[k], &scale[k]);
        const wide suh = (sud - ((wide)mean[k] - (wide)x0) * su) * (wide)scale[k];
        less[k] = a->centred ? (real)(su / (wide)n) : 0;
        along[k] = (real)(suh / (wide)n);
    }
    PRAGMA(omp simd)
    for (int64_t e = 0; e < n; e++) {
        double dwe = 0, dbe = 0;
        for (int k = 0; k < m; k++) {
            const real ge = g[k * n + e], h = (x[k * n + e] - mean[k]) * scale[k];
            dx[k * n + e] = scale[k] * (ge * w[e] - less[k] - h * along[k]);
            dwe += (double)(ge * h);
            dbe += (double)ge;
        }
        dw[e] += dwe;
        db[e] += dbe;
    }
}

static void T(norm_back_rows)(const hod_norm_call *c, int64_t s, int64_t m, double *dw, double *db)
{
    int64_t k = 0;
    for (; k + NORM_ROWS <= m; k += NORM_ROWS)
        T(back_of_rows)(c, s + k, NORM_ROWS, dw, db);
    for (; k < m; k++)
        T(back_of_rows)(c, s + k, 1, dw, db);
}

/* ---- sets across memory: pieces of one element; m neighbouring sets from s on ---- */

#define ACROSS(sum, value)                                                                         \
    for (int64_t j = 0; j < m; j++)                                                                \
        sum[j] = 0;                                                                                \
    for (int64_t p = 0; p < a->pieces; p++) {                                                      \
        const int64_t at = p * a->sets + s;                                                        \
        for (int64_t j = 0; j < m; j++)                                                            \
            sum[j] += (wide)(value);                                                               \
    }
#define ACROSS2(sum, value, sum2, value2)                                                          \
    for (int64_t j = 0; j < m; j++)                                                                \
        sum[j] = sum2[j] = 0;                                                                      \
    for (int64_t p = 0; p < a->pieces; p++) {                                                      \
        const int64_t at = p * a->sets + s;                                                        \
        for (int64_t j = 0; j < m; j++) {                                                          \
            sum[j] += (wide)(value);                                                               \
            sum2[j] += (wide)(value2);                                                             \
        }                                                                                          \
    }

static void T(moments_across)(const hod_norm_call *c, int64_t s, int64_t m, real *mean, real *scale)
{
    const hod_attrs_norm *a = c->attrs;
    const real *restrict x = c->x;
    wide sum[HOD_LINES_AT_ONCE];
    for (int64_t j = 0; j < m && a->given; j++) {
        mean[j] = ((const real *)c->mean)[s + j];
        scale[j] = r_rsqrt(((const real *)c->var)[s + j] + (real)a->eps);
    }
    if (a->given)
        return;
    ACROSS(sum, x[at + j])
    for (int64_t j = 0; j < m; j++)
        mean[j] = a->centred ? (real)(sum[j] / (wide)a->pieces) : 0;
    ACROSS(sum, (x[at + j] - mean[j]) * (x[at + j] - mean[j]))
    for (int64_t j = 0; j < m; j++)
        scale[j] = r_rsqrt((real)(sum[j] / (wide)a->pieces) + (real)a->eps);
}

static void T(norm_across)(const hod_norm_call *c, int64_t s, int64_t m)
{
    const hod_attrs_norm *a = c->attrs;
    const real *restrict x = c->x;
    real *restrict y = c->y, mean[HOD_LINES_AT_ONCE], scale[HOD_LINES_AT_ONCE];
    real w[HOD_LINES_AT_ONCE], b[HOD_LINES_AT_ONCE];
    T(moments_across)(c, s, m, mean, scale);
    for (int64_t j = 0; j < m; j++) {
        w[j] = c->w ? ((const real *)c->w)[s + j] : 1;
        b[j] = c->b ? ((const real *)c->b)[s + j] : 0;
    }
    for (int64_t p = 0; p < a->pieces; p++) {
        const int64_t at = p * a->sets + s;
        for (int64_t j = 0; j < m; j++)
            y[at + j] = (x[at + j] - mean[j]) * scale[j] * w[j] + b[j];
    }
}

static void T(norm_across_back)(const hod_norm_call *c, int64_t s, int64_t m, double *dw,
                                double *db)
{
    const hod_attrs_norm *a = c->attrs;
    const real *restrict x = c->x, *restrict g = c->g;
    real *restrict dx = c->y, mean[HOD_LINES_AT_ONCE], scale[HOD_LINES_AT_ONCE];
    real w[HOD_LINES_AT_ONCE], less[HOD_LINES_AT_ONCE], along[HOD_LINES_AT_ONCE];
    wide sg[HOD_LINES_AT_ONCE], sgh[HOD_LINES_AT_ONCE];
    T(moments_across)(c, s, m, mean, scale);
    ACROSS2(sg, g[at + j], sgh, g[at + j] * ((x[at + j] - mean[j]) * scale[j]))
    for (int64_t j = 0; j < m; j++) {
        w[j] = c->w ? ((const real *)c->w)[s + j] : 1;
        less[j] = a->centred && !a->given ? w[j] * (real)(sg[j] / (wide)a->pieces) : 0;
        along[j] = a->given ? 0 : w[j] * (real)(sgh[j] / (wide)a->pieces);
    }
    for (int64_t j = 0; j < m && c->w; j++) {
        dw[s + j] += sgh[j];
        db[s + j] += sg[j];
    }
    for (int64_t p = 0; p < a->pieces; p++) {
        const int64_t at = p * a->sets + s;
        for (int64_t j = 0; j < m; j++)
            dx[at + j] = scale[j] *
                         (g[at + j] * w[j] - less[j] - (x[at + j] - mean[j]) * scale[j] * along[j]);
    }
}

#undef ADD_UP2
#undef ACROSS2
#undef PRAGMA
#undef ACROSS
