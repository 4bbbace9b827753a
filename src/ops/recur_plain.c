/* Recurrent rows for any machine; see recur.h. */
#define ROWS hod__recur_plain
#include "ops/recur_f32_tmpl.c"
