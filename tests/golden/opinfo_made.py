"""Samples of our own, where OpInfo has none or few: each maker has `run`, in PyTorch's operators
and f64, and yields (input, arguments by name). What OpInfo has too is called <operator>_more, and
its cases join the operator's.
"""
import itertools
import math

import torch
import torch.nn.functional as F
from torch.testing._internal.opinfo.core import SampleInput


class Maker:
    def __init__(self, run, make):
        self.run, self.make = run, make

    def samples(self):
        for x, kwargs in self.make():
            yield SampleInput(x, kwargs=kwargs)


def maker(run):
    """Decorates a generator of samples into a maker that computes `run`."""
    return lambda make: Maker(run, make)


def r(*shape, low=-4.0, high=4.0, grad=True):
    return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).requires_grad_(grad)


def product(**lists):
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values))


# ---- elementwise ---------------------------------------------------------------------------------


def shapes_more():
    for shape in ((), (7,), (3, 5), (2, 3, 4), (2, 1, 2, 1, 3, 1, 2, 2), (1, 40)):
        yield r(*shape)


def plain_more(run, **lists):
    @maker(run)
    def make():
        for kwargs in product(**lists):
            for x in shapes_more():
                yield x, kwargs
    return make


hardswish_more = plain_more(F.hardswish)
leaky_relu_more = plain_more(F.leaky_relu, negative_slope=[0.01, 0.25, 0.0])
gelu_more = plain_more(F.gelu, approximate=["none", "tanh"])
elu_more = plain_more(F.elu, alpha=[1.0, 0.5])
softplus_more = plain_more(F.softplus, beta=[1, 2.0], threshold=[20, 1.0])
clamp_more = plain_more(torch.clamp, min=[None, -1.0, -1.5], max=[0.5, 2.0])


@maker(torch.clamp)
def clamp_tensors_more():
    yield r(3, 5), {"min": r(5, high=0), "max": r(3, 1, low=0)}
    yield r(4), {"min": r(4, low=-1, high=0)}


@maker(lambda input, condition, other: torch.where(condition, input, other))
def where_more():
    for a, b, c in (((3, 5), (3, 5), (3, 5)), ((5,), (3, 1), (3, 5)), ((3, 5), (), (1,)),
                    ((2, 1, 4), (3, 1), (2, 3, 4)), ((), (6,), ()), ((0, 3), (3,), (1, 3))):
        yield r(*a), {"condition": torch.rand(b) > 0.5, "other": r(*c)}


# ---- movement ------------------------------------------------------------------------------------


def sliced(input, dim, start, end, step):
    at = [slice(None)] * input.dim()
    at[dim] = slice(start, end, step)
    return input[tuple(at)]


@maker(sliced)
def slice_more():
    for dim, start, end, step in ((0, 0, 3, 1), (1, 1, 100, 2), (-1, -3, -1, 1), (0, 4, 2, 1),
                                  (1, 5, 6, 1), (0, 1, 5, 3), (1, -100, 4, 2), (0, 0, 0, 1)):
        yield r(5, 6), {"dim": dim, "start": start, "end": end, "step": step}
    yield r(2, 1, 2, 1, 5, 1, 2, 2), {"dim": 4, "start": 1, "end": 4, "step": 2}


@maker(lambda input, size: input.expand(size))
def expand_more():
    for shape, size in (((1, 3), [0, 3]), ((0, 3), [2, 0, 3]), ((1,), [4, 0, 2]), ((), [0]),
                        ((3, 1, 2), [2, 3, 5, 2]), ((1, 1), [-1, 4]), ((), [2, 3]),
                        ((1, 2, 1, 1), [2, 1, 2, 1, 2, 2, 1, 3])):
        yield r(*shape), {"size": size}


@maker(torch.broadcast_to)
def broadcast_to_more():
    for shape, size in (((1, 3), [0, 3]), ((0, 1), [2, 0, 3]), ((), [2, 2]), ((2, 1), [3, 2, 4])):
        yield r(*shape), {"size": size}


@maker(F.fold)
def fold():
    for k, s, p, d in itertools.product((2, (2, 3)), (1, 2), (0, 1), (1, 2)):
        size = (6, 7)
        like = F.unfold(torch.zeros(2, 3, *size, dtype=torch.float64), k, d, p, s)
        yield r(*like.shape), {"output_size": list(size), "kernel_size": k, "dilation": d,
                               "padding": p, "stride": s}


# ---- sorting and selecting -----------------------------------------------------------------------


@maker(torch.sort)
def sort_more():
    for shape, dim, descending in itertools.product(((9,), (3, 8), (4, 3, 2)), (0, -1),
                                                    (False, True)):
        x = torch.randint(-2, 3, shape, dtype=torch.float64).requires_grad_()
        yield x, {"dim": dim, "descending": descending, "stable": True}


