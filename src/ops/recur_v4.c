/* Recurrent rows for AVX-512; see recur.h. CMakeLists.txt has the flags. */
#ifdef __x86_64__
#define ROWS hod__recur_v4
#include "ops/recur_f32_tmpl.c"
#else
typedef int nothing_of_this_on_other_machines;
#endif
