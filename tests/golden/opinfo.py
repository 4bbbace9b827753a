#!/usr/bin/env python3
"""Writes the golden cases: what PyTorch computes in f64 for its own OpInfo samples.

    python tests/golden/opinfo.py            # every family, tests/golden/<family>.golden
    python tests/golden/opinfo.py pool norm  # these

opinfo_ops.py names the operators and their parameters, opinfo_made.py and opinfo_made_nets.py hold
samples of our own where OpInfo has none. The same script and the same PyTorch write the same bytes.

Inputs are rounded to values that f16 and bf16 both hold exactly, so that one input serves every
type. Each result y[k] is weighted by w[i] = ((37 i + 11 k) mod 64 - 31.5) / 32 (i: row-major
index), which is exact in f16, too; the gradients are those of the weighted sum. Cases are left out
that are ill-conditioned: PyTorch itself is off in f32 by more than is asked of hod there.

The file, little-endian:

    offset  bytes  content
    0       8      "hodgold1"
    8       8      u64: length h of the header
    16      8      u64: length d of the data
    24      ...    zlib stream of h + d bytes: the header, then the data

The header is JSON: {"family", "torch", "cases": [case...]}. A case is

    {"op": name, "tags": ["zero" | "broadcast" ...], "args": {parameter: value...},
     "t": [tensor...], "y": [tensor...], "g": [tensor or null, one for each of t]}

where a value is a number, bool, text, list, {"t": index into t} or {"ts": [indices]}; numbers that
are not finite are text. A parameter that is None is left out. "g" is left out where PyTorch has no
gradient, or an ill-conditioned one. A tensor is [dtype, encoding, shape, offset into the data]: dtype "f" is the type under
test (f64 here), others are by name; the encoding (u8 i16 i64 bf16 f32 f64) is the smallest that
holds the values exactly.
"""
import json
import math
import pathlib
import random
import struct
import sys
import warnings
import zlib

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput

import opinfo_made
import opinfo_made_nets
import opinfo_ops

HERE = pathlib.Path(__file__).parent
# Numbers that stand for a tensor's elements are rounded like those.
NUMBERS = {"input", "other", "exponent", "value", "min", "max", "end", "weight"}


class Unsuitable(Exception):
    """A sample that is not for us: complex, random, too large, refused by PyTorch."""


# ---- inputs --------------------------------------------------------------------------------------


def rounded(x):
    """x in values that f16 and bf16 hold; infinities and NaN stay."""
    y = x.detach().double()
    finite = torch.isfinite(y)
    y = torch.where(finite, y.clamp(-60000, 60000), y)
    for _ in range(2):
        y = y.bfloat16().double().half().double()
    return y


def distinct(x):
    """x with equal elements moved apart by steps of bf16: no ties."""
    flat = x.flatten()
    order = torch.argsort(flat, stable=True)
    last = None
    for i in order.tolist():
        v = flat[i].bfloat16()
        while last is not None and not v > last:
            v = torch.nextafter(torch.maximum(v, last), torch.tensor(math.inf).bfloat16())
            if v.abs() < 2**-10:  # below, f16 and bf16 part
                v = torch.tensor(2**-10 if v >= 0 else 0.0).bfloat16()
        flat[i], last = v.double(), v
    return flat.reshape(x.shape)


class Inputs:
    """Collects the tensors of a sample and turns its arguments into JSON."""

    def __init__(self, ties):
        self.tensors, self.wanted, self.ties = [], [], ties

    def take(self, x):
        if x.is_complex() or x.layout != torch.strided or x.is_quantized:
            raise Unsuitable
        if x.dtype in (torch.float32, torch.float16, torch.bfloat16):
            raise Unsuitable  # mixed types have tests of their own
        wants = x.requires_grad and x.is_floating_point()
        y = rounded(x) if x.is_floating_point() else x.detach().clone()
        y = y.contiguous()
        if x.is_floating_point() and not self.ties:
            y = distinct(y)
        self.tensors.append(y.requires_grad_(wants))
        self.wanted.append(wants)
        return len(self.tensors) - 1

    def value(self, v, name):
        """(JSON, what to pass to PyTorch)"""
        if name in NUMBERS and isinstance(v, float):
            v = float(rounded(torch.tensor(v, dtype=torch.float64)))
        if isinstance(v, torch.Tensor):
            i = self.take(v)
            return {"t": i}, self.tensors[i]
        if isinstance(v, (list, tuple)) and v and all(isinstance(e, torch.Tensor) for e in v):
            at = [self.take(e) for e in v]
            return {"ts": at}, type(v)([self.tensors[i] for i in at])
        if isinstance(v, (list, tuple)):
            return [plain(e) for e in v], v
        return plain(v), v


