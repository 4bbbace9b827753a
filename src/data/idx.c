/* IDX: the format of MNIST and its relatives, yann.lecun.com's "THE IDX FILE FORMAT".
 *
 *     offset  bytes   content
 *     0       2       zero
 *     2       1       type of an element, 8: unsigned byte
 *     3       1       number of dimensions, D
 *     4       4*D     sizes, big endian
 *     4+4*D   product of the sizes, row-major
 *
 * The header is a claim. For a plain file it is compared with the file's size; for a gzip file
 * deflate cannot shrink below 1/1032, so a larger claim is refused, and the buffer grows with what
 * really arrives. Nothing larger than the truth is ever allocated. zlib reads both kinds and
 * checks the CRC when it comes to the end, so the end is always reached.
 */
#include "data/idx.h"

#include "data/data.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static const int64_t deflate_ratio = 1032; /* zlib's documented bound */
static const int64_t first_buffer = 1 << 20;

typedef struct source {
    gzFile file;
    const char *path;
    int64_t stored; /* bytes of the file itself */
    char claim[96]; /* "header says 60000 x 28 x 28" */
} source;

/* Up to n bytes; fewer at the end of the file, -1 with an error. */
static int64_t pull(source *s, void *to, int64_t n)
{
    int64_t done = 0;
    while (done < n) {
        unsigned want = (unsigned)HOD_MIN(n - done, 1 << 20);
        int got = gzread(s->file, (char *)to + done, want);
        int code = Z_OK;
        const char *text = got < (int)want ? gzerror(s->file, &code) : "";
        if (code == Z_BUF_ERROR)
            return HOD_FAIL_RC(FORMAT, "%s: the gzip file is cut off after %lld bytes", s->path,
                               (long long)s->stored);
        if (code == Z_ERRNO)
            return HOD_FAIL_RC(IO, "%s: read error", s->path);
        if (got < 0 || code != Z_OK)
            return HOD_FAIL_RC(FORMAT, "damaged gzip file: %s", text); /* zlib names the file */
        if (got == 0)
            break;
        done += got;
    }
    return done;
}

