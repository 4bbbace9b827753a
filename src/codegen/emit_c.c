/* Loops as C text: the language of generated kernels.
 *
 * The text names every size and every stride other than 0 and 1 as an argument, so one text serves
 * all sizes of a structure, and equal layers of a network share one kernel. It is meant to be read:
 *
 *     // sub mul sum
 *     void k_1f0c...(void *const *buf, const i64 *arg, i64 begin, i64 end)
 *     {
 *         const float *b0 = buf[0];             // operands
 *         const i64 n1 = arg[0], s0_0 = arg[1]; // sizes n<axis>, strides s<operand>_<axis>
 *         for (i64 row = begin; row < end; row++) {
 *             i64 x0 = row;                     // x<axis>: where we are
 *             const float *p0 = b0 + x0 * s0_0; // p<operand>: this row's first element
 *             float v7 = 0;                     // v<number>: a value of the cluster
 *     #pragma omp simd reduction(+ : v7)
 *             for (i64 x1 = 0; x1 < n1; x1++) {
 *                 ...
 */
#include "codegen/loops.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct emitter {
    const hod_loops *p;
    hod_fused_kernel *k;
    hod_text t;
    int indent;
    bool needed[HOD_SPACE_VALUES];
} emitter;

/* One row a dtype: how it is stored, what it is computed in, the prefix of its helpers and that of
 * its limits. */
static const struct {
    const char *stored, *computed, *load, *store, *prefix, *limits;
} types[HOD_DTYPES] = {
    [HOD_F32] = {"float", "float", "", "", "r_", "r_"},
    [HOD_F64] = {"double", "double", "", "", "d_", "d_"},
    [HOD_F16] = {"u16", "float", "r_from_f16", "r_to_f16", "r_", "r_"},
    [HOD_BF16] = {"u16", "float", "r_from_bf16", "r_to_bf16", "r_", "r_"},
    [HOD_I64] = {"i64", "i64", "", "", "i_", "i_"},
    [HOD_I32] = {"i32", "i32", "", "", "i_", "i32_"},
    [HOD_U8] = {"u8", "u8", "", "", "i_", "u8_"},
    [HOD_BOOL] = {"u8", "u8", "", "", "i_", "u8_"},
};

static const hod_node *node_of(const emitter *e, int i)
{
    return hod__node(e->p->l->g, e->p->value[i].ref);
}

static bool is_half(hod_dtype t)
{
    return t == HOD_F16 || t == HOD_BF16;
}

/* ---- lines ---- */

