#!/bin/sh
# Two runs in one directory would write each other's checkpoints and log: the second is refused and
# the first goes on; when it is dead, however it died, the directory is free.
. "$(dirname "$0")/lib.sh"

"$HOD" train in/tiny.yaml epochs=100000 > "$work/null" 2>&1 &
pid=$!
trap 'kill -KILL $pid 2> "$work/null" || true; rm -rf "$work"' EXIT
for i in $(seq 600); do
    ! ls run/checkpoints/*.safetensors > "$work/null" 2>&1 || break
    sleep 0.1
done
gives 2 train in/tiny.yaml
grep -q 'output run: another hod train is running there' "$err" || fail "it does not say why"
gives 2 train in/tiny.yaml --resume
kill -0 $pid || fail "the first run ended"
kill -KILL $pid
wait $pid || true
touch run/loss.png.tmp-$pid-0 # as it would leave it when killed in a plot
gives 0 train in/tiny.yaml --resume epochs=100000 updates=1
[ ! -e run/loss.png.tmp-$pid-0 ] || fail "what the dead run left is still there"
