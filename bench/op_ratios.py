"""Reads the lines of ops.sh and prints each operator's speed beside PyTorch's, at each size: above 1
is faster. Last line: operators, the slowest ratio, how many are below 0.8, the geometric mean."""

import json
import math
import sys
from collections import defaultdict


def main():
    ns, names = defaultdict(lambda: math.inf), []
    for line in sys.stdin:
        o = json.loads(line)
        key = (o["op"], o["side"], o["who"])
        ns[key] = min(ns[key], o["ns"])
        if o["op"] not in names:
            names.append(o["op"])
    sides = sorted({key[1] for key in ns})
    print(f"{'':20}" + "".join(f"{f'{s} x {s}':>24}" for s in sides))
    ratios = []
    for name in names:
        text = f"{name:20}"
        for s in sides:
            ours, peer = ns[name, s, "hod"], ns[name, s, "pytorch"]
            if math.isinf(ours) or math.isinf(peer):
                text += f"{'-':>24}"
                continue
            ratios.append(peer / ours)
            text += f"{ours / 1e3:10.2f} us {peer / ours:8.2f}x{'*' if peer < .8 * ours else ' '}"
        print(text)
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    print(f"{len(names)} operators, {len(ratios)} ratios: least {min(ratios):.2f}x, "
          f"{sum(r < 0.8 for r in ratios)} below 0.8x (*), geometric mean {mean:.2f}x")


main()
