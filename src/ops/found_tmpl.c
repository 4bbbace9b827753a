/* Non-maximum suppression for one element type; found.c includes this body once for each. */

/* keep[i] becomes 1 where box i overlaps no kept box before it by more than the threshold. A union
 * of 0 gives NaN, which is not more than anything. Boxes are turned into lines of coordinates,
 * which are compared with one box several at once. -1 with an error. */
static int T(suppress)(const void *boxes, int64_t n, double threshold, uint8_t *keep)
{
    elem *lines = hod__alloc((size_t)n, 5 * sizeof *lines);
    whole *gone = hod__alloc((size_t)n, sizeof *gone);
    if (!lines || !gone) {
        free(gone);
        free(lines);
        return -1;
    }
    elem *x1 = lines, *y1 = x1 + n, *x2 = y1 + n, *y2 = x2 + n, *area = y2 + n;
    for (int64_t i = 0; i < n; i++) {
        const elem *b = (const elem *)boxes + 4 * i;
        x1[i] = b[0];
        y1[i] = b[1];
        x2[i] = b[2];
        y2[i] = b[3];
        area[i] = (b[2] - b[0]) * (b[3] - b[1]);
    }
    for (int64_t i = 0; i < n; i++) {
        keep[i] = !gone[i];
        if (gone[i])
            continue;
        elem ax1 = x1[i], ay1 = y1[i], ax2 = x2[i], ay2 = y2[i], aa = area[i];
        for (int64_t j = i + 1; j < n; j++) {
            elem w = (ax2 < x2[j] ? ax2 : x2[j]) - (ax1 > x1[j] ? ax1 : x1[j]);
            elem h = (ay2 < y2[j] ? ay2 : y2[j]) - (ay1 > y1[j] ? ay1 : y1[j]);
            elem both = (int)(w > 0) & (int)(h > 0) ? w * h : 0;
            gone[j] |= both / (aa + area[j] - both) > (elem)threshold;
        }
    }
    free(gone);
    free(lines);
    return 0;
}
