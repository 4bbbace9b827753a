/* Storages and handles: who holds how many of what.
 *
 *     handle ---> storage ---> bytes of a device
 *     handle --^                (several views, one storage, one version counter)
 *
 * Both are counted atomically. A storage without bytes is symbolic: its size is known, its values
 * are still to be computed by a recorded program, which fills it in through hod__realise_hook.
 *
 * A handle that nobody holds any more is buried, not freed: a thread's last GRAVES stay readable,
 * so that a result used after the end of its scope gives an error instead of a crash.
 */
#include "base/scope.h"
#include "tensor/tensor.h"

int (*hod__realise_hook)(const hod_tensor *t);
_Thread_local int (*hod__read_hook)(const hod_tensor *t);
int (*hod__write_hook)(hod_tensor *t);
void (*hod__grad_meta_free)(struct hod_grad_meta *m);

hod_storage *hod__storage_symbolic(hod_device *d, int64_t bytes)
{
    hod_storage *s = hod__alloc(1, sizeof *s);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->device = d;
    s->bytes = bytes;
    return s;
}

hod_storage *hod__storage_new(hod_device *d, int64_t bytes)
{
    hod_storage *s = hod__storage_symbolic(d, bytes);
    if (!s)
        return NULL;
    s->data = d->alloc(d, bytes);
    if (s->data)
        return s;
    free(s);
    return NULL;
}

void hod__storage_retain(hod_storage *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void hod__storage_release(hod_storage *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (s->release)
        s->release(s);
    else if (s->data)
        s->device->release(s->device, s->data, s->bytes);
    free(s);
}

hod_tensor *hod__tensor_new(const hod_meta *meta, hod_storage *s)
{
    hod_tensor *t = s ? hod__alloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    atomic_init(&t->refs, 1);
    t->dtype = (uint8_t)meta->dtype;
    t->ndim = (int8_t)meta->ndim;
    memcpy(t->shape, meta->shape, sizeof t->shape);
    hod__row_major(t->ndim, t->shape, t->strides);
    hod__storage_retain(s);
    t->storage = s;
    return t;
}

hod_tensor *hod__tensor_alias(const hod_tensor *t)
{
    if (!t)
        return NULL;
    hod_meta meta = hod__meta(t);
    hod_tensor *alias = hod__tensor_new(&meta, t->storage);
    if (!alias)
        return NULL;
    memcpy(alias->strides, t->strides, sizeof alias->strides);
    alias->offset = t->offset;
    return alias;
}

hod_tensor *hod__tensor_same(const hod_tensor *t)
{
    hod_tensor *same = hod__tensor_alias(t);
    if (!same)
        return NULL;
    same->trace_value = t->trace_value;
    same->trace_stamp = t->trace_stamp;
    return same;
}

hod_tensor *hod_tensor_retain(hod_tensor *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

/* ---- the last handles that died ---- */

enum { GRAVES = 64 };

static _Thread_local struct {
    hod_tensor *dead[GRAVES]; /* a ring */
    int next;
    bool registered; /* the thread's end empties it */
} graves;

static void clear_graves(void)
{
    for (int i = 0; i < GRAVES; i++) {
        free(graves.dead[i]);
        graves.dead[i] = NULL;
    }
    graves.registered = false;
}

static void bury(hod_tensor *t)
{
    bool failed_before = hod_error();
    if (!graves.registered && hod__at_thread_end(clear_graves) != 0) {
        if (!failed_before) /* no memory, but nobody asked for anything */
            hod_error_take(NULL);
        free(t);
        return;
    }
    graves.registered = true;
    t->storage = NULL;
    t->autograd = NULL;
    free(graves.dead[graves.next]);
    graves.dead[graves.next] = t;
    graves.next = (graves.next + 1) % GRAVES;
}

bool hod__gone(const char *who, const hod_tensor *t)
{
    if (atomic_load_explicit(&t->refs, memory_order_relaxed) > 0)
        return false;
    HOD_FAIL(STATE,
             "%s: the tensor %s is gone, with the scope that owned it; hod_escape hands a "
             "result to the scope around",
             who, HOD_SHAPE_TEXT(t));
    return true;
}

void hod_tensor_release(hod_tensor *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (t->autograd)
        hod__grad_meta_free(t->autograd);
    hod__storage_release(t->storage);
    bury(t);
}

static void release_object(void *t)
{
    hod_tensor_release(t);
}

hod_tensor *hod__own(hod_tensor *t)
{
    return t && hod__scope_own(t, release_object) == 0 ? t : NULL;
}

void hod__bump(hod_tensor *t)
{
    hod__bump_by(t, "a write");
}

void hod__bump_by(hod_tensor *t, const char *who)
{
    t->storage->version++;
    t->storage->writer.name = who;
    hod__place(&t->storage->writer.file, &t->storage->writer.line);
}

int hod__realise(const hod_tensor *t)
{
    if (hod__gone("read", t))
        return -1;
    if (t->storage->data)
        return 0;
    if (hod__realise_hook)
        return hod__realise_hook(t);
    return HOD_FAIL_RC(STATE, "read: the values of this %s tensor were never computed",
                       HOD_SHAPE_TEXT(t));
}

void *hod__data(const hod_tensor *t)
{
    return (char *)t->storage->data + t->offset * (int64_t)hod_dtype_bytes(t->dtype);
}

int hod__read_begin(const hod_tensor *t)
{
    if (hod__gone("read", t) || (hod__read_hook && hod__read_hook(t) != 0))
        return -1;
    return hod__realise(t);
}
