/* Attention by blocks in f32, with the library's products; see attention_tmpl.c. */
#include "device/dnn.h"
#include "ops/attention.h"
#include "ops/exp_down.h"
#include <math.h>

#define real    float
#define EXP(x)  exp_down(x)
#define PRODUCT hod__dnn_matmul
#include "ops/attention_tmpl.c"
