"""The peer of bench/ops/op_norms.c."""

import types

import torch
import torch.nn.functional as F


class Operands:
    def __init__(self, size):
        side = (32, 256, 2048)[size]
        s = ((4, 16, 64), (8, 128, 768), (16, 256, 1024))[size]
        i = ((4, 8, 8, 8), (16, 64, 32, 32), (16, 128, 56, 56))[size]
        d, c = s[2], i[1]
        u = lambda low, high, *shape: torch.rand(*shape) * (high - low) + low
        fixed = dict(x=u(-3, 3, side, side), s=u(-1, 2, *s), w=u(0.5, 1.5, d), b=u(-1, 1, d),
                     i=u(-1, 2, *i), v=u(0.5, 1.5, c), c=u(-1, 1, c), t=u(-1, 2, 2 * side, c))
        self.fixed = types.SimpleNamespace(**fixed)
        self.leaf = types.SimpleNamespace(
            **{k: t.clone().requires_grad_() for k, t in fixed.items()})
        self.mean, self.var = u(0, 1, c), u(0.5, 1, c)
        self.groups = (4, 32, 32)[size]


FUNCTIONS = {
    "softmax": (lambda o, p: F.softmax(p.x, 1), "x"),
    "softmax_columns": (lambda o, p: F.softmax(p.x, 0), "x"),
    "log_softmax": (lambda o, p: F.log_softmax(p.x, 1), "x"),
    "logsumexp": (lambda o, p: torch.logsumexp(p.x, 1), "x"),
    "layer_norm": (lambda o, p: F.layer_norm(p.s, p.w.shape, p.w, p.b), "swb"),
    "layer_norm_plain": (lambda o, p: F.layer_norm(p.s, p.w.shape), "s"),
    "rms_norm": (lambda o, p: F.rms_norm(p.s, p.w.shape, p.w, 1e-6), "sw"),
    "group_norm": (lambda o, p: F.group_norm(p.i, o.groups, p.v, p.c), "ivc"),
    "instance_norm": (lambda o, p: F.instance_norm(p.i, weight=p.v, bias=p.c), "ivc"),
    "batch_norm": (lambda o, p: F.batch_norm(p.i, o.mean, o.var, p.v, p.c), "ivc"),
    "batch_norm_train": (lambda o, p: F.batch_norm(p.i, None, None, p.v, p.c, True), "ivc"),
    "batch_norm_table": (lambda o, p: F.batch_norm(p.t, None, None, p.v, p.c, True), "tvc"),
}


def gradients(o, f, names):
    y = f(o, o.leaf)
    return torch.autograd.grad(y, [getattr(o.leaf, n) for n in names], torch.ones_like(y))


OPS = {}
for name, (f, names) in FUNCTIONS.items():
    OPS[name] = lambda o, f=f: f(o, o.fixed)
    OPS[name + "_grad"] = lambda o, f=f, names=names: gradients(o, f, names)
