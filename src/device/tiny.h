/* Matrix products that are over before the library has begun: it takes 100 to 400 ns a call, and
 * 2 ns a term for a row times a column. Compiled for several instruction sets (tiny_*.c), called by
 * hod__dnn_matmul. */
#ifndef HOD_DEVICE_TINY_H
#define HOD_DEVICE_TINY_H

#include "device/dnn.h"

/* Terms that the columns beyond whole vectors may have, as they are packed on the stack. */
enum { HOD_TINY_TERMS = 256 };

/* One product of the batch, whose operands begin at a, b and c; k > 0. */
typedef void hod_tiny_matmul(const hod_matmul_geometry *g, const float *a, const float *b, float *c,
                             float beta);

/* Is a product of this geometry better done here? Says nothing of the batch. */
bool hod__tiny_fits(const hod_matmul_geometry *g);

/* For instruction set k of hod__cpu_level; NULL when this machine lacks it. */
hod_tiny_matmul *hod__tiny_matmul_of(int k);

hod_tiny_matmul hod__tiny_matmul_plain, hod__tiny_matmul_v3, hod__tiny_matmul_v4;

#endif