static void line(emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(emitter *e, const char *format, ...)
{
    char buf[4096];
    va_list ap;
    va_start(ap, format);
    vsnprintf(buf, sizeof buf, format, ap);
    va_end(ap);
    bool flush_left = buf[0] == '#';
    hod__text(&e->t, "%*s%s\n", flush_left ? 0 : 4 * e->indent, "", buf);
}

static void open_block(emitter *e)
{
    e->indent++;
}

static void close_block(emitter *e)
{
    e->indent--;
    line(e, "}");
}

/* ---- addresses ---- */

/* Appends " + x<axis> * s<q>_<axis>" for axes [from, to). */
static void address(hod_text *t, const emitter *e, int q, int from, int to)
{
    for (int a = from; a < to; a++) {
        int64_t s = e->p->stride[q][a];
        if (s == 1)
            hod__text(t, " + x%d", a);
        else if (s)
            hod__text(t, " + x%d * s%d_%d", a, q, a);
    }
}

/* The element of operand q under the current loops. */
static char *element(const emitter *e, int q)
{
    hod_text t = {0};
    int from = e->p->nest == HOD_NEST_FLAT ? 0 : e->p->n_outer;
    hod__text(&t, "%c%d[0", e->p->nest == HOD_NEST_FLAT ? 'b' : 'p', q);
    address(&t, e, q, from, e->p->n_axes);
    hod__text(&t, "]");
    char *s = hod__text_take(&t);
    return s;
}

static char *loaded(const emitter *e, int i)
{
    char *at = element(e, e->p->value[i].operand);
    const char *load = types[node_of(e, i)->dtype].load;
    char *s = at ? hod__format(*load ? "%s(%s)" : "%s%s", load, at) : NULL;
    free(at);
    return s;
}

/* ---- expressions ---- */

/* The number of the current element along what value i counts. */
static void count(hod_text *t, const emitter *e, int i)
{
    const hod_value *v = &e->p->value[i];
    hod__text(t, "(0");
    for (int a = 0; a < e->p->n_axes; a++)
        if (v->stride[a])
            hod__text(t, e->p->strips && a == e->p->n_axes - 1 ? " + (strip + x%d) * c%d_%d"
                                                               : " + x%d * c%d_%d",
                      a, i, a);
    hod__text(t, ")");
}

/* The text of value i where it is used. Points of a kept vector axis are arrays over the lanes. */
static char *use(const emitter *e, int i)
{
    const hod_value *v = &e->p->value[i];
    bool lanes = e->p->nest == HOD_NEST_LANE_KEPT && !v->full;
    int lane = e->p->n_axes - 1;
    switch (v->kind) {
    case HOD_VALUE_LOAD:
        return lanes ? loaded(e, i) : hod__format("v%d", i);
    case HOD_VALUE_COUNTER: {
        hod_text t = {0};
        hod__text(&t, "(%s)", types[node_of(e, i)->dtype].computed);
        count(&t, e, i);
        return hod__text_take(&t);
    }
    default:
        return lanes && v->kind != HOD_VALUE_NUMBER ? hod__format("v%d[x%d]", i, lane)
                                                    : hod__format("v%d", i);
    }
}

/* The accumulator of reduction i: apart from its value, because sums of short floats accumulate in
 * double. That costs nothing where memory or latency bounds a sweep, and a long sum then rounds
 * once, as the eager kernels' blocked sums nearly do. */
static char *accumulator(const emitter *e, int i)
{
    return e->p->nest == HOD_NEST_LANE_KEPT ? hod__format("a%d[x%d]", i, e->p->n_axes - 1)
                                            : hod__format("a%d", i);
}

static const char *accumulator_type(const emitter *e, int i)
{
    const hod_node *n = node_of(e, i);
    bool wide = n->op == HOD_OP_sum && (n->dtype == HOD_F32 || is_half(n->dtype));
    return wide ? "double" : types[n->dtype].computed;
}

/* Replaces the identifiers of an operator's text: its inputs, `acc`, and the helpers' prefix. */
static void substitute(hod_text *t, const char *expr, char *const *in, const char *acc,
                       const char *prefix)
{
    while (*expr) {
        if (!isalpha((unsigned char)*expr) && *expr != '_') {
            bool number = isdigit((unsigned char)*expr);
            do
                hod__text_bytes(t, expr++, 1);
            while (number && (isalnum((unsigned char)*expr) || *expr == '.'));
            continue;
        }
        int n = 0;
        while (isalnum((unsigned char)expr[n]) || expr[n] == '_')
            n++;
        if (n == 1 && *expr >= 'a' && *expr <= 'c')
            hod__text(t, "%s", in[*expr - 'a']);
        else if (n == 3 && !strncmp(expr, "acc", 3))
            hod__text(t, "%s", acc);
        else if (n > 2 && !strncmp(expr, "r_", 2))
            hod__text(t, "%s%.*s", prefix, n - 2, expr + 2);
        else
            hod__text_bytes(t, expr, n);
        expr += n;
    }
}

static void cast_text(hod_text *t, hod_dtype from, hod_dtype to, const char *x)
{
    bool narrow = (to == HOD_U8 || to == HOD_I32) && from <= HOD_BF16;
    if (to == HOD_BOOL)
        hod__text(t, "%s != 0", x);
    else
        hod__text(t, narrow && to == HOD_U8 ? "(i64)%s" : "%s", x);
}

/* The right-hand side of value i, in the type it is computed in. */
static char *expression(const emitter *e, int i)
{
    const hod_graph *g = e->p->l->g;
    const hod_value *v = &e->p->value[i];
    const hod_node *n = node_of(e, i);
    const hod_op_info *info = &hod__op_info[n->op];
    hod_text t = {0};
    char *in[4] = {0};
    for (int k = 0; k < n->n_in && k < 4; k++)
        if (!hod__is_target(g, v->ref, k) && !(v->key >= 0 && k == 0))
            in[k] = use(e, hod__value_of(e->p, hod__node_in(g, v->ref)[k]));
    hod_dtype from = hod__node(g, hod__node_in(g, v->ref)[info->flags & HOD_OPF_CHOOSES ? 1 : 0])->dtype;
    if (n->op == HOD_OP_cast) {
        cast_text(&t, from, n->dtype, in[0]);
    } else if (n->op == HOD_OP_uniform) {
        hod__text(&t, "r_uniform(key%d, stream%d, (u64)%s, (u64)", i, i, in[1]);
        count(&t, e, i);
        hod__text(&t, ")");
    } else if (n->op == HOD_OP_contiguous) {
        hod__text(&t, "%s", in[0]);
    } else if (n->op == HOD_OP_assign) {
        hod__text(&t, "%s", in[1]);
    } else if (n->op == HOD_OP_accumulate) {
        char *old = loaded(e, i);
        hod__text(&t, "(add%d ? %s : 0) + %s", i, old ? old : "", in[1]);
        free(old);
    } else {
        char *acc = accumulator(e, i);
        substitute(&t, info->expr, in, acc ? acc : "", types[from].prefix);
        free(acc);
    }
    for (int k = 0; k < 4; k++)
        free(in[k]);
    char *text = hod__text_take(&t);
    if (!text || !is_half(n->dtype) || info->class == HOD_REDUCE)
        return text;
    char *rounded = hod__format("%s(%s(%s))", types[n->dtype].load, types[n->dtype].store, text);
    free(text);
    return rounded;
}

static void store(emitter *e, int i, const char *value)
{
    const hod_value *v = &e->p->value[i];
    if (v->operand < 0 || i >= e->p->cluster->n)
        return;
    char *at = element(e, v->operand);
    const char *convert = types[node_of(e, i)->dtype].store;
    line(e, *convert ? "%s = %s(%s);" : "%s = %s%s;", at ? at : "", convert, value);
    free(at);
}

/* ---- full values ---- */

/* A load that does not move inside the row: read once, before the loops. Left inside, it could be
 * what a store of the same loop changes, for all the compiler knows, and nothing would vectorise. */
static bool is_still(const emitter *e, int i)
{
    const hod_value *v = &e->p->value[i];
    bool still = v->kind == HOD_VALUE_LOAD && v->full;
    for (int a = e->p->nest == HOD_NEST_FLAT ? 0 : e->p->n_outer; a < e->p->n_axes && still; a++)
        still = e->p->stride[v->operand][a] == 0;
    return still;
}

static void emit_load(emitter *e, int i)
{
    char *x = loaded(e, i);
    line(e, "const %s v%d = %s;", types[node_of(e, i)->dtype].computed, i, x ? x : "");
    free(x);
}

static void emit_still(emitter *e)
{
    for (int i = e->p->cluster->n; i < e->p->space->n; i++)
        if (is_still(e, i))
            emit_load(e, i);
}

static bool is_reload(const emitter *e, int i, int sweep)
{
    return i < e->p->cluster->n && e->p->value[i].reload && e->p->value[i].sweep < sweep;
}

static void need(emitter *e, int i, int sweep)
{
    const hod_loops *p = e->p;
    const hod_value *v = &p->value[i];
    if (e->needed[i] || (!v->full && v->kind != HOD_VALUE_FOLDED))
        return;
    e->needed[i] = true;
    if (i >= p->cluster->n || is_reload(e, i, sweep))
        return;
    for (int k = 0; k < node_of(e, i)->n_in; k++)
        if (!hod__is_target(p->l->g, v->ref, k) && !(v->key >= 0 && k == 0)) {
            int x = hod__value_of(p, hod__node_in(p->l->g, v->ref)[k]);
            if (p->value[x].full)
                need(e, x, sweep);
        }
}

/* The body of sweep `sweep`: loads, values, stores and folds under the innermost loop. */
static void emit_body(emitter *e, int sweep)
{
    const hod_loops *p = e->p;
    memset(e->needed, 0, sizeof e->needed);
    for (int i = 0; i < p->cluster->n; i++)
        if (p->value[i].sweep == sweep && (p->value[i].kind == HOD_VALUE_FOLDED ||
                                           (p->value[i].full && p->value[i].operand >= 0)))
            need(e, i, sweep);
    for (int i = p->cluster->n; i < p->space->n; i++)
        if (e->needed[i] && p->value[i].kind == HOD_VALUE_LOAD && !is_still(e, i))
            emit_load(e, i);
    for (int i = 0; i < p->cluster->n; i++)
        if (e->needed[i] && is_reload(e, i, sweep))
            emit_load(e, i);
    for (int i = 0; i < p->cluster->n; i++) {
        if (!e->needed[i] || is_reload(e, i, sweep))
            continue;
        const hod_value *v = &p->value[i];
        const char *type = types[node_of(e, i)->dtype].computed;
        bool folds = v->kind == HOD_VALUE_FOLDED;
        /* What an earlier sweep has added must not be added again: there it is stored. */
        bool added = node_of(e, i)->op == HOD_OP_accumulate && v->sweep < sweep;
        char *x = added ? loaded(e, i) : expression(e, i);
        char *name = folds ? accumulator(e, i) : use(e, i);
        if (folds) {
            line(e, "%s = (%s)(%s);", name ? name : "", accumulator_type(e, i), x ? x : "");
        } else {
            line(e, "const %s %s = (%s)(%s);", type, name ? name : "", type, x ? x : "");
            if (v->sweep == sweep)
                store(e, i, name ? name : "");
        }
        free(x);
        free(name);
    }
}

/* ---- points ---- */

static void emit_point(emitter *e, int i)
{
    const hod_value *v = &e->p->value[i];
    const hod_node *n = node_of(e, i);
    const char *type = types[n->dtype].computed;
    char *name = use(e, i);
    if (v->kind == HOD_VALUE_COMPUTED) {
        char *x = expression(e, i);
        line(e, e->p->nest == HOD_NEST_LANE_KEPT ? "%s%s = (%s)(%s);" : "const %s %s = (%s)(%s);",
             e->p->nest == HOD_NEST_LANE_KEPT ? "" : type, name ? name : "", type, x ? x : "");
        free(x);
    } else {
        char *acc = accumulator(e, i);
        const char *declare = e->p->nest == HOD_NEST_LANE_KEPT ? "" : "const ";
        const char *of = *declare ? type : "";
        if (is_half(n->dtype))
            line(e, "%s%s %s = %s(%s((float)%s));", declare, of, name ? name : "",
                 types[n->dtype].load, types[n->dtype].store, acc ? acc : "");
        else
            line(e, "%s%s %s = (%s)%s;", declare, of, name ? name : "", type, acc ? acc : "");
        free(acc);
    }
    store(e, i, name ? name : "");
    free(name);
}

static bool is_point_after(const emitter *e, int i, int sweep)
{
    const hod_value *v = &e->p->value[i];
    return !v->full && v->sweep == sweep;
}

static void lane_loop(emitter *e, const char *pragma)
{
    int lane = e->p->n_axes - 1;
    const hod_axis *a = &e->p->axis[lane];
    if (pragma)
        line(e, "%s", pragma);
    if (e->p->strips)
        line(e, "for (i64 x%d = 0; x%d < lanes; x%d++) {", lane, lane, lane);
    else if (a->literal)
        line(e, "for (i64 x%d = 0; x%d < %d; x%d++) {", lane, lane, (int)a->extent, lane);
    else
        line(e, "for (i64 x%d = 0; x%d < n%d; x%d++) {", lane, lane, lane, lane);
    open_block(e);
}

/* Values known after sweep `sweep` (-1: before the first). */
static void emit_points(emitter *e, int sweep)
{
    bool any = false;
    for (int i = 0; i < e->p->cluster->n; i++)
        any |= is_point_after(e, i, sweep);
    if (!any)
        return;
    bool lanes = e->p->nest == HOD_NEST_LANE_KEPT;
    if (lanes)
        lane_loop(e, "#pragma omp simd");
    for (int i = 0; i < e->p->cluster->n; i++)
        if (is_point_after(e, i, sweep))
            emit_point(e, i);
    if (lanes)
        close_block(e);
}

/* ---- sweeps ---- */

/* Sets the folds of a sweep to their start. */
static void start_folds(emitter *e, int sweep)
{
    bool lanes = e->p->nest == HOD_NEST_LANE_KEPT;
    for (int i = 0; i < e->p->cluster->n; i++) {
        const hod_value *v = &e->p->value[i];
        if (v->kind != HOD_VALUE_FOLDED || v->sweep != sweep)
            continue;
        const hod_node *n = node_of(e, i);
        hod_text start = {0};
        substitute(&start, hod__op_info[n->op].start, NULL, "", types[n->dtype].limits);
        const char *type = accumulator_type(e, i);
        char *s = hod__text_take(&start);
        int lane = e->p->n_axes - 1;
        int width = !lanes ? 1 : e->p->strips ? HOD_LANES : (int)e->p->axis[lane].extent;
        if (lanes) {
            line(e, "%s a%d[%d];", type, i, width);
            line(e, "for (i64 x%d = 0; x%d < %d; x%d++) a%d[x%d] = (%s)(%s);", lane, lane, width,
                 lane, i, lane, type, s ? s : "");
        } else {
            line(e, "%s a%d = (%s)(%s);", type, i, type, s ? s : "");
        }
        free(s);
    }
}

/* "#pragma omp simd reduction(...)" for the folds of a sweep. */
static void fold_pragma(emitter *e, int sweep)
{
    static const struct {
        hod_op op;
        const char *name;
    } folds[] = {{HOD_OP_sum, "+"}, {HOD_OP_prod, "*"}, {HOD_OP_amax, "f_max"},
                 {HOD_OP_amin, "f_min"}, {HOD_OP_any, "|"}, {HOD_OP_all, "&"}};
    hod_text t = {0};
    hod__text(&t, "#pragma omp simd");
    for (int i = 0; i < e->p->cluster->n; i++) {
        const hod_value *v = &e->p->value[i];
        if (v->kind != HOD_VALUE_FOLDED || v->sweep != sweep)
            continue;
        for (int k = 0; k < HOD_COUNT(folds); k++)
            if (folds[k].op == (hod_op)node_of(e, i)->op)
                hod__text(&t, " reduction(%s : a%d)", folds[k].name, i);
    }
    char *s = hod__text_take(&t);
    line(e, "%s", s ? s : "");
    free(s);
}

static bool sweep_is_empty(const emitter *e, int sweep)
{
    for (int i = 0; i < e->p->cluster->n; i++) {
        const hod_value *v = &e->p->value[i];
        if (v->sweep == sweep &&
            (v->kind == HOD_VALUE_FOLDED || (v->full && v->operand >= 0)))
            return false;
    }
    return true;
}

static void emit_sweep(emitter *e, int sweep)
{
    const hod_loops *p = e->p;
    if (sweep_is_empty(e, sweep))
        return;
    start_folds(e, sweep);
    int opened = 0;
    for (int a = p->n_outer; a + 1 < p->n_axes; a++, opened++) {
        if (p->axis[a].literal)
            line(e, "for (i64 x%d = 0; x%d < %d; x%d++) {", a, a, (int)p->axis[a].extent, a);
        else
            line(e, "for (i64 x%d = 0; x%d < n%d; x%d++) {", a, a, a, a);
        open_block(e);
    }
    if (p->n_axes > p->n_outer) {
        if (p->nest == HOD_NEST_LANE_FOLDED)
            fold_pragma(e, sweep);
        lane_loop(e, p->nest == HOD_NEST_LANE_FOLDED ? NULL : "#pragma omp simd");
        opened++;
    }
    if (!opened) { /* names of one sweep are not those of the next */
        line(e, "{");
        open_block(e);
        opened++;
    }
    emit_body(e, sweep);
    while (opened--)
        close_block(e);
}

/* ---- the function ---- */

static int add_arg(emitter *e, int64_t value)
{
    if (e->k->n_args == HOD_KERNEL_ARGS) {
        e->t.failed = true;
        return 0;
    }
    e->k->arg[e->k->n_args] = value;
    return e->k->n_args++;
}

static void emit_names(emitter *e)
{
    const hod_loops *p = e->p;
    for (int q = 0; q < e->k->n_operands; q++) {
        const hod_operand *o = &e->k->operand[q];
        const char *type = types[hod__node(p->l->g, o->ref)->dtype].stored;
        line(e, "%s%s *b%d = buf[%d];", o->written ? "" : "const ", type, q, q);
    }
    for (int a = 0; a < p->n_axes; a++)
        if (!p->axis[a].literal)
            line(e, "const i64 n%d = arg[%d];", a, add_arg(e, p->axis[a].extent));
    for (int q = 0; q < e->k->n_operands; q++)
        for (int a = 0; a < p->n_axes; a++)
            if (p->stride[q][a] > 1)
                line(e, "const i64 s%d_%d = arg[%d];", q, a, add_arg(e, p->stride[q][a]));
    for (int i = 0; i < p->space->n; i++) {
        const hod_value *v = &p->value[i];
        const char *type = types[node_of(e, i)->dtype].computed;
        if (v->kind == HOD_VALUE_NUMBER)
            line(e, "const %s v%d = (%s)d_float((u64)arg[%d]);", type, i, type, v->arg);
        else if (v->key >= 0)
            line(e, "const u64 key%d = r_uniform_key((u64)b%d[0], (u64)b%d[1]), stream%d = (u64)arg[%d];",
                 i, v->key, v->key, i, v->arg);
        else if (v->arg >= 0)
            line(e, "const i64 add%d = arg[%d];", i, v->arg);
        for (int a = 0; a < p->n_axes && v->counts; a++)
            if (v->stride[a])
                line(e, "const i64 c%d_%d = arg[%d];", i, a, add_arg(e, v->stride[a]));
    }
}

/* Where row `row` is: outer indices, and each operand's first element. */
static void emit_row(emitter *e)
{
    const hod_loops *p = e->p;
    int lane = p->n_axes - 1;
    line(e, "i64 at = row;");
    if (p->strips) {
        line(e, "const i64 strip = at %% ((n%d + %d) / %d) * %d;", lane, HOD_LANES - 1, HOD_LANES,
             HOD_LANES);
        line(e, "at /= (n%d + %d) / %d;", lane, HOD_LANES - 1, HOD_LANES);
        line(e, "const i64 lanes = n%d - strip < %d ? n%d - strip : %d;", lane, HOD_LANES, lane,
             HOD_LANES);
    }
    for (int a = p->n_outer; a-- > 0;) {
        if (a == 0) {
            line(e, "const i64 x0 = at;");
        } else if (p->axis[a].literal) {
            line(e, "const i64 x%d = at %% %d;", a, (int)p->axis[a].extent);
            line(e, "at /= %d;", (int)p->axis[a].extent);
        } else {
            line(e, "const i64 x%d = at %% n%d;", a, a);
            line(e, "at /= n%d;", a);
        }
    }
    line(e, "(void)at;");
    for (int q = 0; q < e->k->n_operands; q++) {
        hod_text t = {0};
        address(&t, e, q, 0, p->n_outer);
        if (p->strips && p->stride[q][lane])
            hod__text(&t, p->stride[q][lane] == 1 ? " + strip" : " + strip * s%d_%d", q, lane);
        char *s = hod__text_take(&t);
        const char *type = types[hod__node(p->l->g, e->k->operand[q].ref)->dtype].stored;
        line(e, "%s%s *p%d = b%d%s;", e->k->operand[q].written ? "" : "const ", type, q, q,
             s ? s : "");
        free(s);
    }
}

/* Point loads of the row, and arrays for points of a kept vector axis. */
static void emit_row_values(emitter *e)
{
    const hod_loops *p = e->p;
    int width = p->strips ? HOD_LANES : p->n_axes ? (int)p->axis[p->n_axes - 1].extent : 1;
    for (int i = 0; i < p->space->n; i++) {
        const hod_value *v = &p->value[i];
        const char *type = types[node_of(e, i)->dtype].computed;
        if (v->full)
            continue;
        if (p->nest == HOD_NEST_LANE_KEPT && i < p->cluster->n)
            line(e, "%s v%d[%d];", type, i, width);
        else if (p->nest == HOD_NEST_LANE_FOLDED && v->kind == HOD_VALUE_LOAD) {
            const char *load = types[node_of(e, i)->dtype].load;
            line(e, "const %s v%d = %s(p%d[0]);", type, i, load, v->operand);
        }
    }
}

static void emit_folds_declaration(emitter *e)
{
    bool seen[HOD_DTYPES] = {0};
    for (int i = 0; i < e->p->cluster->n; i++) {
        const hod_node *n = node_of(e, i);
        if ((n->op != HOD_OP_amax && n->op != HOD_OP_amin) || e->p->nest != HOD_NEST_LANE_FOLDED)
            continue;
        const char *c = types[n->dtype].computed, *f = types[n->dtype].prefix;
        const char *limit = types[n->dtype].limits;
        if (seen[n->dtype])
            continue;
        seen[n->dtype] = true;
        line(e, "#pragma omp declare reduction(f_max : %s : omp_out = (%s)%smax(omp_out, omp_in)) "
                "initializer(omp_priv = (%s)(%slowest))", c, c, f, c, limit);
        line(e, "#pragma omp declare reduction(f_min : %s : omp_out = (%s)%smin(omp_out, omp_in)) "
                "initializer(omp_priv = (%s)(%shighest))", c, c, f, c, limit);
    }
}

static void emit_head(emitter *e)
{
    hod__text(&e->t, "/*");
    for (int i = 0; i < e->p->cluster->n; i++)
        hod__text(&e->t, "%s %s", i && i % 14 == 0 ? "\n  " : "",
                  hod__op_info[node_of(e, i)->op].name);
    hod__text(&e->t, " */\nvoid @@(void *const *buf, const i64 *arg, i64 begin, i64 end)\n{\n");
    e->indent = 1;
}

int hod__emit_c(const hod_loops *p, hod_fused_kernel *k)
{
    emitter *e = hod__alloc(1, sizeof *e);
    if (!e)
        return -1;
    e->p = p;
    e->k = k;
    emit_head(e);
    emit_folds_declaration(e);
    emit_names(e);
    if (p->nest == HOD_NEST_FLAT) {
        emit_still(e);
        line(e, "#pragma omp simd");
        line(e, "for (i64 x0 = begin; x0 < end; x0++) {");
        open_block(e);
        emit_body(e, 0);
    } else {
        line(e, "for (i64 row = begin; row < end; row++) {");
        open_block(e);
        emit_row(e);
        emit_row_values(e);
        emit_still(e);
        emit_points(e, -1);
        for (int sweep = 0; sweep < p->sweeps; sweep++) {
            emit_sweep(e, sweep);
            emit_points(e, sweep);
        }
    }
    close_block(e);
    close_block(e);
    bool failed = e->t.failed;
    k->text = hod__text_take(&e->t);
    free(e);
    if (failed || !k->text)
        return HOD_FAIL_RC(COMPILE, "kernel: more than %d arguments", HOD_KERNEL_ARGS);
    return 0;
}
