/* One value of a config: from text into its field and back, by the kind of its key. */
#include "io/config_keys.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void *field(hod_config *c, const hod_config_key *k)
{
    return (char *)c + k->offset;
}

static int refuse(char why[HOD_CONFIG_WHY], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int refuse(char why[HOD_CONFIG_WHY], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, HOD_CONFIG_WHY, format, args);
    va_end(args);
    return -1;
}

/* A text in a message: no more than fits one line. */
#define SHOWN(text) (int)HOD_MIN(strlen(text), 60), (text)

/* ---- numbers ---- */

static bool parse_int(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    long long x = strtoll(s, &end, 10);
    *out = x;
    return end != s && *end == 0 && errno == 0;
}

/* Decimal, finite. */
static bool parse_number(const char *s, double *out)
{
    char *end;
    *out = strtod(s, &end);
    return end != s && *end == 0 && isfinite(*out) && !strpbrk(s, "xX");
}

static int set_int(const hod_config_key *k, const char *s, int64_t *out, char *why)
{
    int64_t x;
    if (!parse_int(s, &x))
        return refuse(why, "\"%.*s\" is not an integer%s", SHOWN(s),
                      k->kind == HOD_VALUE_AUTO ? ", nor auto" : "");
    if ((double)x < k->low || (double)x > k->high)
        return refuse(why, "%lld is outside %.0f..%.0f", (long long)x, k->low, k->high);
    *out = x;
    return 0;
}

static int set_number(const hod_config_key *k, const char *s, double *out, char *why)
{
    double x;
    bool open = k->kind == HOD_VALUE_SHARE || k->kind == HOD_VALUE_NUMBERS;
    if (!parse_number(s, &x))
        return refuse(why, "\"%.*s\" is not a number", SHOWN(s));
    if (x < k->low || x > k->high || (open && x == k->high))
        return refuse(why, "%g is outside %g..%g%s", x, k->low, k->high, open ? ", excluded" : "");
    *out = x;
    return 0;
}

static int set_seed(const char *s, uint64_t *out, char *why)
{
    char *end;
    errno = 0;
    unsigned long long x = strtoull(s, &end, 10);
    if (end == s || *end || errno || *s == '-')
        return refuse(why, "\"%.*s\" is not an integer in 0..18446744073709551615", SHOWN(s));
    *out = x;
    return 0;
}

