/* Pairs of rows for any machine; see pairs.h. */
#define real  float
#define ROOT  sqrtf
#define whole int32_t
#define LANES 4
#define ROWS  hod__pairs_plain
#include "ops/pairs_tmpl.c"
