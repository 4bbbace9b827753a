/* Tiny products for AVX-512. CMakeLists.txt has the flags. */
#ifdef __x86_64__
#define TINY  hod__tiny_matmul_v4
#define LANES 16
#include "device/tiny_tmpl.c"
#else
typedef int nothing_of_this_on_other_machines;
#endif
