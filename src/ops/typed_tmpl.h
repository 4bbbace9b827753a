/* TYPED_BODY compiled for one element type: included with ELEM_<TYPE> defined, which it clears.
 *
 *     #define TYPED_BODY "ops/index_tmpl.c"
 *     #define ELEM_F32
 *     #include "ops/typed_tmpl.h"
 */
#include "ops/elem_tmpl.h"
#undef ELEM_F32
#undef ELEM_F64
#undef ELEM_F16
#undef ELEM_BF16
#undef ELEM_I64
#undef ELEM_I32
#undef ELEM_U8
#undef ELEM_BOOL
#include TYPED_BODY
#define ELEM_DONE
#include "ops/elem_tmpl.h"
#undef ELEM_DONE
