/* hod-golden: runs the golden cases of a family, or of all, and prints the table of what is shown
 * of each operator (golden.h says how to call it). Status 1: a check failed, a bound operator has a
 * cell that is empty without a reason, or cases that were committed are missing.
 */
#include "golden.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gold_family *const families[] = {
    &gold_pointwise, &gold_reduce, &gold_movement, &gold_index, &gold_sort,
    &gold_matmul,    &gold_conv,   &gold_norm,     &gold_pool,  &gold_resample,
    &gold_attention, &gold_rnn,    &gold_loss,
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static const char *const heads[GOLD_COLUMNS] = {"forward",  "gradient", "gradcheck", "gradgrad",
                                                "compiled", "zero",     "strided",   "broadcast",
                                                "f16",      "bf16"};

typedef struct totals {
    int operators, unbound, cases, run, skipped;
    int proven, reasoned, bare, failed;
} totals;

static const gold_binding *row_of(const gold_family *f, const char *op)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->rows[i].op, op) == 0)
            return &f->rows[i];
    return NULL;
}

/* ---- printing ---- */

/* A reason gets a letter, explained below the table. */
static char letter_of(const char *reason)
{
    static const char *known[52];
    int i = 0;
    for (; known[i] && i < 51; i++)
        if (strcmp(known[i], reason) == 0)
            break;
    known[i] = reason;
    return (char)(i < 26 ? 'a' + i : 'A' + i - 26);
}

static void print_reasons(const gold_line *line)
{
    static char seen[128];
    for (int i = 0; i < GOLD_COLUMNS; i++) {
        const char *r = line->empty[i];
        if (!r || line->cell[i].proven || seen[(int)letter_of(r)])
            continue;
        seen[(int)letter_of(r)] = 1;
        printf("    %c  %s\n", letter_of(r), r);
    }
}

static void print_line(const gold_line *line, totals *t)
{
    t->operators++;
    t->cases += line->cases;
    if (!line->row) {
        t->unbound++;
        printf("%-28s %4d  not bound\n", line->op, line->cases);
        return;
    }
    t->skipped += line->skipped;
    t->run += line->cases - line->skipped;
    printf("%-28s %4d", line->op, line->cases);
    for (int i = 0; i < GOLD_COLUMNS; i++) {
        const gold_cell *c = &line->cell[i];
        char text[16] = "";
        if (c->failed)
            snprintf(text, sizeof text, "FAIL %d", c->failed), t->failed++;
        else if (c->proven)
            snprintf(text, sizeof text, "%d", c->proven), t->proven++;
        else if (line->empty[i])
            snprintf(text, sizeof text, "%c", letter_of(line->empty[i])), t->reasoned++;
        else
            snprintf(text, sizeof text, "EMPTY"), t->bare++;
        printf(" %9s", text);
    }
    if (line->skipped)
        printf("  %d skipped: %s", line->skipped, line->skip_reason);
    printf("\n");
}

static void print_failures(const gold_line *line)
{
    for (int i = 0; line->row && i < GOLD_COLUMNS; i++)
        if (line->cell[i].failed)
            printf("%s: %s: %d failed, first %s\n", line->op, heads[i], line->cell[i].failed,
                   line->cell[i].first);
        else if (!line->cell[i].proven && !line->empty[i])
            printf("%s: %s: no case shows it, and no reason is given\n", line->op, heads[i]);
}

/* ---- running ---- */

/* The cases of an operator follow each other in the file. */
static void run_family(const gold_family *f, const char *only, bool verbose, totals *t)
{
    gold_file file = gold_read(f->name);
    gold_line *lines = calloc((size_t)file.n + 1, sizeof *lines);
    int n = 0;
    for (int i = 0, end; i < file.n; i = end) {
        const char *op = file.cases[i].op;
        for (end = i; end < file.n && strcmp(file.cases[end].op, op) == 0;)
            end++;
        if (only && strcmp(only, op) != 0)
            continue;
        gold_line *line = &lines[n++];
        line->op = op;
        line->row = row_of(f, op);
        gold_check(line, file.cases + i, end - i, verbose);
    }
    for (int i = 0; i < n; i++)
        print_failures(&lines[i]);
    printf("\n%-28s %4s", f->name, "all");
    for (int i = 0; i < GOLD_COLUMNS; i++)
        printf(" %9s", heads[i]);
    printf("\n");
    for (int i = 0; i < n; i++)
        print_line(&lines[i], t);
    for (int i = 0; i < n; i++)
        if (lines[i].row)
            print_reasons(&lines[i]);
    for (int i = 0; !only && i < f->n; i++) {
        int e = 0;
        while (e < n && strcmp(lines[e].op, f->rows[i].op) != 0)
            e++;
        if (e == n && ++t->failed)
            printf("%s is bound, but %s.golden has no case of it\n", f->rows[i].op, f->name);
    }
    free(lines);
    gold_free(&file);
}

int main(int argc, char **argv)
{
    const char *family = NULL, *only = NULL;
    bool verbose = false, found = false, enough = true;
    totals t = {0};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (!family)
            family = argv[i];
        else
            only = argv[i];
    for (int i = 0; i < N_FAMILIES; i++) {
        int cases = t.cases, run = t.run;
        const gold_family *f = families[i];
        if (family && strcmp(family, f->name) != 0)
            continue;
        found = true;
        run_family(f, only, verbose, &t);
        if (!only && (t.cases - cases < f->cases || t.run - run < f->run)) {
            enough = false;
            printf("%s: %d cases, %d run; committed were %d and %d\n", f->name, t.cases - cases,
                   t.run - run, f->cases, f->run);
        }
    }
    if (!found)
        return fprintf(stderr, "hod-golden: no family is named %s\n", family ? family : ""), 2;
    printf("\n");
    int bare = family ? 0 : gold_print_unreached();
    printf("%d operators (%d not bound), %d cases (%d run, %d skipped with a reason): %d cells "
           "proven, %d empty with a reason, %d empty without, %d failed\n",
           t.operators, t.unbound, t.cases, t.run, t.skipped, t.proven, t.reasoned, t.bare,
           t.failed);
    return hod_finish() || t.failed || t.bare || bare || !enough;
}
