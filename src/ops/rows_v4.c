/* The inner loops for AVX-512; see rows.h. CMakeLists.txt has the flags. */
#ifdef __x86_64__
#define ROWS      hod__rows_v4
#define ROWS_NAME "v4"
#include "ops/rows_tmpl.c"
#else
typedef int nothing_of_this_on_other_machines;
#endif
