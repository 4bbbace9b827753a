/* Between the files that draw random graphs: the drawing so far, and what moves call.
 *
 *     static hod_ref double_it(hod_drawing *d)
 *     {
 *         hod_ref x = hod__draw_node(d);
 *         return hod__draw_tame(d, hod__draw_scaled(d, x, 2));
 *     }
 *
 * A move returns the node it made, or HOD_NO_REF: it does not fit, draw another.
 */
#ifndef HOD_GRAPH_RANDOM_GRAPH_H
#define HOD_GRAPH_RANDOM_GRAPH_H

#include "graph/graph.h"

#include <stdio.h>

typedef struct hod_drawn_value {
    double bound; /* no element is larger in magnitude */
    bool whole;   /* elements are integers held exactly */
    bool hidden;  /* too large to be drawn again: only what tamed it reads it */
} hod_drawn_value;

typedef struct hod_drawing {
    hod_graph *g;
    uint64_t state;
    hod_drawn_value *values; /* of each node */
    int64_t n_values, cap_values;
    bool failed;
} hod_drawing;

uint64_t hod__draw_bits(uint64_t *state);     /* 64 random bits */
int64_t hod__draw(hod_drawing *d, int64_t n); /* 0 .. n-1 */
bool hod__draw_one_in(hod_drawing *d, int64_t n);
hod_ref hod__draw_node(hod_drawing *d);
hod_dtype hod__draw_dtype(hod_drawing *d);
void hod__draw_shape(hod_drawing *d, hod_meta *meta); /* sets ndim and shape */

double hod__whole_bound(hod_dtype dtype); /* up to which whole numbers are let grow */

/* Appends and notes what is known of the value. */
hod_ref hod__draw_op(hod_drawing *d, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                     double bound, bool whole);
hod_ref hod__draw_unary(hod_drawing *d, hod_op op, hod_ref x, double bound, bool whole);
hod_ref hod__draw_note(hod_drawing *d, hod_ref r, double bound, bool whole);
hod_ref hod__draw_full(hod_drawing *d, hod_dtype dtype, double value); /* shape () */
hod_ref hod__draw_scaled(hod_drawing *d, hod_ref x, double factor);    /* floats */
/* r, or something smaller made of it when its bound is large. */
hod_ref hod__draw_tame(hod_drawing *d, hod_ref r);
/* An input: kind x, n, j (below limit) or k, see random_graph.c. */
hod_ref hod__draw_input(hod_drawing *d, const hod_meta *meta, char kind, int64_t limit,
                        hod_input_role role);
hod_ref hod__draw_fresh(hod_drawing *d, const hod_meta *meta);
hod_ref hod__draw_index(hod_drawing *d, const hod_meta *shape, int64_t below); /* i64 or i32 */

/* The moves by family: random_moves.c, random_kernels.c, random_places.c, random_sequences.c. */
hod_ref hod__draw_pointwise(hod_drawing *d);
hod_ref hod__draw_reduction(hod_drawing *d);
hod_ref hod__draw_view(hod_drawing *d);
hod_ref hod__draw_kernel(hod_drawing *d);
hod_ref hod__draw_place(hod_drawing *d, hod_ref x); /* one of the kernels */
hod_ref hod__draw_ctc(hod_drawing *d, hod_ref x);
hod_ref hod__draw_recurrent(hod_drawing *d, hod_ref x);
hod_ref hod__draw_attention(hod_drawing *d, hod_ref x);
hod_ref hod__draw_source(hod_drawing *d);
int hod__draw_effects(hod_drawing *d); /* some assignments and accumulations; 0 or -1 */

#endif
