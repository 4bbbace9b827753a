/* The graph as text: one node a line, in number order, so that a diff of two passes is readable.
 *
 *     %7 = matmul f32 (64,256) %0 %1 {tb=true} !backward !keep  # mlp.c:31
 *
 * Shape and type are printed although the operator's rule would give them: people read them, and
 * validation compares them. Places are comments, because text cannot hold a static string's
 * address.
 */
#include "graph/graph_print.h"
#include "graph/node_attrs.h"

static const char *const role_names[] = {
    [HOD_INPUT_DATA] = "data",
    [HOD_INPUT_PARAMETER] = "parameter",
    [HOD_INPUT_STATE] = "state",
    [HOD_INPUT_GRADIENT] = "gradient",
};

/* Quoted; whatever is not plain ASCII as \xHH. */
static void print_string(const char *s, hod_text *out)
{
    hod__text(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            hod__text(out, "\\%c", c);
        else if (c < ' ' || c > '~')
            hod__text(out, "\\x%02x", c);
        else
            hod__text(out, "%c", c);
    }
    hod__text(out, "\"");
}

static void print_input(const hod_graph *g, const hod_node *node, hod_text *out)
{
    const hod_graph_input *input = &g->inputs[node->input];
    int64_t row_major[HOD_MAX_DIMS] = {0};
    hod__row_major(node->ndim, node->shape, row_major);
    bool plain = memcmp(row_major, input->strides, (size_t)node->ndim * sizeof *row_major) == 0;
    hod__text(out, " ");
    print_string(input->name, out);
    if (input->role == HOD_INPUT_DATA && plain)
        return;
    hod__text(out, " {");
    if (input->role != HOD_INPUT_DATA)
        hod__text(out, "role=%s%s", role_names[input->role], plain ? "" : ", ");
    if (!plain) {
        hod__text(out, "strides=");
        hod__print_sizes(node->ndim, input->strides, out);
    }
    hod__text(out, "}");
}

void hod__node_print(const hod_graph *g, hod_ref r, hod_text *out)
{
    const hod_node *node = hod__node(g, r);
    bool input = hod__is_input(g, r);
    hod__text(out, "%%%d = %s %s ", r, input ? "input" : hod__node_info(g, r)->name,
              hod_dtype_name((hod_dtype)node->dtype));
    hod__print_sizes(node->ndim, node->shape, out);
    for (int i = 0; i < node->n_in; i++)
        hod__text(out, " %%%d", hod__node_in(g, r)[i]);
    if (input)
        print_input(g, node, out);
    else
        hod__attrs_print(hod__node_info(g, r)->attrs, &node->attrs, out);
    if (node->flags & HOD_NODE_BACKWARD)
        hod__text(out, " !backward");
    if (node->flags & HOD_NODE_KEEP)
        hod__text(out, " !keep");
}

int hod__graph_print(const hod_graph *g, hod_text *out)
{
    bool plain = *g->name != 0;
    for (const char *c = g->name; *c; c++)
        plain = plain && (*c == '_' || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                          (*c >= '0' && *c <= '9'));
    hod__text(out, "graph ");
    if (plain)
        hod__text(out, "%s", g->name);
    else
        print_string(g->name, out);
    hod__text(out, " {\n");
    for (hod_ref r = 0; r < g->n; r++) {
        hod__text(out, "  ");
        hod__node_print(g, r, out);
        if (g->nodes[r].file && !strchr(g->nodes[r].file, '\n'))
            hod__text(out, "  # %s:%d", g->nodes[r].file, g->nodes[r].line);
        hod__text(out, "\n");
    }
    hod__text(out, "  return");
    for (int64_t i = 0; i < g->n_outputs; i++)
        hod__text(out, " %%%d", g->outputs[i]);
    hod__text(out, "\n}\n");
    return out->failed ? -1 : 0;
}

int hod__input_role_of(const char *name, size_t n)
{
    for (int i = 0; i < HOD_COUNT(role_names); i++)
        if (strlen(role_names[i]) == n && memcmp(role_names[i], name, n) == 0)
            return i;
    return -1;
}
