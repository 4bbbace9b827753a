"""The peer of bench/ops/op_movement.c."""

import torch
import torch.nn.functional as F


def uniform(*shape):
    return torch.rand(*shape) * 2 - 1


def leaf(t):
    return t.clone().requires_grad_()


class Operands:
    def __init__(self, size):
        image = ((2, 8, 16, 16), (8, 32, 32, 32), (16, 64, 56, 56))[size]
        self.b, self.length = b, length = ((2, 16), (8, 128), (16, 512))[size]
        self.d, self.heads = d, heads = ((64, 4), (256, 8), (512, 8))[size]
        self.side, self.n_words = side, words = ((32, 100), (256, 5000), (2048, 50000))[size]
        self.x = uniform(*image)
        self.t = uniform(b, length, d)
        self.u = self.t.reshape(b, length, heads, d // heads)
        self.m = uniform(side, side)
        self.v = uniform(b, 1, d)
        self.table = uniform(words, d)
        self.windows = F.unfold(self.x, 3, padding=1)
        self.leaf_x, self.leaf_t, self.leaf_m, self.leaf_table = map(
            leaf, (self.x, self.t, self.m, self.table))
        self.column_of = torch.randint(side, (side, side // 2))
        self.row_of = torch.randint(side, (side // 2, side))
        self.rows = torch.randint(side, (side // 2,))
        self.columns = torch.randint(side, (side // 2,))
        self.words = torch.randint(words, (b, length))
        self.places = torch.randint(length, (b, 1, d))
        self.classes = torch.randint(100, (b * length,))
        self.mask = self.m < -0.5


def grad(leaf, forward):
    def run(o):
        x = getattr(o, leaf)
        y = forward(o, x)
        return torch.autograd.grad(y, x, torch.ones_like(y))
    return run


AROUND = (2, 2, 1, 1)

OPS = {
    "reshape": lambda o: o.t.reshape(-1, o.d),
    "flatten": lambda o: o.x.flatten(1),
    "unflatten": lambda o: o.t.unflatten(-1, (4, -1)),
    "squeeze": lambda o: o.v.squeeze(1),
    "unsqueeze": lambda o: o.t.unsqueeze(1),
    "transpose": lambda o: o.t.transpose(1, 2),
    "permute": lambda o: o.x.permute(0, 2, 3, 1),
    "movedim": lambda o: o.x.movedim(1, -1),
    "expand": lambda o: o.v.expand(o.b, o.length, o.d),
    "slice": lambda o: o.t[:, 1:],
    "slice_step": lambda o: o.t[:, ::2],
    "narrow": lambda o: o.t.narrow(-1, 1, o.d // 2),
    "select": lambda o: o.t.select(1, 0),
    "chunk": lambda o: o.t.chunk(4, -1),
    "copy": lambda o: o.t.clone(),
    "copy_transposed": lambda o: o.m.t().contiguous(),
    "copy_to_channels_last": lambda o: o.x.permute(0, 2, 3, 1).contiguous(),
    "copy_heads": lambda o: o.u.permute(0, 2, 1, 3).contiguous(),
    "copy_keys": lambda o: o.u.permute(0, 2, 3, 1).contiguous(),
    "copy_expanded": lambda o: o.v.expand(o.b, o.length, o.d).contiguous(),
    "copy_slice": lambda o: o.t[:, :, 1:o.d // 2].contiguous(),
    "copy_step": lambda o: o.x[:, :, :, ::2].contiguous(),
    "copy_slice_grad": grad("leaf_t", lambda o, t: t[:, :, 1:o.d // 2].clone()),
    "concat_first": lambda o: torch.cat((o.x, o.x), 0),
    "concat_channels": lambda o: torch.cat((o.x, o.x), 1),
    "concat_last": lambda o: torch.cat((o.t, o.t), 2),
    "concat_grad": grad("leaf_x", lambda o, x: torch.cat((x, x), 1)),
    "stack_first": lambda o: torch.stack((o.t, o.t), 0),
    "stack_last": lambda o: torch.stack((o.t, o.t), -1),
    "flip_last": lambda o: o.x.flip(3),
    "flip_first": lambda o: o.t.flip(1),
    "roll_last": lambda o: o.x.roll(3, 3),
    "roll_middle": lambda o: o.t.roll(3, 1),
    "roll_grad": grad("leaf_t", lambda o, t: t.roll(3, 1)),
    "repeat": lambda o: o.m.repeat(2, 2),
    "tile": lambda o: o.t.tile(1, 2, 1),
    "repeat_interleave": lambda o: o.t.repeat_interleave(2, 1),
    "repeat_interleave_last": lambda o: o.t.repeat_interleave(2, -1),
    "repeat_grad": grad("leaf_t", lambda o, t: t.repeat(1, 2, 1)),
    "tril": lambda o: o.m.tril(0),
    "triu": lambda o: o.m.triu(1),
    "tril_grad": grad("leaf_m", lambda o, m: m.tril(0)),
    "pad_one_side": lambda o: F.pad(o.t, (0, 0, 1, 0)),
    "pad_constant": lambda o: F.pad(o.x, AROUND, "constant", 0.5),
    "pad_reflect": lambda o: F.pad(o.x, AROUND, "reflect"),
    "pad_replicate": lambda o: F.pad(o.x, AROUND, "replicate"),
    "pad_circular": lambda o: F.pad(o.x, AROUND, "circular"),
    "pad_constant_grad": grad("leaf_x", lambda o, x: F.pad(x, AROUND, "constant", 0.5)),
    "pad_reflect_grad": grad("leaf_x", lambda o, x: F.pad(x, AROUND, "reflect")),
    "windows": lambda o: o.m.unfold(1, 16, 8).contiguous(),
    "windows_grad": grad("leaf_m", lambda o, m: m.unfold(1, 16, 8).contiguous()),
    "unfold2d": lambda o: F.unfold(o.x, 3, padding=1),
    "unfold2d_step": lambda o: F.unfold(o.x, 2, stride=2),
    "unfold2d_grad": grad("leaf_x", lambda o, x: F.unfold(x, 3, padding=1)),
    "fold2d": lambda o: F.fold(o.windows, o.x.shape[2:], 3, padding=1),
    "gather_columns": lambda o: o.m.gather(1, o.column_of),
    "gather_rows": lambda o: o.m.gather(0, o.row_of),
    "gather_grad": grad("leaf_m", lambda o, m: m.gather(1, o.column_of)),
    "take_along": lambda o: o.t.take_along_dim(o.places, 1),
    "scatter_columns": lambda o: o.m.scatter(1, o.column_of, o.m),
    "scatter_value": lambda o: o.m.scatter(1, o.column_of, 2),
    "scatter_grad": grad("leaf_m", lambda o, m: m.scatter(1, o.column_of, o.m)),
    "scatter_add_columns": lambda o: o.m.scatter_add(1, o.column_of, o.m),
    "scatter_add_rows": lambda o: o.m.scatter_add(0, o.row_of, o.m),
    "index_select_rows": lambda o: o.m.index_select(0, o.rows),
    "index_select_columns": lambda o: o.m.index_select(1, o.columns),
    "index_select_grad": grad("leaf_m", lambda o, m: m.index_select(0, o.rows)),
    "embedding": lambda o: F.embedding(o.words, o.table),
    "embedding_grad": grad("leaf_table", lambda o, w: F.embedding(o.words, w)),
    "one_hot": lambda o: F.one_hot(o.classes, 100),
    "masked_fill": lambda o: o.m.masked_fill(o.mask, -1e9),
    "masked_fill_grad": grad("leaf_m", lambda o, m: m.masked_fill(o.mask, -1e9)),
}
