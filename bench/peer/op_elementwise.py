"""The peer of bench/ops/op_elementwise.c."""

import torch
import torch.nn.functional as F


class Operands:
    def __init__(self, size):
        side = (32, 256, 2048)[size]
        u = [torch.rand(side, side) * 0.8 + 0.1 for _ in range(4)]
        self.x, self.y, self.z = u[:3]
        self.s = torch.rand(side, side) * 6 - 3
        self.c = self.x < self.y
        self.i = (self.x * 1000).to(torch.int64)
        self.j = (self.y * 20).to(torch.int64)
        self.row = self.y[0].contiguous()


OPS = {
    "neg": lambda o: torch.neg(o.s),
    "abs": lambda o: torch.abs(o.s),
    "sign": lambda o: torch.sign(o.s),
    "reciprocal": lambda o: torch.reciprocal(o.x),
    "square": lambda o: torch.square(o.s),
    "exp": lambda o: torch.exp(o.s),
    "expm1": lambda o: torch.expm1(o.s),
    "log": lambda o: torch.log(o.x),
    "log1p": lambda o: torch.log1p(o.x),
    "sqrt": lambda o: torch.sqrt(o.x),
    "rsqrt": lambda o: torch.rsqrt(o.x),
    "sin": lambda o: torch.sin(o.s),
    "cos": lambda o: torch.cos(o.s),
    "tanh": lambda o: torch.tanh(o.s),
    "sigmoid": lambda o: torch.sigmoid(o.s),
    "erf": lambda o: torch.erf(o.s),
    "floor": lambda o: torch.floor(o.s),
    "ceil": lambda o: torch.ceil(o.s),
    "trunc": lambda o: torch.trunc(o.s),
    "round": lambda o: torch.round(o.s),
    "relu": lambda o: torch.relu(o.s),
    "leaky_relu": lambda o: F.leaky_relu(o.s, 0.01),
    "elu": lambda o: F.elu(o.s, 1.0),
    "gelu": lambda o: F.gelu(o.s),
    "gelu_tanh": lambda o: F.gelu(o.s, approximate="tanh"),
    "silu": lambda o: F.silu(o.s),
    "mish": lambda o: F.mish(o.s),
    "hardswish": lambda o: F.hardswish(o.s),
    "hardsigmoid": lambda o: F.hardsigmoid(o.s),
    "softplus": lambda o: F.softplus(o.s),
    "clamp": lambda o: torch.clamp(o.s, -0.5, 0.5),
    "clip": lambda o: torch.clamp(o.s, o.x, o.y),
    "isnan": lambda o: torch.isnan(o.s),
    "isfinite": lambda o: torch.isfinite(o.s),
    "add": lambda o: torch.add(o.x, o.y),
    "add_row": lambda o: torch.add(o.x, o.row),
    "add_scalar": lambda o: torch.add(o.x, 2),
    "sub": lambda o: torch.sub(o.x, o.y),
    "mul": lambda o: torch.mul(o.x, o.y),
    "div": lambda o: torch.div(o.x, o.y),
    "pow": lambda o: torch.pow(o.x, o.y),
    "remainder": lambda o: torch.remainder(o.s, o.y),
    "fmod": lambda o: torch.fmod(o.s, o.y),
    "floor_divide": lambda o: torch.floor_divide(o.s, o.y),
    "maximum": lambda o: torch.maximum(o.x, o.y),
    "minimum": lambda o: torch.minimum(o.x, o.y),
    "lt": lambda o: torch.lt(o.x, o.y),
    "eq": lambda o: torch.eq(o.x, o.y),
    "logical_and": lambda o: torch.logical_and(o.c, o.c),
    "where": lambda o: torch.where(o.c, o.x, o.y),
    "lerp": lambda o: torch.lerp(o.x, o.y, o.z),
    "bit_and": lambda o: torch.bitwise_and(o.i, o.j),
    "shift_left": lambda o: torch.bitwise_left_shift(o.i, o.j),
    "cast_i64": lambda o: o.x.to(torch.int64),
    "cast_f64": lambda o: o.x.to(torch.float64),
    "cast_bf16": lambda o: o.x.to(torch.bfloat16),
    "uniform": lambda o: torch.rand(o.x.shape),
    "normal": lambda o: torch.randn(o.x.shape),
    "bernoulli": lambda o: torch.bernoulli(o.x),
    "dropout": lambda o: F.dropout(o.x, 0.1),
}
