/* TYPED_BODY (typed_tmpl.h) compiled for every element type. */
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#define ELEM_F16
#include "ops/typed_tmpl.h"
#define ELEM_BF16
#include "ops/typed_tmpl.h"
#define ELEM_I64
#include "ops/typed_tmpl.h"
#define ELEM_I32
#include "ops/typed_tmpl.h"
#define ELEM_U8
#include "ops/typed_tmpl.h"
#define ELEM_BOOL
#include "ops/typed_tmpl.h"
