"""Reads the lines of run.sh and prints hod beside PyTorch, as ratios.

Speed: the better of the peer's variants over each of hod's, by the median over the turns. Memory: the
peak of hod's allocator over the smallest of the peer's. Compile: making the programs, with an empty
cache of kernels (in the first turn of the first variant) and with a full one.
"""

import json
import statistics
import sys
from collections import defaultdict


def main():
    ms, first, memory, order = defaultdict(list), defaultdict(list), defaultdict(list), []
    for line in sys.stdin:
        o = json.loads(line)
        who = "pytorch" if "peer" in o else "hod"
        key = (o["model"], who, o["mode"] + (" nhwc" if o.get("channels_last") else ""))
        if o["model"] not in order:
            order.append(o["model"])
        if "ms_median" in o:
            ms[key].append(o["ms_median"])
            first[key].append(o.get("program_seconds", o["compile_seconds"]))
        if "allocated_bytes" in o:
            memory[key].append(o["allocated_bytes"])
    for model in order:
        peers = {k[2]: statistics.median(v) for k, v in ms.items() if k[:2] == (model, "pytorch")}
        ours = {k[2]: statistics.median(v) for k, v in ms.items() if k[:2] == (model, "hod")}
        best = min(peers, key=peers.get)
        least = min(min(v) for k, v in memory.items() if k[:2] == (model, "pytorch"))
        print(f"\n{model}")
        for mode, t in peers.items():
            print(f"  pytorch {mode:13s} {t:10.4f} ms")
        for mode, t in ours.items():
            k = (model, "hod", mode)
            print(f"  hod     {mode:13s} {t:10.4f} ms   {peers[best] / t:5.2f}x the speed of {best}"
                  f"   {min(memory[k]) / least:5.2f}x the memory"
                  f"   compile {first[k][0]:.2f} s, last turn {first[k][-1]:.2f} s")


main()
