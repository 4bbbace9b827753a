/* Traces: what a compiled function did, as a tree of segments, and a call that follows them.
 *
 *     call 1   relu add sum | item -> break | mul        segment A, then its child B
 *     call 2   relu add sum | item -> break | neg        segment A again, then a new child C
 *
 * A segment is a list of entries (operators, accumulations, spans) up to a graph break or the end
 * of the body, with the graph they make and the program compiled from it. Siblings begin at the
 * same place and differ somewhere; which of them a call takes shows entry by entry.
 *
 * Values are numbered in order of first occurrence over the whole call, through all its segments:
 * tensors from outside ("externals") when an operator first reads them, results when they are made.
 * Equal entries therefore have equal numbers, and comparing numbers is comparing data flow.
 *
 *   C1  a segment's values are numbers [first, first + n_values); entries mention none above
 *   C2  an external's properties (type, shape, strides, whether it wants a gradient) are part of
 *       the entry that first reads it, so equal prefixes mean equal graphs
 *   C3  every result has one cached handle, counted by its segment; while refs == 1 nobody else can
 *       see the value, so it needs no memory beyond the program
 *   C4  while an effect on a real tensor is recorded and not yet run, that tensor's storage has no
 *       data: whoever reads it on the host comes through hod__realise
 */
#ifndef HOD_COMPILE_TRACE_H
#define HOD_COMPILE_TRACE_H

#include "codegen/program.h"
#include "graph/graph.h"
#include <hod/compile.h>

typedef enum hod_entry_kind {
    HOD_ENTRY_OP,
    HOD_ENTRY_ACCUMULATE,
    HOD_ENTRY_SPAN,
    HOD_ENTRY_SPAN_END,
} hod_entry_kind;

typedef struct hod_entry {
    uint8_t kind;
    bool grad;      /* the tape listened */
    int16_t op;     /* hod_op */
    int16_t n;      /* inputs */
    uint16_t bytes; /* of the attributes */
    int32_t in;     /* its inputs: segment.in[in .. in + n); SPAN: index of the span */
    int32_t attrs;  /* place in segment.attrs */
    int32_t out;    /* value made; NO_VALUE for effects */
    uint64_t wants; /* bit i: input i requires a gradient */
    const char *file;
    int32_t line;
} hod_entry;

enum { HOD_NO_VALUE = -1 };

/* A stretch of entries that follows from (kind, key, value) alone and may be skipped. */
typedef struct hod_span_record {
    const char *kind;
    uint64_t key;
    int32_t value;                        /* of its tensor, or NO_VALUE */
    int32_t parent;                       /* span around it, or -1 */
    int32_t end;                          /* entry behind its end; 0 while open */
    int32_t values;                       /* values known behind its end */
    int32_t first_external, first_effect; /* those inside begin here ... */
    int32_t end_external, end_effect;     /* ... and end here */
    bool skippable;
    bool consumed; /* backward: the graph of its tensor was used up */
} hod_span_record;

/* The hot half of a value: what a replay touches. */
typedef struct hod_value {
    hod_tensor *handle; /* results: counted, NULL when a new one is to be made */
    void *block;        /* memory of an output while its storage has none */
    int32_t base;       /* the value whose storage it shares; itself unless a view */
    int32_t external;   /* index in segment.externals, -1: a result */
    bool view;          /* made by a view operator */
    bool computed;      /* a result whose memory this segment computes; not a view of an external */
    bool loose;         /* somebody may still hold the handle, or it has data: look before reuse */
    bool output;        /* the program writes it out */
    bool requires_grad;
} hod_value;

/* The cold half. */
typedef struct hod_form {
    hod_meta meta;
    int64_t strides[HOD_MAX_DIMS];
    int64_t step;       /* views: offset minus the input's offset */
    int32_t entry;      /* that makes it */
    int32_t span;       /* innermost span at its making, -1: none */
    int32_t first_view; /* results that are no views: chain of views of it, -1: end */
    int32_t next_view;
    hod_ref node; /* its node in the finished graph */
} hod_form;

typedef struct hod_external {
    int32_t value;
    int32_t leaf; /* it is the gradient sum of this leaf's slot; NO_VALUE: of none */
    hod_input_role role;
    bool requires_grad;
    bool has_graph;         /* it is a result of eager operators that gradients flow through */
    bool pinned;            /* first read inside a skippable span: bound to `pin` when skipped */
    hod_tensor *pin;        /* counted */
    hod_tensor *hold;       /* counted; static mode: bound in the last call of the body */
    const hod_tensor *last; /* bound in the last finished call; compared, never followed */
    hod_meta meta;
    int64_t strides[HOD_MAX_DIMS];
} hod_external;

