/* The bridge to the tape: rebuilding, dropping and looking at the history of values. */
#include "compile/tape_links.h"
#include "autograd/autograd.h"

int hod__links_note(const hod_op_call *c, hod_tensor *out)
{
    bool before = hod__tape_mode.enabled;
    hod__tape_mode.enabled = true;
    int rc = hod__tape_note(c, out);
    hod__tape_mode.enabled = before;
    return rc;
}

bool hod__links_open(const hod_tensor *t)
{
    return hod__has_grad_fn(t) && !t->autograd->grad_fn->consumed;
}

void hod__links_consume(hod_tensor *t)
{
    if (!hod__links_open(t))
        return;
    /* A list of its own keeps every node until all are done: consuming one releases the next. */
    hod_grad_node **list = NULL;
    int64_t n = 0, cap = 0;
    hod_grad_node **place = hod__push(&list, &n, &cap, sizeof *list);
    if (!place)
        return;
    *place = t->autograd->grad_fn;
    hod__grad_node_retain(*place);
    for (int64_t k = 0; k < n; k++) {
        hod_grad_node *node = list[k];
        for (int i = 0; !node->consumed && i < node->n; i++) {
            hod_grad_node *next = node->edge[i].node;
            if (next && !next->consumed && (place = hod__push(&list, &n, &cap, sizeof *list))) {
                *place = next;
                hod__grad_node_retain(next);
            }
        }
        hod__grad_node_consume(node);
    }
    for (int64_t k = 0; k < n; k++)
        hod__grad_node_release(list[k]);
    free(list);
}

void hod__links_drop(hod_tensor *t)
{
    if (t->autograd) {
        hod__grad_meta_free(t->autograd);
        t->autograd = NULL;
    }
    t->requires_grad = false;
}

hod_grad_slot *hod__links_slot(const hod_tensor *leaf)
{
    return leaf && leaf->autograd ? &leaf->autograd->slot : NULL;
}
