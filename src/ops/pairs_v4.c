/* Pairs of rows for AVX-512; see pairs.h. CMakeLists.txt has the flags. */
#ifdef __x86_64__
#define real  float
#define ROOT  sqrtf
#define whole int32_t
#define LANES 16
#define ROWS  hod__pairs_v4
#include "ops/pairs_tmpl.c"
#else
typedef int nothing_of_this_on_other_machines;
#endif
