/* Scopes: one stack of owned objects a thread, cut at the bases of its open scopes.
 *
 *     stack   [ a b | c d e | f g ]
 *               ^     ^       ^ base of the innermost scope
 *               |     base of the one around it
 *               what the thread itself owns, until hod_finish or the thread's end
 *
 * Owning is a push, ending a scope pops down to its base. Escaping from the innermost scope is a
 * swap with its first entry and a step of its base: f g | -> g | f, so g now lies in the scope
 * around. No list is searched on the way out and no order inside a scope is promised.
 */
#include "base/scope.h"
#include "base/base.h"

#include <pthread.h>

typedef struct owned {
    void *object;
    void (*release)(void *object);
} owned;

typedef void ending(void);

/* Everything a thread has; freed by its end. */
typedef struct thread_state {
    owned *items;
    int64_t n, cap;
    ending **endings;
    int64_t n_endings, cap_endings;
    hod_scope *innermost;
    bool registered; /* the destructor below knows this thread */
} thread_state;

static _Thread_local thread_state mine;
static pthread_key_t at_exit;
static pthread_once_t at_exit_once = PTHREAD_ONCE_INIT;
static bool at_exit_made;

static void thread_gone(void *unused)
{
    (void)unused;
    mine.innermost = NULL; /* a scope left open lay in a frame that is gone */
    hod__thread_end();
}

static void make_key(void)
{
    at_exit_made = pthread_key_create(&at_exit, thread_gone) == 0;
}

/* A thread that ends gives back what it owns; the main thread does through hod_finish. */
static void remember_thread(void)
{
    pthread_once(&at_exit_once, make_key);
    mine.registered = true;
    if (at_exit_made)
        pthread_setspecific(at_exit, &mine);
}

static void release_down_to(int64_t base)
{
    while (mine.n > base) {
        owned last = mine.items[--mine.n];
        last.release(last.object);
    }
}

int hod__scope_own(void *object, void (*release)(void *object))
{
    owned *slot = hod__push(&mine.items, &mine.n, &mine.cap, sizeof *mine.items);
    if (!slot) {
        release(object);
        return -1;
    }
    *slot = (owned){object, release};
    if (!mine.registered)
        remember_thread();
    return 0;
}

int64_t hod__scope_live(void)
{
    return mine.n;
}

int hod__at_thread_end(void (*f)(void))
{
    for (int64_t i = 0; i < mine.n_endings; i++)
        if (mine.endings[i] == f)
            return 0;
    ending **slot = hod__push(&mine.endings, &mine.n_endings, &mine.cap_endings, sizeof *slot);
    if (!slot)
        return -1;
    *slot = f;
    if (!mine.registered)
        remember_thread();
    return 0;
}

void hod__thread_end(void)
{
    /* An ending may release what owns more, so both run until nothing is left. */
    while (mine.n || mine.n_endings) {
        release_down_to(0);
        if (mine.n_endings)
            mine.endings[--mine.n_endings]();
    }
    for (hod_scope *s = mine.innermost; s; s = s->outer)
        s->base = 0;
    free(mine.items);
    free(mine.endings);
    mine.items = NULL;
    mine.endings = NULL;
    mine.cap = mine.cap_endings = 0;
}

void hod_scope_begin(hod_scope *scope, const char *file, int line)
{
    *scope = (hod_scope){.base = mine.n, .outer = mine.innermost, .file = file, .line = line};
    mine.innermost = scope;
}

/* Is it one of the open scopes of this thread? Compared, never read: it may be long gone. */
static bool is_open(const hod_scope *scope)
{
    const hod_scope *s = mine.innermost;
    while (s && s != scope)
        s = s->outer;
    return s;
}

void hod_scope_end(hod_scope *scope)
{
    if (!is_open(scope)) {
        HOD_FAIL(STATE, "scope: it has ended already, or belongs to another thread");
        return;
    }
    if (mine.innermost != scope)
        HOD_FAIL(STATE, "scope: %s:%d ends before %s:%d, which was opened inside", scope->file,
                 scope->line, mine.innermost->file, mine.innermost->line);
    release_down_to(scope->base); /* and with it all that was opened inside */
    mine.innermost = scope->outer;
}

hod_tensor *hod_escape(hod_tensor *t)
{
    hod_scope *s = mine.innermost;
    if (!t || !s)
        return t;
    for (int64_t i = mine.n - 1; i >= s->base; i--) {
        if (mine.items[i].object != (void *)t)
            continue;
        owned moved = mine.items[i];
        mine.items[i] = mine.items[s->base];
        mine.items[s->base++] = moved;
        break;
    }
    return t; /* not of this scope: an argument passed through, already owned further out */
}
