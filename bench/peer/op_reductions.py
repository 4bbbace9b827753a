"""The peer of bench/ops/op_reductions.c."""

import torch

inf = float("inf")


class Operands:
    def __init__(self, size):
        side = (32, 256, 2048)[size]
        self.x = torch.rand(side, side) * 0.8 + 0.1
        self.s = torch.rand(side, side) * 6 - 3
        self.c = self.x < self.s


OPS = {
    "sum": lambda o: torch.sum(o.x),
    "sum_rows": lambda o: torch.sum(o.x, 1),
    "sum_columns": lambda o: torch.sum(o.x, 0),
    "mean": lambda o: torch.mean(o.x),
    "var_rows": lambda o: torch.var(o.x, 1),
    "std": lambda o: torch.std(o.x),
    "prod": lambda o: torch.prod(o.x),
    "amax": lambda o: torch.amax(o.x),
    "amax_rows": lambda o: torch.amax(o.x, 1),
    "amin_columns": lambda o: torch.amin(o.x, 0),
    "argmax_rows": lambda o: torch.argmax(o.x, 1),
    "argmin_columns": lambda o: torch.argmin(o.x, 0),
    "any_rows": lambda o: torch.any(o.c, 1),
    "all": lambda o: torch.all(o.c),
    "norm1": lambda o: torch.linalg.vector_norm(o.s, 1),
    "norm2": lambda o: torch.linalg.vector_norm(o.s, 2),
    "norm2_rows": lambda o: torch.linalg.vector_norm(o.s, 2, 1),
    "norm_inf": lambda o: torch.linalg.vector_norm(o.s, inf),
    "logsumexp_rows": lambda o: torch.logsumexp(o.s, 1),
    "cumsum_rows": lambda o: torch.cumsum(o.x, 1),
    "cumsum_columns": lambda o: torch.cumsum(o.x, 0),
    "cumprod_rows": lambda o: torch.cumprod(o.x, 1),
    "max_rows": lambda o: torch.max(o.x, 1),
}
