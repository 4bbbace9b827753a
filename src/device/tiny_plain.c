/* Tiny products for any machine. */
#define TINY  hod__tiny_matmul_plain
#define LANES 4
#include "device/tiny_tmpl.c"
