/* A multi-layer perceptron: linear layers with ReLU between them.
 *
 *     x (N, ...) -> flatten -> [linear -> relu -> dropout] ... -> linear -> logits (N, K)
 */
#include "models/models.h"

typedef struct mlp {
    hod_module base;
    hod_module *hidden[HOD_CONFIG_LIST];
    hod_module *drop, *out;
    int n;
} mlp;

static hod_tensor *mlp_forward(hod_module *self, hod_tensor *x)
{
    mlp *m = (mlp *)self;
    hod_tensor *h = hod_flatten(x, 1);
    for (int i = 0; i < m->n; i++) {
        h = hod_relu(hod_call(m->hidden[i], h));
        if (m->drop)
            h = hod_call(m->drop, h);
    }
    return hod_call(m->out, h);
}

hod_module *mlp_make(const model_info *info, const model_options *o)
{
    static const hod_int_list usual = {2, {256, 256}};
    const hod_int_list *layers = o->layers.n ? &o->layers : &usual;
    int64_t features = o->shape.n ? 1 : 3 * 32 * 32;
    for (int i = 0; i < o->shape.n; i++)
        features *= o->shape.d[i];

    mlp *m = hod_module_new(NULL, info->name, mlp, mlp_forward);
    if (!m)
        return NULL;
    for (m->n = 0; m->n < layers->n; m->n++) {
        char name[16];
        snprintf(name, sizeof name, "fc%d", m->n + 1);
        m->hidden[m->n] = hod_nn_linear(m, name, features, layers->at[m->n]);
        features = layers->at[m->n];
    }
    if (o->dropout > 0)
        m->drop = hod_nn_dropout(m, "drop", o->dropout);
    m->out = hod_nn_linear(m, "out", features, o->num_classes ? o->num_classes : 10);
    return hod_module_done(m);
}
