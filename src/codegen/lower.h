/* Lowering: from a graph's nodes to loops over memory. Shared by the files of this folder.
 *
 *   lower_operands.c, lower_again.c, lower_split.c   rewrites of the graph before that
 *   lower.c   where each value lives (root, layout), who reads it
 *   axes.c    the iteration space of a set of nodes: its atoms
 *   fuse.c    which nodes share a kernel: clusters
 *   loops.c   a cluster as loops; emit_c.c, emit_value.c print them; pool_kernel.c prints pooling
 *   program_build.c, program_calls.c, program.c   calls in order, memory planned, run
 *
 * Atoms. A kernel's loops run over *atoms*: factors of dimensions. A value's dimension is a list of
 * atoms, outermost first, whose extents multiply to its size; a list is empty where the dimension
 * is 1 and broadcasts. Reshaping regroups atoms (splitting some), permuting reorders lists, a
 * blocked image splits its channel list into [..., block]. So every access to memory is one stride
 * an atom, and GroupNorm's (N,C,H,W) -> (N,G,C/G,H,W) fuses with the blocked convolution before it:
 *
 *     x blocked   N  [C/b  b]  H  W        atoms   n  c  g  k  h  w      b = g*k, G = c*g
 *     grouped     N  G=[c g]  [k]  H  W    x's strides: n, c: HWb, g: k, k: 1, h: Wb, w: b
 */
#ifndef HOD_CODEGEN_LOWER_H
#define HOD_CODEGEN_LOWER_H

#include "codegen/program.h"
#include "device/dnn.h"

/* ---- where values live ---- */

typedef enum hod_place_kind {
    HOD_PLACE_NONE,   /* only inside kernels */
    HOD_PLACE_ARENA,  /* a planned buffer */
    HOD_PLACE_INPUT,  /* the graph input `index` (effects write there) */
    HOD_PLACE_OUTPUT, /* the caller's memory for output `index` */
} hod_place_kind;

/* Facts about one node. */
typedef struct hod_site {
    hod_ref producer; /* itself, or the non-view node under this view */
    hod_ref root;     /* itself, or what loops look through this view to: producer, or a cut */
    hod_ref memory;   /* the node that owns the memory: producer, or the input an effect writes */
    int32_t cluster;  /* of a fused node; -1: none */
    bool fused;       /* computed inside a generated kernel: pointwise, reduction, effect */
    bool inlined;     /* a source written into each kernel that reads it */
    bool stored;      /* has memory: always but for inlined ones and values inside one cluster */
    bool plain;       /* some reader needs it row-major */
    bool tinted;      /* computed elementwise from blocked memory ... */
    int64_t image[4]; /* ... of this shape; blocked values of other ranks are stored in its order */
    hod_layout layout;
    bool has_strides; /* the view is expressible as strides over plain memory, below */
    int64_t offset;   /* elements */
    int64_t strides[HOD_MAX_DIMS];
    int32_t followers;   /* first in lowering.followers: */
    int32_t n_users;     /* ... nodes that read this producer, */
    int32_t n_followers; /* ... then effects that overwrite what it reads */
} hod_site;

typedef struct hod_cluster {
    hod_ref *node; /* fused nodes, ascending */
    int32_t n;
} hod_cluster;

typedef struct hod_lowering {
    const hod_graph *g;
    hod_site *site;
    hod_ref *followers;
    hod_cluster *clusters; /* merged ones have n = 0 */
    int32_t n_clusters;
    int block; /* channels in a block */
} hod_lowering;

/* Fills sites and followers; nothing is fused yet (cluster -1). 0 or -1. */
int hod__lower(hod_lowering *l, const hod_graph *g);
void hod__lowering_free(hod_lowering *l);
bool hod__is_view(const hod_graph *g, hod_ref r);
/* A view that reads some elements only, or some twice: by strides of its own,
 * so it needs memory. */
bool hod__is_cut(const hod_graph *g, hod_ref r);
bool hod__is_effect(const hod_graph *g, hod_ref r);
/* Input i of node r is a target to write, not a value to read. */
bool hod__is_target(const hod_graph *g, hod_ref r, int i);
bool hod__is_conv(const hod_graph *g, hod_ref r); /* or one of its gradients */
/* Whether matmul can read a view as it lies; then: columns step by more than rows, and how far
 * apart the others are. */