typedef struct hod_effect {
    int32_t entry;
    int32_t value; /* the tensor changed, or the sum */
    bool accumulate;
    bool first; /* the first accumulation into this sum in its segment */
} hod_effect;

typedef struct hod_output {
    int32_t value; /* a result that is no view */
    hod_ref node;
} hod_output;

typedef struct hod_segment {
    struct hod_segment *parent, *sibling, *children, *recent; /* recent: child taken last */
    int32_t first;
    hod_entry *entries;
    int64_t n, cap;
    int32_t *in;
    int64_t n_in, cap_in;
    char *attrs;
    int64_t n_attrs, cap_attrs;
    hod_value *values;
    hod_form *forms; /* parallel to values, and cold: see there */
    int64_t n_values, cap_values, n_forms, cap_forms;
    hod_external *externals;
    int64_t n_externals, cap_externals;
    hod_effect *effects;
    int64_t n_effects, cap_effects;
    hod_span_record *spans;
    int64_t n_spans, cap_spans;
    int32_t *pattern; /* roots: the value of each input of the function */
    bool broken;      /* ends with a graph break, not with the body */
    bool forced;      /* the break is ours: the next operator would not fit into this graph */
    hod_graph_break why;
    bool clears; /* the body marks gradients absent along the way */
    bool tape;   /* replays must build the tape as well */
    /* Finished: */
    bool built;
    hod_graph *graph;     /* as recorded, without outputs */
    hod_graph *optimised; /* what the program was built from */
    hod_program *program; /* NULL: interpreted */
    hod_output *outputs;
    int64_t n_outputs, cap_outputs;
    int32_t *inputs; /* value of each graph input */
    int64_t n_inputs, cap_inputs;
    hod_program_stats stats;
    int32_t *returns; /* static mode: the value of each output of the function */
    /* Room for a run: one an input, or one an output. */
    hod_tensor **run_in;
    hod_grad_slot **run_slots;
    void **run_out;
} hod_segment;

/* A value's state in the graph being recorded. */
typedef struct hod_live {
    hod_ref node;
    int32_t changes; /* in-place changes of it so far */
    int32_t seen;    /* views: changes of the base when `node` was made */
} hod_live;

typedef struct hod_pending {
    hod_storage *storage;
    void *data;
} hod_pending;

typedef struct hod_slot_use {
    hod_grad_slot *slot;
    bool before; /* present when its first accumulation was recorded */
    bool after;  /* present as the body left it */
} hod_slot_use;

typedef struct hod_open_span {
    hod_segment *segment;
    int32_t span;
} hod_open_span;

typedef struct hod_bound {
    hod_tensor *tensor; /* counted */
    int32_t value;
} hod_bound;

/* One call under way. Kept between calls for its memory. */
typedef struct hod_trace_call {
    hod_recorder recorder; /* first */
    struct hod_fn *fn;
    hod_segment *promise; /* static mode: what a known call ran */
    hod_segment *segment;
    int64_t cursor; /* replay: next entry */
    uint32_t stamp;
    bool recording; /* else replaying `segment` */
    bool taping;    /* replay: the tape is built along */
    bool preparing; /* nothing runs */
    bool checking;  /* spans are not skipped */
    bool mixed;     /* externals were compared with those of more than one earlier call */
    bool failed;
    bool transient;       /* the segment recorded now will not be kept */
    int backward;         /* open backward spans of the graph being made */
    hod_tensor **handles; /* of every value; NULL: not made, or inside a skipped span */
    int32_t n_values, cap_values;
    hod_live *live;   /* of every value, while recording */
    int32_t *scratch; /* one a value */
    hod_bound *bound; /* externals of this call */
    int64_t n_bound, cap_bound;
    int32_t *shifted; /* externals that are not those of the last call */
    int64_t n_shifted, cap_shifted;
    hod_pending *pending;
    int64_t n_pending, cap_pending;
    hod_slot_use *slots;
    int64_t n_slots, cap_slots;
    hod_open_span *open;
    int64_t n_open, cap_open;
} hod_trace_call;

struct hod_arena {
    hod_device *device;
    void *data;
    int64_t bytes;
};

