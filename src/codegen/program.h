/* A program: the compiled form of a graph, a flat list of calls with arena offsets.
 *
 *     hod_program *p = hod__program_build(g, &report);   // g: after hod__graph_optimize
 *     hod__program_run(p, arena, inputs, slots, outputs);
 *
 * Building lowers the graph: layouts chosen, pointwise chains and reductions fused into kernels,
 * library calls prepared, independent calls of one kernel merged, memory planned. Running does no
 * allocation and takes no decision but beta of `accumulate`.
 */
#ifndef HOD_CODEGEN_PROGRAM_H
#define HOD_CODEGEN_PROGRAM_H

#include "codegen/toolchain.h"
#include "graph/graph.h"

typedef struct hod_program hod_program;

typedef struct hod_program_stats {
    int nodes, kernels, library_calls;
    int64_t arena_bytes, arena_bound;
} hod_program_stats;

/* Consumes nothing; g may be freed after. NULL with an error. report may be NULL. */
hod_program *hod__program_build(const hod_graph *g, hod_toolchain_report *report);
void hod__program_free(hod_program *p);
hod_program_stats hod__program_stats(const hod_program *p);

/* in[i]: real tensor for graph input i, same dtype, shape and strides as recorded. slots[i]: for
 * inputs of role GRADIENT the slot whose `present` decides beta and becomes true, else NULL.
 * out[i]: address to write output i, row-major. arena: at least arena_bytes. 0 or -1. */
int hod__program_run(hod_program *p, void *arena, hod_tensor *const *in,
                     hod_grad_slot *const *slots, void *const *out);

int hod__program_print(const hod_program *p, hod_text *out);         /* calls and offsets */
int hod__program_print_kernels(const hod_program *p, hod_text *out); /* C text */
int hod__program_timeline(const hod_program *p, hod_text *out);      /* SVG */

#endif
