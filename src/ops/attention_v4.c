/* Attention by blocks for AVX-512; see attention_tmpl.c. CMakeLists.txt has the flags. */
#ifdef __x86_64__
#define KERNELS hod__attention_v4
#include "ops/attention_f32_tmpl.c"
#else
typedef int nothing_of_this_on_other_machines;
#endif