struct hod_fn {
    hod_body body;
    void *job;
    hod_compile_spec spec;
    char name[32];
    hod_segment *roots, *recent;
    hod_arena own, *arena;
    hod_storage *nothing; /* what dead views of outside tensors point at */
    hod_trace_call call;
    int32_t *pattern;  /* the number of each input of this call, then NO_VALUE */
    hod_tensor **out;  /* results of a preparation */
    hod_segment *last; /* the last segment of the last finished call */
    bool interpret;    /* HOD_COMPILE=interpret: the slow twin runs every segment */
    bool require;      /* HOD_COMPILE=require: no compiler is an error */
    bool eager;        /* HOD_COMPILE=0, or the mode */
    bool warned_traces, warned_compiler;
    atomic_flag busy;
    hod_compile_report report;
};

/* ---- trace.c: segments ---- */
hod_segment *hod__segment_new(hod_segment *parent, int32_t first);
void hod__segment_free(hod_segment *s); /* with its children */
/* Appends the value of an external or a result; its number, or NO_VALUE. */
int32_t hod__segment_value(hod_segment *s, const hod_meta *meta, const int64_t *strides);
/* Appends inputs and attributes of an entry and returns the entry, or NULL. */
hod_entry *hod__segment_entry(hod_segment *s, hod_entry_kind kind, int n, const int32_t *in,
                              const void *attrs, size_t bytes);
/* True when a and b agree on their first `cursor` entries and on externals below `values`. */
bool hod__segment_same_prefix(const hod_segment *a, const hod_segment *b, int64_t cursor,
                              int32_t values);
/* Appends a copy of src's first `cursor` entries, and values below `values`, to the empty s. The
 * cached handles move. 0 or -1. */
int hod__segment_copy_prefix(hod_segment *s, hod_segment *src, int64_t cursor, int32_t values);
/* Exchanges the cached handles of values below `values`. */
void hod__segment_swap_handles(hod_segment *a, hod_segment *b, int32_t values);
/* The segment on s's way from the root that made value v. */
hod_segment *hod__segment_of(hod_segment *s, int32_t v);
bool hod__external_fits(const hod_external *e, const hod_tensor *t);
/* Copies an entry's attributes into a whole union. */
void hod__entry_attrs(const hod_segment *s, const hod_entry *e, hod_attrs *out);

/* ---- trace_graph.c: from entries to the graph ---- */
/* Adds entry i of the segment being recorded to its graph. 0 or -1. */
int hod__graph_step(hod_trace_call *k, hod_segment *s, int64_t i);
/* True when v comes into this segment's graph as an input. */
bool hod__value_is_input(const hod_segment *s, int32_t v);
/* True when some node reads the node that holds v now. */
bool hod__value_node_is_read(const hod_trace_call *k, const hod_segment *s, int32_t v);
/* The node that holds v now; makes an input or a view anew where needed. */
hod_ref hod__value_node(hod_trace_call *k, hod_segment *s, int32_t v);

/* ---- record.c ---- */
int hod__record_note(hod_recorder *r, const hod_op_call *c, hod_tensor *out);
/* The number of t, which becomes an external if it is none yet. NO_VALUE with an error. */
int32_t hod__call_value(hod_trace_call *k, hod_tensor *t);
/* As above, but NO_VALUE without an error when t is unknown. */
int32_t hod__call_known(hod_trace_call *k, const hod_tensor *t);
/* Gives t the number v, counted until the end of the call. 0 or -1. */
int hod__call_bind(hod_trace_call *k, int32_t v, hod_tensor *t);
/* Room for n more values. 0 or -1. */
int hod__call_reserve(hod_trace_call *k, int64_t n);
/* Takes the data of a changed tensor's storage away until the effect has run. 0 or -1. */
int hod__call_pend(hod_trace_call *k, hod_storage *s);
bool hod__call_is_pending(const hod_trace_call *k, const hod_storage *s);
/* Gives all storages their data back. */
void hod__call_unpend(hod_trace_call *k);
int hod__call_use_slot(hod_trace_call *k, hod_grad_slot *slot);
/* Replays of the segments of this call must build the tape; rebuilds it now. 0 or -1. */
int hod__call_need_tape(hod_trace_call *k);
/* Begins recording a segment behind `parent` (NULL: at the beginning) whose values start at
 * `first`. 0 or -1. */
