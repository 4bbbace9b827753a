/* Views of what an effect overwrites become copies when somebody reads them from then on.
 *
 *     %1 permute %0   %2 assign %0 %9   %3 exp %1
 *       ->   %1 permute %0   %2 contiguous %1   %3 assign %0 %9   %4 exp %2
 *
 * A graph's values do not age, a view's memory does. After this pass whoever turns the graph into
 * memory accesses need not know the difference. An effect that itself reads its target through a
 * view gets the copy as well: element i may be overwritten before it is read as element j.
 */
#include "graph/passes.h"
#include "graph/rewrite.h"

static hod_ref copy_old(hod_rewrite *w, hod_ref r)
{
    int32_t input = hod__node_info(w->g, r)->class == HOD_VIEW ? hod__node_storage(w->g, r) : -1;
    if (input < 0 || w->last_use[w->at] < hod__rewrite_next_change(w, input))
        return r;
    return hod__rewrite_op(w, HOD_OP_contiguous, NULL, 1, &r);
}

bool hod__lower_old_views(hod_graph *g)
{
    return hod__rewrite(g, copy_old, NULL);
}
