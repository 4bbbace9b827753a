/* Local algebra, by the rows of rules.def.
 *
 *     %1 full {value=1}   %2 mul %0 %1   %3 neg %2   %4 neg %3   return %4     ->     return %0
 *
 * Exact rules run always: a compiled step must give what the eager one gives. The others are a pass
 * of their own, off by default.
 */
#include "graph/algebra.h"
#include "graph/passes.h"

static hod_ref exact(hod_rewrite *w, hod_ref r)
{
    return hod__rules_apply(w->context, w, r, -1, false);
}

static hod_ref inexact(hod_rewrite *w, hod_ref r)
{
    return hod__rules_apply(w->context, w, r, -1, true);
}

static bool simplify(hod_graph *g, hod_visit *visit)
{
    hod_rules *rules = hod__rules_new();
    bool changed = rules && hod__rewrite(g, visit, rules);
    free(rules);
    return changed;
}

bool hod__opt_simplify(hod_graph *g)
{
    return simplify(g, exact);
}

bool hod__opt_inexact(hod_graph *g)
{
    return simplify(g, inexact);
}
