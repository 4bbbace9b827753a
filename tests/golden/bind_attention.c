/* Scaled dot-product attention. */
#include "golden.h"

const gold_family gold_attention = {"attention", NULL, 0, 58, 0};
