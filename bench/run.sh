#!/bin/sh
# hod beside PyTorch, full training steps, one after the other in turns: bench/run.sh [model ...]
#
#   PYTHON    the interpreter that has torch (python3)
#   STEPS     the program that measures hod (build/bench/steps)
#   SECONDS_  how long each is timed, each turn (5)
#   TURNS     3
#   THREADS   2
#
# Every turn runs each variant once, so that a busy moment of the machine falls on all of them; the
# table takes the median over the turns. The peer's allocator is tuned as a careful user would. hod's
# first run of a model starts with an empty cache of kernels: that is its cold compile time.
set -eu
here=$(dirname "$0")
python=${PYTHON:-python3}
steps=${STEPS:-$here/../build/bench/steps}
threads=${THREADS:-2}
seconds=${SECONDS_:-5}
export OMP_NUM_THREADS="$threads" MKL_NUM_THREADS="$threads"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ours() {
    HOD_CACHE_DIR=$work/cache "$steps" "$model" --threads "$threads" "$@" >> "$work/lines"
}

peer() {
    MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456 \
        "$python" "$here/peer/peer.py" "$model" "$@" --threads "$threads" >> "$work/lines"
}

[ $# -gt 0 ] || set -- tiny mlp resnet18 resnet50
for model; do
    layouts=plain
    case $model in resnet*) layouts="plain --channels-last" ;; esac
    for turn in $(seq "${TURNS:-3}"); do
        for mode in compile reduce eager; do
            echo "$model, turn $turn: hod $mode" >&2
            ours --mode $mode --seconds "$seconds"
        done
        for mode in eager compile; do
            for layout in $layouts; do
                echo "$model, turn $turn: pytorch $mode $layout" >&2
                peer $mode --seconds "$seconds" $(echo $layout | sed s/plain//)
            done
        done
    done
    for mode in eager compile; do
        "$python" "$here/peer/peer.py" "$model" $mode --threads "$threads" --allocations \
            >> "$work/lines"
    done
done
[ -z "${LINES_TO:-}" ] || cp "$work/lines" "$LINES_TO"
"$python" "$here/ratios.py" < "$work/lines"
