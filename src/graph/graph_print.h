/* Pieces of the graph's text that the parser and the validator need too.
 *
 *     hod_text line = {0};
 *     hod__node_print(g, 5, &line);      // %5 = mul f32 (2,3) %1 %2
 */
#ifndef HOD_GRAPH_GRAPH_PRINT_H
#define HOD_GRAPH_GRAPH_PRINT_H

#include "graph/graph.h"

/* Appends one node as a line of the text, without indentation, place and newline. */
void hod__node_print(const hod_graph *g, hod_ref r, hod_text *out);
/* The hod_input_role called so, or -1. */
int hod__input_role_of(const char *name, size_t n);

#endif
