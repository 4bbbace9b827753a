"""Reads the lines of ops.sh and prints each operator's speed beside PyTorch's, at each size: above 1
is faster. Last line: operators, the slowest ratio, how many are below 0.8, the geometric mean."""

import json
import math
import sys
from collections import defaultdict


def main():
    ns, sizes, names = defaultdict(lambda: math.inf), {}, defaultdict(list)
    for line in sys.stdin:
        o = json.loads(line)
        key = (o["family"], o["op"], o["size"], o["who"])
        ns[key] = min(ns[key], o["ns"])
        if "of" in o:
            sizes[o["family"], o["size"]] = o["of"]
        if o["op"] not in names[o["family"]]:
            names[o["family"]].append(o["op"])
    ratios = []
    for family in names:
        title = "".join(f"{sizes.get((family, size), ''):>24}" for size in range(3))
        print(f"\n{family:24}{title}")
        for name in names[family]:
            text = f"  {name:22}"
            for size in range(3):
                ours, peer = (ns[family, name, size, who] for who in ("hod", "pytorch"))
                if math.isinf(ours) or math.isinf(peer):
                    text += f"{'-':>24}"
                    continue
                ratios.append(peer / ours)
                slow = "*" if peer < 0.8 * ours else " "
                text += f"{ours / 1e3:11.2f} us {peer / ours:7.2f}x{slow}"
            print(text)
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    print(f"\n{sum(map(len, names.values()))} operators, {len(ratios)} ratios: least "
          f"{min(ratios):.2f}x, {sum(r < 0.8 for r in ratios)} below 0.8x (*), geometric mean "
          f"{mean:.2f}x")


main()