bool hod__matmul_walk(const hod_node *n, const hod_site *s, bool *flipped, int64_t *ld);
/* Convolutions and poolings: input i may be blocked memory. */
bool hod__takes_blocked(const hod_graph *g, hod_ref r, int i);

/* Rewrites before lowering; each takes a graph and returns a new one, or NULL with an error.
 * split: long sums get two levels, so that every thread has work and rounding stays small.
 * again: forward values that are cheap are computed again where the backward pass reads them.
 * operands: library calls read only memory they can address. */
hod_graph *hod__lower_split(const hod_graph *g);
hod_graph *hod__lower_again(const hod_graph *g);
hod_graph *hod__lower_operands(const hod_graph *g);

enum {
    HOD_FEW_ROWS = 16,       /* fewer rows than this, over more ... */
    HOD_LONG_ROWS = 1 << 15, /* ... elements than this, do not keep threads busy */
};
/* Marks a node that `again` made: it belongs beside its backward reader, not its forward twin. */
enum { HOD_NODE_AGAIN = 1 << 8 };
/* A reduction to so few results from so many elements that it needs two levels. */
bool hod__few_rows(const hod_graph *g, hod_ref sum);

/* ---- iteration space ---- */

enum { HOD_ATOMS = 24, HOD_DIM_ATOMS = 8, HOD_SPACE_VALUES = 192 };

typedef struct hod_dim_atoms {
    int8_t n;
    int8_t atom[HOD_DIM_ATOMS]; /* outermost first */
} hod_dim_atoms;

typedef struct hod_space_value {
    hod_ref ref;
    hod_dim_atoms dim[HOD_MAX_DIMS];
    uint32_t atoms; /* set */
} hod_space_value;

/* Invariant: the extents of a value's dimension multiply to its size or its list is empty. */
typedef struct hod_space {
    int n_atoms;
    int64_t extent[HOD_ATOMS];
    uint32_t reduced; /* set of atoms that every reduction of the cluster folds */
    int n;
    hod_space_value value[HOD_SPACE_VALUES]; /* fused nodes and everything they read */
} hod_space;

/* Derives the space of a set of fused nodes. 0: *s is filled; 1: these nodes cannot share loops;
 * never an error. */
int hod__space_derive(const hod_lowering *l, const hod_ref *nodes, int n, hod_space *s);
hod_space_value *hod__space_value(hod_space *s, hod_ref r); /* NULL: not in it */
/* Strides of a value's memory for each atom, elements; offset is returned. For `stored` values by
 * layout, for inputs and slices by their own strides. */
int64_t hod__space_strides(const hod_lowering *l, const hod_space *s, const hod_space_value *v,
                           int64_t stride[HOD_ATOMS]);

/* ---- fusion ---- fills site.cluster, site.stored and clusters. 0 or -1. */
int hod__fuse(hod_lowering *l);

/* ---- kernels ---- */

enum { HOD_KERNEL_BUFFERS = 40, HOD_KERNEL_ARGS = 512 };

/* One operand of a kernel: whose memory, and where it starts in it. */
typedef struct hod_operand {
    hod_ref ref;    /* the value; its memory is that of site[ref].memory */
    int64_t offset; /* elements */
    uint64_t walk;  /* hash of its strides: equal walks visit memory in the same order */
    bool written;
    bool read_first; /* wherever it is read, nothing of its index has been written yet */
} hod_operand;

typedef struct hod_fused_kernel {
    char *text; /* with @@ for its name */
    hod_operand operand[HOD_KERNEL_BUFFERS];
    int n_operands;
    int64_t arg[HOD_KERNEL_ARGS];
    int n_args;
    int64_t range; /* extent of [begin, end) */
    int64_t grain; /* range steps a thread should at least get */
    /* args that hold 1 when the effect writing operand k must add (accumulate), set at run */
    struct {
        int arg;
        hod_ref effect;
    } beta[HOD_KERNEL_BUFFERS];
    int n_beta;
    bool one_sweep; /* every element is read once: a result may take the memory of an operand that
                       is read first and that it walks alike */
} hod_fused_kernel;

/* Pooling in f32, whose operands may have any layout, prints itself; k->text is malloc'd.
 * 0 or -1. */
bool hod__is_pool(const hod_graph *g, hod_ref r);
int hod__pool_print(const hod_lowering *l, hod_ref r, hod_fused_kernel *k);

#endif
