"""One training step of PyTorch, timed: the peer that hod's bench stands beside.

    OMP_NUM_THREADS=2 python3 peer.py mlp eager           # one JSON object on standard output
    OMP_NUM_THREADS=2 python3 peer.py resnet18 compile --seconds 30
    python3 peer.py mlp eager --allocations               # the allocator's own peak, untimed

A step is zero_grad, forward, cross entropy, backward, optimizer; f32, fixed random data. `compile`
puts forward and loss in one torch.compile and the optimizer's step in another. The optimizer is the
fused one, PyTorch's fastest on a CPU. run.sh sets the allocator as a well-tuned user would.

Keys: ms_median, ms_min (over `steps` steps after warm-up), compile_seconds (first step),
rss_bytes (peak resident size from before the model to the end, less what was resident before),
allocated_bytes (with --allocations: peak of what PyTorch's allocator handed out, parameters,
optimizer state and data included; libraries' scratch memory is not in it).
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Sequential):
    def __init__(self, *widths):
        layers = []
        for i, o in zip(widths, widths[1:]):
            layers += [nn.Linear(i, o), nn.ReLU()]
        super().__init__(*layers[:-1])


def conv(i, o, kernel, stride=1):
    return nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Basic (two 3x3) or bottleneck (1x1, 3x3 with the stride, 1x1 to four times the width)."""

    def __init__(self, i, width, stride, bottleneck):
        super().__init__()
        o = 4 * width if bottleneck else width
        shapes = ([(i, width, 1, 1), (width, width, 3, stride), (width, o, 1, 1)] if bottleneck
                  else [(i, width, 3, stride), (width, o, 3, 1)])
        self.convs = nn.ModuleList(conv(*s) for s in shapes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(s[1]) for s in shapes)
        self.downsample = (nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o))
                           if stride != 1 or i != o else nn.Identity())

    def forward(self, x):
        y = x
        for k, (c, n) in enumerate(zip(self.convs, self.norms)):
            y = n(c(y))
            if k < len(self.convs) - 1:
                y = F.relu(y)
        return F.relu(y + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self, depths, bottleneck, classes, large_stem):
        super().__init__()
        stem = ([conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
                if large_stem else [conv(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU()])
        blocks, i = [], 64
        for stage, depth in enumerate(depths):
            for k in range(depth):
                width = 64 << stage
                blocks.append(Block(i, width, 2 if stage and k == 0 else 1, bottleneck))
                i = 4 * width if bottleneck else width
        self.body = nn.Sequential(*stem, *blocks)
        self.fc = nn.Linear(i, classes)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


# name: model, shape of a batch, classes, optimizer
CASES = {
    "mlp": (lambda: Mlp(784, 256, 256, 10), (64, 784), 10, "adamw"),
    "tiny": (lambda: Mlp(32, 64, 64, 8), (16, 32), 8, "adamw"),
    "resnet18": (lambda: ResNet((2, 2, 2, 2), False, 10, False), (64, 3, 32, 32), 10, "adamw"),
    "resnet50": (lambda: ResNet((3, 4, 6, 3), True, 1000, True), (8, 3, 224, 224), 1000, "sgd"),
}


def status(key):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(key + ":"):
                return 1024 * int(line.split()[1])
    raise KeyError(key)


def reset_peak():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def make_step(a):
    """The model, its data and a function that does one step and returns the loss."""
    make, shape, classes, optimizer = CASES[a.model]
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)
    y = torch.randint(classes, shape[:1])
    if a.channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = a.optimizer or optimizer
    if optimizer == "adamw":
        opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    else:
        opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    update = opt.step
    if a.mode == "compile":
        loss_of = torch.compile(loss_of, mode=a.compile_mode)
        update = torch.compile(opt.step) if a.compile_optimizer else opt.step

    def step():
        opt.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        update()
        return loss

    return step


def timed(a, out):
    gc.collect()
    torch.relu(torch.ones(8)).sum()  # what the first operator of all brings with it
    reset_peak()
    resident = status("VmRSS")
    step = make_step(a)
    begin = time.perf_counter()
    step()
    out["compile_seconds"] = time.perf_counter() - begin
    for _ in range(3):
        step()
    times, end = [], time.perf_counter() + a.seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    out.update(ms_median=statistics.median(times), ms_min=min(times), steps=len(times),
               rss_bytes=status("VmHWM") - resident)


def allocations(a, out):
    """Every allocation and release of three steps, from the profiler's trace."""
    with torch.profiler.profile(profile_memory=True) as p:
        step = make_step(a)
        for _ in range(3):
            step()
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "trace.json")
        p.export_chrome_trace(path)
        with open(path) as f:
            events = json.load(f)["traceEvents"]
    totals = [e["args"]["Total Allocated"] for e in events if e.get("name") == "[memory]"]
    out["allocated_bytes"] = max(totals)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=CASES)
    parser.add_argument("mode", choices=["eager", "compile"])
    parser.add_argument("--seconds", type=float, default=5, help="how long to time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--optimizer", choices=["adamw", "sgd"])
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile-mode", default="default")
    parser.add_argument("--compile-optimizer", action="store_true")
    parser.add_argument("--allocations", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    if torch.get_num_threads() != a.threads:
        raise SystemExit(f"PyTorch runs {torch.get_num_threads()} threads, not {a.threads}")
    out = {"peer": "pytorch " + torch.__version__, "model": a.model, "mode": a.mode,
           "threads": a.threads, "channels_last": a.channels_last,
           "optimizer": a.optimizer or CASES[a.model][3]}
    (allocations if a.allocations else timed)(a, out)
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
