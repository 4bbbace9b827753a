"""The peer of bench/ops/op_boxes.c: torchvision's operators, which PyTorch itself does not have."""

import torch
from torchvision import ops


def boxes_in(k, side):
    corner = torch.rand(k, 2) * side / 2
    return torch.cat((corner, corner + torch.rand(k, 2) * side * 3 / 8 + side / 8), 1)


class Operands:
    def __init__(self, size):
        n, c, h, k = ((1, 8, 16, 16), (2, 32, 32, 256), (4, 64, 64, 2048))[size]
        self.x = torch.rand(n, c, h, h) * 2 - 1
        self.regions = torch.cat((torch.randint(n, (k // 4, 1)).float(), boxes_in(k // 4, h)), 1)
        self.boxes = boxes_in(k, 640)
        self.others = self.boxes + torch.rand(k, 4) * 10 - 5
        self.scores = torch.rand(k)
        self.leaf_x = self.x.clone().requires_grad_()
        self.leaf_boxes = self.boxes.clone().requires_grad_()


OPS = {"nms": lambda o: ops.nms(o.boxes, o.scores, 0.5)}


def row(name, which, forward):
    def backward(o):
        x = getattr(o, "leaf_" + which)
        y = forward(o, x)
        return torch.autograd.grad(y, x, torch.ones_like(y))
    OPS[name] = lambda o: forward(o, getattr(o, which))
    OPS[name + "_grad"] = backward


row("roi_align", "x", lambda o, x: ops.roi_align(x, o.regions, 7, sampling_ratio=2, aligned=True))
row("giou_loss", "boxes", lambda o, b: ops.generalized_box_iou_loss(b, o.others, reduction="mean"))
row("diou_loss", "boxes", lambda o, b: ops.distance_box_iou_loss(b, o.others, reduction="mean"))
row("ciou_loss", "boxes", lambda o, b: ops.complete_box_iou_loss(b, o.others, reduction="mean"))
