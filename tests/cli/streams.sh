#!/bin/sh
# Where output goes may fail: a reader that leaves, a closed stream, a full disk, a limit on files.
# One line says so, the status is 1, and the updates so far are in a checkpoint that --resume
# continues from.
. "$(dirname "$0")/lib.sh"

set -- in/tiny.yaml "log_every=1 updates" epochs=20

losses() {
    "$JSON_LINES" update update epoch loss grad_norm < "$1/log.jsonl"
}

# one_line PATTERN: what is on standard error.
one_line() {
    [ "$(wc -l < "$err")" = 1 ] || fail "not one line"
    grep -qE -- "$1" "$err" || fail "no match for $1"
}

gives 0 train "$@" output=whole
losses whole > whole.txt

# ---- the reader leaves after the first update ----

for json in "" --json; do
    (
        status=0
        "$HOD" train "$@" output=cut $json 2> "$err" || status=$?
        echo $status > status
    ) | sed -n '/update.*1/q' # quits there
    [ "$(cat status)" = 1 ] || fail "the reader left: status $(cat status), not 1"
    one_line 'standard output takes no more|Broken pipe'
    gives 0 train "$@" output=cut --resume
    losses cut > cut.txt
    diff whole.txt cut.txt > "$out" || fail "resumed losses are not the uninterrupted ones"
    rm -r cut
done

# ---- nothing can be written at all ----

for command in --version --help "train --help" "plan in/tiny.yaml" "inspect in/tiny.yaml"; do
    status=0
    "$HOD" $command > /dev/full 2> "$err" || status=$?
    [ $status = 1 ] || fail "hod $command > /dev/full: status $status, not 1"
    one_line 'standard output takes no more|No space left'
done

# ---- a closed stream: what is printed lands in no other file ----

"$HOD" train "$@" output=closed >&- 2> "$err" || fail "a closed output: status $?"
losses closed > closed.txt
cmp -s whole.txt closed.txt || fail "other losses with a closed output"
grep -qv '^{"event"' closed/log.jsonl && fail "the log holds other lines"

# ---- files may not grow: blocks of 512 bytes ----
#
# ThreadSanitizer writes a file of its own when a program starts, and dies when that may not grow.

[ -z "${TSAN_OPTIONS:-}" ] || exit 0
for blocks in 1 4 8 16 24 32; do
    status=0
    (
        ulimit -f $blocks
        exec "$HOD" train "$@" output=limit > "$work/null" 2> "$err"
    ) || status=$?
    [ $status = 1 ] || fail "files of $blocks blocks: status $status, not 1"
    one_line 'limit/.*: File too large|File too large'
    find limit -name '*tmp*' | grep -q . && fail "files of $blocks blocks: something is left behind"
    rm -rf limit
done
true
