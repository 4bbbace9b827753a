"""The peer of bench/ops/op_losses.c."""

import types

import torch
import torch.nn.functional as F


class Operands:
    def __init__(self, size):
        n, c = ((32, 10), (512, 1000), (2048, 4096))[size]
        m = ((2, 8, 16, 16), (4, 21, 64, 64), (8, 21, 256, 256))[size]
        side = (32, 256, 2048)[size]
        u = lambda low, high, *shape: torch.rand(*shape) * (high - low) + low
        fixed = dict(x=u(-3, 3, n, c), m=u(-3, 3, *m), a=u(0.1, 0.9, side, side),
                     p=u(-1, 1, side, side))
        self.fixed = types.SimpleNamespace(**fixed)
        self.leaf = types.SimpleNamespace(
            **{k: t.clone().requires_grad_() for k, t in fixed.items()})
        self.label = torch.randint(c, (n,))
        self.labels = torch.randint(m[1], (m[0], m[2], m[3]))
        self.weight, self.columns = u(0.5, 1.5, c), u(0.5, 1.5, side)
        self.b, self.q = u(0.1, 0.9, side, side), u(-1, 1, side, side)
        self.sign = torch.sign(u(-1, 1, side))


bce_logits = F.binary_cross_entropy_with_logits
FUNCTIONS = {
    "cross_entropy": (lambda o, p: F.cross_entropy(p.x, o.label), "x"),
    "cross_entropy_weighted": (lambda o, p: F.cross_entropy(p.x, o.label, o.weight), "x"),
    "cross_entropy_smooth": (
        lambda o, p: F.cross_entropy(p.x, o.label, label_smoothing=0.1), "x"),
    "cross_entropy_images": (lambda o, p: F.cross_entropy(p.m, o.labels), "m"),
    "nll": (lambda o, p: F.nll_loss(p.x, o.label), "x"),
    "mse": (lambda o, p: F.mse_loss(p.a, o.b), "a"),
    "mse_each": (lambda o, p: F.mse_loss(p.a, o.b, reduction="none"), "a"),
    "l1": (lambda o, p: F.l1_loss(p.a, o.b), "a"),
    "smooth_l1": (lambda o, p: F.smooth_l1_loss(p.a, o.b, beta=0.25), "a"),
    "huber": (lambda o, p: F.huber_loss(p.a, o.b, delta=0.25), "a"),
    "kl_div": (lambda o, p: F.kl_div(p.p, o.b, reduction="batchmean"), "p"),
    "kl_div_log": (
        lambda o, p: F.kl_div(p.p, o.q, reduction="batchmean", log_target=True), "p"),
    "bce": (lambda o, p: F.binary_cross_entropy(p.a, o.b), "a"),
    "bce_with_logits": (lambda o, p: bce_logits(p.p, o.b), "p"),
    "bce_with_logits_each": (lambda o, p: bce_logits(p.p, o.b, reduction="none"), "p"),
    "bce_with_logits_weighted": (lambda o, p: bce_logits(p.p, o.b, pos_weight=o.columns), "p"),
    "cosine_embedding": (lambda o, p: F.cosine_embedding_loss(p.p, o.q, o.sign, 0.1), "p"),
    "triplet_margin": (lambda o, p: F.triplet_margin_loss(p.p, o.q, o.b), "p"),
}


def gradients(o, f, name):
    y = f(o, o.leaf)
    return torch.autograd.grad(y, getattr(o.leaf, name), torch.ones_like(y))


OPS = {}
for name, (f, of) in FUNCTIONS.items():
    OPS[name] = lambda o, f=f: f(o, o.fixed)
    OPS[name + "_grad"] = lambda o, f=f, of=of: gradients(o, f, of)
