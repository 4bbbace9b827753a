"""The peer of bench/ops/op_convolutions.c."""

import torch
import torch.nn.functional as F


class Operands:
    def __init__(self, size):
        n, c = (2, 8, 16)[size], (16, 64, 128)[size]
        side, line = (16, 28, 28)[size], (64, 512, 1024)[size]
        y, pixels = 2 * c, (32, 64, 224)[size]

        def uniform(*shape):
            return torch.rand(shape) * 2 - 1

        self.x, self.line, self.b = uniform(n, c, side, side), uniform(n, c, line), uniform(y)
        self.w3, self.w1, self.w5 = uniform(y, c, 3, 3), uniform(y, c, 1, 1), uniform(y, c, 5)
        self.grouped, self.depth = uniform(y, c // 8, 3, 3), uniform(c, 1, 3, 3)
        self.up, self.up_line = uniform(c, y, 2, 2), uniform(c, y, 4)
        self.picture, self.stem = uniform(n, 3, pixels, pixels), uniform(64, 3, 7, 7)
        for name in "x line b w3 w1 w5 grouped depth up up_line stem".split():
            setattr(self, "l" + name, getattr(self, name).clone().requires_grad_())
        self.c = c


def grad(y, *inputs):
    return torch.autograd.grad(y, inputs, torch.ones_like(y))


OPS = {
    "conv3x3": lambda o: F.conv2d(o.x, o.w3, padding=1),
    "conv3x3_bias": lambda o: F.conv2d(o.x, o.w3, o.b, padding=1),
    "conv3x3_grad": lambda o: grad(F.conv2d(o.lx, o.lw3, padding=1), o.lx, o.lw3),
    "conv3x3_bias_grad": lambda o: grad(F.conv2d(o.lx, o.lw3, o.lb, padding=1),
                                        o.lx, o.lw3, o.lb),
    "conv_strided": lambda o: F.conv2d(o.x, o.w3, padding=1, stride=2),
    "conv_strided_grad": lambda o: grad(F.conv2d(o.lx, o.lw3, padding=1, stride=2), o.lx, o.lw3),
    "conv_dilated": lambda o: F.conv2d(o.x, o.w3, padding=2, dilation=2),
    "conv_dilated_grad": lambda o: grad(F.conv2d(o.lx, o.lw3, padding=2, dilation=2), o.lx, o.lw3),
    "conv1x1": lambda o: F.conv2d(o.x, o.w1),
    "conv1x1_grad": lambda o: grad(F.conv2d(o.lx, o.lw1), o.lx, o.lw1),
    "conv1x1_strided": lambda o: F.conv2d(o.x, o.w1, stride=2),
    "conv1x1_strided_grad": lambda o: grad(F.conv2d(o.lx, o.lw1, stride=2), o.lx, o.lw1),
    "conv_grouped": lambda o: F.conv2d(o.x, o.grouped, padding=1, groups=8),
    "conv_grouped_grad": lambda o: grad(F.conv2d(o.lx, o.lgrouped, padding=1, groups=8),
                                        o.lx, o.lgrouped),
    "conv_depthwise": lambda o: F.conv2d(o.x, o.depth, padding=1, groups=o.c),
    "conv_depthwise_grad": lambda o: grad(F.conv2d(o.lx, o.ldepth, padding=1, groups=o.c),
                                          o.lx, o.ldepth),
    "conv_stem": lambda o: F.conv2d(o.picture, o.stem, padding=3, stride=2),
    "conv_stem_grad": lambda o: grad(F.conv2d(o.picture, o.lstem, padding=3, stride=2), o.lstem),
    "conv1d": lambda o: F.conv1d(o.line, o.w5, padding=2),
    "conv1d_grad": lambda o: grad(F.conv1d(o.lline, o.lw5, padding=2), o.lline, o.lw5),
    "conv_transpose2d": lambda o: F.conv_transpose2d(o.x, o.up, stride=2),
    "conv_transpose2d_grad": lambda o: grad(F.conv_transpose2d(o.lx, o.lup, stride=2),
                                            o.lx, o.lup),
    "conv_transpose1d": lambda o: F.conv_transpose1d(o.line, o.up_line, stride=2, padding=1),
    "conv_transpose1d_grad": lambda o: grad(
        F.conv_transpose1d(o.lline, o.lup_line, stride=2, padding=1), o.lline, o.lup_line),
}
