#!/bin/sh
# SIGINT in the middle of training: status 130, a checkpoint, and --resume goes on to exactly the
# losses that a run without interruption has. Twice, so that a resumed run can be interrupted, too.
# The log holds every update once.
. "$(dirname "$0")/lib.sh"

# The budget, the cut and the worker thread are there to be resumed as well.
set -- in/small.yaml epochs=40 micro_batch=8 data.workers=1 model.dropout=0.1 ema=0.9 \
    eval_every=never checkpoint.every=never log_every=never

losses() {
    "$JSON_LINES" update update epoch loss lr grad_norm < "$1/log.jsonl"
}

# interrupt AFTER ARGS...: a run that gets SIGINT once it has logged so many updates.
interrupt() {
    after=$1 status=0
    shift
    (
        trap - INT # a shell's background commands ignore it
        exec "$HOD" "$@" > "$out" 2> "$err"
    ) &
    pid=$!
    for i in $(seq 600); do
        [ ! -f cut/log.jsonl ] || [ "$(grep -c '"update","update"' cut/log.jsonl)" -lt "$after" ] ||
            break
        kill -0 $pid 2> "$work/null" || break
        sleep 0.1
    done
    kill -INT $pid 2> "$work/null" || true
    wait $pid || status=$?
    [ $status = 130 ] || fail "interrupted after $after updates: status $status, not 130"
    ls cut/checkpoints/update-*.safetensors > "$work/null" 2>&1 || fail "no checkpoint"
}

gives 0 train "$@" output=whole
losses whole > whole.txt
total=$(wc -l < whole.txt)
[ "$total" = 320 ] || fail "$total updates in all, not 320"

interrupt 3 train "$@" output=cut
"$JSON_LINES" end interrupted < cut/log.jsonl | grep -qx true || fail "the log's end does not say so"
done=$(losses cut | wc -l)
[ "$done" -lt "$total" ] || fail "the run was over before it was interrupted"
# As a run leaves it that is killed after its last checkpoint.
printf '%s\n%s' '{"event":"update","update":9999,"loss":1.0}' '{"event":"upd' >> cut/log.jsonl
interrupt $((done + 5)) train "$@" output=cut --resume
gives 0 train "$@" output=cut --resume
losses cut > cut.txt
cmp -s whole.txt cut.txt || {
    diff whole.txt cut.txt | head -n 10
    fail "resumed losses are not the uninterrupted ones"
}
cmp -s whole/model.safetensors cut/model.safetensors || fail "the networks are not the same bytes"
