/* Networks as files: parameters and buffers under their full names.
 *
 * A trainer's checkpoint holds the same names, and beside them the state of the run under names
 * that begin with "@", which no module bears; so a network can be loaded from either.
 */
#include "train/train.h"

int hod__names_add(hod_names *l, const char *prefix, const char *name, hod_tensor *tensor)
{
    hod_named_tensor *item = hod__push(&l->items, &l->n, &l->cap, sizeof *l->items);
    if (!item)
        return -1;
    item->name = hod__format("%s%s", prefix, name);
    item->tensor = tensor;
    return item->name ? 0 : -1;
}

int hod__names_add_module(hod_names *l, hod_module *net)
{
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);)
        if (hod__names_add(l, "", w.item.name, w.item.tensor) != 0)
            return -1;
    for (hod_walk w = hod_buffers(net); hod_walk_next(&w);)
        if (!w.item.buffer->transient && hod__names_add(l, "", w.item.name, w.item.tensor) != 0)
            return -1;
    return 0;
}

void hod__names_free(hod_names *l)
{
    for (int64_t i = 0; i < l->n; i++)
        free((char *)l->items[i].name);
    free(l->items);
    *l = (hod_names){0};
}

int hod_save(hod_module *net, const char *path)
{
    if (hod__null("save", "module", net) || hod__null("save", "path", path))
        return -1;
    hod_names l = {0};
    int rc = hod__names_add_module(&l, net);
    if (rc == 0)
        rc = hod_save_tensors(path, l.items, l.n, NULL, 0);
    hod__names_free(&l);
    return rc;
}

/* Has the file the state of a run, too? */
static bool is_checkpoint(const hod_tensor_file *f)
{
    for (int64_t i = 0; i < hod_tensor_file_count(f); i++)
        if (hod_tensor_file_info(f, i).name[0] == '@')
            return true;
    return false;
}

/* -1 with an error when a wanted name is not there or has another shape. */
static int check_all(const hod_tensor_file *f, const char *path, const hod_names *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        const char *name = l->items[i].name;
        hod_shape want = hod_tensor_shape(l->items[i].tensor);
        int64_t at = hod_tensor_file_find(f, name);
        if (at < 0)
            return HOD_FAIL_RC(FORMAT, "%s: missing %s", path, name);
        hod_shape have = hod_tensor_file_info(f, at).shape;
        if (have.n != want.n || memcmp(have.d, want.d, (size_t)want.n * sizeof *want.d) != 0)
            return HOD_FAIL_RC(FORMAT, "%s: mismatched %s: file %s, wanted %s", path, name,
                               hod__shape_text(have.n, have.d, (char[96]){0}, 96),
                               hod__shape_text(want.n, want.d, (char[96]){0}, 96));
    }
    return 0;
}

int hod_load(hod_module *net, const char *path)
{
    if (hod__null("load", "module", net) || hod__null("load", "path", path))
        return -1;
    hod_tensor_file *f = hod_tensor_file_open(path);
    if (!f)
        return -1;
    hod_names l = {0};
    bool checkpoint = is_checkpoint(f);
    int rc = hod__names_add_module(&l, net);
    if (rc == 0 && checkpoint)
        rc = check_all(f, path, &l);
    if (rc == 0)
        rc = hod_load_into(f, l.items, l.n, !checkpoint, NULL);
    hod__names_free(&l);
    hod_tensor_file_close(&f);
    return rc;
}