static const struct {
    const char *name;
    double bytes;
} units[] = {{"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
             {"kB", 1e3}, {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};

/* A number and a unit, -1: neither. */
static int64_t bytes_of(const char *s)
{
    char *end;
    double x = strtod(s, &end);
    if (end == s || !isfinite(x) || x < 0 || strpbrk(s, "xX"))
        return -1;
    end += strspn(end, " ");
    double unit = *end ? 0 : 1;
    for (int i = 0; i < HOD_COUNT(units); i++)
        if (strcmp(end, units[i].name) == 0)
            unit = units[i].bytes;
    x *= unit;
    return unit != 0 && x < 0x1p62 ? (int64_t)x : -1;
}

int64_t hod_parse_bytes(const char *text)
{
    int64_t n = text ? bytes_of(text) : -1;
    if (n < 0)
        return HOD_FAIL_RC(CONFIG, "\"%s\" is not a size like 96MiB, 1.5GiB or 4096",
                           text ? text : "");
    return n;
}

static int set_bytes(const char *s, int64_t *out, char *why)
{
    int64_t n = strcmp(s, "none") == 0 ? 0 : bytes_of(s);
    if (n < 0 || (n == 0 && strcmp(s, "none") != 0))
        return refuse(why, "\"%.*s\" is not a size like 96MiB, 1.5GiB or 4096, nor none", SHOWN(s));
    *out = n;
    return 0;
}

static int set_period(const char *s, hod_period *out, char *why)
{
    char *end;
    errno = 0;
    long long n = strtoll(s, &end, 10);
    const char *unit = end + strspn(end, " ");
    bool epochs = strcmp(unit, "epochs") == 0 || strcmp(unit, "epoch") == 0;
    if (strcmp(s, "never") == 0) {
        *out = (hod_period){0};
        return 0;
    }
    if (end == s || errno || n < 1 ||
        !(epochs || strcmp(unit, "updates") == 0 || strcmp(unit, "update") == 0))
        return refuse(why, "\"%.*s\" is none of: 500 updates, 1 epochs, never", SHOWN(s));
    *out = (hod_period){n, epochs};
    return 0;
}

static int set_flag(const char *s, bool *out, char *why)
{
    if (strcmp(s, "true") == 0 || strcmp(s, "yes") == 0 || strcmp(s, "on") == 0)
        *out = true;
    else if (strcmp(s, "false") == 0 || strcmp(s, "no") == 0 || strcmp(s, "off") == 0)
        *out = false;
    else
        return refuse(why, "\"%.*s\" is neither true nor false", SHOWN(s));
    return 0;
}

/* ---- words ---- */

/* The place of a word in "a|b|c", -1 when it is not there. */
static int place_of(const char *word, const char *choices)
{
    size_t n = strlen(word);
    int place = 0;
    for (const char *p = choices; *p; place++) {
        size_t m = strcspn(p, "|");
        if (m == n && memcmp(p, word, n) == 0)
            return place;
        p += m + (p[m] == '|');
    }
    return -1;
}

/* Copies the place-th word. */
static void word_at(const char *choices, int place, hod_text *out)
{
    for (; place > 0; place--)
        choices += strcspn(choices, "|") + 1;
    hod__text_bytes(out, choices, (int64_t)strcspn(choices, "|"));
}

static int no_choice(const char *s, const char *choices, char *why)
{
    char list[128], near[64];
    size_t n = 0;
    for (const char *p = choices; *p && n + 3 < sizeof list; p++) { /* a|b -> a, b */
        list[n++] = *p == '|' ? ',' : *p;
        if (*p == '|')
            list[n++] = ' ';
    }
    list[n] = 0;
    const char *meant = hod_nearest_word(s, choices, near, sizeof near);
    return refuse(why, "\"%.*s\" is none of %s%s%s%s", SHOWN(s), list,
                  meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "");
}

static int set_choice(const hod_config_key *k, const char *s, int *out, char *why)
{
    int place = place_of(s, k->choices);
    if (place < 0)
        return no_choice(s, k->choices, why);
    *out = place;
    return 0;
}

/* `recompute`: a word, or a number in its place. The word "fraction" itself says nothing. */
static int set_fraction(hod_config *c, const hod_config_key *k, const char *s, char *why)
{
    int *choice = field(c, k), place = place_of(s, k->choices);
    double x = 0;
    if (place < 0 || place == HOD_RECOMPUTE_FRACTION) {
        if (!parse_number(s, &x) || x < 0 || x > 1)
            return refuse(why, "\"%.*s\" is none of auto, none, full, nor a number in 0..1",
                          SHOWN(s));
        place = HOD_RECOMPUTE_FRACTION;
    }
    *choice = place;
    memcpy((char *)c + k->offset_more, &x, sizeof x);
    return 0;
}

static int set_text(const char *s, char *out, size_t cap, char *why)
{
    if (strlen(s) >= cap)
        return refuse(why, "a text of %zu bytes, at most %zu", strlen(s), cap - 1);
    memset(out, 0, cap);
    strcpy(out, s);
    return 0;
}

/* ---- lists ---- */

static int set_ints(const hod_config_key *k, const hod_config_value *v, hod_int_list *out,
                    char *why)
{
    *out = (hod_int_list){.n = v->n};
    for (int i = 0; i < v->n; i++)
        if (set_int(k, v->text[i], &out->at[i], why))
            return -1;
    return 0;
}

static int set_numbers(const hod_config_key *k, const hod_config_value *v, hod_number_list *out,
                       char *why)
{
    *out = (hod_number_list){.n = v->n};
    for (int i = 0; i < v->n; i++)
        if (set_number(k, v->text[i], &out->at[i], why))
            return -1;
    return 0;
}

static int set_set(const hod_config_key *k, const hod_config_value *v, uint32_t *out, char *why)
{
    *out = 0;
    for (int i = 0; i < v->n; i++) {
        int place = place_of(v->text[i], k->choices);
        if (place < 0)
            return no_choice(v->text[i], k->choices, why);
        *out |= 1u << place;
    }
    return 0;
}

static int set_list(hod_config *c, const hod_config_key *k, const hod_config_value *v, char *why)
{
    if (v->n > HOD_CONFIG_LIST)
        return refuse(why, "a list of more than %d entries", HOD_CONFIG_LIST);
    switch (k->kind) {
    case HOD_VALUE_INTS: return set_ints(k, v, field(c, k), why);
    case HOD_VALUE_NUMBERS: return set_numbers(k, v, field(c, k), why);
    default: return set_set(k, v, field(c, k), why);
    }
}

static bool takes_list(hod_value_kind kind)
{
    return kind == HOD_VALUE_INTS || kind == HOD_VALUE_NUMBERS || kind == HOD_VALUE_SET;
}

int hod__config_set(hod_config *c, const hod_config_key *k, const hod_config_value *v,
                    char why[HOD_CONFIG_WHY])
{
    if (takes_list(k->kind)) /* one value is a list of one */
        return set_list(c, k, v, why);
    if (v->is_list)
        return refuse(why, "one value expected, not a list");
    const char *s = v->text[0];
    void *to = field(c, k);
    switch (k->kind) {
    case HOD_VALUE_NAME:
        if (*k->choices && place_of(s, k->choices) < 0)
            return no_choice(s, k->choices, why);
        return set_text(s, to, HOD_CONFIG_NAME, why);
    case HOD_VALUE_PATH: return set_text(s, to, HOD_CONFIG_PATH, why);
    case HOD_VALUE_AUTO:
        if (strcmp(s, "auto") == 0) {
            *(int64_t *)to = HOD_AUTO;
            return 0;
        }
        return set_int(k, s, to, why);
    case HOD_VALUE_INT: return set_int(k, s, to, why);
    case HOD_VALUE_SEED: return set_seed(s, to, why);
    case HOD_VALUE_NUMBER:
    case HOD_VALUE_SHARE: return set_number(k, s, to, why);
    case HOD_VALUE_FLAG: return set_flag(s, to, why);
    case HOD_VALUE_CHOICE: return set_choice(k, s, to, why);
    case HOD_VALUE_FRACTION: return set_fraction(c, k, s, why);
    case HOD_VALUE_BYTES: return set_bytes(s, to, why);
    default: return set_period(s, to, why);
    }
}

/* ---- back to text ---- */

/* The shortest decimal that reads back as x. */
static void show_number(double x, hod_text *out)
{
    char buf[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, x);
        if (strtod(buf, NULL) == x)
            break;
    }
    hod__text(out, "%s", buf);
}

static void show_bytes(int64_t n, hod_text *out)
{
    static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; n && n % 1024 == 0 && unit < 4; unit++)
        n /= 1024;
    if (n)
        hod__text(out, "%lld%s", (long long)n, names[unit]);
    else
        hod__text(out, "none");
}

