"""The peer of bench/ops/op_attention.c."""

import torch
import torch.nn.functional as F


class Operands:
    def __init__(self, size):
        b, h, t, d = ((1, 4, 64, 32), (2, 8, 256, 64), (1, 8, 2048, 64))[size]

        def leaf(*shape):
            return (torch.rand(shape) * 4 - 2).requires_grad_()

        self.all = [leaf(b, h, t, d) for _ in range(3)]
        self.shared = [self.all[0], leaf(b, h // 4, t, d), leaf(b, h // 4, t, d)]
        self.one = [leaf(1, 1, t, d) for _ in range(3)]
        self.keep = torch.rand(b, 1, 1, t) < 0.9
        self.bias = torch.rand(t, t) * 2 - 1


def attend(which, **options):
    """Forward alone, and with the gradients for queries, keys and values."""

    def call(o):
        given = {k: getattr(o, v) if isinstance(v, str) else v for k, v in options.items()}
        return F.scaled_dot_product_attention(*getattr(o, which), **given)

    def forward(o):
        with torch.no_grad():
            return call(o)

    def both(o):
        y = call(o)
        return torch.autograd.grad(y, getattr(o, which), torch.ones_like(y))

    return forward, both


OPS = {}
for name, row in {
    "attention": attend("all"),
    "attention_causal": attend("all", is_causal=True),
    "attention_keep": attend("all", attn_mask="keep"),
    "attention_bias": attend("all", attn_mask="bias"),
    "attention_shared": attend("shared", enable_gqa=True),
    "attention_dropout": attend("all", dropout_p=0.1),
    "attention_one": attend("one"),
}.items():
    OPS[name], OPS[name + "_grad"] = row
