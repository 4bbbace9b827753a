"""The peer of bench/ops/op_images.c."""

import torch
import torch.nn.functional as F

from op_rows import both_ways


class Operands:
    def __init__(self, size):
        n, c, h, length = ((1, 8, 14, 128), (4, 32, 28, 1024), (16, 64, 56, 4096))[size]
        self.h = h
        self.x = torch.rand(n, c, h, h) * 2 - 1
        self.l = torch.rand(n, c, length) * 2 - 1
        self.grid = torch.rand(n, h, h, 2) * 2.2 - 1.1
        self.leaf_x, self.leaf_l, self.leaf_grid = (
            t.clone().requires_grad_() for t in (self.x, self.l, self.grid))


OPS = {}

row = both_ways(OPS)

row("max_pool2d", "x", lambda o, x: F.max_pool2d(x, 2))
row("max_pool2d_overlapping", "x", lambda o, x: F.max_pool2d(x, 3, 2, 1))
row("max_pool2d_same", "x", lambda o, x: F.max_pool2d(x, 5, 1, 2))
row("avg_pool2d", "x", lambda o, x: F.avg_pool2d(x, 2))
row("avg_pool2d_overlapping", "x", lambda o, x: F.avg_pool2d(x, 3, 2, 1))
row("adaptive_avg_pool2d_1", "x", lambda o, x: F.adaptive_avg_pool2d(x, 1))
row("adaptive_avg_pool2d_7", "x", lambda o, x: F.adaptive_avg_pool2d(x, 7))
row("adaptive_avg_pool2d_5", "x", lambda o, x: F.adaptive_avg_pool2d(x, 5))
row("adaptive_max_pool2d_7", "x", lambda o, x: F.adaptive_max_pool2d(x, 7))
row("adaptive_max_pool2d_5", "x", lambda o, x: F.adaptive_max_pool2d(x, 5))
row("max_pool1d", "l", lambda o, x: F.max_pool1d(x, 3, 2, 1))
row("avg_pool1d", "l", lambda o, x: F.avg_pool1d(x, 2))
row("adaptive_avg_pool1d", "l", lambda o, x: F.adaptive_avg_pool1d(x, 10))
row("adaptive_max_pool1d", "l", lambda o, x: F.adaptive_max_pool1d(x, 10))
row("interpolate_nearest", "x", lambda o, x: F.interpolate(x, scale_factor=2))
row("interpolate_bilinear", "x", lambda o, x: F.interpolate(x, scale_factor=2, mode="bilinear"))
row("interpolate_corners", "x", lambda o, x: F.interpolate(x, scale_factor=2, mode="bilinear",
                                                           align_corners=True))
row("interpolate_half", "x", lambda o, x: F.interpolate(x, (o.h // 2, o.h // 2), mode="bilinear"))
row("interpolate_linear", "l", lambda o, x: F.interpolate(x, scale_factor=2, mode="linear"))
row("grid_sample_nearest", "x", lambda o, x: F.grid_sample(x, o.grid, "nearest",
                                                           align_corners=False))
row("grid_sample", "x", lambda o, x: F.grid_sample(x, o.grid, align_corners=False))
row("grid_sample_border", "x", lambda o, x: F.grid_sample(x, o.grid, padding_mode="border",
                                                          align_corners=False))


def both(o):
    y = F.grid_sample(o.leaf_x, o.leaf_grid, align_corners=False)
    return torch.autograd.grad(y, (o.leaf_x, o.leaf_grid), torch.ones_like(y))


OPS["grid_sample_both_grad"] = both
