/* Recurrent rows in double, by libm: the slow twin; see recur.h. */
#include <math.h>

static inline double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

#define real       double
#define SIGMOID(x) sigmoid(x)
#define TANH(x)    tanh(x)
#define ROWS       hod__recur_f64
#include "ops/recur_tmpl.c"
