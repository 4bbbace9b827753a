/* Scopes: who frees the temporaries of an expression.
 *
 * Every tensor an operator returns belongs to the innermost scope of its thread and dies with it,
 * on any way out of the block; hod_escape hands a result to the scope around it:
 *
 *     hod_tensor *mlp(hod_tensor *x, hod_tensor *w1, hod_tensor *w2)
 *     {
 *         HOD_SCOPE(s);
 *         hod_tensor *h = hod_relu(hod_matmul(x, w1));
 *         return hod_escape(hod_matmul(h, w2));
 *     }
 *
 * What must outlive every scope is kept with hod_tensor_retain and given back with
 * hod_tensor_release. A loop opens a scope in its body, or its temporaries pile up.
 */
#ifndef HOD_SCOPE_H
#define HOD_SCOPE_H

#include <hod/error.h>
#include <stdint.h>

typedef struct hod_tensor hod_tensor;
HOD_PLACED_RESULT(tensor, hod_tensor *)

/* Invariant: the objects of a scope are entries [base, base of the next inner scope) of the
 * thread's stack. */
typedef struct hod_scope {
    int64_t base;
    struct hod_scope *outer;
    const char *file;
    int line;
} hod_scope;

HOD_API void hod_scope_begin(hod_scope *scope, const char *file, int line);
HOD_API void hod_scope_end(hod_scope *scope);

#define HOD_SCOPE(name)                                                                            \
    __attribute__((cleanup(hod_scope_end))) hod_scope name;                                        \
    hod_scope_begin(&name, __FILE__, __LINE__)

/* Moves a tensor of the innermost scope to the scope around it. What that scope does not own (an
 * argument passed through, a parameter, a tensor retained by hand) outlives it anyway and stays
 * where it is; NULL passes through. Returns t. */
HOD_API hod_tensor *hod_escape(hod_tensor *t);

#endif
