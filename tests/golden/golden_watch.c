/* Which rows of ops.def the golden cases reach: a recorder that lets every operator pass and notes
 * its name. Compiled functions bring their own recorder, so it is off while they run.
 */
#include "ops/op.h" /* first: it has macros INT, REAL of its own */

#include "golden.h"
#include <stdio.h>

static bool seen[HOD_OPS];

/* What the compiler hangs in for its recorder's sake; it would take ours for one of its own. */
static struct hooks {
    int (*accumulate)(hod_grad_slot *slot, hod_tensor *g);
    int (*begin)(const char *kind, uint64_t key, hod_tensor *t);
    void (*end)(const char *kind);
    int (*realise)(const hod_tensor *t);
    int (*write)(hod_tensor *t);
} compilers;

static void hang_in(struct hooks h)
{
    hod__accumulate_hook = h.accumulate;
    hod__span_begin_hook = h.begin;
    hod__span_end_hook = h.end;
    hod__realise_hook = h.realise;
    hod__write_hook = h.write;
}

/* Rows that no case can reach, and where else they are tested. */
static const struct {
    hod_op op;
    const char *reason;
} elsewhere[] = {
    {HOD_OP_uniform, "draws are no values of PyTorch's: test_random.c"},
    {HOD_OP_assign, "an effect: test_backward.c, test_compile.c"},
    {HOD_OP_accumulate, "an effect: test_backward.c, test_train_window.c"},
};

static hod_tensor *pass(hod_recorder *r, const hod_op_call *c)
{
    seen[c->op] = true;
    hod__recorder = NULL;
    hod_tensor *y = hod__op(c->op, c->attrs, c->n, c->in);
    hod__recorder = r;
    return y;
}

/* Comes after `pass` has failed. */
static int refuse(hod_recorder *r, const hod_op_call *c, hod_tensor *out)
{
    (void)r, (void)c, (void)out;
    return -1;
}

static hod_recorder watcher = {.replay = pass, .note = refuse, .watches = true};

void gold_watch(bool on)
{
    if (on == (hod__recorder == &watcher))
        return;
    if (on)
        compilers = (struct hooks){hod__accumulate_hook, hod__span_begin_hook, hod__span_end_hook,
                                   hod__realise_hook, hod__write_hook};
    hang_in(on ? (struct hooks){0} : compilers);
    hod__recorder = on ? &watcher : NULL;
}

int gold_print_unreached(void)
{
    int reached = 0, bare = 0;
    for (int op = 0; op < HOD_OPS; op++) {
        const char *why = NULL;
        for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
            if ((int)elsewhere[i].op == op)
                why = elsewhere[i].reason;
        reached += seen[op];
        bare += !seen[op] && !why;
        if (!seen[op])
            printf("%s of ops.def: no case reaches it; %s\n", hod__op_info[op].name,
                   why ? why : "and no reason is given");
    }
    printf("%d rows of ops.def, %d reached by a case, %d not, with a reason, %d without\n", HOD_OPS,
           reached, HOD_OPS - reached - bare, bare);
    return bare;
}