def plain(v):
    if v is None or isinstance(v, (bool, int, str)):
        return v
    if isinstance(v, float):
        return v if math.isfinite(v) else str(v)
    if isinstance(v, torch.dtype):
        return str(v).replace("torch.", "")
    if isinstance(v, torch.memory_format):
        if v in (torch.contiguous_format, torch.preserve_format):
            return None
    if isinstance(v, (list, tuple)):
        return [plain(e) for e in v]
    raise Unsuitable


def parameters(names, sample):
    """(name, value) of every argument of the sample, in order."""
    values = [sample.input, *sample.args]
    if names[-1].startswith("*"):  # the rest of the positional arguments is a list
        fixed = len(names) - 1
        if not (len(values) == fixed + 1 and isinstance(values[fixed], (list, tuple))):
            values = values[:fixed] + [values[fixed:]]
        names = names[:-1] + [names[-1][1:]]
    if len(values) > len(names):
        raise AssertionError(f"{len(values)} positional arguments, {len(names)} names: {names}")
    return list(zip(names, values)) + sorted(sample.kwargs.items())


# ---- one case ------------------------------------------------------------------------------------


def weights(y, k):
    i = torch.arange(y.numel(), dtype=torch.int64)
    return (((i * 37 + k * 11) % 64).double() - 31.5).div(32).reshape(y.shape).to(y.dtype)


def results(y):
    y = [y] if isinstance(y, torch.Tensor) else list(y) if isinstance(y, (tuple, list)) else None
    if y is None or not all(isinstance(e, torch.Tensor) and not e.is_complex() for e in y):
        raise Unsuitable
    return y


def call(op, sample, passed):
    """Runs op on the rounded tensors, in the places where the sample had its own."""
    args = passed[: 1 + len(sample.args)]
    return results(op(*args, **dict(zip(sorted(sample.kwargs), passed[len(args) :]))))


def same(a, b):
    return len(a) == len(b) and all(torch.equal(p.nan_to_num(7e7), q.nan_to_num(7e7))
                                    for p, q in zip(a, b))


def gradients(inputs, y):
    chosen = [t for t, w in zip(inputs.tensors, inputs.wanted) if w]
    live = [(e, weights(e, k)) for k, e in enumerate(y) if e.requires_grad]
    if not chosen or not live:
        return None
    found = torch.autograd.grad([e for e, _ in live], chosen, [w for _, w in live],
                                allow_unused=True)
    found = iter(found)
    return [next(found) if w else None for w in inputs.wanted]


def apart(a, b):
    """Largest difference of b from a, relative to the largest magnitude of a that f32 holds."""
    a, b = a.double(), b.double()
    held = torch.isfinite(a) & (a.abs() < 3e38)
    scale = max(a[held].abs().max().item() if held.any() else 0.0, 2.0**-126)
    off = (a - b)[held].abs()
    return off.nan_to_num(math.inf).max().item() / scale if off.numel() else 0.0


def in_f32(row, op, sample, passed, inputs):
    """(results, gradients) of PyTorch in f32, None where it cannot."""
    def narrow(v):
        if isinstance(v, torch.Tensor):
            at = next((i for i, t in enumerate(inputs.tensors) if t is v), None)
            return twin.tensors[at] if at is not None else v
        return type(v)(narrow(e) for e in v) if isinstance(v, (list, tuple)) else v

    twin = Inputs(True)
    twin.wanted = inputs.wanted
    twin.tensors = [t.detach().float().requires_grad_(w) if t.is_floating_point() else t
                    for t, w in zip(inputs.tensors, inputs.wanted)]
    try:
        torch.manual_seed(1)
        y = call(op, sample, [narrow(v) for v in passed])
        return y, gradients(twin, y)
    except (RuntimeError, Unsuitable):
        return None, None


