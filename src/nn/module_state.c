/* What is done to all parameters and buffers of a tree: drawing, freezing, converting, counting.
 *
 * A parameter's values are a function of (seed, its full name, element) through Philox: adding a
 * layer, or making them in another order, changes no other layer's start.
 */
#include "nn/nn.h"
#include <math.h>

double hod_init_fan_bound(double fan_in)
{
    return fan_in > 0 ? 1 / sqrt(fan_in) : 0;
}

/* ---- drawing ---- */

/* Four draws for elements 4 * block ...: uniform in [0, 1) with 24 bits, or standard normal. */
static void draw(uint64_t seed, uint64_t name, uint64_t block, bool normal, double out[4])
{
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)name,
                           (uint32_t)(name >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, bits[4];
    hod_philox(counter, key, bits);
    for (int i = 0; i < 4; i++)
        out[i] = (double)(bits[i] >> 8) * 0x1p-24;
    for (int i = 0; normal && i < 4; i += 2) { /* Box and Muller; 1 - u is in (0, 1] */
        double radius = sqrt(-2 * log(1 - out[i])), angle = 6.283185307179586 * out[i + 1];
        out[i] = radius * cos(angle);
        out[i + 1] = radius * sin(angle);
    }
}

static void draw_values(const hod_init *init, uint64_t seed, uint64_t name, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i += 4) {
        double four[4];
        draw(seed, name, (uint64_t)i / 4, init->kind == HOD_INIT_NORMAL, four);
        for (int64_t k = 0; k < 4 && i + k < n; k++)
            out[i + k] = init->kind == HOD_INIT_NORMAL ? init->bound * four[k]
                                                       : init->bound * (2 * four[k] - 1);
    }
}

/* Writes values into t, whatever its type; t keeps its identity. */
static int fill(hod_tensor *t, const double *values)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(g);
    hod_tensor *v = hod_from_doubles(values, hod_tensor_shape(t));
    return hod__assign_by(t, v, "an initialisation") ? 0 : -1;
}

static int fill_constant(hod_tensor *t, double value)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(g);
    hod_tensor *v = hod_full((hod_dtype)t->dtype, hod_tensor_shape(t), value);
    return hod__assign_by(t, v, "an initialisation") ? 0 : -1;
}

int hod__init_parameter(const hod_module *m, const hod_parameter *p, uint64_t seed)
{
    const hod_init *init = &p->init;
    if (init->kind == HOD_INIT_ZEROS || init->kind == HOD_INIT_ONES)
        return fill_constant(p->tensor, init->kind == HOD_INIT_ONES);
    char path[HOD_NAME_MAX], name[2 * HOD_NAME_MAX];
    hod_module_full_name(m, path, sizeof path);
    snprintf(name, sizeof name, "%s%s%s", path, *path ? "." : "", p->name);
    int64_t n = hod_tensor_numel(p->tensor);
    double *values = hod__alloc((size_t)HOD_MAX(n, 1), sizeof *values);
    if (!values)
        return -1;
    draw_values(init, seed, hod__hash(name, strlen(name), 0), n, values);
    int rc = fill(p->tensor, values);
    free(values);
    return rc;
}

int hod__init_buffer(const hod_buffer *b)
{
    return fill_constant(b->tensor, b->initial);
}

int hod_module_init(hod_module *m, uint64_t seed)
{
    if (hod__null("module_init", "module", m))
        return -1;
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w);) {
        if (hod__init_parameter(w.item.module, w.item.parameter, seed) != 0)
            return -1;
        hod_zero_grad(w.item.tensor);
    }
    for (hod_walk w = hod_buffers(m); hod_walk_next(&w);)
        if (hod__init_buffer(w.item.buffer) != 0)
            return -1;
    return 0;
}

/* ---- the tree at once ---- */

void hod_module_train(hod_module *root, bool training)
{
    for (hod_module *m = root; m; m = hod__module_next(root, m))
        m->training = training;
}

int hod_module_freeze(hod_module *m, bool frozen)
{
    if (hod__null("module_freeze", "module", m))
        return -1;
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w);) {
        hod_zero_grad(w.item.tensor);
        if (!hod_requires_grad(w.item.tensor, !frozen))
            return -1;
    }
    return 0;
}

void hod_module_zero_grad(hod_module *m)
{
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w);)
        hod_zero_grad(w.item.tensor);
}

/* Gives the handle another storage: layers, optimizers and users point at the handle. */
static int convert(hod_tensor *t, hod_dtype dtype)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(g);
    hod_tensor *v = t->dtype == dtype ? t : hod_cast(t, dtype);
    if (!v || v == t)
        return v ? 0 : -1;
    if (hod__realise(v) != 0)
        return -1;
    hod__storage_retain(v->storage);
    hod__storage_release(t->storage);
    t->storage = v->storage;
    t->dtype = v->dtype;
    t->offset = v->offset;
    memcpy(t->strides, v->strides, sizeof t->strides);
    if (t->autograd) {
        hod_tensor_release(t->autograd->slot.sum);
        t->autograd->slot = (hod_grad_slot){0};
    }
    return 0;
}

int hod_module_cast(hod_module *m, hod_dtype dtype)
{
    if (hod__null("module_cast", "module", m))
        return -1;
    if (!hod__is_float(dtype))
        return HOD_FAIL_RC(ARGUMENT, "module_cast: %s is no float type", hod_dtype_name(dtype));
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w);)
        if (convert(w.item.tensor, dtype) != 0)
            return -1;
    for (hod_walk w = hod_buffers(m); hod_walk_next(&w);)
        if (w.item.tensor->dtype != HOD_I64 && convert(w.item.tensor, dtype) != 0)
            return -1;
    return 0;
}

/* ---- statistics of batch norms ---- */

int hod_module_update_statistics(hod_module *root)
{
    HOD_NO_GRAD(g);
    for (hod_module *m = root; m; m = hod__module_next(root, m))
        if (m->update_statistics && m->update_statistics(m) != 0)
            return -1;
    return root ? 0 : -1;
}

int hod_module_discard_statistics(hod_module *root)
{
    HOD_NO_GRAD(g);
    for (hod_module *m = root; m; m = hod__module_next(root, m))
        if (hod__batch_norm_discard(m) != 0)
            return -1;
    return root ? 0 : -1;
}

void hod_module_batch_norm_mode(hod_module *root, hod_batch_norm_mode mode)
{
    for (hod_module *m = root; m; m = hod__module_next(root, m))
        hod__batch_norm_set_mode(m, mode);
}
