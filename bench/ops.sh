#!/bin/sh
# hod's operators beside PyTorch's, eagerly, in turns: bench/ops.sh [name ...]
#
#   PYTHON    the interpreter that has torch and torchvision (python3)
#   OPS       the program that measures hod (build/bench/ops)
#   SECONDS_  how long each is timed, each turn (0.05)
#   TURNS     3
#   THREADS   2
#
# The peer's allocator is tuned as a careful user would: freed memory stays with the process.
set -eu
here=$(dirname "$0")
export THREADS="${THREADS:-2}" SECONDS_="${SECONDS_:-0.05}"
export OMP_NUM_THREADS="$THREADS" MKL_NUM_THREADS="$THREADS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One family at a time, both sides in each turn: memory's speed changes from minute to minute.
both() {
    for turn in $(seq "${TURNS:-3}"); do
        "${OPS:-$here/../build/bench/ops}" "$@" >> "$work/lines"
        MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456 \
            "${PYTHON:-python3}" "$here/peer/ops.py" "$@" >> "$work/lines"
    done
}
if [ $# -gt 0 ]; then
    both "$@"
else
    for family in $(sed -n 's/^FAMILY(\(.*\))$/\1/p' "$here/ops/families.def"); do
        both "$family"
    done
fi
[ -z "${LINES_TO:-}" ] || cp "$work/lines" "$LINES_TO"
"${PYTHON:-python3}" "$here/op_ratios.py" < "$work/lines"
