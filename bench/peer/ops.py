"""PyTorch's operators one by one, timed: the peer of bench/ops.c, under the same names.

    python3 ops.py                 # all, one JSON object a line
    python3 ops.py exp sum         # those whose name, or whose family's, begins so

Eager calls, results made and released, the least of several batches. A family is a module
op_<family>.py with a class Operands(size) and OPS, a dictionary from names to functions of it.
"""

import importlib
import json
import os
import re
import sys
import time
from pathlib import Path

import torch


def families():
    text = (Path(__file__).parent.parent / "ops" / "families.def").read_text()
    return re.findall(r"^FAMILY\((\w+)\)", text, re.M)


def batch(run, o, n):
    begin = time.perf_counter()
    for _ in range(n):
        run(o)
    return time.perf_counter() - begin


def measure(run, o, limit):
    n, t = 1, batch(run, o, 1)
    while t < limit / 16 and n < 1 << 20:
        n *= 2
        t = batch(run, o, n)
    best, end, count = float("inf"), time.perf_counter() + limit, 0
    while count < 3 or time.perf_counter() < end:
        best = min(best, batch(run, o, n) / n)
        count += 1
    return best


def main():
    threads = int(os.environ.get("THREADS", "2"))
    torch.set_num_threads(threads)
    if torch.get_num_threads() != threads:
        raise SystemExit(f"PyTorch runs {torch.get_num_threads()} threads, not {threads}")
    limit = float(os.environ.get("SECONDS_", "0.05"))
    begins = tuple(sys.argv[1:]) or ("",)
    for family in families():
        module = importlib.import_module(f"op_{family}")
        wanted = [name for name in module.OPS
                  if name.startswith(begins) or family.startswith(begins)]
        for size in range(3) if wanted else ():
            torch.manual_seed(1)
            o = module.Operands(size)
            for name in wanted:
                print(json.dumps({"family": family, "op": name, "who": "pytorch", "size": size,
                                  "ns": 1e9 * measure(module.OPS[name], o, limit)}), flush=True)


if __name__ == "__main__":
    main()
