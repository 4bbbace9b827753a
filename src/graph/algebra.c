/* Compiling and matching the rows of rules.def.
 *
 * A row's text is parsed into terms, prefix order in one array; matching walks a term and a value
 * side by side and binds letters. Rows are text and not nested macros so that an error can quote
 * them, and so that the tests can build instances of each row from the same terms.
 */
#include "graph/algebra.h"

typedef struct row_parser {
    hod_rules *rules;
    const char *at;
    char letters[HOD_RULE_LETTERS]; /* names of the bindings so far */
    int n_letters;
} row_parser;

/* ---- text to terms --------------------------------------------------------------------------- */

static int parse_term(row_parser *p);

static bool accept(row_parser *p, char c)
{
    while (*p->at == ' ')
        p->at++;
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The binding of that letter; a new one at its first use. */
static int letter_of(row_parser *p, char c)
{
    for (int i = 0; i < p->n_letters; i++)
        if (p->letters[i] == c)
            return i;
    if (p->n_letters == HOD_RULE_LETTERS)
        return -1;
    p->letters[p->n_letters] = c;
    return p->n_letters++;
}

static int parse_operator(row_parser *p, hod_term *t)
{
    size_t n = 0;
    while (is_letter(p->at[n]) || p->at[n] == '_' || (p->at[n] >= '0' && p->at[n] <= '9'))
        n++;
    for (t->op = 0; t->op < HOD_OPS; t->op++) {
        const char *name = hod__op_info[t->op].name;
        if (strlen(name) == n && memcmp(name, p->at, n) == 0)
            break;
    }
    p->at += n;
    t->kind = HOD_TERM_OP;
    if (t->op == HOD_OPS || !accept(p, '('))
        return -1;
    do {
        int in = t->n < HOD_COUNT(t->in) ? parse_term(p) : -1;
        if (in < 0)
            return -1;
        t->in[t->n++] = (int16_t)in;
    } while (accept(p, ','));
    return accept(p, ')') && t->n == hod__op_info[t->op].arity ? 0 : -1;
}

/* The index of the term that begins here, or -1. */
static int parse_term(row_parser *p)
{
    hod_rules *rules = p->rules;
    accept(p, ' ');
    if (rules->n_terms == HOD_TERMS_MAX)
        return -1;
    int self = rules->n_terms++;
    hod_term *t = &rules->terms[self];
    memset(t, 0, sizeof *t);
    if (is_letter(*p->at) && !is_letter(p->at[1]) && p->at[1] != '_') {
        t->kind = *p->at <= 'Z' ? HOD_TERM_CONSTANT : HOD_TERM_VALUE;
        t->letter = letter_of(p, *p->at++);
        return t->letter < 0 ? -1 : self;
    }
    if (is_letter(*p->at))
        return parse_operator(p, t) ? -1 : self;
    char *end; /* numbers are small: no locale's decimal point is in the way */
    long whole = strtol(p->at, &end, 10);
    double sign = *p->at == '-' ? -1 : 1;
    if (end == p->at)
        return -1;
    t->kind = HOD_TERM_NUMBER;
    t->number = whole ? (double)whole : sign * 0.0;
    if (*end == '.')
        t->number += sign * (end[1] - '0') / 10.0;
    p->at = *end == '.' ? end + 2 : end;
    return self;
}

/* A rule's first letter in the order of reading. */
static int first_letter(const hod_rules *rules, int term)
{
    const hod_term *t = &rules->terms[term];
    if (t->kind == HOD_TERM_VALUE || t->kind == HOD_TERM_CONSTANT)
        return t->letter;
    int found = -1;
    for (int i = 0; i < t->n && found < 0; i++)
        found = first_letter(rules, t->in[i]);
    return found;
}

static int compile(hod_rules *rules, hod_rule rule)
{
    row_parser p = {.rules = rules, .at = rule.pattern};
    if (rules->n == HOD_RULES_MAX)
        return HOD_FAIL_RC(STATE, "rules: more than %d", HOD_RULES_MAX);
    int root = parse_term(&p), known = p.n_letters;
    bool whole = root >= 0 && !*p.at && rules->terms[root].kind == HOD_TERM_OP;
    p.at = rule.replacement;
    int made = whole ? parse_term(&p) : -1;
    if (made < 0 || *p.at || p.n_letters != known)
        return HOD_FAIL_RC(STATE, "rules: cannot read %s -> %s", rule.pattern, rule.replacement);
    rule.root = (int16_t)root;
    rule.made = (int16_t)made;
    rule.first_letter = first_letter(rules, root);
    rule.next = -1;
    int *end = &rules->of_op[rules->terms[root].op];
    while (*end >= 0)
        end = &rules->rules[*end].next;
    *end = rules->n;
    rules->rules[rules->n++] = rule;
    return 0;
}

hod_rules *hod__rules_new(void)
{
#define RULE(pattern_, replacement_, when_)                                                        \
    {.pattern = #pattern_, .replacement = #replacement_, .when = HOD_RULE_##when_},
    static const hod_rule rows[] = {
#include "graph/rules.def"
    };
#undef RULE
    hod_rules *rules = hod__alloc(1, sizeof *rules);
    if (!rules)
        return NULL;
    for (int op = 0; op < HOD_OPS; op++)
        rules->of_op[op] = -1;
    for (int i = 0; i < HOD_COUNT(rows); i++)
        if (compile(rules, rows[i])) {
            free(rules);
            return NULL;
        }
    return rules;
}

/* ---- matching -------------------------------------------------------------------------------- */

typedef struct bindings {
    hod_ref of[HOD_RULE_LETTERS];
} bindings;

static bool same_number(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0; /* -0 is not 0 */
}

static bool match(const hod_rules *rules, const hod_graph *g, int term, hod_ref r, bindings *b);

static bool match_operands(const hod_rules *rules, const hod_graph *g, const hod_term *t, hod_ref r,
                           bool swapped, bindings *b)
{
    bindings tried = *b;
    for (int i = 0; i < t->n; i++)
        if (!match(rules, g, t->in[i], hod__node_in(g, r)[swapped ? t->n - 1 - i : i], &tried))
            return false;
    *b = tried;
    return true;
}

static bool match(const hod_rules *rules, const hod_graph *g, int term, hod_ref r, bindings *b)
{
    const hod_term *t = &rules->terms[term];
    bool full = hod__node_is(g, r, HOD_OP_full);
    switch (t->kind) {
    case HOD_TERM_NUMBER: return full && same_number(hod__node(g, r)->attrs.full.value, t->number);
    case HOD_TERM_CONSTANT:
        if (!full)
            return false;
        /* fall through */
    case HOD_TERM_VALUE:
        if (b->of[t->letter] != HOD_NO_REF)
            return b->of[t->letter] == r;
        b->of[t->letter] = r;
        return true;
    case HOD_TERM_OP: break;
    }
    if (!hod__node_is(g, r, (hod_op)t->op))
        return false;
    bool commutes = t->n == 2 && hod__op_info[t->op].flags & HOD_OPF_COMMUTATIVE;
    return match_operands(rules, g, t, r, false, b) ||
           (commutes && match_operands(rules, g, t, r, true, b));
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The value of a term of the replacement; `root` gives numbers, casts and reshapes their type and
 * shape. HOD_NO_REF where the rule does not fit after all. */
static hod_ref make(const hod_rules *rules, hod_rewrite *w, int term, hod_ref root,
                    const bindings *b)
{
    const hod_term *t = &rules->terms[term];
    hod_meta of_root = hod__node_meta(w->g, root);
    hod_attrs attrs = {0};
    hod_ref in[4];
    if (t->kind == HOD_TERM_NUMBER) {
        of_root.ndim = 0;
        return hod__rewrite_full(w, t->number, &of_root);
    }
    if (t->kind != HOD_TERM_OP)
        return b->of[t->letter];
    for (int i = 0; i < t->n; i++) {
        in[i] = make(rules, w, t->in[i], root, b);
        if (in[i] == HOD_NO_REF)
            return in[i];
    }
    if (t->op == HOD_OP_cast)
        attrs.cast.dtype = of_root.dtype;
    if (t->op == HOD_OP_reshape) {
        if (hod__node_numel(w->g, in[0]) != hod__numel(of_root.ndim, of_root.shape) ||
            w->g->nodes[in[0]].dtype != of_root.dtype)
            return HOD_NO_REF;
        attrs.shape.shape = hod_shape_of(of_root.ndim, of_root.shape);
    }
    return hod__rewrite_op(w, (hod_op)t->op, &attrs, t->n, in);
}

static bool applies(const hod_rule *rule, const hod_graph *g, const bindings *b, bool inexact)
{
    hod_dtype dtype =
        rule->first_letter < 0 ? HOD_F32 : (hod_dtype)g->nodes[b->of[rule->first_letter]].dtype;
    switch (rule->when) {
    case HOD_RULE_EXACT: return true;
    case HOD_RULE_NUMBERS: return dtype != HOD_BOOL;
    case HOD_RULE_FLOATS: return hod__is_float(dtype);
    case HOD_RULE_INTS: return !hod__is_float(dtype);
    case HOD_RULE_INEXACT: return inexact && hod__is_float(dtype);
    }
    return false;
}

hod_ref hod__rules_apply(const hod_rules *rules, hod_rewrite *w, hod_ref r, int only, bool inexact)
{
    for (int i = rules->of_op[w->g->nodes[r].op]; i >= 0; i = rules->rules[i].next) {
        const hod_rule *rule = &rules->rules[i];
        bindings b;
        for (int k = 0; k < HOD_RULE_LETTERS; k++)
            b.of[k] = HOD_NO_REF;
        if ((only >= 0 && only != i) || !match(rules, w->g, rule->root, r, &b) ||
            !applies(rule, w->g, &b, inexact))
            continue;
        hod_ref to = hod__rewrite_fit(w, make(rules, w, rule->made, r, &b), r);
        if (to != HOD_NO_REF && to != r)
            return to;
    }
    return r;
}
