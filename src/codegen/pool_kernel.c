/* Pooling kernels: windows over images, in whatever layouts their operands have.
 *
 * One step of the range is one image of one channel block: (n, c / lanes). A pixel of operand q has
 * its lanes l<q> apart and its neighbours p<q> apart: blocked memory (1, lanes), plain memory
 * (h * w, 1). With every operand plain, lanes is 1 and a step is a single channel.
 *
 *     y[oh][ow] = max or mean over the window's pixels inside the image
 *
 * The first greatest element of a window takes the gradient; NaN counts as greatest, so it is
 * neither lost in the maximum nor left without a receiver.
 */
#include "codegen/lower.h"
#include <stdio.h>

bool hod__is_pool(const hod_graph *g, hod_ref r)
{
    int op = hod__node(g, r)->op;
    return (op == HOD_OP_max_pool2d || op == HOD_OP_max_pool2d_back || op == HOD_OP_avg_pool2d ||
            op == HOD_OP_avg_pool2d_back) &&
           hod__node(g, r)->dtype == HOD_F32 && hod__node(g, r)->attrs.pool.bins[0] == 0;
}

/* Walks the pixels of window (oh, ow) that lie inside the image, innermost over the lanes. */
#define EACH_PIXEL(body)                                                                           \
    "            for (i64 i = 0; i < arg[4]; i++) {\n"                                             \
    "                const i64 h = oh * arg[6] - arg[8] + i * arg[10];\n"                          \
    "                if (h < 0 || h >= H)\n"                                                       \
    "                    continue;\n"                                                              \
    "                for (i64 j = 0; j < arg[5]; j++) {\n"                                         \
    "                    const i64 w = ow * arg[7] - arg[9] + j * arg[11];\n"                      \
    "                    if (w < 0 || w >= W)\n"                                                   \
    "                        continue;\n"                                                          \
    "                    const i64 at = h * W + w;\n" body "                }\n"                   \
    "            }\n"

#define LANES(body)                                                                                \
    "#pragma omp simd\n"                                                                           \
    "                    for (int l = 0; l < LANES; l++) {\n" body "                    }\n"

/* How many pixels a mean divides by: those inside, or with count_include_pad all of the padded
 * image (arg[12], arg[13]: its bottom and right edge). */
#define COUNT                                                                                      \
    "            i64 n = 0;\n"                                                                     \
    "            for (i64 i = 0; i < arg[4]; i++)\n"                                               \
    "                for (i64 j = 0; j < arg[5]; j++) {\n"                                         \
    "                    const i64 h = oh * arg[6] - arg[8] + i * arg[10];\n"                      \
    "                    const i64 w = ow * arg[7] - arg[9] + j * arg[11];\n"                      \
    "                    n += arg[14] ? h < arg[12] && w < arg[13]\n"                              \
    "                                 : h >= 0 && w >= 0 && h < H && w < W;\n"                     \
    "                }\n"

/* clang-format off */
static const char max_forward[] =
    "            float m[LANES];\n"
    "            for (int l = 0; l < LANES; l++)\n"
    "                m[l] = r_lowest;\n"
    EACH_PIXEL(LANES(
    "                        const float v = x0[at * p0 + l * l0];\n"
    "                        m[l] = v > m[l] || r_nan(v) ? v : m[l];\n"))
    "            for (int l = 0; l < LANES; l++)\n"
    "                x1[(oh * OW + ow) * p1 + l * l1] = m[l];\n";

static const char max_back[] =
    "            float m[LANES];\n"
    "            int first[LANES];\n"
    "            for (int l = 0; l < LANES; l++) {\n"
    "                m[l] = r_lowest;\n"
    "                first[l] = -1;\n"
    "            }\n"
    EACH_PIXEL(LANES(
    "                        const float v = x1[at * p1 + l * l1];\n"
    "                        const int more = v > m[l] || (r_nan(v) && !r_nan(m[l]));\n"
    "                        const int wins = first[l] < 0 || more;\n"
    "                        m[l] = wins ? v : m[l];\n"
    "                        first[l] = wins ? (int)at : first[l];\n"))
    "            for (int l = 0; l < LANES; l++)\n"
    "                if (first[l] >= 0)\n"
    "                    x2[first[l] * p2 + l * l2] += x0[(oh * OW + ow) * p0 + l * l0];\n";

static const char mean_forward[] =
    "            float m[LANES] = {0};\n"
    COUNT
    EACH_PIXEL(LANES(
    "                        m[l] += x0[at * p0 + l * l0];\n"))
    "            for (int l = 0; l < LANES; l++)\n"
    "                x1[(oh * OW + ow) * p1 + l * l1] = n ? m[l] / (float)n : 0;\n";

