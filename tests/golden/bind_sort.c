/* Sorting, selecting, counting: results that are indices or have sizes by value. */
#include "golden.h"

const gold_family gold_sort = {"sort", NULL, 0, 346, 0};
