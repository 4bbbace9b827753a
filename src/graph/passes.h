/* The passes' functions, declared from their table. Each is one file in passes/. */
#ifndef HOD_GRAPH_PASSES_H
#define HOD_GRAPH_PASSES_H

#include "graph/graph.h"

/* True: g changed. On failure g is as it was, the result is false and an error is pending. */
#define PASS(name_, doc_, off_) bool hod__##name_(hod_graph *g);
#include "graph/passes.def"
#undef PASS

#endif
