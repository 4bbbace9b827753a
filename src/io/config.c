/* Configs: YAML nodes against the table of keys.
 *
 * libyaml gives nodes with their marks; everything else is the table (config_keys.c). A mapping is
 * walked with the path so far: a path in the table takes a value, a path that begins one is a
 * group, anything else is unknown. The place of every value that was set is kept, so that the
 * checks between values, which come last, can name it, too. An override is the same with a YAML
 * value from the command line.
 */
#include "io/config_keys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

enum { LARGEST_FILE = 1 << 20, PATH_MOST = 256 };

/* Where a value was written: line 0 is the default, line -1 the command line. */
typedef struct place {
    int line, column;
} place;

typedef struct reader {
    hod_config config;
    const char *name; /* of the file */
    place at[HOD_CONFIG_KEYS_MAX];
    bool set[HOD_CONFIG_KEYS_MAX]; /* in this source, to find doubles */
    bool from_command_line;
} reader;

static int fail_at(const reader *r, place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int fail_at(const reader *r, place at, const char *format, ...)
{
    char text[HOD_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (at.line > 0)
        return HOD_FAIL_RC(CONFIG, "%s:%d:%d: %s", r->name, at.line, at.column, text);
    return HOD_FAIL_RC(CONFIG, "%s: %s", at.line < 0 ? "command line" : r->name, text);
}

static place place_of(const reader *r, const yaml_node_t *node)
{
    if (r->from_command_line)
        return (place){-1, 0};
    return (place){(int)node->start_mark.line + 1, (int)node->start_mark.column + 1};
}

/* ---- nodes ---- */

/* The text of a scalar node; NULL when it is none or holds a NUL. */
static const char *scalar(const yaml_node_t *node)
{
    if (!node || node->type != YAML_SCALAR_NODE)
        return NULL;
    const char *s = (const char *)node->data.scalar.value;
    return strlen(s) == node->data.scalar.length ? s : NULL;
}

/* Collects a scalar or a list of scalars. */
static int collect(const reader *r, yaml_document_t *doc, const char *path, yaml_node_t *node,
                   hod_config_value *v)
{
    *v = (hod_config_value){0};
    if (node->type == YAML_SCALAR_NODE) {
        v->n = 1;
        v->text[0] = scalar(node);
        return v->text[0] ? 0 : fail_at(r, place_of(r, node), "%s: a text with a NUL byte", path);
    }
    if (node->type != YAML_SEQUENCE_NODE)
        return fail_at(r, place_of(r, node), "%s: a value expected, not keys and values", path);
    v->is_list = true;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
         i++) {
        yaml_node_t *item = yaml_document_get_node(doc, *i);
        const char *text = scalar(item);
        if (!text)
            return fail_at(r, place_of(r, item ? item : node),
                           "%s: a list of plain values expected", path);
        if (v->n <= HOD_CONFIG_LIST)
            v->text[v->n++] = text;
    }
    return 0;
}

static int set_value(reader *r, yaml_document_t *doc, int key, place where, yaml_node_t *node)
{
    const hod_config_key *k = &hod__config_keys[key];
    char why[HOD_CONFIG_WHY];
    hod_config_value v;
    if (r->set[key])
        return fail_at(r, where, "%s: given twice", k->path);
    if (collect(r, doc, k->path, node, &v))
        return -1;
    place at = place_of(r, node);
    if (hod__config_set(&r->config, k, &v, why))
        return fail_at(r, at, "%s: %s", k->path, why);
    r->set[key] = true;
    r->at[key] = at;
    return 0;
}

static int unknown(const reader *r, place at, const char *path, size_t group)
{
    char near[PATH_MOST];
    const char *meant = hod__config_nearest(path, near, sizeof near);
    if (!meant)
        return fail_at(r, at, "unknown key \"%s\"", path + group);
    /* Within its group a key goes by its last name. */
    size_t cut = strncmp(meant, path, group) == 0 ? group : 0;
    return fail_at(r, at, "unknown key \"%s\"; did you mean \"%s\"?", path + group, meant + cut);
}

static int take_mapping(reader *r, yaml_document_t *doc, const char *prefix, yaml_node_t *node);

/* Takes a value or a group; `where` is the place of its key, whose last name begins at `group`. */
static int take(reader *r, yaml_document_t *doc, const char *path, size_t group, place where,
                yaml_node_t *value)
{
    int key = hod__config_find(path);
    if (key >= 0)
        return set_value(r, doc, key, where, value);
    if (!hod__config_is_group(path))
        return unknown(r, where, path, group);
    char prefix[PATH_MOST + 1];
    snprintf(prefix, sizeof prefix, "%s.", path);
    if (value->type != YAML_MAPPING_NODE)
        return fail_at(r, place_of(r, value), "%s: keys and values expected", path);
    if (r->from_command_line && value->data.mapping.pairs.start == value->data.mapping.pairs.top)
        return fail_at(r, where, "%s: an empty group changes nothing", path);
    return take_mapping(r, doc, prefix, value);
}

/* Takes all keys of a mapping; `prefix` is "" or "group.". */
static int take_mapping(reader *r, yaml_document_t *doc, const char *prefix, yaml_node_t *node)
{
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
         p++) {
        yaml_node_t *key = yaml_document_get_node(doc, p->key);
        yaml_node_t *value = yaml_document_get_node(doc, p->value);
        const char *name = scalar(key);
        char path[PATH_MOST];
        if (!name || !value)
            return fail_at(r, place_of(r, key ? key : node), "a key is a plain text");
        int n = snprintf(path, sizeof path, "%s%s", prefix, name);
        if (n >= (int)sizeof path)
            return fail_at(r, place_of(r, key), "unknown key \"%.40s...\"", name);
        if (take(r, doc, path, strlen(prefix), place_of(r, key), value))
            return -1;
    }
    return 0;
}

