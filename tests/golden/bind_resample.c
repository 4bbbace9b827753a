/* Interpolation and sampling of images. */
#include "golden.h"

const gold_family gold_resample = {"resample", NULL, 0, 184, 0};
