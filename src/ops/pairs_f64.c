/* Pairs of rows in double, for any machine; see pairs.h. */
#define real  double
#define ROOT  sqrt
#define whole int64_t
#define LANES 2
#define ROWS  hod__pairs_f64
#include "ops/pairs_tmpl.c"
