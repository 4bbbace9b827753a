# lib.sh: what the tests of the command share. Sourced with HOD and JSON_LINES set; leaves the shell
# in an empty directory of its own.

set -eu
ROOT=$PWD # tests run in the source tree
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir in # what the tests read; runs write beside it
out=$work/stdout err=$work/stderr

fail() {
    echo "$0: $*"
    for f in "$out" "$err"; do
        [ ! -s "$f" ] || sed "s|^|  ${f##*/}: |" "$f"
    done
    exit 1
}

# gives STATUS ARGS...: the command ends with that status.
gives() {
    want=$1 status=0
    shift
    "$HOD" "$@" > "$out" 2> "$err" || status=$?
    [ "$status" = "$want" ] || fail "hod $*: status $status, not $want"
}

# A tiny network on made-up images: updates take microseconds.
cat > in/tiny.yaml <<'END'
model: {name: mlp, layers: [16]}
data: {name: synthetic, shape: [1, 8, 8], count: 200}
effective_batch: 16
optimizer: {name: adamw, lr: 1.0e-3}
epochs: 2
output: run
END

# A small residual network: large enough for a budget to matter.
cat > in/small.yaml <<'END'
model: {name: resnet8}
data: {name: synthetic, shape: [1, 16, 16], count: 256, augment: {crop: 2, flip: true}}
effective_batch: 32
optimizer: {name: adamw, lr: 1.0e-3, weight_decay: 0.05}
schedule: {name: onecycle, warmup: 0.15}
epochs: 3
output: run
END