/* Plain where YAML cannot take it for anything else, else in double quotes. */
static void show_text(const char *s, hod_text *out)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    if (*s && strspn(s, safe) == strlen(s) && *s != '-' && *s != '.') {
        hod__text(out, "%s", s);
        return;
    }
    hod__text(out, "\"");
    for (; *s; s++) {
        if ((unsigned char)*s < ' ')
            hod__text(out, "\\x%02x", (unsigned)*s);
        else
            hod__text(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    hod__text(out, "\"");
}

static void show_list(const hod_config_key *k, const void *at, hod_text *out)
{
    const hod_int_list *ints = at;
    const hod_number_list *numbers = at;
    int n = k->kind == HOD_VALUE_SET ? 32 : k->kind == HOD_VALUE_INTS ? ints->n : numbers->n;
    const char *comma = "";
    hod__text(out, "[");
    for (int i = 0; i < n; i++) {
        if (k->kind == HOD_VALUE_SET && !(*(const uint32_t *)at >> i & 1))
            continue;
        hod__text(out, "%s", comma);
        comma = ", ";
        if (k->kind == HOD_VALUE_INTS)
            hod__text(out, "%lld", (long long)ints->at[i]);
        else if (k->kind == HOD_VALUE_NUMBERS)
            show_number(numbers->at[i], out);
        else
            word_at(k->choices, i, out);
    }
    hod__text(out, "]");
}

void hod__config_show(const hod_config *c, const hod_config_key *k, hod_text *out)
{
    const void *at = (const char *)c + k->offset;
    int64_t i = 0;
    if (k->kind == HOD_VALUE_INT || k->kind == HOD_VALUE_AUTO || k->kind == HOD_VALUE_BYTES)
        memcpy(&i, at, sizeof i);
    switch (k->kind) {
    case HOD_VALUE_NAME:
    case HOD_VALUE_PATH: show_text(at, out); return;
    case HOD_VALUE_AUTO:
        if (i == HOD_AUTO) {
            hod__text(out, "auto");
            return;
        } /* fall through */
    case HOD_VALUE_INT: hod__text(out, "%lld", (long long)i); return;
    case HOD_VALUE_SEED: hod__text(out, "%llu", (unsigned long long)*(const uint64_t *)at); return;
    case HOD_VALUE_NUMBER:
    case HOD_VALUE_SHARE: show_number(*(const double *)at, out); return;
    case HOD_VALUE_FLAG: hod__text(out, *(const bool *)at ? "true" : "false"); return;
    case HOD_VALUE_CHOICE: word_at(k->choices, *(const int *)at, out); return;
    case HOD_VALUE_FRACTION:
        if (*(const int *)at == HOD_RECOMPUTE_FRACTION)
            show_number(c->recompute_fraction, out);
        else
            word_at(k->choices, *(const int *)at, out);
        return;
    case HOD_VALUE_BYTES: show_bytes(i, out); return;
    case HOD_VALUE_PERIOD: {
        const hod_period *p = at;
        if (p->n)
            hod__text(out, "%lld %s", (long long)p->n, p->epochs ? "epochs" : "updates");
        else
            hod__text(out, "never");
        return;
    }
    default: show_list(k, at, out);
    }
}
