#!/bin/sh
# All peers, one JSON object a line: bench/peer/run.sh [model ...]
#
#   PYTHON    the interpreter that has torch (python3)
#   SECONDS_  how long each is timed (10)
#   THREADS   2
#
# The allocator is tuned as a careful user would: freed memory stays with the process, so tensors do
# not fault in anew each step. Memory is measured in runs of their own.
set -eu
here=$(dirname "$0")
python=${PYTHON:-python3}
threads=${THREADS:-2}
seconds=${SECONDS_:-10}
export OMP_NUM_THREADS="$threads" MKL_NUM_THREADS="$threads"

tuned() {
    MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456 "$@"
}

[ $# -gt 0 ] || set -- tiny mlp resnet18 resnet50
for model; do
    layouts=plain
    case $model in resnet*) layouts="plain last" ;; esac
    for mode in eager compile; do
        for layout in $layouts; do
            option=
            [ "$layout" = plain ] || option=--channels-last
            tuned "$python" "$here/peer.py" "$model" "$mode" --threads "$threads" \
                --seconds "$seconds" $option
        done
        "$python" "$here/peer.py" "$model" "$mode" --threads "$threads" --allocations
    done
done
