/* What the two files that build a program share: units of work and where their values are. */
#ifndef HOD_CODEGEN_BUILDER_H
#define HOD_CODEGEN_BUILDER_H

#include "codegen/calls.h"

typedef struct hod_unit {
    hod_ref node;     /* a library node, or HOD_NO_REF */
    int32_t cluster;  /* or a cluster */
    hod_ref effect;   /* an accumulate folded into a library call, or HOD_NO_REF */
    hod_ref last;     /* its last node, after which it is named */
    hod_ref key;      /* when it should run: `last`, or before an earlier reader */
    int32_t waits;    /* units that must run before and have not */
    int64_t ready;    /* first call at which all it waits for have run */
    int64_t position; /* its call */
    int32_t source;   /* of a cluster: index in program.sources */
    hod_fused_kernel *kernel;
} hod_unit;

typedef struct hod_builder {
    hod_program *p;
    hod_lowering l;
    hod_unit *units;
    int32_t n_units;
    int64_t n_calls;
    int32_t *unit_of;   /* by node; -1 */
    int32_t *order;     /* unit numbers */
    int32_t *buffer_of; /* by node that owns arena memory; -1 */
    int32_t *output_of; /* by node; the output it is written to, or -1 */
    hod_ref *folded;    /* by node: the accumulate that its library call performs, or HOD_NO_REF */
    hod_loops *loops;
    hod_space *space;
} hod_builder;

/* The place of value r, `elements` into it. Arena places name their buffer until the plan is
 * made. */
hod_spot hod__where(const hod_builder *b, hod_ref r, int64_t elements);
/* A new buffer of the arena; its number or -1. */
int32_t hod__new_buffer(hod_builder *b, int64_t bytes, hod_ref node);
/* Is node r the library's: a product or convolution of f32 throughout, nothing of it empty? */
bool hod__by_library(const hod_builder *b, hod_ref r);
/* Fills c for unit u, a library or eager operator. 0 or -1. */
int hod__library_call(hod_builder *b, hod_program_call *c, const hod_unit *u);

#endif
