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
#include "codegen/emit_value.h"
#include <stdarg.h>
#include <stdio.h>

typedef struct emitter {
    const hod_loops *p;
    hod_fused_kernel *k;
    hod_text t;
    int indent;
    bool needed[HOD_SPACE_VALUES];
} emitter;

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

static void store(emitter *e, int i, const char *value)
{
    const hod_loop_value *v = &e->p->value[i];
    if (v->operand < 0 || i >= e->p->cluster->n)
        return;
    char *at = hod__c_element(e->p, v->operand);
    const char *convert = hod__c_type(e->p, i)->store;
    line(e, *convert ? "%s = %s(%s);" : "%s = %s%s;", at ? at : "", convert, value);
    free(at);
}

/* ---- full values ---- */

/* A load that does not move inside the row: read once, before the loops. Left inside, it could be
 * what a store of the same loop changes, for all the compiler knows,
 * and nothing would vectorise. */
static bool is_still(const emitter *e, int i)
{
    const hod_loop_value *v = &e->p->value[i];
    bool still = v->kind == HOD_VALUE_LOAD && v->full;
    for (int a = e->p->nest == HOD_NEST_FLAT ? 0 : e->p->n_outer; a < e->p->n_axes && still; a++)
        still = e->p->stride[v->operand][a] == 0;
    return still;
}

static void emit_load(emitter *e, int i)
{
    char *x = hod__c_load(e->p, i);
    line(e, "const %s v%d = %s;", hod__c_type(e->p, i)->computed, i, x ? x : "");
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
    const hod_loop_value *v = &p->value[i];
    if (e->needed[i] || (!v->full && v->kind != HOD_VALUE_FOLDED))
        return;
    e->needed[i] = true;
    if (i >= p->cluster->n || is_reload(e, i, sweep))
        return;
    for (int k = 0; k < hod__c_node(e->p, i)->n_in; k++)
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
        const hod_loop_value *v = &p->value[i];
        const char *type = hod__c_type(e->p, i)->computed;
        bool folds = v->kind == HOD_VALUE_FOLDED;
        /* What an earlier sweep has added must not be added again: there it is stored. */
        bool added = hod__c_node(p, i)->op == HOD_OP_accumulate && v->sweep < sweep;
        char *x = added ? hod__c_load(p, i) : hod__c_expression(p, i);
        char *name = folds ? hod__c_accumulator(p, i) : hod__c_use(p, i);
        if (folds) {
            line(e, "%s = (%s)(%s);", name ? name : "", hod__c_accumulator_type(p, i), x ? x : "");
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
    const hod_loops *p = e->p;
    const char *type = hod__c_type(p, i)->computed;
    char *name = hod__c_use(p, i), *x;
    if (p->value[i].kind == HOD_VALUE_COMPUTED) {
        char *y = hod__c_expression(p, i);
        x = y ? hod__format("(%s)(%s)", type, y) : NULL;
        free(y);
    } else {
        x = hod__c_folded(p, i);
    }
    if (p->nest == HOD_NEST_LANE_KEPT) /* an array, declared with the row */
        line(e, "%s = %s;", name ? name : "", x ? x : "");
    else
        line(e, "const %s %s = %s;", type, name ? name : "", x ? x : "");
    store(e, i, name ? name : "");
    free(name);
    free(x);
}

static bool is_point_after(const emitter *e, int i, int sweep)
{
    const hod_loop_value *v = &e->p->value[i];
    return !v->full && v->sweep == sweep;
}

static void lane_loop(emitter *e, const char *pragma)
{
    int lane = e->p->n_axes - 1;
    const hod_loop_axis *a = &e->p->axis[lane];
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
        const hod_loop_value *v = &e->p->value[i];
        if (v->kind != HOD_VALUE_FOLDED || v->sweep != sweep)
            continue;
        const char *type = hod__c_accumulator_type(e->p, i);
        char *s = hod__c_start(e->p, i);
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
    } folds[] = {{HOD_OP_sum, "+"},      {HOD_OP_prod, "*"}, {HOD_OP_amax, "f_max"},
                 {HOD_OP_amin, "f_min"}, {HOD_OP_any, "|"},  {HOD_OP_all, "&"}};
    hod_text t = {0};
    hod__text(&t, "#pragma omp simd");
    for (int i = 0; i < e->p->cluster->n; i++) {
        const hod_loop_value *v = &e->p->value[i];
        if (v->kind != HOD_VALUE_FOLDED || v->sweep != sweep)
            continue;
        for (int k = 0; k < HOD_COUNT(folds); k++)
            if (folds[k].op == (hod_op)hod__c_node(e->p, i)->op)
                hod__text(&t, " reduction(%s : a%d)", folds[k].name, i);
    }
    char *s = hod__text_take(&t);
    line(e, "%s", s ? s : "");
    free(s);
}