static const char mean_back[] =
    COUNT
    EACH_PIXEL(LANES(
    "                        const float g = x0[(oh * OW + ow) * p0 + l * l0];\n"
    "                        x1[at * p1 + l * l1] += g / (float)n;\n"));
/* clang-format on */

/* The image's extent and the pooled extent belong to x and y;
 * a backward kernel clears its result. */
static void print_text(hod_text *t, const char *name, int operands, int lanes, const char *body,
                       bool clears)
{
    hod__text(t, "/* %s */\n", name);
    hod__text(t, "void @@(void *const *buf, const i64 *arg, i64 begin, i64 end)\n{\n");
    hod__text(t, "    enum { LANES = %d };\n", lanes);
    hod__text(t, "    const i64 H = arg[0], W = arg[1], OH = arg[2], OW = arg[3];\n");
    for (int q = 0; q < operands; q++)
        hod__text(t, "    const i64 p%d = arg[%d], l%d = arg[%d];\n", q, 16 + 3 * q, q, 17 + 3 * q);
    hod__text(t, "    for (i64 row = begin; row < end; row++) {\n");
    for (int q = 0; q < operands; q++)
        hod__text(t, "        %sfloat *x%d = (%sfloat *)buf[%d] + row * arg[%d];\n",
                  q + 1 < operands ? "const " : "", q, q + 1 < operands ? "const " : "", q,
                  18 + 3 * q);
    if (clears)
        hod__text(t, "        for (i64 i = 0; i < H * W * LANES; i++)\n            x%d[i] = 0;\n",
                  operands - 1);
    hod__text(t, "        for (i64 oh = 0; oh < OH; oh++)\n");
    hod__text(t, "        for (i64 ow = 0; ow < OW; ow++) {\n");
    hod__text(t, "%s        }\n    }\n}\n", body);
}

static void set_args(hod_fused_kernel *k, const hod_node *image, const hod_node *pooled,
                     const hod_attrs_pool *a)
{
    const int64_t args[16] = {
        image->shape[2], image->shape[3], pooled->shape[2], pooled->shape[3], a->kernel[0],
        a->kernel[1], a->stride[0], a->stride[1], a->padding[0], a->padding[1], a->dilation[0],
        a->dilation[1], image->shape[2] + a->padding[2], image->shape[3] + a->padding[3],
        a->count_include_pad, 0,
    };
    memcpy(k->arg, args, sizeof args);
    k->n_args = 16;
}

int hod__pool_print(const hod_lowering *l, hod_ref r, hod_fused_kernel *k)
{
    const hod_graph *g = l->g;
    const hod_node *y = hod__node(g, r);
    const hod_ref *in = hod__node_in(g, r);
    bool max = y->op == HOD_OP_max_pool2d || y->op == HOD_OP_max_pool2d_back;
    bool back = y->op == HOD_OP_max_pool2d_back || y->op == HOD_OP_avg_pool2d_back;
    const hod_node *image = back ? y : hod__node(g, in[0]);
    const hod_node *pooled = back ? hod__node(g, in[0]) : y;
    hod_ref refs[3] = {in[0], max && back ? in[1] : r, r};
    int operands = max && back ? 3 : 2;
    bool blocked = false;
    for (int q = 0; q < operands; q++)
        blocked |= l->site[refs[q]].layout == HOD_LAYOUT_BLOCKED;
    int lanes = blocked ? l->block : 1;
    set_args(k, image, pooled, &y->attrs.pool);
    for (int q = 0; q < operands; q++) {
        const hod_node *n = hod__node(g, refs[q]);
        bool plain = l->site[refs[q]].layout == HOD_LAYOUT_PLAIN;
        int64_t pixels = n->shape[2] * n->shape[3];
        k->operand[k->n_operands++] = (hod_operand){.ref = refs[q], .written = q == operands - 1};
        k->arg[k->n_args++] = plain ? 1 : lanes;
        k->arg[k->n_args++] = plain ? pixels : 1;
        k->arg[k->n_args++] = pixels * lanes;
    }
    k->range = image->shape[0] * image->shape[1] / lanes;
    k->grain = HOD_MAX(1, (1 << 13) / HOD_MAX(1, image->shape[2] * image->shape[3] * lanes));
    hod_text t = {0};
    print_text(&t, hod__op_info[y->op].name, operands, lanes,
               max ? back ? max_back : max_forward
                   : back ? mean_back : mean_forward,
               back);
    k->text = hod__text_take(&t);
    return k->text ? 0 : -1;
}
