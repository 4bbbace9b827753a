/* Casts and folds of one type; rows_tmpl.c includes this body once for each. */
#include "ops/cast_tmpl.c"

#include "ops/reduce_tmpl.c"