def ill_conditioned(row, have, other):
    """Where PyTorch in f32 is off by more than f32 may be, the values say nothing about whoever
    computes them: differences that cancel, a step beside its edge."""
    limit = 1e-5 if row.long else 1e-6
    return other is not None and any(
        a is not None and b is not None and a.is_floating_point() and apart(a, b) > limit
        for a, b in zip(have, other))


def make_case(row, op, sample):
    """One case, its tensors not yet encoded."""
    inputs = Inputs(row.ties)
    args, passed = {}, []
    for name, v in parameters(row.names, sample):
        j, v = inputs.value(v, name)
        passed.append(v)
        if j is not None:
            args[name] = j
    if row.names[-1].startswith("*") and len(sample.args) >= len(row.names):
        passed[len(row.names) - 1 : len(row.names)] = list(passed[len(row.names) - 1])
    size = sum(t.numel() for t in inputs.tensors)
    if not inputs.tensors or size > row.limit or any(t.dim() > 8 for t in inputs.tensors):
        raise Unsuitable
    torch.manual_seed(1)
    y = call(op, sample, passed)
    torch.manual_seed(2)
    if sum(e.numel() for e in y) > row.limit or not same(y, call(op, sample, passed)):
        raise Unsuitable
    g = gradients(inputs, y)
    y32, g32 = in_f32(row, op, sample, passed, inputs)
    if ill_conditioned(row, y, y32):
        raise Unsuitable
    if g and g32 and ill_conditioned(row, g, g32):
        g = None
    shapes = [tuple(t.shape) for t in inputs.tensors]
    tags = []
    if any(0 in s for s in shapes):
        tags.append("zero")
    if row.broadcasts and len({s[: len(s) - row.core] for s in shapes}) > 1:
        tags.append("broadcast")
    case = {"op": row.op, "tags": tags, "args": args, "t": [t.detach() for t in inputs.tensors],
            "y": [e.detach() for e in y]}
    if g and any(e is not None for e in g):
        case["g"] = [None if e is None else e.detach() for e in g]
    return case


# ---- which samples -------------------------------------------------------------------------------


def traits(case):
    """What makes a case worth keeping: each (parameter, value), each combination of shapes."""
    out = {("tags", *case["tags"]), ("shapes", *(tuple(t.shape) for t in case["t"]))}
    out |= {("dtypes", *(str(t.dtype) for t in case["t"]))}
    for name, v in case["args"].items():
        out.add((name, "tensor" if isinstance(v, dict) else json.dumps(v)))
    return out


def fingerprint(case):
    return json.dumps([case["args"], [(str(t.dtype), list(t.shape), t.flatten()[:64].tolist())
                                      for t in case["t"]]])