def iou_matrix(a, b):
    top = torch.maximum(a[:, None, :2], b[None, :, :2])
    low = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    cut = (low - top).clamp(min=0).prod(-1)
    area = lambda t: (t[:, 2:] - t[:, :2]).prod(-1)
    return cut / (area(a)[:, None] + area(b)[None] - cut)


def nms_of(boxes, scores, iou_threshold):
    """Indices that stay, best score first; of equal scores the first index. Pairs of zero area have
    an overlap of NaN, which suppresses nothing."""
    order = torch.argsort(scores, descending=True, stable=True).tolist()
    overlap, kept = iou_matrix(boxes, boxes), []
    for i in order:
        if all(not overlap[i, k] > iou_threshold for k in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def boxes(n, size=16, grad=False):
    """Corners on a grid of 1/4, at least 1/4 apart."""
    at = torch.randint(0, size * 2, (n, 2)).double() / 4
    return torch.cat([at, at + torch.randint(1, size * 2, (n, 2)).double() / 4],
                     1).requires_grad_(grad)


@maker(nms_of)
def nms():
    for n, threshold in itertools.product((0, 1, 5, 20, 60), (0.0, 0.25, 0.5, 0.75)):
        scores = torch.randint(0, 8 if n < 10 else 200, (n,)).double() / 256
        yield boxes(n), {"scores": scores, "iou_threshold": threshold}
    flat = boxes(8)
    flat[::2, 2:] = flat[::2, :2]
    flat[2] = flat[0]
    yield flat, {"scores": torch.ones(8, dtype=torch.float64), "iou_threshold": 0.5}


# ---- products ------------------------------------------------------------------------------------


@maker(lambda operands, equation: torch.einsum(equation, *operands))
def einsum_more():
    for equation, *shapes in (
            ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
            ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ij->j", (3, 4)), ("ii->i", (4, 4)),
            ("ii->", (4, 4)), ("i,j->ij", (3,), (4,)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
            ("bhqk,bhkd->bhqd", (2, 2, 3, 5), (2, 2, 5, 4)), ("ij,ij->ij", (3, 4), (3, 4)),
            ("ij,ij->", (3, 4), (3, 4)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
            ("...ij,...jk->...ik", (2, 1, 3, 4), (3, 4, 2)), ("ij,kj", (3, 4), (5, 4)),
            ("bi,oij,bj->bo", (2, 3), (4, 3, 5), (2, 5)), ("nchw,oc->nohw", (2, 3, 2, 2), (4, 3)),
            ("ij,j->i", (0, 4), (4,)), ("ij,jk->ik", (3, 0), (0, 5)), ("i->ii"[:1] + "->i", (5,)),
            ("ijk,ilm,njm,nlk->", (2, 3, 2), (2, 2, 3), (2, 3, 3), (2, 2, 2))):
        yield [r(*s) for s in shapes], {"equation": equation}


def matmuls(*shapes):
    @maker(torch.matmul)
    def make():
        for a, b in shapes:
            yield r(*a), {"other": r(*b)}
    return make


matmul_more = matmuls(
    ((1, 1), (1, 1)), ((7, 3), (3, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)), ((3, 0), (0, 4)), ((0, 3), (3, 4)), ((2, 0, 3), (3, 4)), ((5, 1, 2), (1, 2, 6)),
    ((1, 1, 1, 1, 2, 1, 3, 4), (2, 4, 2)), ((16, 17), (17, 9)), ((2, 3, 4), (4, 5)))


# ---- convolution ---------------------------------------------------------------------------------


def convolution(dims, transposed, run, choices):
    """Sizes 5 and 6, 2 groups of 2 channels; kernels, strides, paddings, dilations, groups."""
    @maker(run)
    def make():
        for n, (k, s, p, d, g, extra) in enumerate(choices):
            k, s, p, d = ((v,) * dims if isinstance(v, int) else v[:dims] for v in (k, s, p, d))
            into, out = 4, (8 if g == 4 else 6 if g == 1 else 4)
            w = (into, out // g, *k) if transposed else (out, into // g, *k)
            kwargs = {"weight": r(*w, low=-2, high=2), "stride": list(s), "padding": list(p),
                      "dilation": list(d), "groups": g}
            if n % 3 != 2:
                kwargs["bias"] = r(out)
            if transposed:
                kwargs["output_padding"] = [min(extra, max(a, b) - 1) for a, b in zip(s, d)]
            yield r(2, into, *(7, 6)[:dims], low=-2, high=2), kwargs
    return make


CHOICES = [(3, 1, 1, 1, 1, 0), (3, 2, 1, 1, 1, 1), (1, 1, 0, 1, 1, 0), (3, 1, 2, 2, 1, 0),
           ((3, 2), (2, 1), (1, 0), 1, 1, 1), (3, 1, 1, 1, 4, 0), (3, 2, 1, 1, 4, 1),
           (2, 2, 0, 1, 2, 1), ((1, 3), 1, (0, 1), 1, 2, 0), (3, (1, 2), 1, (2, 1), 4, 0),
           (2, 3, 1, 2, 1, 2), ((2, 3), (3, 2), (1, 2), (1, 2), 2, 1), (5, 1, 2, 1, 1, 0),
           (1, 2, 0, 1, 4, 1), (4, 2, 1, 1, 1, 0), ((3, 1), 1, (2, 0), 2, 1, 0)]
conv1d_more = convolution(1, False, F.conv1d, CHOICES)
conv2d_more = convolution(2, False, F.conv2d, CHOICES)
conv_transpose1d_more = convolution(1, True, F.conv_transpose1d, CHOICES)
conv_transpose2d_more = convolution(2, True, F.conv_transpose2d, CHOICES)


@maker(lambda input, weight, padding, stride: F.conv2d(
    F.pad(input, [padding[1], padding[3], padding[0], padding[2]]), weight, stride=stride))
def conv2d_asymmetric():
    """padding: top, left, bottom, right"""
    for padding in ([1, 0, 0, 0], [0, 1, 2, 0], [0, 0, 1, 1], [2, 1, 0, 3], [1, 2, 3, 4]):
        for stride in (1, 2):
            yield r(2, 2, 5, 4), {"weight": r(3, 2, 3, 2), "padding": padding, "stride": stride}


# ---- normalisation -------------------------------------------------------------------------------


@maker(F.batch_norm)
def batch_norm_more():
    for shape, affine, training, eps in itertools.product(
            ((4, 3), (2, 3, 5), (2, 3, 4, 2), (1, 2, 6)), (True, False), (True, False),
            (1e-5, 0.125)):
        c = shape[1]
        kwargs = {"running_mean": r(c, grad=False), "running_var": r(c, low=0.5, high=2, grad=False),
                  "training": training, "eps": eps}
        if affine:
            kwargs |= {"weight": r(c), "bias": r(c)}
        yield r(*shape), kwargs


def normalising(run, bias):
    @maker(run)
    def make():
        for (shape, over), affine, eps in itertools.product(
                (((3, 8), 1), ((2, 3, 5), 1), ((2, 3, 5), 2), ((2, 3, 2, 2), 3), ((7,), 1),
                 ((0, 4), 1)), (True, False), (1e-5, 0.25)):
            size = shape[-over:]
            kwargs = {"normalized_shape": list(size), "eps": eps}
            if affine:
                kwargs |= {"weight": r(*size)} | ({"bias": r(*size)} if bias else {})
            yield r(*shape), kwargs
    return make


layer_norm_more = normalising(F.layer_norm, True)
rms_norm_more = normalising(F.rms_norm, False)


@maker(F.group_norm)
def group_norm_more():
    for (shape, groups), affine in itertools.product(
            (((2, 4, 3), 2), ((2, 4), 4), ((1, 6, 2, 3), 3), ((3, 4, 2), 1), ((2, 3, 2, 2), 3)),
            (True, False)):
        c = shape[1]
        yield r(*shape), {"num_groups": groups} | (
            {"weight": r(c), "bias": r(c), "eps": 0.125} if affine else {})


# ---- pooling -------------------------------------------------------------------------------------


def pool_more(run, **more):
    @maker(run)
    def make():
        choices = [(2, None, 0, False), (3, 2, 1, False), (3, 1, 1, True), (3, 2, 0, True),
                   ((2, 3), (1, 2), (1, 0), True), ((3, 2), None, 1, False), (1, 2, 0, False),
                   ((1, 4), (1, 3), (0, 2), True)]
        for (k, s, p, up), extra in itertools.product(choices, list(product(**more))):
            kwargs = {"kernel_size": k, "padding": p, "ceil_mode": up} | extra
            yield r(2, 2, 6, 7), kwargs if s is None else kwargs | {"stride": s}
        hole = r(1, 2, 5, 5, grad=False)
        hole[0, 0, 2, 2], hole[0, 1, 0, 0] = math.nan, math.inf
        yield hole.requires_grad_(), {"kernel_size": 2, "stride": 1}
    return make


max_pool2d_more = pool_more(F.max_pool2d, dilation=[1, 2])
avg_pool2d_more = pool_more(F.avg_pool2d, count_include_pad=[True, False],
                            divisor_override=[None, 3])


# ---- resampling ----------------------------------------------------------------------------------


@maker(F.interpolate)
def interpolate_nearest_more():
    for shape, size in (((2, 3, 5), [7]), ((2, 3, 5), [3]), ((1, 2, 4, 5), [8, 10]),
                        ((1, 2, 4, 5), [3, 7]), ((2, 1, 3, 3), [1, 1]), ((1, 1, 1, 1), [3, 2])):
        yield r(*shape), {"size": size, "mode": "nearest"}
    for scale in (2.0, 0.5, [2.0, 3.0], [1.5, 0.75]):
        yield r(1, 2, 4, 5), {"scale_factor": scale, "mode": "nearest"}


@maker(F.interpolate)
def interpolate_bilinear_more():
    for corners in (False, True):
        for shape, size in (((1, 2, 4, 5), [8, 10]), ((1, 2, 4, 5), [3, 7]), ((2, 1, 3, 3), [1, 1]),
                            ((1, 1, 1, 1), [3, 2]), ((1, 2, 6, 4), [2, 9]), ((0, 2, 3, 3), [4, 4])):
            yield r(*shape), {"size": size, "mode": "bilinear", "align_corners": corners}
        for scale in (2.0, 0.5, [2.0, 3.0], [1.5, 0.75]):
            yield r(1, 2, 4, 5), {"scale_factor": scale, "mode": "bilinear",
                                  "align_corners": corners}


@maker(F.grid_sample)
def grid_sample_more():
    for kwargs in product(mode=["bilinear", "nearest"],
                          padding_mode=["zeros", "border", "reflection"],
                          align_corners=[False, True]):
        for shape, low in (((2, 2, 4, 5), -1.0), ((1, 3, 3, 2), -2.0)):
            grid = r(shape[0], 3, 4, 2, low=low, high=-low)
            yield r(*shape), {"grid": grid} | kwargs


def roi_align_of(input, boxes, output_size, spatial_scale, sampling_ratio, aligned):
    """As torchvision computes it. boxes (K,5): image, x1, y1, x2, y2."""
    n, ch, height, width = input.shape
    off, rows = 0.5 if aligned else 0.0, []

    def at(img, y, x):
        if y < -1 or y > height or x < -1 or x > width:
            return torch.zeros(ch, dtype=input.dtype)
        y, x = max(y, 0.0), max(x, 0.0)
        y0, x0 = min(int(y), height - 1), min(int(x), width - 1)
        y, x = (float(y0) if y0 == height - 1 else y), (float(x0) if x0 == width - 1 else x)
        y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
        ly, lx = y - y0, x - x0
        return (img[:, y0, x0] * ((1 - ly) * (1 - lx)) + img[:, y0, x1] * ((1 - ly) * lx)
                + img[:, y1, x0] * (ly * (1 - lx)) + img[:, y1, x1] * (ly * lx))

    for b in boxes.tolist():
        x1, y1, x2, y2 = (v * spatial_scale - off for v in b[1:])
        w, h = x2 - x1, y2 - y1
        if not aligned:
            w, h = max(w, 1.0), max(h, 1.0)
        ph, pw = output_size
        bh, bw = h / ph, w / pw
        sy = sampling_ratio if sampling_ratio > 0 else math.ceil(bh)
        sx = sampling_ratio if sampling_ratio > 0 else math.ceil(bw)
        out = []
        for i, j in itertools.product(range(ph), range(pw)):
            points = [at(input[int(b[0])], y1 + i * bh + (a + 0.5) * bh / sy,
                         x1 + j * bw + (c + 0.5) * bw / sx)
                      for a in range(sy) for c in range(sx)]
            out.append(sum(points) / max(len(points), 1) if points
                       else torch.zeros(ch, dtype=input.dtype))
        rows.append(torch.stack(out, 1).reshape(ch, ph, pw))
    return torch.stack(rows) if rows else input.new_zeros(0, ch, *output_size)


@maker(roi_align_of)
def roi_align():
    for kwargs in product(output_size=[[2, 2], [3, 1]], spatial_scale=[1.0, 0.5],
                          sampling_ratio=[0, 2], aligned=[False, True]):
        b = boxes(4, size=8)
        b[3] = torch.tensor([-2.0, -1.0, 20.0, 3.0])
        b = torch.cat([torch.tensor([[0.0], [1.0], [0.0], [1.0]], dtype=torch.float64), b], 1)
        yield r(2, 2, 6, 7), {"boxes": b} | kwargs
    yield r(1, 2, 4, 4), {"boxes": torch.zeros(0, 5, dtype=torch.float64), "output_size": [2, 2],
                          "spatial_scale": 1.0, "sampling_ratio": 2, "aligned": True}
