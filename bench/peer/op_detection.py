"""The peer of bench/ops/op_detection.c: torchvision's operators, and two losses as their users write
them, which neither PyTorch nor torchvision has."""

import torch
import torch.nn.functional as F
from torchvision import ops

from op_rows import both_ways


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
        self.logits = torch.rand(k, 80) * 6 - 3
        self.truth = (torch.rand(k, 80) > 0.9).float()
        self.places = torch.rand(k) * 78
        self.mask = torch.rand(k // 16, 64, 64)
        self.true_mask = (torch.rand(k // 16, 64, 64) > 0.5).float()
        self.leaf_logits = self.logits.clone().requires_grad_()
        self.leaf_mask = self.mask.clone().requires_grad_()


OPS = {"nms": lambda o: ops.nms(o.boxes, o.scores, 0.5)}

row = both_ways(OPS)

row("roi_align", "x", lambda o, x: ops.roi_align(x, o.regions, 7, sampling_ratio=2, aligned=True))
row("giou_loss", "boxes", lambda o, b: ops.generalized_box_iou_loss(b, o.others, reduction="mean"))
row("diou_loss", "boxes", lambda o, b: ops.distance_box_iou_loss(b, o.others, reduction="mean"))
row("ciou_loss", "boxes", lambda o, b: ops.complete_box_iou_loss(b, o.others, reduction="mean"))
row("focal", "logits", lambda o, x: ops.sigmoid_focal_loss(x, o.truth, 0.25, 2, reduction="mean"))


def distribution_focal(o, x):
    low = o.places.long()
    part = o.places - low
    return (F.cross_entropy(x, low, reduction="none") * (1 - part)
            + F.cross_entropy(x, low + 1, reduction="none") * part).mean()


def dice(o, p):
    p, t = p.flatten(1), o.true_mask.flatten(1)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


row("distribution_focal", "logits", distribution_focal)
row("dice", "mask", dice)
