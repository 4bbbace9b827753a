/* All rows of ops.def as OP(name, ...), for whoever needs only what every row has: its name.
 *
 *     #define OP(name, ...) HOD_OP_##name,
 *     #include "ops/ops_rows.h"
 *     #undef OP
 *
 * No include guard: made to be included again.
 */
#define UNARY(name, ...) OP(name, __VA_ARGS__)
#define BINARY(name, ...) OP(name, __VA_ARGS__)
#define TERNARY(name, ...) OP(name, __VA_ARGS__)
#define REDUCE(name, ...) OP(name, __VA_ARGS__)
#define REDUCE_INDEX(name, ...) OP(name, __VA_ARGS__)
#define POINTWISE(name, ...) OP(name, __VA_ARGS__)
#define VIEW(name, ...) OP(name, __VA_ARGS__)
#define SOURCE(name, ...) OP(name, __VA_ARGS__)
#define KERNEL(name, ...) OP(name, __VA_ARGS__)
#define FUSED(name, ...) OP(name, __VA_ARGS__)
#define EFFECT(name, ...) OP(name, __VA_ARGS__)
#include "ops/ops.def"
