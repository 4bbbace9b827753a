#!/bin/sh
# The four rows of `hod bench`: same losses, the peak as predicted, accumulated rows in half the
# memory or less, everything inside the budget.
. "$(dirname "$0")/lib.sh"

# holds WHAT CONDITION VALUE...: awk finds the condition true of a row's values.
check() {
    awk -F '\t' "$2" rows > bad || true
    [ ! -s bad ] || fail "$1: $(tr '\n' ';' < bad)"
}

gives 0 bench in/small.yaml memory_budget=2MiB --updates 12 --json
"$JSON_LINES" bench row compile accumulate micro_batch updates samples_per_s update_seconds \
    peak_bytes predicted_peak_bytes loss max_rel_diff_first_5 max_rel_diff < "$out" > rows
[ "$(cut -f 1 rows | tr '\n' ' ')" = "plain compile accumulate both " ] || fail "not the four rows"
check "12 losses a row" '$5 != 12 || $10 != "[12]"'
check "whole batch, then cut in four or more" \
    'NR % 4 == 1 || NR % 4 == 2 ? $3 != 1 || $4 != 32 : $3 < 4 || $3 * $4 != 32'
check "predicted = measured peak within 1 % when compiled" \
    '$2 == "true" && ($9 / $8 > 1.01 || $9 / $8 < 0.99)'
check "inside the budget" '$1 == "both" && $8 > 2 * 1048576'
awk -F '\t' '{ peak[$1] = $8 } END { print peak["accumulate"] / peak["plain"] "\t" \
    peak["both"] / peak["compile"] }' rows > ratios
awk -F '\t' '$1 > 0.5 || $2 > 0.5' ratios > bad
[ ! -s bad ] || fail "accumulated peaks are $(cat ratios) of the whole batch's"
# f32 rounds to 6e-8; a unit near zero may fall on the other side of a ReLU, which moves the loss by
# more, and the difference grows with every update.
check "losses agree" '$11 > 1e-5 || $12 > 1e-3'
for file in run/bench.png run/bench.svg run/bench.jsonl; do
    [ -s $file ] || fail "no $file"
done

# With batch normalisation a cut is another computation; compiled and eager agree at the same cut.
gives 0 bench in/small.yaml model.norm=batch memory_budget=2MiB --updates 8 --json
"$JSON_LINES" bench row against max_rel_diff_first_5 max_rel_diff < "$out" > rows
check "batch norm: losses agree at the same cut" \
    '($1 == "compile" || $1 == "both") && ($3 > 1e-5 || $4 > 1e-3)'
[ "$(cut -f 2 rows | tail -n 1)" = accumulate ] || fail "both is not held against accumulate"

gives 0 bench in/tiny.yaml --updates 4
grep -q '`hod train` would take micro-batches of 16 here' "$out" || fail "the cut is not explained"
grep -q '^both  *4 x 4 ' "$out" || fail "no table"

# A row is a process; one that fails after its report, as a leak checker makes it, is no result.
cat > fail.c <<'END'
#include <stdlib.h>
#include <unistd.h>
__attribute__((destructor)) static void fail(void)
{
    if (getppid() != atoi(getenv("TEST_SHELL")))
        _exit(7);
}
END
cc -shared -fPIC -o fail.so fail.c
export TEST_SHELL=$$ ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0"
export LD_PRELOAD="$work/fail.so"
gives 1 bench in/tiny.yaml --updates 2
unset LD_PRELOAD
grep -q 'bench, row plan: ended with status 7 after its report' "$err" || fail "not the row's error"
