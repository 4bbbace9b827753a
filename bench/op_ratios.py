"""Reads the lines of ops.sh and prints each operator's speed beside PyTorch's, at each size: above 1
is faster. Each is the median over the turns, in which both sides were timed one after the other.
Last line: operators, the slowest ratio, how many are below 0.8, the geometric mean."""

import json
import math
import sys
from collections import defaultdict
from statistics import median


def main():
    ns, sizes, names = defaultdict(list), {}, defaultdict(list)
    for line in sys.stdin:
        o = json.loads(line)
        ns[o["family"], o["op"], o["size"], o["who"]].append(o["ns"])
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
                if not ours or not peer:
                    text += f"{'-':>24}"
                    continue
                ratio = median(p / o for o, p in zip(ours, peer))
                ratios.append(ratio)
                slow = "*" if ratio < 0.8 else " "
                text += f"{median(ours) / 1e3:11.2f} us {ratio:7.2f}x{slow}"
            print(text)
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    print(f"\n{sum(map(len, names.values()))} operators, {len(ratios)} ratios: least "
          f"{min(ratios):.2f}x, {sum(r < 0.8 for r in ratios)} below 0.8x (*), geometric mean "
          f"{mean:.2f}x")


main()
