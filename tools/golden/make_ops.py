"""Writes tests/golden/ops.json: operators' results and gradients as PyTorch computes them.

    python3 tools/golden/make_ops.py > tests/golden/ops.json

Each case names a call, its arguments, inputs, the gradient `g` given to the result, the result and
the inputs' gradients. Everything is computed in f64. Inputs are multiples of 1/64, so they are the
same numbers in f32, and one set of values serves both types.
"""
import json
import sys

import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
cases = []


def draw(shape, low=-4.0, high=4.0):
    return (torch.empty(shape).uniform_(low, high) * 64).round() / 64


def flat(t):
    if t.dtype.is_floating_point:
        return ["%.17g" % v if v != v or abs(v) == float("inf") else v for v in t.flatten().tolist()]
    return [int(v) for v in t.flatten().tolist()]


def tensor(t):
    return {"shape": list(t.shape), "data": flat(t)}


def case(call, run, inputs, integers=(), args=None):
    """run(inputs..., integers...) -> result; gradients are for `inputs` only."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = run(*leaves, *integers)
    entry = {"call": call, "args": args or {}, "in": [tensor(x) for x in inputs],
             "ints": [tensor(x) for x in integers], "y": tensor(y.detach())}
    if y.dtype.is_floating_point and y.requires_grad:
        g = draw(y.shape, -2, 2)
        grads = torch.autograd.grad((y * g).sum(), leaves, allow_unused=True)
        entry["g"] = tensor(g)
        entry["dx"] = [tensor(torch.zeros_like(x) if d is None else d)
                       for x, d in zip(leaves, grads)]
    cases.append(entry)


# ---- elementwise ----
unary = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp,
    "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "erf": torch.erf,
    "gelu": F.gelu, "silu": F.silu, "sin": torch.sin, "cos": torch.cos, "floor": torch.floor,
    "ceil": torch.ceil, "round": torch.round, "logical_not": torch.logical_not,
    "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
}
positive = {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
            "reciprocal": torch.reciprocal}
for name, f in unary.items():
    x = draw((3, 4))
    x[0, 0], x[0, 1], x[0, 2] = 0.0, 0.5, -1.5
    case(name, f, [x])
for name, f in positive.items():
    case(name, f, [draw((3, 4), 0.25, 6)])
binary = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
    "maximum": torch.maximum, "minimum": torch.minimum, "eq": torch.eq, "ne": torch.ne,
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or,
}
for name, f in binary.items():
    a, b = draw((2, 3, 4)), draw((3, 1), 0.5, 3)
    a[0, 0, 0] = b[0, 0]
    a[1, 1, 2] = b[1, 0]
    case(name, f, [a, b])
case("pow", torch.pow, [draw((2, 3), 0.25, 3), draw((3,), -2, 3)])
case("pow", torch.pow, [torch.tensor([0.0, 0.0, 2.0, -2.0]), torch.tensor([0.0, 2.0, 0.0, 2.0])],
     args={"first_only": True})
cond = torch.tensor([[True, False, True], [False, False, True]])
case("where", lambda a, b, c: torch.where(c.bool(), a, b), [draw((2, 3)), draw((3,))], [cond])
case("clamp", lambda x: torch.clamp(x, -1, 2), [draw((3, 4))], args={"low": -1, "high": 2})

# ---- reductions ----
for name, f in {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax,
                "amin": torch.amin}.items():
    for dims in [[0], [1], [2], [0, 2], [0, 1, 2]]:
        for keep in [False, True]:
            x = draw((2, 3, 4))
            x[0, 1, 2] = x[0, 1, 1] = x[1, 1, 1] = 4.0
            case(name, lambda x, d=dims, k=keep: f(x, d, keepdim=k), [x],
                 args={"dims": dims, "keep": keep})
for dim in [0, 1]:
    x = draw((3, 4), 0.5, 2)
    x[1, 1] = 0.0
    case("prod", lambda x, d=dim: torch.prod(x, d), [x], args={"dims": [dim], "keep": False})
    x = x.clone()
    x[1, 2] = x[2, 1] = 0.0
    case("prod", lambda x, d=dim: torch.prod(x, d), [x], args={"dims": [dim], "keep": False})
for correction in [0, 1]:
    case("var", lambda x, c=correction: torch.var(x, [1, 2], correction=c, keepdim=True),
         [draw((2, 3, 4))], args={"dims": [1, 2], "keep": True, "correction": correction})
for name, f in {"argmax": torch.argmax, "argmin": torch.argmin}.items():
    case(name, lambda x: f(x, 1), [draw((3, 5))], args={"dim": 1})
for dim in [0, 1, -1]:
    case("softmax", lambda x, d=dim: F.softmax(x, d), [draw((3, 4, 2))], args={"dim": dim})
    case("log_softmax", lambda x, d=dim: F.log_softmax(x, d), [draw((3, 4, 2))],
         args={"dim": dim})
    case("logsumexp", lambda x, d=dim: torch.logsumexp(x, d), [draw((3, 4, 2))],
         args={"dim": dim})

# ---- shapes ----
case("reshape", lambda x: x.reshape(3, 4), [draw((2, 6))], args={"shape": [3, -1]})
case("permute", lambda x: x.permute(2, 0, 1), [draw((2, 3, 4))], args={"order": [2, 0, 1]})
case("expand", lambda x: x.expand(2, 3, 4), [draw((3, 1))], args={"shape": [2, 3, 4]})
case("slice", lambda x: x[:, 1:6:2], [draw((2, 7))], args={"dim": 1, "start": 1, "stop": 6,
                                                           "step": 2})
case("select", lambda x: x[:, 2], [draw((2, 4, 2))], args={"dim": 1, "index": 2})
case("concat", lambda a, b: torch.cat([a, b], 1), [draw((2, 3)), draw((2, 1))], args={"dim": 1})
case("stack", lambda a, b: torch.stack([a, b], 1), [draw((2, 3)), draw((2, 3))], args={"dim": 1})
case("pad", lambda x: F.pad(x, [1, 2], value=0.5), [draw((2, 3))],
     args={"dim": 1, "before": 1, "after": 2, "value": 0.5})

# ---- indexing ----
case("gather", lambda x, i: torch.gather(x, 1, i), [draw((2, 4))],
     [torch.tensor([[0, 3, 3], [1, 1, 2]])], args={"dim": 1})
case("embedding", lambda w, i: F.embedding(i, w), [draw((5, 3))],
     [torch.tensor([[0, 4], [4, 1]])])
case("index_select", lambda x, i: torch.index_select(x, 1, i), [draw((2, 4, 2))],
     [torch.tensor([3, 0, 3])], args={"dim": 1})

# ---- products ----
for a, b in [((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)), ((3, 4), (2, 4, 2)),
             ((2, 1, 3, 4), (3, 4, 2)), ((4,), (4,)), ((4,), (4, 2)), ((3, 4), (4,))]:
    case("matmul", torch.matmul, [draw(a, -2, 2), draw(b, -2, 2)])
case("linear", F.linear, [draw((2, 3, 4), -2, 2), draw((5, 4), -2, 2), draw((5,), -2, 2)])

# ---- images ----
for shape, w, kw in [
    ((2, 3, 5, 6), (4, 3, 3, 3), {}),
    ((2, 3, 5, 6), (4, 3, 3, 2), {"stride": [2, 1], "padding": [1, 1, 1, 1]}),
    ((1, 4, 6, 5), (4, 2, 3, 3), {"groups": 2, "padding": [0, 1, 2, 1]}),
    ((2, 4, 6, 6), (4, 1, 3, 3), {"groups": 4, "padding": [1, 1, 1, 1]}),
    ((1, 2, 7, 7), (3, 2, 3, 3), {"dilation": [2, 1], "padding": [2, 2, 2, 2]}),
    ((2, 3, 4, 4), (5, 3, 1, 1), {"stride": [2, 2]}),
]:
    top, left, bottom, right = kw.get("padding", [0, 0, 0, 0])

    def run(x, w, kw=kw, p=(left, right, top, bottom)):
        return F.conv2d(F.pad(x, p), w, stride=kw.get("stride", 1),
                        dilation=kw.get("dilation", 1), groups=kw.get("groups", 1))

    case("conv2d", run, [draw(shape, -2, 2), draw(w, -2, 2)], args=kw)
for kernel, stride, padding, dilation in [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 1, 0, 2)]:
    args = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    x = draw((2, 2, 6, 5))
    x[0, 0] = torch.tensor(1.5)  # ties
    case("max_pool2d", lambda x: F.max_pool2d(x, kernel, stride, padding, dilation), [x], args=args)
    if dilation == 1:
        for include in [True, False]:
            case("avg_pool2d", lambda x: F.avg_pool2d(x, kernel, stride, padding,
                                                      count_include_pad=include), [x],
                 args=dict(args, include=include))

# ---- normalisation ----
case("layer_norm", lambda x, w, b: F.layer_norm(x, [4], w, b, 1e-5),
     [draw((2, 3, 4)), draw((4,)), draw((4,))], args={"eps": 1e-5})
case("layer_norm", lambda x, w, b: F.layer_norm(x, [3, 4], w, b, 1e-3),
     [draw((2, 3, 4)), draw((3, 4)), draw((3, 4))], args={"eps": 1e-3})
case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b, 1e-5),
     [draw((2, 4, 3, 2)), draw((4,)), draw((4,))], args={"groups": 2, "eps": 1e-5})
case("batch_norm", lambda x, m, v, w, b: (x - m.view(1, -1, 1, 1))
     / torch.sqrt(v.view(1, -1, 1, 1) + 1e-5) * w.view(1, -1, 1, 1) + b.view(1, -1, 1, 1),
     [draw((2, 3, 2, 2)), draw((3,)), draw((3,), 0.5, 2), draw((3,)), draw((3,))],
     args={"eps": 1e-5})

# ---- losses: sums, and rows ----
labels = torch.tensor([0, 2, -1, 1])
case("cross_entropy", lambda x, t: F.cross_entropy(x, t, ignore_index=-1, reduction="sum"),
     [draw((4, 3))], [labels], args={"ignore": -1, "smoothing": 0})
case("cross_entropy", lambda x, t: F.cross_entropy(x, t, ignore_index=-1, reduction="sum",
                                                   label_smoothing=0.1),
     [draw((4, 3))], [labels], args={"ignore": -1, "smoothing": 0.1})
case("cross_entropy", lambda x, t: F.cross_entropy(x, t, ignore_index=-1, reduction="sum"),
     [draw((2, 3, 2, 2))], [torch.tensor([[[0, 1], [2, -1]], [[1, 1], [-1, 0]]])],
     args={"ignore": -1, "smoothing": 0})
case("cross_entropy_rows", lambda x, t: F.cross_entropy(x, t, ignore_index=-1, reduction="none"),
     [draw((4, 3))], [labels], args={"ignore": -1, "smoothing": 0})
case("nll", lambda x, t: F.nll_loss(x, t, reduction="sum"), [draw((3, 4))],
     [torch.tensor([3, 0, 1])])
case("mse", lambda x, t: F.mse_loss(x, t, reduction="sum"), [draw((2, 3)), draw((2, 3))])
case("bce_with_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="sum"),
     [draw((2, 3), -6, 6), draw((2, 3), 0, 1)])
x = draw((2, 3), -6, 6)
x[0, 0] = 0.0
case("bce_with_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="sum"),
     [x, draw((2, 3), 0, 1)])

print("[")
print(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
print("]")
print(f"{len(cases)} cases, torch {torch.__version__}", file=sys.stderr)