def thinned(cases, most):
    """At most `most` cases: first those that bring a new trait, then the others evenly."""
    unique = list({fingerprint(c): c for c in cases}.values())
    if len(unique) <= most:
        return unique
    seen, chosen, rest = set(), [], []
    for c in unique:
        new = traits(c) - seen
        seen |= new
        (chosen if new else rest).append(c)
    if len(chosen) > most:
        chosen = [chosen[i * len(chosen) // most] for i in range(most)]
    need = most - len(chosen)
    chosen += [rest[i * len(rest) // need] for i in range(min(need, len(rest)))]
    return chosen


def emptied(sample, others_too):
    """The sample with nothing in the first dimension of its input and of what is as long; then with
    nothing in the first dimension of its other tensors alone (indices), where `others_too`."""
    x = sample.input[0] if isinstance(sample.input, (list, tuple)) else sample.input
    if not isinstance(x, torch.Tensor) or x.dim() == 0 or x.numel() == 0:
        return

    def cut(v, n):
        if isinstance(v, torch.Tensor) and v.dim() > 0 and n in (None, v.shape[0]):
            return v.detach()[:0].clone().requires_grad_(v.requires_grad)
        return type(v)(cut(e, n) for e in v) if isinstance(v, (list, tuple)) else v

    def others(n):
        return dict(args=tuple(cut(a, n) for a in sample.args),
                    kwargs={k: cut(v, n) for k, v in sample.kwargs.items()})

    yield SampleInput(cut(sample.input, x.shape[0]), **others(x.shape[0]))
    rest = (*sample.args, *sample.kwargs.values())
    if others_too and any(isinstance(v, torch.Tensor) for v in rest):
        yield SampleInput(sample.input, **others(None))


def samples(row, op):
    """Every sample of the row, reference inputs after the ordinary ones."""
    for dtype in row.dtypes:
        grad = dtype is torch.float64 and op.supports_autograd
        yield from op.sample_inputs("cpu", dtype, requires_grad=grad)
        if row.reference:
            yield from op.reference_inputs("cpu", dtype, requires_grad=grad)


def cases_of(row):
    seed = zlib.crc32((row.op + ("+" if row.made else "")).encode())
    torch.manual_seed(seed), random.seed(seed), numpy.random.seed(seed)
    if row.made:
        op, found = row.made.run, list(row.made.samples())
    else:
        info = next(o for o in op_db if o.name == row.name and o.variant_test_name == row.variant)
        op, found = info.op, samples(row, info)
    kept, empties = [], []
    for s in found:
        try:
            kept.append(make_case(row, op, s))
        except Unsuitable:
            continue
        for e in emptied(s, not row.made) if len(empties) < 3 and row.zero else ():
            try:
                empties.append(make_case(row, op, e))
            except (Unsuitable, RuntimeError, IndexError, ValueError):
                continue
        if len(kept) >= 40 * row.most:
            break
    return thinned(kept, row.most) + thinned(empties, 2)


# ---- the file ------------------------------------------------------------------------------------


def encoded(t):
    """(encoding, bytes) with the smallest encoding that is exact."""
    if t.dtype == torch.bool:
        return "u8", t.to(torch.uint8).numpy().tobytes()
    if not t.is_floating_point():
        for code, dtype in (("u8", torch.uint8), ("i16", torch.int16), ("i64", torch.int64)):
            if torch.equal(t.to(dtype).to(t.dtype), t):
                return code, t.to(dtype).numpy().tobytes()
    d = t.double()
    half = d.bfloat16()
    for code, u in (("bf16", half), ("f32", d.float()), ("f64", d)):
        back = u.double()
        if torch.equal(back.nan_to_num(0, 1, 2), d.nan_to_num(0, 1, 2)) and torch.equal(
                torch.signbit(back), torch.signbit(d)) or code == "f64":
            bits = u.view(torch.int16) if code == "bf16" else u
            return code, bits.numpy().tobytes()


def dtype_name(t):
    return {torch.float64: "f", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
            torch.int64: "i64", torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool"}[t.dtype]


def write(family, cases):
    data, kept, order = bytearray(), [], {}
    for c in cases:
        order.setdefault(c["op"], len(order))
    cases = sorted(cases, key=lambda c: order[c["op"]])  # an operator's follow each other

    def tensor(t):
        if t is None:
            return None
        code, b = encoded(t.contiguous())
        while len(data) % 8:
            data.append(0)
        at = len(data)
        data.extend(b)
        return [dtype_name(t), code, list(t.shape), at]

    for c in cases:
        kept.append({k: [tensor(t) for t in v] if k in ("t", "y", "g") else v
                     for k, v in c.items()})
    header = json.dumps({"family": family, "torch": torch.__version__, "cases": kept},
                        separators=(",", ":")).encode()
    packed = zlib.compress(header + bytes(data), 9)
    path = HERE / f"{family}.golden"
    path.write_bytes(b"hodgold1" + struct.pack("<QQ", len(header), len(data)) + packed)
    return path.stat().st_size


def main():
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    total = 0
    for family, rows in opinfo_ops.families(vars(opinfo_made) | vars(opinfo_made_nets)).items():
        if len(sys.argv) > 1 and family not in sys.argv[1:]:
            continue
        cases = []
        for row in rows:
            found = cases_of(row)
            print(f"{family:12} {row.op:44} {len(found):4}")
            cases += found
        size = write(family, cases)
        total += len(cases)
        print(f"{family:12} {len(cases)} cases, {size} bytes", flush=True)
    print(f"{total} cases")


if __name__ == "__main__":
    main()
