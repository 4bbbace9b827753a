/* Text back into a graph. Total: any bytes give a graph or an error with line and column, and a
 * graph that parses can be printed, copied, hashed and validated safely. What an operator thinks of
 * its shapes and parameters is the validator's question, not the grammar's.
 *
 *     graph   = "graph" name "{" node* "return" ref* "}"
 *     node    = ref "=" op type sizes ref* string? attrs? flag*
 *     attrs   = "{" name "=" value ("," name "=" value)* "}"
 *     sizes   = "(" [int ("," int)*] ")"          ref = "%" digits       flag = "!backward" "!keep"
 *
 * `#` begins a comment. Recursive descent, one function a line of the grammar.
 */
#include "graph/graph_print.h"
#include "graph/node_attrs.h"

#include <errno.h>

typedef struct parser {
    const char *text, *at; /* at: next unread byte */
    hod_graph *g;
} parser;

typedef struct word {
    const char *s;
    size_t n;
} word;

/* Records "graph:line:col: expected ..." for the next unread byte; -1. */
static int expected(parser *p, const char *what)
{
    int line = 1, column = 1;
    for (const char *c = p->text; c < p->at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return HOD_FAIL_RC(FORMAT, "graph:%d:%d: expected %s", line, column, what);
}

static void skip_blank(parser *p)
{
    for (;; p->at++) {
        if (*p->at == '#')
            p->at += strcspn(p->at, "\n");
        if (*p->at != ' ' && *p->at != '\t' && *p->at != '\n' && *p->at != '\r')
            return;
    }
}

static bool peek(parser *p, char c)
{
    skip_blank(p);
    return *p->at == c;
}

static bool accept(parser *p, char c)
{
    if (!peek(p, c))
        return false;
    p->at++;
    return true;
}

static int demand(parser *p, char c)
{
    return accept(p, c) ? 0 : expected(p, (char[]){'\'', c, '\'', 0});
}

static bool is_word(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* [A-Za-z0-9_]*, perhaps empty. */
static word parse_word(parser *p)
{
    skip_blank(p);
    word w = {p->at, 0};
    while (is_word(w.s[w.n]))
        w.n++;
    p->at += w.n;
    return w;
}

static bool is(word w, const char *s)
{
    return strlen(s) == w.n && memcmp(w.s, s, w.n) == 0;
}

/* Puts the cursor back so that the message names the word. */
static int unexpected(parser *p, word w, const char *what)
{
    p->at = w.s;
    return expected(p, what);
}

/* A number's characters by themselves: strtoll and strtod may look at all the text that follows
 * (under AddressSanitizer they do), and a graph's text is long. No double needs more than 24. */
enum { NUMBER = 64 };

static int number_text(parser *p, char text[NUMBER])
{
    size_t n = 0;
    skip_blank(p);
    for (const char *c = p->at; *c == '+' || *c == '-' || *c == '.' || is_word(*c); c++) {
        if (n == NUMBER - 1)
            return expected(p, "a number of less than 64 characters");
        text[n++] = *c;
    }
    text[n] = 0;
    return 0;
}

static int parse_int(parser *p, int64_t *out)
{
    char text[NUMBER], *end;
    if (number_text(p, text))
        return -1;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (end == text || errno == ERANGE)
        return expected(p, "a 64-bit integer");
    p->at += end - text;
    *out = x;
    return 0;
}

static int parse_real(parser *p, double *out)
{
    char text[NUMBER];
    if (number_text(p, text))
        return -1;
    const char *end = hod__real_parse(text, out);
    if (!end)
        return expected(p, "a number");
    p->at += end - text;
    return 0;
}

/* "(1,2)": at most cap numbers; their count, or -1. */
static int parse_sizes(parser *p, int cap, int64_t *out)
{
    int n = 0;
    if (demand(p, '('))
        return -1;
    if (accept(p, ')'))
        return 0;
    do {
        if (n == cap)
            return expected(p, "')'");
        if (parse_int(p, &out[n++]))
            return -1;
    } while (accept(p, ','));
    return demand(p, ')') ? -1 : n;
}

/* "%7"; the text `%7` where fewer nodes exist is refused. */
static int parse_ref(parser *p, int64_t limit, hod_ref *out)
{
    int64_t r;
    if (demand(p, '%'))
        return -1;
    const char *at = p->at;
    if (*at < '0' || *at > '9')
        return expected(p, "a node's number");
    if (parse_int(p, &r))
        return -1;
    if (r >= limit) {
        p->at = at;
        return expected(p, "the number of an earlier node");
    }
    *out = (hod_ref)r;
    return 0;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_string(parser *p, char *out, size_t cap)
{
    size_t n = 0;
    if (demand(p, '"'))
        return -1;
    for (; *p->at != '"'; n++) {
        if (!*p->at || *p->at == '\n')
            return expected(p, "'\"'");
        if (n + 1 >= cap)
            return expected(p, "a shorter name");
        char c = *p->at++;
        if (c == '\\' && *p->at == 'x') {
            int high = hex(p->at[1]), low = high < 0 ? -1 : hex(p->at[2]);
            if (low < 0 || high * 16 + low == 0)
                return expected(p, "x and two hexadecimal digits, not 00");
            c = (char)(high * 16 + low);
            p->at += 3;
        } else if (c == '\\') {
            if (*p->at != '"' && *p->at != '\\')
                return expected(p, "an escape: \\\", \\\\ or \\x");
            c = *p->at++;
        }
        out[n] = c;
    }
    out[n] = 0;
    p->at++;
    return 0;
}

static int parse_dtype(parser *p, hod_dtype *out)
{
    word w = parse_word(p);
    for (int i = 0; i < HOD_DTYPES; i++)
        if (is(w, hod_dtype_name((hod_dtype)i))) {
            *out = (hod_dtype)i;
            return 0;
        }
    return unexpected(p, w, "an element type");
}

static int parse_flag(parser *p, bool *out)
{
    word w = parse_word(p);
    *out = is(w, "true");
    return *out || is(w, "false") ? 0 : unexpected(p, w, "true or false");
}

static int parse_dims(parser *p, uint32_t *out)
{
    int64_t dims[32];
    int n = parse_sizes(p, 32, dims);
    *out = 0;
    for (int i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] > 31)
            return expected(p, "dimensions 0 to 31 before this");
        *out |= 1u << dims[i];
    }
    return n < 0 ? -1 : 0;
}

static int parse_fixed(parser *p, int n, int64_t *out)
{
    int got = parse_sizes(p, n, out);
    return got < 0 ? -1 : got == n ? 0 : expected(p, n == 2 ? "2 numbers" : "4 numbers");
}

static int parse_value(parser *p, const hod_attr_field *f, void *at)
{
    switch (f->type) {
    case HOD_ATTR_INT: return parse_int(p, at);
    case HOD_ATTR_REAL: return parse_real(p, at);
    case HOD_ATTR_FLAG: return parse_flag(p, at);
    case HOD_ATTR_TYPE: return parse_dtype(p, at);
    case HOD_ATTR_DIMS: return parse_dims(p, at);
    case HOD_ATTR_PAIR: return parse_fixed(p, 2, at);
    case HOD_ATTR_QUAD: return parse_fixed(p, 4, at);
    case HOD_ATTR_SIZES: {
        hod_shape *shape = at;
        shape->n = parse_sizes(p, HOD_MAX_DIMS, shape->d);
        return shape->n < 0 ? -1 : 0;
    }
    }
    return -1;
}

static int parse_attrs(parser *p, hod_attrs_kind kind, hod_attrs *attrs)
{
    memset(attrs, 0, sizeof *attrs);
    if (!accept(p, '{'))
        return 0;
    do {
        word w = parse_word(p);
        const hod_attr_field *f = hod__attrs_field(kind, w.s, w.n);
        if (!f)
            return unexpected(p, w, "a parameter of this operator");
        if (demand(p, '=') || parse_value(p, f, (char *)attrs + f->offset))
            return -1;
    } while (accept(p, ','));
    return demand(p, '}');
}

static int parse_flags(parser *p, hod_node *node)
{
    while (accept(p, '!')) {
        word w = parse_word(p);
        if (is(w, "backward"))
            node->flags |= HOD_NODE_BACKWARD;
        else if (is(w, "keep"))
            node->flags |= HOD_NODE_KEEP;
        else
            return unexpected(p, w, "backward or keep");
    }
    return 0;
}

static int parse_input(parser *p, const hod_meta *meta)
{
    char name[sizeof(((hod_graph_input *)0)->name)];
    int64_t strides[HOD_MAX_DIMS] = {0};
    int role = HOD_INPUT_DATA, n = -1;
    if (parse_string(p, name, sizeof name))
        return -1;
    if (accept(p, '{')) {
        do {
            word w = parse_word(p);
            if (!is(w, "role") && !is(w, "strides"))
                return unexpected(p, w, "role or strides");
            if (demand(p, '='))
                return -1;
            if (is(w, "strides")) {
                n = parse_sizes(p, HOD_MAX_DIMS, strides);
                if (n != meta->ndim)
                    return n < 0 ? -1 : unexpected(p, w, "a stride for each dimension");
                continue;
            }
            word value = parse_word(p);
            role = hod__input_role_of(value.s, value.n);
            if (role < 0)
                return unexpected(p, value, "data, parameter, state or gradient");
        } while (accept(p, ','));
        if (demand(p, '}'))
            return -1;
    }
    hod_ref r = hod__graph_input(p->g, meta, n < 0 ? NULL : strides, (hod_input_role)role, name);
    return r == HOD_NO_REF ? -1 : parse_flags(p, hod__node(p->g, r));
}

static int op_of(word w)
{
    for (int op = 0; op < HOD_OPS; op++)
        if (is(w, hod__op_info[op].name))
            return op;
    return -1;
}

/* Does "%7" come that is no beginning of a node, "%7 ="? */
static bool operand_follows(parser *p)
{
    if (!peek(p, '%'))
        return false;
    parser ahead = *p;
    ahead.at++;
    ahead.at += strspn(ahead.at, "0123456789");
    return !peek(&ahead, '=');
}

static int parse_node(parser *p)
{
    hod_ref self, in[HOD_OP_MAX_INPUTS];
    hod_meta meta = {0};
    const char *start = p->at;
    if (parse_ref(p, INT32_MAX, &self) || demand(p, '='))
        return -1;
    if (self != p->g->n) {
        p->at = start;
        return expected(p, "nodes to be numbered 0, 1, 2, ...");
    }
    word name = parse_word(p);
    bool input = is(name, "input");
    int op = input ? 0 : op_of(name);
    if (op < 0)
        return unexpected(p, name, "an operator");
    if (parse_dtype(p, &meta.dtype) || (meta.ndim = parse_sizes(p, HOD_MAX_DIMS, meta.shape)) < 0)
        return -1;
    if (input)
        return parse_input(p, &meta);
    int n = 0;
    for (; operand_follows(p); n++) {
        if (n == HOD_OP_MAX_INPUTS)
            return expected(p, "fewer inputs");
        if (parse_ref(p, p->g->n, &in[n]))
            return -1;
    }
    const hod_op_info *info = &hod__op_info[op];
    if (info->arity >= 0 ? n != info->arity : n < 1)
        return unexpected(p, name, "another number of inputs");
    hod_attrs attrs;
    if (parse_attrs(p, info->attrs, &attrs))
        return -1;
    hod_ref r = hod__graph_add(p->g, (hod_op)op, &attrs, n, in, &meta);
    return r == HOD_NO_REF ? -1 : parse_flags(p, hod__node(p->g, r));
}

static int parse_name(parser *p)
{
    size_t cap = sizeof p->g->name;
    if (peek(p, '"'))
        return parse_string(p, p->g->name, cap);
    word w = parse_word(p);
    if (w.n == 0 || w.n >= cap)
        return unexpected(p, w, "a name of at most 31 bytes");
    memcpy(p->g->name, w.s, w.n);
    return 0;
}

static int parse_graph(parser *p)
{
    word w = parse_word(p);
    if (!is(w, "graph"))
        return unexpected(p, w, "graph");
    if (parse_name(p) || demand(p, '{'))
        return -1;
    while (peek(p, '%'))
        if (parse_node(p))
            return -1;
    w = parse_word(p);
    if (!is(w, "return"))
        return unexpected(p, w, "a node or return");
    while (peek(p, '%')) {
        hod_ref r;
        if (parse_ref(p, p->g->n, &r) || hod__graph_return(p->g, r))
            return -1;
    }
    if (demand(p, '}'))
        return -1;
    return peek(p, 0) ? 0 : expected(p, "the end of the text");
}

hod_graph *hod__graph_parse(const char *text)
{
    parser p = {.text = text, .at = text, .g = hod__graph_new("")};
    if (!p.g)
        return NULL;
    hod_graph *g = p.g;
    if (parse_graph(&p) == 0)
        return g;
    hod__graph_free(g);
    return NULL;
}
