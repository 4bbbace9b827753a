/* Non-maximum suppression for one element type; found.c includes this body once for each. */

/* keep[i] becomes 1 where box i overlaps no kept box before it by more than the threshold. A union
 * of 0 gives NaN, which is not more than anything. */
static void T(suppress)(const void *boxes, int64_t n, double threshold, uint8_t *keep)
{
    const elem *box = boxes;
    memset(keep, 1, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        if (!keep[i])
            continue;
        const elem *a = box + 4 * i;
        elem area = (a[2] - a[0]) * (a[3] - a[1]);
        for (int64_t j = i + 1; j < n; j++) {
            const elem *b = box + 4 * j;
            elem w = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);
            elem h = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);
            elem both = w > 0 && h > 0 ? w * h : 0;
            elem all = area + (b[2] - b[0]) * (b[3] - b[1]) - both;
            if (both / all > (elem)threshold)
                keep[j] = 0;
        }
    }
}
