/* Prints include/hod/ops.h from src/ops/ops.def, so that every operator can be grepped and read.
 *
 *     print-ops > include/hod/ops.h
 *
 * A test runs it and fails when the checked-in header differs.
 */
#include <stdio.h>
#include <string.h>

static const char head[] =
    "/* The regular operators: elementwise functions and reductions.\n"
    " *\n"
    " *     hod_tensor *y = hod_relu(hod_add(x, b));         // shapes broadcast, types promote\n"
    " *     hod_tensor *m = hod_amax_keep(y, 1);             // (N,C) -> (N,1)\n"
    " *     hod_tensor *p = hod_sum_dims(y, 0, 2, 3);        // (N,C,H,W) -> (C)\n"
    " *\n"
    " * Printed from src/ops/ops.def by tools/print_ops.c; change that, not this. Everything that\n"
    " * is not one row of a table is in functional.h.\n"
    " *\n"
    " * Shapes broadcast as in NumPy. Types promote: bool < u8 < i32 < i64 < f16, bf16 < f32 <\n"
    " * f64; f16 with bf16 gives f32; a 0-d tensor only decides among kinds (bool, integer,\n"
    " * float). Arithmetic on bools gives i64. Functions with real results take integers as f32.\n"
    " * The macros note the caller's place, for error messages.\n"
    " */\n"
    "#ifndef HOD_OPS_H\n"
    "#define HOD_OPS_H\n"
    "\n"
    "#include <hod/tensor.h>\n"
    "\n";

static const char middle[] =
    "\n"
    "/* ---- reductions: over everything, over some dimensions (dropped, or kept as 1) ----\n"
    " * hod_sum(x), hod_sum_dims(x, 0, 2), hod_sum_keep(x, -1). Dimensions may count from the\n"
    " * end; none named: nothing is reduced. */\n"
    "\n";

/* What it does stands behind a declaration or, where a line cannot hold both, above it. */
static void declare(const char *name, const char *inputs, const char *doc)
{
    char line[256];
    int n = snprintf(line, sizeof line, "HOD_API hod_tensor *hod_%s(%s);", name, inputs);
    if (n + strlen(" /* ") + strlen(doc) + strlen(" */") <= 100)
        printf("%s /* %s */\n", line, doc);
    else
        printf("/* %s */\n%s\n", doc, line);
}

int main(void)
{
    fputs(head, stdout);
    puts("/* ---- elementwise ---- */\n");
#define UNARY(name, doc, ...)   declare(#name, "hod_tensor *a", doc);
#define BINARY(name, doc, ...)  declare(#name, "hod_tensor *a, hod_tensor *b", doc);
#define TERNARY(name, doc, ...) declare(#name, "hod_tensor *a, hod_tensor *b, hod_tensor *c", doc);
#include "ops/ops.def"

    fputs(middle, stdout);
#define REDUCE(name, doc, ...)                                                                     \
    printf("/* %s */\n", doc);                                                                     \
    puts("HOD_API hod_tensor *hod_" #name "(hod_tensor *x);\n"                                     \
         "HOD_API hod_tensor *hod_" #name                                                          \
         "_over(hod_tensor *x, hod_shape dims, bool keepdim);\n"                                   \
         "#define hod_" #name "_dims(x, ...) hod_" #name                                           \
         "_over(x, HOD_SHAPE(__VA_ARGS__), false)\n"                                               \
         "#define hod_" #name "_keep(x, ...) hod_" #name                                           \
         "_over(x, HOD_SHAPE(__VA_ARGS__), true)\n");
#define REDUCE_INDEX(name, doc, ...)                                                               \
    printf("/* %s */\n", doc);                                                                     \
    puts("HOD_API hod_tensor *hod_" #name "(hod_tensor *x, int dim);\n");
#include "ops/ops.def"

    puts("#ifndef HOD_NO_PLACES");
#define PLACE(name)                                                                                \
    puts("#define hod_" #name "(...) HOD_OPERATOR(tensor, " #name ", __VA_ARGS__)");
#define UNARY(name, ...) PLACE(name)
#define BINARY(name, ...) PLACE(name)
#define TERNARY(name, ...) PLACE(name)
#define REDUCE(name, ...)                                                                          \
    PLACE(name)                                                                                    \
    PLACE(name##_over)
#define REDUCE_INDEX(name, ...) PLACE(name)
#include "ops/ops.def"
    puts("#endif\n\n#endif");
    return 0;
}
