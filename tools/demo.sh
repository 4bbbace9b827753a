#!/bin/sh
# demo.sh: what hod is for, in one go. Called by `make demo`, after the build.
#
# 1. The same small residual network on Fashion-MNIST four ways: plain, compiled, accumulated,
#    both. Same seed, same data; the table shows speed and memory, the plot that the losses agree.
# 2. A whole training inside the budget that the config names, and the accuracy on the test split.
set -eu
cd "$(dirname "$0")/.."
out=runs/demo
rm -rf "$out" # an earlier demo

say() {
    printf '\n== %s\n\n' "$*"
}

say "Four ways, the same losses: $out/bench"
build/hod bench configs/demo.yaml output=$out/bench

say "The plan, then training inside the budget: $out/train"
build/hod train configs/fashion-mnist.yaml output=$out/train

say "The checkpoint on the test split"
build/hod eval configs/fashion-mnist.yaml output=$out/train

say "Plots and memory timeline"
find "$out" -name '*.png' -o -name '*.svg' | sort
