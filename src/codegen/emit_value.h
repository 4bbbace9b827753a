/* Values as C text: how a value of the loops is called, addressed, loaded and computed.
 *
 * These functions only make text; emit_c.c puts it into lines. Results are malloc'd, NULL without
 * memory. Of value 7, a product of operand 2 and point 5 that operand 3 stores:
 *
 *     hod__c_load(p, 4)        p2[0 + x1 * s2_1 + x2]      4 loads operand 2
 *     hod__c_expression(p, 7)  (v4) * (v5)
 *     hod__c_use(p, 7)         v7                          where others read it
 *     hod__c_element(p, 3)     p3[0 + x1 * s3_1 + x2]      where it goes
 */
#ifndef HOD_CODEGEN_EMIT_VALUE_H
#define HOD_CODEGEN_EMIT_VALUE_H

#include "codegen/loops.h"

/* How a dtype is stored, what it is computed in, the helpers that convert between the two ("": a
 * cast does), the prefix of its functions and that of its limits. */
typedef struct hod_c_type {
    const char *stored, *computed, *load, *store, *prefix, *limits;
} hod_c_type;

extern const hod_c_type hod__c_types[HOD_DTYPES];

const hod_node *hod__c_node(const hod_loops *p, int i);
const hod_c_type *hod__c_type(const hod_loops *p, int i);

/* Appends " + x<axis> * s<q>_<axis>" for axes [from, to). */
void hod__c_address(hod_text *t, const hod_loops *p, int q, int from, int to);
/* The element of operand q under the current loops. */
char *hod__c_element(const hod_loops *p, int q);
/* The element of value i's operand, in the type it is computed in. */
char *hod__c_load(const hod_loops *p, int i);
/* Value i where it is used. Points of a kept vector axis are arrays over the lanes. */
char *hod__c_use(const hod_loops *p, int i);
/* The right-hand side of value i, in the type it is computed in. */
char *hod__c_expression(const hod_loops *p, int i);

/* The accumulator of reduction i: apart from its value, because sums of short floats accumulate in
 * double. That costs nothing where memory or latency bounds a sweep, and a long sum then rounds
 * once, as the eager kernels' blocked sums nearly do. */
char *hod__c_accumulator(const hod_loops *p, int i);
const char *hod__c_accumulator_type(const hod_loops *p, int i);
/* What reduction i starts from, and its value once all is folded. */
char *hod__c_start(const hod_loops *p, int i);
char *hod__c_folded(const hod_loops *p, int i);

#endif
