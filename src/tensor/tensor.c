/* Making tensors from shapes and host data, and asking what they are. */
#include "tensor/tensor.h"

/* A row-major tensor of its own, uninitialised, owned by nobody yet. */
static hod_tensor *fresh(hod_dtype dtype, hod_shape shape)
{
    hod_meta meta = {.dtype = dtype, .ndim = shape.n};
    memcpy(meta.shape, shape.d, sizeof meta.shape);
    int64_t bytes = hod__meta_bytes(&meta);
    if (bytes < 0)
        return NULL;
    hod_storage *s = hod__storage_new(hod__cpu(), bytes);
    hod_tensor *t = hod__tensor_new(&meta, s);
    hod__storage_release(s);
    return t;
}

hod_tensor *hod_empty(hod_dtype dtype, hod_shape shape)
{
    return hod__own(fresh(dtype, shape));
}

hod_tensor *hod_zeros(hod_dtype dtype, hod_shape shape)
{
    hod_tensor *t = fresh(dtype, shape);
    if (t)
        memset(t->storage->data, 0, (size_t)t->storage->bytes);
    return hod__own(t);
}

hod_tensor *hod_from_data(hod_dtype dtype, const void *data, hod_shape shape)
{
    hod_tensor *t = fresh(dtype, shape);
    if (!t)
        return NULL;
    if (!data && t->storage->bytes > 0) {
        hod_tensor_release(t);
        return HOD_FAIL(ARGUMENT, "from_data: no data for %s",
                        hod__shape_text(shape.n, shape.d, (char[96]){0}, 96));
    }
    hod_device *d = t->storage->device;
    if (d->copy_in(d, t->storage->data, data, t->storage->bytes)) {
        hod_tensor_release(t);
        return NULL;
    }
    return hod__own(t);
}

hod_tensor *hod_from_floats(const float *data, hod_shape shape)
{
    return hod_from_data(HOD_F32, data, shape);
}

hod_tensor *hod_from_doubles(const double *data, hod_shape shape)
{
    return hod_from_data(HOD_F64, data, shape);
}

hod_tensor *hod_from_ints(const int64_t *data, hod_shape shape)
{
    return hod_from_data(HOD_I64, data, shape);
}

hod_tensor *hod_scalar(double value)
{
    return hod_from_floats(&(float){(float)value}, HOD_SHAPE());
}

/* A question about NULL, the result of something that failed, answers 0 and adds no error. */

hod_dtype hod_tensor_dtype(const hod_tensor *t)
{
    return t ? (hod_dtype)t->dtype : HOD_F32;
}

int hod_tensor_ndim(const hod_tensor *t)
{
    return t ? t->ndim : 0;
}

/* `dim` as an index into the shape; -1 with an error when there is no such dimension. */
static int dim_index(const char *what, const hod_tensor *t, int dim)
{
    if (dim >= -t->ndim && dim < t->ndim)
        return dim < 0 ? dim + t->ndim : dim;
    return HOD_FAIL_RC(ARGUMENT, "%s: dimension %d of %s", what, dim, HOD_SHAPE_TEXT(t));
}

int64_t hod_tensor_size(const hod_tensor *t, int dim)
{
    if (hod__null("tensor_size", "tensor", t))
        return 0;
    int i = dim_index("tensor_size", t, dim);
    return i < 0 ? 0 : t->shape[i];
}

int64_t hod_tensor_stride(const hod_tensor *t, int dim)
{
    if (hod__null("tensor_stride", "tensor", t))
        return 0;
    int i = dim_index("tensor_stride", t, dim);
    return i < 0 ? 0 : t->strides[i];
}

int64_t hod_tensor_numel(const hod_tensor *t)
{
    return t ? hod__numel(t->ndim, t->shape) : 0;
}

hod_shape hod_tensor_shape(const hod_tensor *t)
{
    return t ? hod_shape_of(t->ndim, t->shape) : (hod_shape){0};
}

bool hod_tensor_is_contiguous(const hod_tensor *t)
{
    return t && hod__is_row_major(t);
}

uint32_t hod_tensor_version(const hod_tensor *t)
{
    return t ? t->storage->version : 0;
}

const void *hod_tensor_data(const hod_tensor *t)
{
    if (hod__null("tensor_data", "tensor", t))
        return NULL;
    return hod__read_begin(t) == 0 ? hod__data(t) : NULL;
}

void *hod_tensor_mutable_data(hod_tensor *t)
{
    if (hod__null("tensor_mutable_data", "tensor", t) || hod__read_begin(t))
        return NULL;
    if (hod__overlaps_itself(t))
        return HOD_FAIL(STATE, "mutable_data: elements of this %s view share memory",
                        HOD_SHAPE_TEXT(t));
    if (hod__write_hook && hod__write_hook(t))
        return NULL;
    hod__bump_by(t, "a write on the host");
    return hod__data(t);
}
