/* Absurd calls of tensor operators: misuse.h says how, misuse_shapes.def which. */
#include "misuse.h"

static hod_tensor *some_of_many(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    hod_tensor *many[70];
    for (int i = 0; i < 70; i++)
        many[i] = i % 3 == 0 ? x : i % 3 == 1 && draw(9) == 0 ? y : draw(9) == 0 ? z : x;
    int n = draw(3) ? 1 + (int)draw(4) : (int)draw(80) - 9;
    n = HOD_MIN(n, 70);
    return draw(2) ? hod_concat(n, many, any_dim()) : hod_stack(n, many, any_dim());
}

static hod_shape one_for_each(hod_tensor *x)
{
    hod_shape s = any_shape();
    if (x && draw(4))
        s.n = hod_tensor_ndim(x);
    return s;
}

static hod_tensor *some_part(hod_tensor *x)
{
    hod_tensor *parts[8] = {0};
    int64_t sizes[4] = {near(1), near(1), near(2), near(0)};
    int n = (int)draw(9), rc = draw(2) ? hod_chunk(x, any_dim(), n, parts)
                                       : hod_split(x, any_dim(), n % 5, sizes, parts);
    return rc != 0 ? NULL : parts[0] ? parts[0] : x;
}

static hod_tensor *some_unfold(hod_tensor *x)
{
    hod_unfold2d_options o = {near(2),
                              near(0),
                              near(0),
                              near(0),
                              .kernel_hw = {near(0), near(0)},
                              .padding_tlbr = {near(0), near(0), near(0), near(0)}};
    hod_tensor *in = draw(3) ? image() : x;
    if (draw(2))
        return hod_unfold2d_with(in, o);
    return hod_fold2d_with(draw(2) ? hod_unfold2d_with(in, o) : x, near(3), near(3), o);
}

static hod_tensor *some_boxes(hod_tensor *x, hod_tensor *y)
{
    hod_tensor *boxes = draw(3) ? filled(HOD_F32, HOD_SHAPE(draw(5), 4)) : x;
    hod_tensor *scores = draw(3) && boxes ? hod_select(boxes, -1, 0) : y;
    return hod_nms(boxes, scores, any_number());
}

static hod_tensor *some_comparison(hod_tensor *x)
{
    double c = any_number();
    switch (draw(5)) {
    case 0: return hod_ne_scalar(x, c);
    case 1: return hod_lt_scalar(x, c);
    case 2: return hod_le_scalar(x, c);
    case 3: return hod_gt_scalar(x, c);
    default: return hod_ge_scalar(x, c);
    }
}

static hod_tensor *some_extreme(hod_tensor *x)
{
    hod_tensor *index, **where = draw(3) ? &index : NULL;
    return draw(2) ? hod_max_along(x, any_dim(), draw(2), where)
                   : hod_min_along(x, any_dim(), draw(2), where);
}

#define CALL     MISUSE_FUNCTION
#define ANY_SIZE MISUSE_FUNCTION
#define SYMBOLIC MISUSE_FUNCTION
#include "misuse_shapes.def"
#undef CALL
#undef ANY_SIZE
#undef SYMBOLIC

static const misuse_call calls[] = {
#define CALL(id, ...)     {.name = #id, .run = call_##id},
#define ANY_SIZE(id, ...) {.name = #id, .run = call_##id, .any_size = true},
#define SYMBOLIC(id, ...) {.name = #id, .run = call_##id, .symbolic = true},
#include "misuse_shapes.def"
};

TEST(misuse_is_a_result_or_an_error)
{
    misuse_rounds(HOD_COUNT(calls), calls);
}

/* ---- no operator is left out ---- */

/* A file of the source tree, ended by 0, to be freed. */
static char *source(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", getenv("HOD_SOURCE_DIR"), name);
    FILE *f = fopen(path, "r");
    CHECK(f);
    char *text = calloc(1 << 20, 1);
    CHECK(text && fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

/* Is the function called by its name, or by that of the macro which fills in its options? */
static bool called(const char *text, const char *name, int n)
{
    int plain = n > 5 && strncmp(name + n - 5, "_with", 5) == 0 ? n - 5 : n;
    for (const char *at = text; (at = strstr(at, "hod_")); at += 4)
        if ((strncmp(at, name, (size_t)n) == 0 && at[n] == '(') ||
            (strncmp(at, name, (size_t)plain) == 0 && at[plain] == '('))
            return true;
    return false;
}

TEST(misuse_leaves_no_operator_out)
{
    static const char *const headers[] = {"functional", "elementwise", "reductions",   "movement",
                                          "ordering",   "images",      "contractions", "attention",
                                          "rnn",        "losses",      "rows"};
    static const char *const kinds[] = {"hod_tensor *", "hod_loss ", "hod_sorted ",
                                        "hod_unique_values ", "hod_rnn "};
    if (!getenv("HOD_SOURCE_DIR"))
        SKIP("HOD_SOURCE_DIR is not set");
    char *calls_of[] = {source("tests/unit/misuse_shapes.def"),
                        source("tests/unit/misuse_nets.def"), source("tests/unit/test_misuse.c"),
                        source("tests/unit/test_misuse_nets.c")};
    int operators = 0;
    for (size_t h = 0; h < HOD_COUNT(headers); h++) {
        char name[64];
        snprintf(name, sizeof name, "include/hod/%s.h", headers[h]);
        char *text = source(name);
        for (const char *at = text; (at = strstr(at, "\nHOD_API ")); at++) {
            const char *p = NULL;
            for (size_t k = 0; k < HOD_COUNT(kinds) && !p; k++)
                if (strncmp(at + 9, kinds[k], strlen(kinds[k])) == 0)
                    p = at + 9 + strlen(kinds[k]);
            int n = p ? (int)strcspn(p, "(") : 0;
            if (!p || strncmp(p, "hod_nn_", 7) == 0) /* modules call operators */
                continue;
            bool found = false;
            for (size_t c = 0; c < HOD_COUNT(calls_of) && !found; c++)
                found = called(calls_of[c], p, n);
            if (!found)
                FAIL("%.*s of %s.h is in no table of misuse", n, p, headers[h]);
            operators++;
        }
        free(text);
    }
    CHECK(operators > 150);
    for (size_t c = 0; c < HOD_COUNT(calls_of); c++)
        free(calls_of[c]);
}