int hod__call_record(hod_trace_call *k, hod_segment *parent, int32_t first);
/* Links every value so far to its origin on the tape, as if it had listened. 0 or -1. */
int hod__call_relink(hod_trace_call *k);
/* Adds `by` to the versions of what the first entries of s changed. */
void hod__call_shift_versions(hod_trace_call *k, hod_segment *s, int64_t entries, int by);
/* The buffer of a slot, made with this meta if there is none. 0 or -1. */
int hod__slot_buffer(hod_grad_slot *slot, const hod_meta *meta);
/* Why an operator with these inputs must begin a new segment, or NULL. */
const char *hod__record_refusal(hod_trace_call *k, int n, hod_tensor *const *in, bool effect);
bool hod__same_view(const hod_tensor *a, const hod_tensor *b);
/* True when the elements of the two may share memory. */
bool hod__overlap(const hod_tensor *a, const hod_tensor *b);
int hod__record_external(hod_trace_call *k, hod_segment *s, hod_tensor *t, bool is_input);
/* Hooks. */
int hod__hook_accumulate(hod_grad_slot *slot, hod_tensor *g);
int hod__hook_span_begin(const char *kind, uint64_t key, hod_tensor *t);
void hod__hook_span_end(const char *kind);
int hod__hook_realise(const hod_tensor *t);
int hod__hook_write(hod_tensor *t);

/* ---- replay.c ---- */
/* Follows root s with these inputs if it fits them. False if not. */
bool hod__replay_begin(hod_trace_call *k, hod_segment *s, const int32_t *pattern,
                       hod_tensor *const *in);
hod_tensor *hod__replay_op(hod_recorder *r, const hod_op_call *c);
bool hod__replay_accumulate(hod_trace_call *k, hod_grad_slot *slot, hod_tensor *g);
/* 1: skipped. 0: matched, run it. -1: no match. */
int hod__replay_span_begin(hod_trace_call *k, const char *kind, uint64_t key, hod_tensor *t);
bool hod__replay_span_end(hod_trace_call *k, const char *kind);
/* True when a known segment ends here so. */
bool hod__replay_end(hod_trace_call *k, bool broken, bool forced);
/* Turns the replay into a recording: copies what matched so far. 0 or -1. */
int hod__replay_fork(hod_trace_call *k);
/* Gives back the externals bound since there were n of them. */
void hod__replay_unbind(hod_trace_call *k, int64_t n, int64_t shifted, int32_t values);
/* Binds the externals and does the effects of a stretch without its entries, all or nothing.
 * False when something is not as recorded. */
bool hod__replay_stretch(hod_trace_call *k, hod_segment *s, const hod_span_record *p);

/* ---- handles.c ---- */
/* Gives back the memory of outputs that nobody holds any more, until the segment runs again. */
void hod__segment_rest(hod_segment *s);
/* The handle a replay hands out for result v, made from `in0` (NULL: no input). NULL: no memory. */
hod_tensor *hod__replay_handle(hod_trace_call *k, hod_segment *s, int32_t v, hod_tensor *in0);

/* ---- segment.c: the end of a segment ---- */
/* Ends the current segment: compiles it if it is new, runs it. At a break goes on with the next
 * one. 0 or -1. */
int hod__call_end_segment(hod_trace_call *k, bool broken, bool forced);
/* A graph break here. `reason` says why. `forced`: not the host asks for it but the operator that
 * comes next, so replays must see it coming. 0 or -1. */
int hod__call_break(hod_trace_call *k, const char *reason, bool forced);
/* After a finished call: what stays cached, what is let go. */
void hod__call_settle(hod_trace_call *k);
/* After a failed one: as if it had not been called, except for segments that already ran. */
void hod__call_abandon(hod_trace_call *k);
/* What was changed while nothing should be: versions, and which gradients are present. */
void hod__call_undo(hod_trace_call *k);
/* Frees the autograd fields of cached handles nobody else holds. */
void hod__segment_drop_links(hod_segment *s);

/* ---- engine.c ---- */
/* Optimises the graph of a segment and builds its program, unless it is to be interpreted. 0 or
 * -1. */
int hod__segment_build(hod_fn *f, hod_segment *s, bool interpret);
/* Computes all outputs that are wanted, and the effects. 0 or -1. */
int hod__segment_run(hod_trace_call *k, hod_segment *s);
int hod__arena_reserve(hod_arena *a, int64_t bytes);

/* ---- static.c: HOD_COMPILE_REDUCE_OVERHEAD ---- */
/* Remembers a finished call of the body, so that the next one can do without. 0 or -1. */
int hod__static_note(hod_trace_call *k, hod_tensor *const *out);
/* The segment that a call with these inputs would run, or NULL. */
hod_segment *hod__static_find(hod_fn *f, hod_tensor *const *in);
/* Runs s without the body; results are counted. 1: done. 0: not possible now. -1: failed. */
int hod__static_run(hod_trace_call *k, hod_segment *s, hod_tensor *const *in, hod_tensor **out);
/* -1 with an error when this call of the body was not what s promised. */
int hod__static_check(hod_trace_call *k, const hod_segment *s);

/* The call of this thread; NULL outside compiled functions. */
hod_trace_call *hod__call_current(void);

#endif
