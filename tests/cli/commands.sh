#!/bin/sh
# The commands for people: help, version, plan, train, eval, inspect, and the files of a run.
. "$(dirname "$0")/lib.sh"

gives 0 --version
grep -qE '^hod [0-9]+\.[0-9]+' "$out" || fail "no version"
gives 0 --help
for command in train plan bench eval inspect; do
    grep -qE "^  $command " "$out" || fail "--help does not list $command"
done
for command in train plan bench eval inspect; do
    gives 0 $command --help
    grep -q '^usage: hod '$command "$out" || fail "$command --help says nothing"
done
gives 0 --help config
grep -q 'effective_batch' "$out" || fail "--help config does not list the keys"
"$HOD" --help config | awk '/^$/ { exit } { print $1 }' > keys
while read -r key; do
    grep -qF "$key" "$ROOT/docs/hod.1" || fail "docs/hod.1 does not name $key"
done < keys
gives 0 --help train
grep -q '^usage: hod train' "$out" || fail "--help train says nothing of train"
gives 2

gives 0 plan in/small.yaml memory_budget=3MiB
[ "$(grep -c '^→' "$out")" = 1 ] || fail "not one arrow"
grep -q 'does not fit' "$out" || fail "no row that does not fit"

gives 0 train in/small.yaml memory_budget=3MiB
for file in config.yaml log.jsonl loss.png loss.svg memory.svg model.safetensors; do
    [ -s run/$file ] || fail "no run/$file"
done
ls run | grep -q tmp && fail "something is left behind"
grep -q '^epoch 3, update 24: test loss .*, accuracy ' "$out" || fail "no accuracy after the last epoch"
accuracy=$(sed -n 's/^epoch 3, .*accuracy //p' "$out")

# Averaged weights: the network that is saved is the one whose accuracy was printed, and eval takes
# them from the checkpoint without being told. A single evaluation shows in the plot.
gives 0 train in/small.yaml ema=0.5 epochs=1 output=averaged
accuracy_ema=$(sed -n 's/^epoch 1, .*accuracy //p' "$out")
grep -q 'test split' averaged/loss.svg || grep -q '<path' averaged/loss.svg || fail "no test split"
gives 0 eval in/small.yaml output=averaged
grep -q "accuracy $accuracy_ema on" "$out" || fail "eval of averaged weights: not $accuracy_ema"
gives 0 eval in/small.yaml checkpoint=averaged/model.safetensors
grep -q "accuracy $accuracy_ema on" "$out" || fail "model.safetensors: not the averaged weights"

# What is set and does nothing is said.
gives 0 train in/tiny.yaml schedule.div=3 data.path=nowhere output=notes --updates 1
grep -q '^hod: schedule.div is not used' "$err" || fail "schedule.div"
grep -q '^hod: data.path is not used' "$err" || fail "data.path"

# A run that diverges says so, once, and goes on; a damaged checkpoint is named and passed over.
gives 0 train in/tiny.yaml optimizer.lr=1e5 output=wild
[ "$(grep -c 'the training diverges' "$err")" = 1 ] || fail "nothing is said of a training that diverges"
grep -q -- '-nan' "$out" && fail "a sign on a number that is none"
newest=$(ls run/checkpoints/*.safetensors | tail -n 1)
cp "$newest" in/whole
printf damage | dd of="$newest" bs=1 seek=$(($(wc -c < "$newest") / 2)) conv=notrunc 2> "$work/null"
gives 0 eval run/config.yaml
grep -q "^hod: passed over .*: damaged: checksum" "$err" || fail "damage goes unnoticed"
cp in/whole "$newest"

# The config of a run is itself a config; checkpoint and network give what training said.
gives 0 eval run/config.yaml
grep -q "accuracy $accuracy on" "$out" || fail "eval of the checkpoint: not $accuracy"
gives 0 eval in/small.yaml checkpoint=run/model.safetensors
grep -q "accuracy $accuracy on" "$out" || fail "eval of the network: not $accuracy"

gives 0 inspect run/model.safetensors
grep -qE '^conv1.weight +f32 +\(16,1,3,3\)$' "$out" || fail "inspect does not list conv1.weight"
gives 0 inspect in/small.yaml
grep -qE '^accumulate +[0-9]+ nodes' "$out" || fail "inspect does not show the step"
gives 0 inspect in/small.yaml --view kernels
grep -q 'void ' "$out" || fail "no kernels"
gives 0 inspect in/small.yaml --view timeline
head -c 200 "$out" | grep -q '<svg' || fail "no timeline"
gives 0 inspect in/small.yaml --output views
[ -s views/accumulate-graph.txt ] && [ -s views/update-kernels.c ] || fail "views are missing"
