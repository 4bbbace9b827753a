/* rules.def compiled: patterns as small trees, matched in one place.
 *
 *     hod_rules *rules = hod__rules_new();
 *     hod_ref better = hod__rules_apply(rules, w, r, -1, false);   // in a visitor
 */
#ifndef HOD_GRAPH_ALGEBRA_H
#define HOD_GRAPH_ALGEBRA_H

#include "graph/rewrite.h"

typedef enum hod_rule_when {
    HOD_RULE_EXACT,
    HOD_RULE_NUMBERS, /* exact for every type but bool */
    HOD_RULE_FLOATS,
    HOD_RULE_INTS, /* bool is one of them */
    HOD_RULE_INEXACT
} hod_rule_when;

typedef enum hod_term_kind {
    HOD_TERM_VALUE,    /* x: any node */
    HOD_TERM_CONSTANT, /* C: a full */
    HOD_TERM_NUMBER,   /* 1: a full of that value */
    HOD_TERM_OP        /* mul(...) */
} hod_term_kind;

typedef struct hod_term {
    hod_term_kind kind;
    int op, n;     /* OP: operator, operands */
    int16_t in[4]; /* OP: its operands' terms */
    int letter;    /* VALUE, CONSTANT: index of its binding */
    double number;
} hod_term;

enum { HOD_RULE_LETTERS = 8, HOD_RULES_MAX = 128, HOD_TERMS_MAX = 1024 };

typedef struct hod_rule {
    const char *pattern, *replacement; /* as written in rules.def */
    hod_rule_when when;
    int16_t root, made; /* terms of the two */
    int first_letter;   /* whose type FLOATS and INTS ask for; -1: none */
    int next;           /* rule with the same root operator, -1: none */
} hod_rule;

typedef struct hod_rules {
    hod_rule rules[HOD_RULES_MAX];
    hod_term terms[HOD_TERMS_MAX];
    int n, n_terms;
    int of_op[HOD_OPS]; /* first rule of each root operator, -1: none */
} hod_rules;

hod_rules *hod__rules_new(void); /* free() it; NULL with an error that names the faulty row */
/* What may stand for node r of w->g by the first rule that applies, else r. only: the one rule to
 * try, or -1: all; INEXACT ones only where `inexact`. */
hod_ref hod__rules_apply(const hod_rules *rules, hod_rewrite *w, hod_ref r, int only, bool inexact);

#endif