static bool sweep_is_empty(const emitter *e, int sweep)
{
    for (int i = 0; i < e->p->cluster->n; i++) {
        const hod_loop_value *v = &e->p->value[i];
        if (v->sweep == sweep && (v->kind == HOD_VALUE_FOLDED || (v->full && v->operand >= 0)))
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
        const char *type = hod__c_types[hod__node(p->l->g, o->ref)->dtype].stored;
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
        const hod_loop_value *v = &p->value[i];
        const char *type = hod__c_type(e->p, i)->computed;
        if (v->kind == HOD_VALUE_NUMBER)
            line(e, "const %s v%d = (%s)d_float((u64)arg[%d]);", type, i, type, v->arg);
        else if (v->key >= 0)
            line(e,
                 "const u64 key%d = r_uniform_key((u64)b%d[0], (u64)b%d[1]), stream%d = "
                 "(u64)arg[%d];",
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
        hod__c_address(&t, e->p, q, 0, p->n_outer);
        if (p->strips && p->stride[q][lane])
            hod__text(&t, p->stride[q][lane] == 1 ? " + strip" : " + strip * s%d_%d", q, lane);
        char *s = hod__text_take(&t);
        const char *type = hod__c_types[hod__node(p->l->g, e->k->operand[q].ref)->dtype].stored;
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
        const hod_loop_value *v = &p->value[i];
        const char *type = hod__c_type(e->p, i)->computed;
        if (v->full)
            continue;
        if (p->nest == HOD_NEST_LANE_KEPT && i < p->cluster->n)
            line(e, "%s v%d[%d];", type, i, width);
        else if (p->nest == HOD_NEST_LANE_FOLDED && v->kind == HOD_VALUE_LOAD) {
            const char *load = hod__c_type(e->p, i)->load;
            line(e, "const %s v%d = %s(p%d[0]);", type, i, load, v->operand);
        }
    }
}

static void emit_folds_declaration(emitter *e)
{
    bool seen[HOD_DTYPES] = {0};
    for (int i = 0; i < e->p->cluster->n; i++) {
        const hod_node *n = hod__c_node(e->p, i);
        const hod_c_type *type = &hod__c_types[n->dtype];
        if ((n->op != HOD_OP_amax && n->op != HOD_OP_amin) || e->p->nest != HOD_NEST_LANE_FOLDED)
            continue;
        const char *c = type->computed, *f = type->prefix, *limit = type->limits;
        if (seen[n->dtype])
            continue;
        seen[n->dtype] = true;
        line(e,
             "#pragma omp declare reduction(f_max : %s : omp_out = (%s)%smax(omp_out, omp_in)) "
             "initializer(omp_priv = (%s)(%slowest))",
             c, c, f, c, limit);
        line(e,
             "#pragma omp declare reduction(f_min : %s : omp_out = (%s)%smin(omp_out, omp_in)) "
             "initializer(omp_priv = (%s)(%shighest))",
             c, c, f, c, limit);
    }
}

static void emit_head(emitter *e)
{
    hod__text(&e->t, "/*");
    for (int i = 0; i < e->p->cluster->n; i++)
        hod__text(&e->t, "%s %s", i && i % 14 == 0 ? "\n  " : "",
                  hod__op_info[hod__c_node(e->p, i)->op].name);
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
