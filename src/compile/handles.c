/* Cached handles: the tensors a replay hands out for results.
 *
 * A result's handle is made once and kept by its segment. The next call hands the same one out
 * again if the last call's user has let go of it and of every view of it; otherwise the user keeps
 * the old one, and a new one takes its place. So a matching call allocates nothing, and what was
 * handed out never changes under whoever holds it. Memory of outputs is taken out of a free handle
 * and kept in `block`, because the value does not exist until the segment has run.
 */
#include "compile/tape_links.h"
#include "compile/trace.h"

/* Results that somebody may still hold, or whose storage got memory, from the last call. */
static bool is_free(const hod_segment *s, int32_t v)
{
    const hod_tensor *h = s->values[v - s->first].handle;
    if (atomic_load_explicit(&h->refs, memory_order_acquire) != 1)
        return false;
    int count = 1;
    for (int32_t w = s->forms[v - s->first].first_view; w >= 0;
         w = s->forms[w - s->first].next_view) {
        const hod_tensor *view = s->values[w - s->first].handle;
        if (!view || view->storage != h->storage)
            continue;
        count++;
        if (atomic_load_explicit(&view->refs, memory_order_acquire) != 1)
            return false;
    }
    return atomic_load_explicit(&h->storage->refs, memory_order_acquire) == count;
}

static hod_tensor *fresh_result(const hod_form *form)
{
    hod_storage *s = hod__storage_symbolic(hod__cpu(), hod__meta_bytes(&form->meta));
    hod_tensor *t = hod__tensor_new(&form->meta, s);
    hod__storage_release(s);
    return t;
}

void hod__segment_rest(hod_segment *s)
{
    for (int64_t i = 0; i < s->n_outputs; i++) {
        hod_value *value = &s->values[s->outputs[i].value - s->first];
        if (!value->handle || !is_free(s, s->outputs[i].value))
            continue;
        hod_storage *storage = value->handle->storage;
        void *memory = value->block ? value->block : storage->data;
        if (memory)
            storage->device->release(storage->device, memory, storage->bytes);
        value->block = storage->data = NULL;
    }
}

static hod_tensor *base_handle(hod_segment *s, int32_t v)
{
    hod_value *value = &s->values[v - s->first];
    if (value->handle && is_free(s, v)) {
        if (value->handle->autograd)
            hod__links_drop(value->handle);
        hod_storage *storage = value->handle->storage;
        if (storage->data)
            value->block = storage->data;
        storage->data = NULL;
    } else {
        hod_tensor *fresh = fresh_result(&s->forms[v - s->first]);
        if (!fresh)
            return NULL;
        hod_tensor_release(value->handle);
        value->handle = fresh;
    }
    value->loose = false;
    return value->handle;
}

static hod_tensor *view_handle(hod_segment *s, int32_t v, hod_tensor *in0)
{
    hod_value *value = &s->values[v - s->first];
    const hod_form *form = &s->forms[v - s->first];
    hod_tensor *h = value->handle;
    if (!h || (value->loose && atomic_load_explicit(&h->refs, memory_order_acquire) != 1)) {
        h = hod__tensor_new(&form->meta, in0->storage);
        if (!h)
            return NULL;
        memcpy(h->strides, form->strides, sizeof h->strides);
        hod_tensor_release(value->handle);
        value->handle = h;
    }
    if (h->autograd)
        hod__links_drop(h);
    if (h->storage != in0->storage) {
        hod__storage_retain(in0->storage);
        hod__storage_release(h->storage);
        h->storage = in0->storage;
    }
    h->offset = in0->offset + form->step;
    value->loose = false;
    return h;
}

hod_tensor *hod__replay_handle(hod_trace_call *k, hod_segment *s, int32_t v, hod_tensor *in0)
{
    hod_value *value = &s->values[v - s->first];
    hod_tensor *h = value->handle;
    if (value->view)
        h = view_handle(s, v, in0);
    else if (!h || value->loose)
        h = base_handle(s, v);
    if (!h)
        return NULL;
    h->requires_grad = value->requires_grad;
    __atomic_store_n(&h->trace_value, v, __ATOMIC_RELAXED);
    __atomic_store_n(&h->trace_stamp, k->stamp, __ATOMIC_RELAXED);
    k->handles[v] = h;
    k->n_values = v + 1;
    return h;
}
