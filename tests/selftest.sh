#!/bin/sh
# selftest.sh PROGRAM SECONDS: every test of selftest.c is judged as its name says; one that hangs
# is given so many seconds.
set -eu
program=$1 limit=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT

status=0
HOD_TEST_TIMEOUT=$limit "$program" > "$out" 2>&1 || status=$?

wrong() {
    cat "$out"
    echo "selftest.sh: $*"
    exit 1
}

[ "$status" = 1 ] || wrong "exit status $status, not 1"
bad=$("$program" --list | grep -c '^bad_')
tail -n 1 "$out" | grep -qx "1 passed, $bad failed" || wrong "not: 1 passed, $bad failed"
[ "$(grep -c '^FAIL bad_' "$out")" = "$bad" ] || wrong "a bad test was not caught"
grep -q '^ok   good_all' "$out" || wrong "the good test failed"
grep -q '^skip skip_me' "$out" || wrong "a skipped test was counted"
grep -q 'selftest.c:[0-9]*: zero() == 1: 0, not 1$' "$out" || wrong "EQ_INT does not print both"
grep -q "not done after $limit s" "$out" || wrong "the hanging test was not timed out"
grep -qi 'aborted' "$out" || wrong "the signal of a crash is not named"

# says TEST WORDS: in a build that has this test, this is what it dies of.
says() {
    "$program" --list | grep -qx "$1" || return 0
    "$program" "$1" > "$out" 2>&1 || true
    grep -q "$2" "$out" || wrong "$1 does not say: $2"
}
says bad_leak '100 byte(s) leaked'
says bad_overrun 'heap-buffer-overflow'
says bad_tensor_overrun 'use-after-poison'
says bad_tensor_leak 'hod_zeros'
says bad_kernel_overrun 'in counting'
says bad_overflow 'signed integer overflow'
says bad_race 'data race'
says bad_parallel_race 'data race'
says bad_kernel_race '#0 counting'

"$program" good_ > /dev/null || wrong "a good test alone does not give status 0"
status=0
"$program" no_such_test > /dev/null 2>&1 || status=$?
[ "$status" = 2 ] || wrong "a filter that matches nothing gives $status, not 2"
echo "harness: every bad test is caught"
