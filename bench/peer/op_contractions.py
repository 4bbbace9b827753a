"""The peer of bench/ops/op_contractions.c."""

import torch
import torch.nn.functional as F


class Operands:
    def __init__(self, size):
        m, k = (32, 128, 1024)[size], (64, 256, 768)[size]
        s, d = (16, 64, 256)[size], (32, 64, 64)[size]
        heads, c = (4, 8, 12)[size], (4, 8, 16)[size]

        def uniform(*shape):
            return torch.rand(shape) * 2 - 1

        self.x, self.w, self.xt = uniform(m, k), uniform(k, k), uniform(k, m)
        self.b, self.v, self.u = uniform(k), uniform(k), uniform(m)
        self.q, self.kt, self.keys = uniform(heads, s, d), uniform(heads, d, s), uniform(heads, s, d)
        self.bshd, self.image = uniform(2, s, heads, d), uniform(m, c, c)
        self.left, self.right, self.form = uniform(m, 32), uniform(m, 32), uniform(32, 32, 32)
        self.near, self.far = uniform(s, d), uniform(2 * s, d)
        self.wt = self.w.t()
        for name in "x w b v u q kt bshd left right form near far".split():
            setattr(self, "l" + name, getattr(self, name).clone().requires_grad_())


def grad(y, *inputs):
    return torch.autograd.grad(y, inputs, torch.ones_like(y))


OPS = {
    "matmul_nn": lambda o: torch.matmul(o.x, o.w),
    "matmul_nt": lambda o: torch.matmul(o.x, o.wt),
    "matmul_tn": lambda o: torch.matmul(o.xt.t(), o.w),
    "matmul_grad": lambda o: grad(torch.matmul(o.lx, o.lw), o.lx, o.lw),
    "matmul_batched": lambda o: torch.matmul(o.q, o.kt),
    "matmul_batched_nt": lambda o: torch.matmul(o.q, o.keys.transpose(1, 2)),
    "matmul_batched_grad": lambda o: grad(torch.matmul(o.lq, o.lkt), o.lq, o.lkt),
    "matmul_small": lambda o: torch.matmul(o.image, o.image),
    "matrix_vector": lambda o: torch.matmul(o.x, o.v),
    "matrix_vector_grad": lambda o: grad(torch.matmul(o.lx, o.lv), o.lx, o.lv),
    "vector_matrix": lambda o: torch.matmul(o.u, o.x),
    "dot": lambda o: torch.matmul(o.v, o.b),
    "outer": lambda o: torch.outer(o.u, o.v),
    "outer_grad": lambda o: grad(torch.outer(o.lu, o.lv), o.lu, o.lv),
    "addmm": lambda o: torch.addmm(o.b, o.x, o.w),
    "addmm_scaled": lambda o: torch.addmm(o.b, o.x, o.w, beta=0.5, alpha=2),
    "linear": lambda o: F.linear(o.x, o.w, o.b),
    "linear_nobias": lambda o: F.linear(o.x, o.w),
    "linear_grad": lambda o: grad(F.linear(o.lx, o.lw, o.lb), o.lx, o.lw, o.lb),
    "einsum_scores": lambda o: torch.einsum("bqhd,bkhd->bhqk", o.bshd, o.bshd),
    "einsum_scores_grad": lambda o: grad(torch.einsum("bqhd,bkhd->bhqk", o.lbshd, o.lbshd),
                                         o.lbshd),
    "einsum_batch": lambda o: torch.einsum("bij,bjk->bik", o.q, o.kt),
    "einsum_rows": lambda o: torch.einsum("ij,ij->i", o.left, o.right),
    "einsum_rows_grad": lambda o: grad(torch.einsum("ij,ij->i", o.lleft, o.lright),
                                       o.lleft, o.lright),
    "bilinear": lambda o: F.bilinear(o.left, o.right, o.form),
    "bilinear_grad": lambda o: grad(F.bilinear(o.lleft, o.lright, o.lform),
                                    o.lleft, o.lright, o.lform),
    "cdist": lambda o: torch.cdist(o.near, o.far),
    "cdist_grad": lambda o: grad(torch.cdist(o.lnear, o.lfar), o.lnear, o.lfar),
    "cdist1": lambda o: torch.cdist(o.near, o.far, 1),
}
