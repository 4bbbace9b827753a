/* Tensors: a typed, strided view of a storage.
 *
 *     hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5, 6}, HOD_SHAPE(2, 3));
 *     hod_tensor *t = hod_transpose(x, 0, 1);        // a view: no copy
 *     printf("%g\n", hod_item(hod_sum(t)));          // 21
 *
 * A hod_tensor is a counted handle. Functions that make one give it to the innermost scope
 * (scope.h); hod_tensor_retain keeps it beyond. Elements are row-major by default; views share
 * the storage and its version counter. Sizes and strides are counted in elements, 64 bits each.
 *
 * A call that would change nothing (hod_reshape to the same shape, hod_cast to the same type) gives
 * back its input, not another handle; hod_copy and hod_detach always make one.
 *
 * In place: values may be written through hod_tensor_mutable_data, which counts a version; so do an
 * optimizer's update and what loads a file. A backward that still needs the old values then is an
 * error. Tensors whose elements share addresses (expanded ones) cannot be written.
 */
#ifndef HOD_TENSOR_H
#define HOD_TENSOR_H

#include <hod/scope.h>

typedef enum hod_dtype {
    HOD_F32 = 0, /* zero means the default, so f32 is zero */
    HOD_F64,
    HOD_F16,
    HOD_BF16,
    HOD_I64,
    HOD_I32,
    HOD_U8,
    HOD_BOOL,
    HOD_DTYPES
} hod_dtype;

enum { HOD_MAX_DIMS = 8 };

/* A shape as an argument: HOD_SHAPE(2, 3), HOD_SHAPE() for a scalar. */
typedef struct hod_shape {
    int n;
    int64_t d[HOD_MAX_DIMS];
} hod_shape;

#define HOD_SHAPE(...)                                                                             \
    hod_shape_of((int)(sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1,                 \
                 (int64_t[]){0, __VA_ARGS__} + 1)
/* n > HOD_MAX_DIMS: n stays, refused later. */
HOD_API hod_shape hod_shape_of(int n, const int64_t *sizes);

/* ---- making tensors; each belongs to the innermost scope ---- */
HOD_API hod_tensor *hod_empty(hod_dtype dtype, hod_shape shape); /* contents undefined */
HOD_API hod_tensor *hod_zeros(hod_dtype dtype, hod_shape shape);
HOD_API hod_tensor *hod_from_floats(const float *data, hod_shape shape); /* copies, f32 */
HOD_API hod_tensor *hod_from_doubles(const double *data, hod_shape shape); /* copies, f64 */
HOD_API hod_tensor *hod_from_ints(const int64_t *data, hod_shape shape); /* copies, i64 */
/* Copies `data`, whose elements have `dtype`, row-major. */
HOD_API hod_tensor *hod_from_data(hod_dtype dtype, const void *data, hod_shape shape);
HOD_API hod_tensor *hod_scalar(double value); /* f32, shape () */

/* ---- lifetime ---- */
HOD_API hod_tensor *hod_tensor_retain(hod_tensor *t); /* returns t; NULL passes through */
HOD_API void hod_tensor_release(hod_tensor *t);       /* NULL is allowed */

/* ---- what it is ---- */
HOD_API hod_dtype hod_tensor_dtype(const hod_tensor *t);
HOD_API int hod_tensor_ndim(const hod_tensor *t);
HOD_API int64_t hod_tensor_size(const hod_tensor *t, int dim); /* dim may count from the end */
HOD_API int64_t hod_tensor_stride(const hod_tensor *t, int dim);
HOD_API int64_t hod_tensor_numel(const hod_tensor *t);
HOD_API hod_shape hod_tensor_shape(const hod_tensor *t);
HOD_API bool hod_tensor_is_contiguous(const hod_tensor *t);
HOD_API uint32_t hod_tensor_version(const hod_tensor *t); /* in-place changes of its storage */

/* ---- its values on the host ----
 * While a step is being recorded for compilation, reading a value runs the step so far: a graph
 * break, reported with file and line. */

/* The single element of a one-element tensor as a double; NaN with an error otherwise. */
HOD_API double hod_item(const hod_tensor *t);
/* Writes all elements, row-major, converted to double. 0 or -1; n must equal numel. */
HOD_API int hod_read_doubles(const hod_tensor *t, double *out, int64_t n);
HOD_API int hod_read_floats(const hod_tensor *t, float *out, int64_t n);
HOD_API int hod_read_ints(const hod_tensor *t, int64_t *out, int64_t n);
/* The first element's address. Counts as no change; writers use hod_tensor_mutable_data. */
HOD_API const void *hod_tensor_data(const hod_tensor *t);
HOD_API void *hod_tensor_mutable_data(hod_tensor *t); /* bumps the version */
/* A short text, "f32 (2,3) [[1,2,3],[4,5,6]]", cut after `cap` bytes. Returns buf. */
HOD_API char *hod_tensor_text(const hod_tensor *t, char *buf, size_t cap);

HOD_API const char *hod_dtype_name(hod_dtype dtype); /* "f32" */
HOD_API size_t hod_dtype_bytes(hod_dtype dtype);

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(address, void *)
HOD_PLACED_RESULT(const_address, const void *)
#define hod_item(...) HOD_PLACED(double, hod_item(__VA_ARGS__))
#define hod_read_doubles(...) HOD_PLACED(int, hod_read_doubles(__VA_ARGS__))
#define hod_read_floats(...) HOD_PLACED(int, hod_read_floats(__VA_ARGS__))
#define hod_read_ints(...) HOD_PLACED(int, hod_read_ints(__VA_ARGS__))
#define hod_tensor_data(...) HOD_PLACED(const_address, hod_tensor_data(__VA_ARGS__))
#define hod_tensor_mutable_data(...) HOD_PLACED(address, hod_tensor_mutable_data(__VA_ARGS__))
#define hod_empty(...) HOD_PLACED(tensor, hod_empty(__VA_ARGS__))
#define hod_zeros(...) HOD_PLACED(tensor, hod_zeros(__VA_ARGS__))
#define hod_from_floats(...) HOD_PLACED(tensor, hod_from_floats(__VA_ARGS__))
#define hod_from_doubles(...) HOD_PLACED(tensor, hod_from_doubles(__VA_ARGS__))
#define hod_from_ints(...) HOD_PLACED(tensor, hod_from_ints(__VA_ARGS__))
#define hod_from_data(...) HOD_PLACED(tensor, hod_from_data(__VA_ARGS__))
#define hod_scalar(...) HOD_PLACED(tensor, hod_scalar(__VA_ARGS__))
#endif

#endif
