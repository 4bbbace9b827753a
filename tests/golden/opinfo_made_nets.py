"""Samples of our own: attention, recurrent networks, losses. See opinfo_made.py."""
import itertools

import torch
import torch.nn.functional as F

from opinfo_made import boxes, maker, product, r


# ---- attention -----------------------------------------------------------------------------------


@maker(F.scaled_dot_product_attention)
def scaled_dot_product_attention_more():
    for (b, h, q, k, d), kind in itertools.product(
            ((1, 1, 4, 4, 3), (2, 2, 3, 5, 4), (1, 2, 1, 6, 2), (1, 1, 5, 2, 3), (2, 1, 7, 7, 2)),
            ("none", "causal", "bool", "float", "row", "scale")):
        x = [r(b, h, n, d, low=-2, high=2) for n in (q, k, k)]
        kwargs = {"key": x[1], "value": x[2]}
        if kind == "causal":
            kwargs["is_causal"] = True
        elif kind == "bool":
            mask = torch.rand(q, k) > 0.4
            mask[:, 0] = True  # a row without any is NaN in PyTorch
            kwargs["attn_mask"] = mask
        elif kind == "float":
            kwargs["attn_mask"] = r(b, 1, q, k)
        elif kind == "row":
            kwargs["attn_mask"] = r(b, h, 1, k, grad=False)
        elif kind == "scale":
            kwargs["scale"] = 0.25
        yield x[0], kwargs
    for heads, causal in itertools.product((1, 2), (False, True)):
        yield r(2, 4, 3, 2), {"key": r(2, heads, 5, 2), "value": r(2, heads, 5, 3),
                              "enable_gqa": True, "is_causal": causal}


# ---- recurrent -----------------------------------------------------------------------------------


