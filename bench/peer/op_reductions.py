"""The peer of bench/ops/op_reductions.c."""

import torch

inf = float("inf")


class Operands:
    def __init__(self, size):
        side = (32, 256, 2048)[size]
        self.x = torch.rand(side, side) * 0.8 + 0.1
        self.s = torch.rand(side, side) * 6 - 3
        self.cube = self.x.reshape(side // 16, 16, side)
        self.c = self.x < self.s
        self.none = self.x < 0
        self.i = (self.x * 1000).to(torch.int64)
        self.h = self.x.to(torch.bfloat16)


OPS = {
    "sum": lambda o: torch.sum(o.x),
    "sum_rows": lambda o: torch.sum(o.x, 1),
    "sum_columns": lambda o: torch.sum(o.x, 0),
    "sum_middle": lambda o: torch.sum(o.cube, 1),
    "sum_outer": lambda o: torch.sum(o.cube, (0, 2)),
    "sum_i64": lambda o: torch.sum(o.i),
    "sum_bool": lambda o: torch.sum(o.c),
    "sum_bf16_rows": lambda o: torch.sum(o.h, 1),
    "mean": lambda o: torch.mean(o.x),
    "mean_rows": lambda o: torch.mean(o.x, 1),
    "mean_columns": lambda o: torch.mean(o.x, 0),
    "var_rows": lambda o: torch.var(o.x, 1),
    "var_columns": lambda o: torch.var(o.x, 0),
    "var": lambda o: torch.var(o.x),
    "std": lambda o: torch.std(o.x),
    "std_rows": lambda o: torch.std(o.x, 1),
    "prod": lambda o: torch.prod(o.x),
    "prod_rows": lambda o: torch.prod(o.x, 1),
    "amax": lambda o: torch.amax(o.x),
    "amax_rows": lambda o: torch.amax(o.x, 1),
    "amax_columns": lambda o: torch.amax(o.x, 0),
    "amax_middle": lambda o: torch.amax(o.cube, 1),
    "amin": lambda o: torch.amin(o.x),
    "amin_rows": lambda o: torch.amin(o.x, 1),
    "amin_columns": lambda o: torch.amin(o.x, 0),
    "argmax_rows": lambda o: torch.argmax(o.x, 1),
    "argmax": lambda o: torch.argmax(o.x),
    "argmax_columns": lambda o: torch.argmax(o.x, 0),
    "argmin_rows": lambda o: torch.argmin(o.x, 1),
    "argmax_middle": lambda o: torch.argmax(o.cube, 1),
    "argmin_columns": lambda o: torch.argmin(o.x, 0),
    "any_rows": lambda o: torch.any(o.c, 1),
    "any": lambda o: torch.any(o.none),
    "any_columns": lambda o: torch.any(o.none, 0),
    "any_f32_rows": lambda o: torch.any(o.x, 1),
    "all": lambda o: torch.all(o.c),
    "all_rows": lambda o: torch.all(o.c, 1),
    "all_columns": lambda o: torch.all(o.c, 0),
    "norm1": lambda o: torch.linalg.vector_norm(o.s, 1),
    "norm0": lambda o: torch.linalg.vector_norm(o.s, 0),
    "norm3": lambda o: torch.linalg.vector_norm(o.s, 3),
    "norm1_rows": lambda o: torch.linalg.vector_norm(o.s, 1, 1),
    "norm2": lambda o: torch.linalg.vector_norm(o.s, 2),
    "norm2_rows": lambda o: torch.linalg.vector_norm(o.s, 2, 1),
    "norm_inf": lambda o: torch.linalg.vector_norm(o.s, inf),
    "logsumexp_rows": lambda o: torch.logsumexp(o.s, 1),
    "logsumexp_columns": lambda o: torch.logsumexp(o.s, 0),
    "cumsum_rows": lambda o: torch.cumsum(o.x, 1),
    "cumsum_columns": lambda o: torch.cumsum(o.x, 0),
    "cumprod_rows": lambda o: torch.cumprod(o.x, 1),
    "cumprod_columns": lambda o: torch.cumprod(o.x, 0),
    "cumsum_i64_rows": lambda o: torch.cumsum(o.i, 1),
    "max_rows": lambda o: torch.max(o.x, 1),
    "max_columns": lambda o: torch.max(o.x, 0),
    "min_rows": lambda o: torch.min(o.x, 1),
}
