#!/bin/sh
# --json: every line of standard output is an object, and the keys are those that scripts rely on.
. "$(dirname "$0")/lib.sh"

# has EVENT KEY...: the last command's output has such events with these keys.
has() {
    "$JSON_LINES" "$@" < "$out" > keys || fail "event $1"
}

gives 0 train in/tiny.yaml --json
has plan micro_batch accumulate ranks recompute precision predicted_peak_bytes budget_bytes chosen
has compile seconds cached kernels nodes graph_breaks recompiles specialised
has update update epoch samples weight loss lr grad_norm scale skipped seconds samples_per_s peak_bytes
[ "$(wc -l < keys)" = 26 ] || fail "not 26 updates: 2 epochs of 200 samples, 16 at a time"
has eval update epoch split loss accuracy
[ "$(wc -l < keys)" = 2 ] || fail "not one evaluation an epoch"
has end updates samples seconds best checkpoint
[ ! -s "$err" ] || fail "something on standard error"
cmp -s "$out" run/log.jsonl || fail "the log holds other events"

gives 0 plan in/small.yaml memory_budget=3MiB --json
has plan micro_batch accumulate predicted_peak_bytes chosen fits
[ "$(grep -c '"chosen":true' "$out")" = 1 ] || fail "not one row is chosen"

gives 0 eval in/tiny.yaml --json
has eval update split loss accuracy
[ "$(cut -f 1 keys)" = 26 ] || fail "not the checkpoint's update"
gives 0 eval in/tiny.yaml --json checkpoint=run/model.safetensors
has eval update split
[ "$(cut -f 1 keys)" = null ] || fail "a network alone knows no update"