def recurrent(kind):
    """input (T,B,I), or (B,T,I); weights as torch.nn's flat list; hx a list; lengths: of each
    sequence, as pack_padded_sequence(enforce_sorted=False) takes them. Results: output, then the
    last states."""
    def run(input, weights, hx, num_layers, bidirectional, batch_first, lengths=None):
        flags = (num_layers, 0.0, False, bidirectional)
        biases = len(weights) == 4 * num_layers * (2 if bidirectional else 1)
        f = getattr(torch, kind)
        state = hx if kind == "lstm" else hx[0]
        if lengths is None:
            out = f(input, state, weights, biases, *flags, batch_first)
            return list(out)
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            input, torch.tensor(lengths), batch_first, enforce_sorted=False)
        order = packed.sorted_indices
        state = ([h.index_select(1, order) for h in state] if kind == "lstm"
                 else state.index_select(1, order))
        data, *last = f(packed.data, packed.batch_sizes, state, weights, biases, *flags)
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(
            torch.nn.utils.rnn.PackedSequence(data, packed.batch_sizes, order,
                                              packed.unsorted_indices),
            batch_first, total_length=input.shape[1 if batch_first else 0])
        return [out] + [h.index_select(1, packed.unsorted_indices) for h in last]

    @maker(run)
    def make():
        gates = 4 if kind == "lstm" else 3
        small = dict(low=-1, high=1)
        for layers, both, first, bias, lengths in itertools.product(
                (1, 2), (False, True), (False, True), (True, False), (False, True)):
            for T, B, I, H in ((4, 3, 2, 3), (1, 1, 3, 2), (3, 2, 5, 4)):
                ways = 2 if both else 1
                if layers * ways == 4 and H == 4:
                    continue  # many weights
                w = []
                for layer, way in itertools.product(range(layers), range(ways)):
                    w += [r(gates * H, I if layer == 0 else H * ways, **small),
                          r(gates * H, H, **small)]
                    w += [r(gates * H, **small), r(gates * H, **small)] if bias else []
                states = [r(layers * ways, B, H, **small) for _ in range(gates - 2)][: gates // 2]
                kwargs = {"weights": w, "hx": states[: 2 if kind == "lstm" else 1],
                          "num_layers": layers, "bidirectional": both, "batch_first": first}
                if lengths:
                    kwargs["lengths"] = [[T, max(T - 2, 1), T - 1][i % 3] or 1 for i in range(B)]
                yield r(*((B, T) if first else (T, B)), I), kwargs
    return make


lstm = recurrent("lstm")
gru = recurrent("gru")


# ---- losses --------------------------------------------------------------------------------------


@maker(F.cross_entropy)
def cross_entropy_more():
    for shape, reduction in itertools.product(((6, 5), (2, 4, 3), (2, 3, 2, 2), (1, 2)),
                                              ("mean", "sum", "none")):
        n, c = shape[0], shape[1]
        labels = torch.randint(0, c, (n, *shape[2:]))
        some = labels.clone()
        some.view(-1)[::2] = 1
        for extra in ({}, {"label_smoothing": 0.25}, {"ignore_index": 1},
                      {"weight": r(c, low=0.25, high=2, grad=False)},
                      {"weight": r(c, low=0.25, high=2, grad=False), "label_smoothing": 0.125,
                       "ignore_index": 1}):
            yield r(*shape), {"target": some if "ignore_index" in extra else labels,
                              "reduction": reduction} | extra
        soft = torch.softmax(r(*shape, grad=False), 1)
        yield r(*shape), {"target": soft, "reduction": reduction}
        yield r(*shape), {"target": soft, "reduction": reduction, "label_smoothing": 0.25}
    for reduction in ("mean", "sum", "none"):
        yield r(3, 4), {"target": torch.full((3,), 2), "ignore_index": 2, "reduction": reduction}


def with_lengths(log_probs, targets, input_lengths, target_lengths, **kwargs):
    return F.ctc_loss(torch.log_softmax(log_probs, -1), targets, tuple(input_lengths),
                      tuple(target_lengths), **kwargs)


@maker(with_lengths)
def ctc_loss_more():
    """log_probs: the logits, (T,B,C); log_softmax comes first."""
    for reduction, zero, blank in itertools.product(("mean", "sum", "none"), (False, True), (0, 2)):
        labels = [i for i in range(5) if i != blank]
        pick = torch.tensor(labels)
        for T, lengths, wide in ((6, (3, 2), 3), (8, (0, 4), 4), (5, (1, 5), 5), (4, (2, 0), 2),
                                 (3, (3, 3), 3)):
            target = pick[torch.randint(0, 4, (2, wide))]
            target[0, : wide // 2 + 1] = labels[0]  # repeated labels need a blank between
            yield r(T, 2, 5), {"targets": target, "input_lengths": [T, T - 1],
                               "target_lengths": list(lengths), "blank": blank,
                               "reduction": reduction, "zero_infinity": zero}


def reduced(loss, reduction):
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def focal_of(input, target, alpha, gamma, reduction):
    """torchvision's sigmoid_focal_loss"""
    p = torch.sigmoid(input)
    ce = F.binary_cross_entropy_with_logits(input, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    loss = ce * (1 - pt) ** gamma
    if alpha >= 0:
        loss = (alpha * target + (1 - alpha) * (1 - target)) * loss
    return reduced(loss, reduction)


@maker(focal_of)
def focal():
    for kwargs in product(alpha=[0.25, -1.0, 0.5], gamma=[2.0, 0.0, 1.5],
                          reduction=["mean", "sum", "none"]):
        target = torch.randint(0, 2, (3, 4)).double()
        yield r(3, 4), {"target": target} | kwargs


def dice_of(input, target, smooth, reduction):
    """input (N,...): probabilities; 1 - (2 Σ p t + smooth) / (Σ p + Σ t + smooth) of each row"""
    p, t = input.flatten(1), target.flatten(1)
    loss = 1 - (2 * (p * t).sum(1) + smooth) / (p.sum(1) + t.sum(1) + smooth)
    return reduced(loss, reduction)


@maker(dice_of)
def dice():
    for shape, kwargs in itertools.product(((2, 6), (3, 1, 3, 2)), list(
            product(smooth=[1.0, 0.5], reduction=["mean", "sum", "none"]))):
        yield r(*shape, low=0, high=1), {"target": torch.randint(0, 2, shape).double()} | kwargs


def dfl_of(input, target, reduction):
    """Distribution focal loss (Li et al. 2020): input (N,bins) logits, target (N) in 0..bins-1
    between bins; the cross entropies of its two neighbours, weighted by nearness."""
    low = target.floor().long().clamp(max=input.shape[1] - 2)
    near = target - low
    log_p = torch.log_softmax(input, 1)
    take = lambda i: -log_p.gather(1, i[:, None])[:, 0]
    return reduced(take(low) * (1 - near) + take(low + 1) * near, reduction)


@maker(dfl_of)
def dfl():
    for (n, bins), reduction in itertools.product(((4, 5), (6, 8), (1, 2)),
                                                  ("mean", "sum", "none")):
        target = torch.randint(0, 16 * (bins - 1), (n,)).double() / 16
        yield r(n, bins), {"target": target, "reduction": reduction}


def iou_of(input, target, kind, reduction):
    """1 - IoU, GIoU, DIoU or CIoU of boxes (N,4): x1 y1 x2 y2, as torchvision has them, with eps
    1e-7 in the divisors; CIoU's weight of the aspect is constant for gradients."""
    eps = 1e-7
    a, b = input.unbind(-1), target.unbind(-1)
    w = (torch.minimum(a[2], b[2]) - torch.maximum(a[0], b[0])).clamp(min=0)
    h = (torch.minimum(a[3], b[3]) - torch.maximum(a[1], b[1])).clamp(min=0)
    cut = w * h
    area = lambda t: (t[2] - t[0]) * (t[3] - t[1])
    union = area(a) + area(b) - cut
    iou = cut / (union + eps)
    cw = torch.maximum(a[2], b[2]) - torch.minimum(a[0], b[0])
    ch = torch.maximum(a[3], b[3]) - torch.minimum(a[1], b[1])
    if kind == "iou":
        loss = 1 - iou
    elif kind == "giou":
        loss = 1 - iou + (cw * ch - union) / (cw * ch + eps)
    else:
        far = ((a[0] + a[2] - b[0] - b[2]) / 2) ** 2 + ((a[1] + a[3] - b[1] - b[3]) / 2) ** 2
        loss = 1 - iou + far / (cw**2 + ch**2 + eps)
        if kind == "ciou":
            angle = lambda t: torch.atan((t[2] - t[0]) / (t[3] - t[1]))
            v = 4 / torch.pi**2 * (angle(b) - angle(a)) ** 2
            with torch.no_grad():
                weight = v / (1 - iou + v + eps)
            loss = loss + weight * v
    return reduced(loss, reduction)


@maker(iou_of)
def iou():
    for kind, reduction, n in itertools.product(("iou", "giou", "diou", "ciou"),
                                                ("mean", "sum", "none"), (1, 5, 8)):
        yield boxes(n, size=6, grad=True), {"target": boxes(n, size=6), "kind": kind,
                                            "reduction": reduction}
