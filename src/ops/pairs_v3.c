/* Pairs of rows for AVX2; see pairs.h. CMakeLists.txt has the flags. */
#ifdef __x86_64__
#define real  float
#define ROOT  sqrtf
#define whole int32_t
#define LANES 8
#define ROWS  hod__pairs_v3
#include "ops/pairs_tmpl.c"
#else
typedef int nothing_of_this_on_other_machines;
#endif
