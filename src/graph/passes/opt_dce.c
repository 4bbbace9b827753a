/* Dead code: nodes that neither an output nor an effect reaches.
 *
 *     %1 exp %0   %2 neg %0   return %1     ->     %1 exp %0   return %1
 */
#include "graph/passes.h"

bool hod__opt_dce(hod_graph *g)
{
    return hod__graph_compact(g, NULL);
}
