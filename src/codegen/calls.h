/* The inside of a program: calls, and where their operands are.
 *
 *   program_build.c  graph -> units -> ordered calls -> planned memory
 *   program.c        run, print, report
 */
#ifndef HOD_CODEGEN_CALLS_H
#define HOD_CODEGEN_CALLS_H

#include "codegen/loops.h"
#include "codegen/plan.h"

/* An address before the run: a space, which of it, and bytes into it. */
typedef struct hod_spot {
    hod_place_kind space;
    int32_t index;  /* input or output number */
    int64_t offset; /* bytes; in the arena, from its start */
} hod_spot;

/* One piece of work of a kernel call. Equal kernels that do not wait for each other (the updates of
 * all parameters) are instances of one call. */
typedef struct hod_instance {
    hod_spot *buf;
    int64_t *arg;
    int n_bufs;
    int64_t range, grain;
    struct {
        int arg;
        int32_t slot; /* graph input of role GRADIENT */
    } * beta;
    int n_beta;
} hod_instance;

typedef enum hod_program_call_kind {
    HOD_CALL_KERNEL,
    HOD_CALL_CONV,
    HOD_CALL_MATMUL,
    HOD_CALL_EVAL, /* the operator's eager kernel */
} hod_program_call_kind;

typedef struct hod_program_call {
    hod_program_call_kind kind;
    hod_ref node; /* the last node it computes, for printing */
    /* kernel */
    int32_t source; /* index in program.sources */
    hod_instance *instance;
    int64_t n_instances, cap_instances;
    /* library and eager calls */
    hod_dnn *conv;
    hod_matmul_geometry matmul;
    hod_spot in[2], out, scratch;
    int32_t slot;         /* accumulates into this gradient input; -1: no */
    hod_tensor **operand; /* eager: handles over the operands, out last */
    hod_spot *at;         /* eager: their storages' addresses */
    int n_operands;
} hod_program_call;

struct hod_program {
    hod_graph *g; /* as lowered */
    hod_program_call *call;
    int64_t n_calls, cap_calls;
    hod_kernel_source *sources;
    hod_kernel **kernel; /* by source */
    int64_t n_sources, cap_sources;
    hod_plan_buffer *buffer;
    hod_ref *buffer_node; /* the node each buffer was made for */
    int64_t n_buffers, cap_buffers;
    bool *writes_slot; /* by graph input: an accumulate of this program fills it */
    hod_program_stats stats;
};

#endif