static int64_t big_endian(const uint8_t *b)
{
    return (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
}

static int read_magic(source *s, int dims)
{
    uint8_t m[4];
    int64_t n = pull(s, m, 4);
    if (n < 0)
        return -1;
    if (n < 4)
        return HOD_FAIL_RC(FORMAT, "%s: not an IDX file: it holds %lld bytes", s->path,
                           (long long)n);
    if (m[0] || m[1] || m[2] != 8 || m[3] != dims)
        return HOD_FAIL_RC(FORMAT,
                           "%s: not an IDX file of bytes in %d dimensions: it begins with "
                           "%02x%02x%02x%02x, not 000008%02x",
                           s->path, dims, m[0], m[1], m[2], m[3], dims);
    return 0;
}

/* Writes "header says 60000 x 28 x 28" into s->claim. */
static void note_claim(source *s, int dims, const hod_idx *x)
{
    int used = snprintf(s->claim, sizeof s->claim, "header says %lld", (long long)x->size[0]);
    for (int i = 1; i < dims; i++)
        used += snprintf(s->claim + used, sizeof s->claim - (size_t)used, " x %lld",
                         (long long)x->size[i]);
}

/* Reads the sizes and holds them against the bytes there are. */
static int read_sizes(source *s, int dims, hod_idx *out)
{
    uint8_t raw[4 * HOD_IDX_DIMS];
    int64_t n = pull(s, raw, 4 * dims);
    if (n < 4 * dims)
        return n < 0 ? -1 : HOD_FAIL_RC(FORMAT, "%s: the file ends within its header", s->path);
    for (int i = 0; i < HOD_IDX_DIMS; i++)
        out->size[i] = i < dims ? big_endian(raw + 4 * i) : 1;
    note_claim(s, dims, out);
    out->bytes = 1;
    for (int i = 0; i < dims; i++)
        if (out->size[i] == 0 || !hod__mul_size(out->bytes, out->size[i], &out->bytes))
            return HOD_FAIL_RC(FORMAT, "%s: %s", s->path, s->claim);
    int64_t room = HOD_MAX(s->stored - 4 - 4 * dims, 0);
    if (gzdirect(s->file) && out->bytes != room)
        return HOD_FAIL_RC(FORMAT, "%s: %s = %lld bytes, the file holds %lld", s->path, s->claim,
                           (long long)out->bytes, (long long)room);
    if (out->bytes / deflate_ratio > s->stored)
        return HOD_FAIL_RC(FORMAT, "%s: %s = %lld bytes, more than %lld gzip bytes can hold",
                           s->path, s->claim, (long long)out->bytes, (long long)s->stored);
    return 0;
}

/* Reads the elements into a buffer that grows with them, and the end of the file. */
static int read_data(source *s, hod_idx *out)
{
    int64_t have = 0, cap = 0;
    while (have < out->bytes) {
        if (have == cap) {
            cap = HOD_MIN(out->bytes, cap ? 2 * cap : first_buffer);
            uint8_t *grown = hod__grow(out->data, (size_t)cap, 1);
            if (!grown)
                return -1;
            out->data = grown;
        }
        int64_t n = pull(s, out->data + have, cap - have);
        if (n < 0)
            return -1;
        if (n == 0)
            return HOD_FAIL_RC(FORMAT, "%s: %s = %lld bytes, the file holds %lld", s->path,
                               s->claim, (long long)out->bytes, (long long)have);
        have += n;
    }
    uint8_t more;
    int64_t n = pull(s, &more, 1);
    if (n > 0)
        return HOD_FAIL_RC(FORMAT, "%s: %s = %lld bytes, the file holds more", s->path, s->claim,
                           (long long)out->bytes);
    return n < 0 ? -1 : 0;
}

int hod__idx_read(const char *path, int dims, hod_idx *out)
{
    *out = (hod_idx){0};
    struct stat st;
    source s = {.path = path};
    if (stat(path, &st) || !(s.file = gzopen(path, "rb")))
        return HOD_FAIL_RC(IO, "%s: %s", path, strerror(errno));
    s.stored = st.st_size;
    gzbuffer(s.file, 1 << 17);
    int rc = read_magic(&s, dims) || read_sizes(&s, dims, out) || read_data(&s, out) ? -1 : 0;
    gzclose_r(s.file);
    if (rc) {
        free(out->data);
        *out = (hod_idx){0};
    }
    return rc;
}

/* ---- the dataset ---- */

typedef struct images {
    hod_idx pixels, labels;
} images;

static int images_item(void *job, int64_t index, hod_draws *draws, void *input, void *target)
{
    (void)draws;
    const images *m = job;
    int64_t area = m->pixels.size[1] * m->pixels.size[2], label = m->labels.data[index];
    memcpy(input, m->pixels.data + index * area, (size_t)area);
    memcpy(target, &label, sizeof label);
    return 0;
}

static void images_release(void *job)
{
    images *m = job;
    free(m->pixels.data);
    free(m->labels.data);
    free(m);
}

/* The path of <prefix><suffix> or <prefix><suffix>.gz, malloc'd. */
static char *find_file(const char *prefix, const char *suffix)
{
    const char *endings[] = {"", ".gz"};
    for (int i = 0; i < HOD_COUNT(endings); i++) {
        char *path = hod__format("%s%s%s", prefix, suffix, endings[i]);
        if (!path || access(path, F_OK) == 0)
            return path;
        free(path);
    }
    return HOD_FAIL(IO, "%s%s: no such file, nor with .gz", prefix, suffix);
}

/* "/usr/share/datasets/fashion-mnist/train" is "fashion-mnist/train" for short. */
static const char *short_name(const char *prefix)
{
    const char *last = strrchr(prefix, '/');
    const char *name = last;
    while (name && name > prefix && name[-1] != '/')
        name--;
    return name ? name : prefix;
}

static int check_labels(const images *m, const char *pixels, const char *labels)
{
    if (m->pixels.size[0] != m->labels.size[0])
        return HOD_FAIL_RC(FORMAT, "%s: %lld labels for the %lld images of %s", labels,
                           (long long)m->labels.size[0], (long long)m->pixels.size[0], pixels);
    for (int64_t i = 0; i < m->labels.bytes; i++)
        if (m->labels.data[i] > 9)
            return HOD_FAIL_RC(VALUE, "%s: sample %lld: label %d is outside 0..9", labels,
                               (long long)i, m->labels.data[i]);
    return 0;
}

hod_dataset *hod_idx_dataset(const char *prefix)
{
    if (!prefix)
        return HOD_FAIL(ARGUMENT, "idx dataset: no prefix of file names");
    images *m = hod__alloc(1, sizeof *m);
    char *pixels = m ? find_file(prefix, "-images-idx3-ubyte") : NULL;
    char *labels = pixels ? find_file(prefix, "-labels-idx1-ubyte") : NULL;
    hod_dataset *d = NULL;
    if (labels && !hod__idx_read(labels, 1, &m->labels) && !hod__idx_read(pixels, 3, &m->pixels) &&
        !check_labels(m, pixels, labels)) {
        d = hod_dataset_new(m->pixels.size[0], images_item, m, images_release,
                            .name = short_name(prefix), .dtype = HOD_U8, .classes = 10,
                            .shape = HOD_SHAPE(1, m->pixels.size[1], m->pixels.size[2]));
    } else if (m) {
        images_release(m);
    }
    free(pixels);
    free(labels);
    return d;
}