/* ---- texts ---- */

static int syntax_error(const reader *r, const yaml_parser_t *p)
{
    place at = {(int)p->problem_mark.line + 1, (int)p->problem_mark.column + 1};
    if (r->from_command_line)
        at = (place){-1, 0};
    if (p->error == YAML_MEMORY_ERROR)
        return HOD_FAIL_RC(MEMORY, "%s: no memory for the config", r->name);
    return fail_at(r, at, "not YAML: %s", p->problem ? p->problem : "unreadable");
}

/* Parses one document and hands its root to `use`. */
static int with_document(reader *r, const char *text, size_t length,
                         int (*use)(reader *r, yaml_document_t *doc, yaml_node_t *root, void *arg),
                         void *arg)
{
    yaml_parser_t parser;
    yaml_document_t doc, second;
    if (!yaml_parser_initialize(&parser))
        return HOD_FAIL_RC(MEMORY, "%s: no memory for the config", r->name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    int rc;
    if (!yaml_parser_load(&parser, &doc)) {
        rc = syntax_error(r, &parser);
    } else {
        rc = use(r, &doc, yaml_document_get_root_node(&doc), arg);
        yaml_document_delete(&doc);
        if (rc == 0 && !yaml_parser_load(&parser, &second)) {
            rc = syntax_error(r, &parser);
        } else if (rc == 0) {
            yaml_node_t *more = yaml_document_get_root_node(&second);
            if (more)
                rc = fail_at(r, place_of(r, more), "a second document; one config is expected");
            yaml_document_delete(&second);
        }
    }
    yaml_parser_delete(&parser);
    return rc;
}

static int use_file(reader *r, yaml_document_t *doc, yaml_node_t *root, void *arg)
{
    (void)arg;
    if (!root)
        return 0; /* empty: all defaults, and the checks will say what is missing */
    if (root->type != YAML_MAPPING_NODE)
        return fail_at(r, place_of(r, root), "keys and values expected");
    return take_mapping(r, doc, "", root);
}

static int use_override(reader *r, yaml_document_t *doc, yaml_node_t *root, void *arg)
{
    const char *path = arg;
    if (!root)
        return fail_at(r, (place){-1, 0}, "%s: no value", path);
    memset(r->set, 0, sizeof r->set); /* the last of several wins */
    return take(r, doc, path, 0, (place){-1, 0}, root);
}

static int override(reader *r, const char *text)
{
    const char *equal = strchr(text, '=');
    char path[PATH_MOST];
    place here = {-1, 0};
    if (!equal || equal == text || equal - text >= (int)sizeof path)
        return fail_at(r, here, "\"%.80s\" is not key=value", text);
    snprintf(path, sizeof path, "%.*s", (int)(equal - text), text);
    int key = hod__config_find(path);
    if (equal[1] == 0 && key >= 0 && hod__config_keys[key].kind == HOD_VALUE_PATH) {
        char why[HOD_CONFIG_WHY];
        hod_config_value empty = {.n = 1, .text = {""}};
        r->at[key] = here;
        return hod__config_set(&r->config, &hod__config_keys[key], &empty, why);
    }
    return with_document(r, equal + 1, strlen(equal + 1), use_override, path);
}

/* ---- between values ---- */

/* An error at the place of a key's value. */
#define FAIL_KEY(r, key, ...) fail_at(r, (r)->at[hod__config_find(key)], key ": " __VA_ARGS__)

static int check_batch(const reader *r)
{
    const hod_config *c = &r->config;
    if (c->micro_batch > c->effective_batch)
        return FAIL_KEY(r, "micro_batch", "%lld exceeds effective_batch %lld",
                        (long long)c->micro_batch, (long long)c->effective_batch);
    return 0;
}

static int check_data(const reader *r)
{
    const hod_config *c = &r->config;
    if (!c->model.name[0])
        return fail_at(r, (place){0, 0}, "model.name is missing");
    if (!c->data.name[0])
        return fail_at(r, (place){0, 0}, "data.name is missing");
    if (strcmp(c->data.name, "idx") == 0 && !c->data.path[0])
        return FAIL_KEY(r, "data.name", "idx needs data.path");
    if (!c->output[0])
        return FAIL_KEY(r, "output", "empty, a directory expected");
    if (c->data.shape.n < 1 || c->data.shape.n > 7)
        return FAIL_KEY(r, "data.shape", "%d sizes, 1 to 7 expected", c->data.shape.n);
    if (strcmp(c->data.name, "synthetic") == 0 && c->data.shape.n < 2 &&
        (c->data.augment.crop || c->data.augment.flip))
        return FAIL_KEY(r, "data.shape", "augmentation needs rows and columns");
    return 0;
}

static int check_optimizer(const reader *r)
{
    const hod_config *c = &r->config;
    if (c->optimizer.betas.n != 2)
        return FAIL_KEY(r, "optimizer.betas", "%d numbers, two expected", c->optimizer.betas.n);
    if (c->optimizer.nesterov &&
        (c->optimizer.name != HOD_OPTIMIZER_SGD || c->optimizer.momentum == 0))
        return FAIL_KEY(r, "optimizer.nesterov", "needs optimizer.name sgd and a momentum");
    if (c->optimizer.momentum != 0 && c->optimizer.name != HOD_OPTIMIZER_SGD)
        return FAIL_KEY(r, "optimizer.momentum", "belongs to sgd; adam and adamw have betas");
    if (c->schedule.name == HOD_SCHEDULE_STEP && c->schedule.every.n == 0)
        return FAIL_KEY(r, "schedule.name", "step needs schedule.every");
    return 0;
}

/* ---- the public face ---- */

static void defaults(hod_config *c)
{
    *c = (hod_config){0};
    for (int i = 0; i < hod__config_key_count(); i++) {
        const hod_config_key *k = &hod__config_keys[i];
        char why[HOD_CONFIG_WHY], copy[64], *word, *rest = copy;
        hod_config_value v = {.n = 1, .text = {k->fallback}};
        if (k->fallback[0] == '[') { /* the table's lists are as simple as this */
            snprintf(copy, sizeof copy, "%s", k->fallback);
            for (v.n = 0, v.is_list = true; (word = strtok_r(rest, "[], ", &rest)) != NULL;)
                v.text[v.n++] = word;
        }
        if (k->kind != HOD_VALUE_NAME && hod__config_set(c, k, &v, why))
            HOD_FAIL(CONFIG, "%s: default %s: %s", k->path, k->fallback, why);
    }
}

void hod_config_defaults(hod_config *c)
{
    if (c)
        defaults(c);
}

int hod_config_parse(hod_config *c, const char *name, const char *text, size_t length,
                     const char *const *overrides, int n)
{
    if (!c || !name || !text)
        return HOD_FAIL_RC(ARGUMENT, "config: no text");
    reader *r = hod__alloc(1, sizeof *r);
    if (!r)
        return -1;
    defaults(&r->config);
    r->name = name;
    int rc = with_document(r, text, length, use_file, NULL);
    r->from_command_line = true;
    for (int i = 0; i < n && rc == 0; i++)
        rc = override(r, overrides[i]);
    if (rc == 0)
        rc = check_data(r) || check_batch(r) || check_optimizer(r) ? -1 : 0;
    if (rc == 0)
        *c = r->config;
    free(r);
    return rc;
}

int hod_config_load(hod_config *c, const char *path, const char *const *overrides, int n)
{
    if (!path)
        return HOD_FAIL_RC(ARGUMENT, "config: no file");
    FILE *f = fopen(path, "rb");
    if (!f)
        return HOD_FAIL_RC(CONFIG, "%s: %s", path, strerror(errno));
    char *text = hod__alloc(LARGEST_FILE, 1);
    size_t length = text ? fread(text, 1, LARGEST_FILE, f) : 0;
    int rc = -1;
    if (text && ferror(f))
        HOD_FAIL(CONFIG, "%s: %s", path, strerror(errno));
    else if (text && length == LARGEST_FILE)
        HOD_FAIL(CONFIG, "%s: larger than %d bytes", path, LARGEST_FILE - 1);
    else if (text)
        rc = hod_config_parse(c, path, text, length, overrides, n);
    free(text);
    fclose(f);
    return rc;
}

/* Prints the groups that `path` opens beyond those of the key before. */
static void open_groups(const char *before, const char *path, hod_text *out)
{
    int depth = 0;
    for (const char *dot = path; (dot = strchr(dot, '.')) != NULL; dot++, depth++) {
        size_t n = (size_t)(dot - path) + 1;
        if (strncmp(before, path, n) == 0)
            continue;
        const char *name = dot;
        while (name > path && name[-1] != '.')
            name--;
        hod__text(out, "%*s%.*s:\n", 2 * depth, "", (int)(dot - name), name);
    }
}

int hod_config_print(const hod_config *c, FILE *out)
{
    if (!c || !out)
        return HOD_FAIL_RC(ARGUMENT, "config: nothing to print");
    hod_text text = {0};
    const char *before = "";
    for (int i = 0; i < hod__config_key_count(); i++) {
        const hod_config_key *k = &hod__config_keys[i];
        const char *dot = strrchr(k->path, '.');
        int depth = 0;
        for (const char *p = k->path; *p; p++)
            depth += *p == '.';
        open_groups(before, k->path, &text);
        hod__text(&text, "%*s%s: ", 2 * depth, "", dot ? dot + 1 : k->path);
        hod__config_show(c, k, &text);
        hod__text(&text, "\n");
        before = k->path;
    }
    char *all = hod__text_take(&text);
    if (!all)
        return -1;
    int bad = fputs(all, out) < 0 || fflush(out) != 0;
    free(all);
    return bad ? HOD_FAIL_RC(IO, "config: %s", strerror(errno)) : 0;
}

/* What one may write for a key. */
static void show_kind(const hod_config_key *k, hod_text *out)
{
    static const char *const words[] = {
        [HOD_VALUE_NAME] = "name",
        [HOD_VALUE_PATH] = "path",
        [HOD_VALUE_INT] = "integer",
        [HOD_VALUE_AUTO] = "auto or an integer",
        [HOD_VALUE_SEED] = "integer",
        [HOD_VALUE_NUMBER] = "number",
        [HOD_VALUE_SHARE] = "number",
        [HOD_VALUE_FLAG] = "true|false",
        [HOD_VALUE_BYTES] = "size",
        [HOD_VALUE_PERIOD] = "period",
        [HOD_VALUE_INTS] = "integers",
        [HOD_VALUE_NUMBERS] = "numbers",
        [HOD_VALUE_CHOICE] = "",
        [HOD_VALUE_SET] = "",
        [HOD_VALUE_FRACTION] = "auto|none|full or a share",
    };
    if (k->choices && *k->choices && k->kind != HOD_VALUE_FRACTION)
        hod__text(out, k->kind == HOD_VALUE_SET ? "list of %s" : "%s", k->choices);
    else
        hod__text(out, "%s", words[k->kind]);
}

int hod_config_describe(FILE *out)
{
    if (!out)
        return HOD_FAIL_RC(ARGUMENT, "config: nowhere to print");
    for (int i = 0; i < hod__config_key_count(); i++) {
        const hod_config_key *k = &hod__config_keys[i];
        hod_text kind = {0};
        show_kind(k, &kind);
        char *shown = hod__text_take(&kind);
        if (!shown)
            return -1;
        int bad = fprintf(out, "%-22s %-30s %-13s %s\n", k->path, shown,
                          *k->fallback ? k->fallback : "-", k->meaning) < 0;
        free(shown);
        if (bad)
            return HOD_FAIL_RC(IO, "config: %s", strerror(errno));
    }
    bool bad = fputs("\nsize:   a number with B, KiB, MiB, GiB or TiB (KB, MB, GB: powers of ten), "
                     "as 96MiB; or none\n"
                     "period: 500 updates, 2 epochs, or never\n"
                     "lists:  [64, 64]; a share is a number from 0 to 1\n",
                     out) < 0;
    return bad ? HOD_FAIL_RC(IO, "config: %s", strerror(errno)) : 0;
}
