/* The arguments of a golden case, for bindings. */
#include "golden.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *gold_json(const gold *c, const char *name)
{
    return json_object_get(c->k->args, name);
}

bool gold_has(const gold *c, const char *name)
{
    return gold_json(c, name) != NULL;
}

bool gold_any_nan(const gold *c)
{
    for (int i = 0; i < c->k->n_x; i++)
        for (int64_t e = 0; e < c->k->x[i].n; e++)
            if (isnan(c->k->x[i].values[e]))
                return true;
    return false;
}

bool gold_scalar_dim(const gold *c)
{
    return gold_has(c, "dim") && c->k->n_x > 0 && c->k->x[0].shape.n == 0 &&
           gold_shape(c, "dim").n > 0;
}

static double number(const json_t *v, double otherwise)
{
    return json_is_string(v)    ? strtod(json_string_value(v), NULL) /* inf, nan */
           : json_is_boolean(v) ? json_is_true(v)
           : json_is_number(v)  ? json_number_value(v)
                                : otherwise;
}

/* The values of a 0-d tensor where PyTorch takes one for a number. */
static const gold_array *array_of(const gold *c, const json_t *v)
{
    const json_t *at = json_object_get(v, "t");
    return at ? &c->k->x[json_integer_value(at)] : NULL;
}

bool gold_is_tensor(const gold *c, const char *name)
{
    return json_object_get(gold_json(c, name), "t") != NULL;
}

hod_tensor *gold_tensor(const gold *c, const char *name)
{
    const json_t *at = json_object_get(gold_json(c, name), "t");
    return at ? c->x[json_integer_value(at)]
              : hod_refuse("case %d of %s has no tensor \"%s\"", c->k->number, c->k->op, name);
}

int gold_tensors(const gold *c, const char *name, hod_tensor **out)
{
    size_t i;
    json_t *at;
    if (gold_is_tensor(c, name))
        return out[0] = gold_tensor(c, name), 1;
    json_array_foreach(json_object_get(gold_json(c, name), "ts"), i, at) out[i] =
        c->x[json_integer_value(at)];
    return (int)i;
}

double gold_real(const gold *c, const char *name, double otherwise)
{
    const json_t *v = gold_json(c, name);
    const gold_array *a = array_of(c, v);
    return a && a->n == 1 ? a->values[0] : number(v, otherwise);
}

int64_t gold_int(const gold *c, const char *name, int64_t otherwise)
{
    const json_t *v = gold_json(c, name);
    const gold_array *a = array_of(c, v);
    return !v                   ? otherwise
           : a && a->n == 1     ? a->ints[0]
           : json_is_integer(v) ? json_integer_value(v)
                                : (int64_t)number(v, (double)otherwise);
}

bool gold_flag(const gold *c, const char *name, bool otherwise)
{
    return number(gold_json(c, name), otherwise) != 0;
}

const char *gold_text(const gold *c, const char *name, const char *otherwise)
{
    const json_t *v = gold_json(c, name);
    return json_is_string(v) ? json_string_value(v) : otherwise;
}

hod_shape gold_shape(const gold *c, const char *name)
{
    const json_t *v = gold_json(c, name);
    hod_shape s = {.n = 0};
    size_t i;
    json_t *e;
    const gold_array *a = array_of(c, v);
    for (int64_t k = 0; a && k < a->n && s.n < HOD_MAX_DIMS; k++)
        s.d[s.n++] = a->ints[k];
    if (json_is_number(v))
        s.d[s.n++] = (int64_t)number(v, 0);
    json_array_foreach(v, i, e) if (s.n < HOD_MAX_DIMS) s.d[s.n++] = (int64_t)number(e, 0);
    return s;
}

void gold_ints(const gold *c, const char *name, int n, int64_t *out, int64_t otherwise)
{
    hod_shape s = gold_shape(c, name);
    for (int i = 0; i < n; i++)
        out[i] = s.n == 0 ? otherwise : s.d[i < s.n ? i : s.n - 1];
}

/* ---- results ---- */

int gold_many(gold *c, int n, hod_tensor *const *y)
{
    for (int i = 0; i < n; i++)
        if (!y[i] || i >= GOLD_MAX_TENSORS)
            return -1;
        else
            c->y[i] = y[i];
    c->n_y = n;
    return 0;
}

int gold_one(gold *c, hod_tensor *y)
{
    return gold_many(c, 1, &y);
}

int gold_first(gold *c, hod_tensor *y)
{
    c->first_only = true;
    return gold_one(c, y);
}

int gold_skip(gold *c, const char *reason)
{
    c->skipped = reason;
    return -1;
}

int gold_reduced(gold *c, hod_loss loss, hod_tensor *rows)
{
    const char *reduction = TEXT(reduction, "mean");
    if (strcmp(reduction, "none") == 0)
        return rows ? gold_one(c, rows) : gold_skip(c, "a loss is (sum, weight), never unreduced");
    return gold_one(c, strcmp(reduction, "sum") == 0 ? loss.sum : hod_loss_mean(loss));
}
