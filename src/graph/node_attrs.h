/* Attributes of nodes as text: printed and parsed through hod__attrs_info alone, so that a new
 * parameter of an operator is one word in attrs.def. Those of a node are a hod__attrs_copy.
 */
#ifndef HOD_GRAPH_NODE_ATTRS_H
#define HOD_GRAPH_NODE_ATTRS_H

#include "ops/op.h"

/* Appends " {value=0.5, shape=(2,3)}": fields that are not zero, nothing when all are. */
void hod__attrs_print(hod_attrs_kind kind, const hod_attrs *attrs, hod_text *out);
/* The field of that name, n bytes long, or NULL. */
const hod_attr_field *hod__attrs_field(hod_attrs_kind kind, const char *name, size_t n);

/* Shortest decimal text that reads back as the same double, in any locale. Returns buf. */
char *hod__real_text(double x, char buf[32]);
/* Reads a double; the byte behind it, or NULL where no number begins. */
const char *hod__real_parse(const char *text, double *out);
/* Appends "(2,3)". */
void hod__print_sizes(int n, const int64_t *sizes, hod_text *out);

#endif
