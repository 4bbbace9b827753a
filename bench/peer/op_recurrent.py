"""The peer of bench/ops/op_recurrent.c. Packed sequences as users have them: packed before the layer,
padded after it, with lengths on the host."""

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Operands:
    def __init__(self, size):
        t, n, side = (16, 32, 64)[size], (4, 16, 32)[size], (32, 128, 256)[size]
        classes = (20, 40, 80)[size]
        self.x = torch.rand(t, n, side) * 2 - 1
        self.lx = self.x.clone().requires_grad_()
        self.lengths = torch.tensor([t - i * t // (2 * n) for i in range(n)])
        self.logits = torch.rand(t, n, classes) * 6 - 3
        self.llogits = self.logits.clone().requires_grad_()
        self.target = torch.randint(1, classes, (n, t // 4))
        self.frames, self.labels = torch.full((n,), t), torch.full((n,), t // 4)
        for name, layer in (("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU)):
            setattr(self, "l" + name, layer(side, side))
            setattr(self, "l" + name + "_deep", layer(side, side, 2, bidirectional=True))
            setattr(self, name, layer(side, side).requires_grad_(False))
            setattr(self, name + "_deep",
                    layer(side, side, 2, bidirectional=True).requires_grad_(False))


def packed(layer, x, lengths):
    y, _ = layer(pack_padded_sequence(x, lengths))
    return pad_packed_sequence(y)[0]


def grad(y, x, layer):
    return torch.autograd.grad(y, (x, *layer.parameters()), torch.ones_like(y))


def ctc(o, logits):
    return F.ctc_loss(F.log_softmax(logits, 2), o.target, o.frames, o.labels, reduction="sum")


OPS = {
    "lstm": lambda o: o.lstm(o.x)[0],
    "lstm_grad": lambda o: grad(o.llstm(o.lx)[0], o.lx, o.llstm),
    "lstm_deep": lambda o: o.lstm_deep(o.x)[0],
    "lstm_deep_grad": lambda o: grad(o.llstm_deep(o.lx)[0], o.lx, o.llstm_deep),
    "lstm_packed": lambda o: packed(o.lstm, o.x, o.lengths),
    "lstm_packed_grad": lambda o: grad(packed(o.llstm, o.lx, o.lengths), o.lx, o.llstm),
    "gru": lambda o: o.gru(o.x)[0],
    "gru_grad": lambda o: grad(o.lgru(o.lx)[0], o.lx, o.lgru),
    "gru_deep": lambda o: o.gru_deep(o.x)[0],
    "gru_deep_grad": lambda o: grad(o.lgru_deep(o.lx)[0], o.lx, o.lgru_deep),
    "gru_packed": lambda o: packed(o.gru, o.x, o.lengths),
    "gru_packed_grad": lambda o: grad(packed(o.lgru, o.lx, o.lengths), o.lx, o.lgru),
    "ctc": lambda o: ctc(o, o.logits),
    "ctc_grad": lambda o: torch.autograd.grad(ctc(o, o.llogits), o.llogits),
}
