/* The inner loops for AVX2 and fused multiply-add; see rows.h. CMakeLists.txt has the flags. */
#ifdef __x86_64__
#define ROWS      hod__rows_v3
#define ROWS_NAME "v3"
#include "ops/rows_tmpl.c"
#else
typedef int nothing_of_this_on_other_machines;
#endif
