/* Attention by blocks for any machine; see attention_tmpl.c. */
#define KERNELS hod__attention_plain
#include "ops/attention_f32_tmpl.c"
