#!/bin/sh
# Whatever is wrong with a command line, a config or the data: one line on standard error that says
# what and where, status 2, and not a single file more than before.
. "$(dirname "$0")/lib.sh"

# refuses PATTERN ARGS...: so it is, and the line matches the pattern.
refuses() {
    pattern=$1
    shift
    before=$(find . -path ./stdout -prune -o -path ./stderr -prune -o -print | sort)
    gives 2 "$@"
    after=$(find . -path ./stdout -prune -o -path ./stderr -prune -o -print | sort)
    [ "$(wc -l < "$err")" = 1 ] || fail "hod $*: not one line"
    grep -qE -- "$pattern" "$err" || fail "hod $*: no match for $pattern"
    [ ! -s "$out" ] || [ "$1" = plan ] || fail "hod $*: something on standard output"
    [ "$before" = "$after" ] || fail "hod $*: files were made: $after"
}

# u32 N...: big-endian words, as IDX headers have them.
u32() {
    for n; do
        printf "\\$(printf %03o $((n >> 24 & 255)))\\$(printf %03o $((n >> 16 & 255)))"
        printf "\\$(printf %03o $((n >> 8 & 255)))\\$(printf %03o $((n & 255)))"
    done
}

# idx NAME COUNT LABELS: COUNT images of 8 x 8 under in/NAME, with labels in printf's notation.
idx() {
    { u32 2051 "$2" 8 8; head -c $((64 * $2)) /dev/zero; } > "in/$1-images-idx3-ubyte"
    { u32 2049 "$2"; printf "$3"; } > "in/$1-labels-idx1-ubyte"
}

# ---- the config ----

sed 's/^effective_batch/effective_batsh/' in/tiny.yaml > in/unknown.yaml
sed 's/^epochs: 2/epochs: two/' in/tiny.yaml > in/type.yaml
printf 'model: {name: mlp\n' > in/syntax.yaml
refuses '^in/unknown.yaml:3:1: unknown key "effective_batsh"; did you mean "effective_batch"' \
    train in/unknown.yaml
refuses '^in/type.yaml:5:9: .*"two"' train in/type.yaml
refuses '^in/syntax.yaml:[0-9]+:[0-9]+: ' train in/syntax.yaml
refuses '^in/nowhere.yaml: No such file' train in/nowhere.yaml
refuses 'unknown key "optimiser.lr"; did you mean "optimizer.lr"' train in/tiny.yaml optimiser.lr=1
refuses 'effective_batch: "many"' train in/tiny.yaml effective_batch=many
refuses 'effective_batch: 0 is outside' train in/tiny.yaml effective_batch=0
refuses 'micro_batch: 17 exceeds effective_batch 16' train in/tiny.yaml micro_batch=17
refuses 'no network "resnet9", perhaps resnet8; there are .*resnet18' train in/tiny.yaml model.name=resnet9
refuses 'precision: bf16 .* fp32' train in/tiny.yaml precision=bf16
refuses 'recompute: full .* none' train in/tiny.yaml recompute=full

# ---- the budget ----

refuses 'memory_budget .*: micro-batch 32 needs ' \
    train in/small.yaml micro_batch=32 memory_budget=1MiB
refuses 'memory_budget 64.0 KiB: micro-batch 1 needs .* MiB, .* more' plan in/small.yaml memory_budget=64KiB
refuses 'memory_budget .*: micro-batch 1 needs ' bench in/small.yaml memory_budget=64KiB

# ---- the data ----

idx good 3 '\1\2\3'
idx label 20 '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\14\0\0'
idx lies 3 '\1\2\3'
{ u32 2051 60000 28 28; head -c 7840 /dev/zero; } > in/lies-images-idx3-ubyte
idx cut 3 '\1\2\3'
{ u32 2051 3 8 8; head -c 192 /dev/urandom; } | gzip > in/whole.gz # noise hardly shrinks
rm in/cut-images-idx3-ubyte
head -c 100 in/whole.gz > in/cut-images-idx3-ubyte.gz
idx magic 3 '\1\2\3'
{ u32 1234 3 8 8; head -c 192 /dev/zero; } > in/magic-images-idx3-ubyte
idx huge 3 '\1\2\3'
{ u32 2051 2147483647 65535 65535; } > in/huge-images-idx3-ubyte
data="train in/tiny.yaml data.name=idx"
refuses '/nowhere/train-images-idx3-ubyte: no such file' \
    train in/tiny.yaml data.name=fashion-mnist data.path=/nowhere
refuses 'in/label-labels-idx1-ubyte: sample 17: label 12 is outside 0..9' $data data.path=in/label
refuses 'in/lies-images-idx3-ubyte: header says 60000 x 28 x 28 .* holds 7840' $data data.path=in/lies
refuses 'in/cut-images-idx3-ubyte.gz: .*cut off' $data data.path=in/cut
refuses 'in/magic-images-idx3-ubyte: ' $data data.path=in/magic
refuses 'in/huge-images-idx3-ubyte: header says ' $data data.path=in/huge
refuses 'model.num_classes: 3, but in/good has labels up to 9' \
    $data data.path=in/good model.num_classes=3
refuses 'model.in_channels: 3, but' $data data.path=in/good model.in_channels=3
refuses 'inputs have 1 dimensions' train in/tiny.yaml model.name=resnet8 'data.shape=[20]'
refuses 'in/label-labels-idx1-ubyte: sample 17' bench in/tiny.yaml data.name=idx data.path=in/label
refuses 'in/label-labels-idx1-ubyte: sample 17' eval in/tiny.yaml data.name=idx \
    data.path=in/label checkpoint=in/tiny.yaml

mkdir in/folder
refuses 'data.path: in/folder is a directory; idx wants .* as in/folder/train' \
    $data data.path=in/folder
refuses 'data.augment.crop: 200 pixels of padding, but the images .* have 16' \
    train in/small.yaml data.augment.crop=200
refuses 'output: empty' plan in/tiny.yaml output=
refuses 'model: .*empty' train in/tiny.yaml 'model={}'

# ---- files ----

touch in/file
refuses 'output /dev/null/run: Not a directory' train in/tiny.yaml output=/dev/null/run
refuses 'output in/file: in/file: Not a directory' train in/tiny.yaml --output in/file
refuses '/proc/run: ' train in/tiny.yaml output=/proc/run
refuses '/proc/run: ' bench in/small.yaml output=/proc/run
refuses 'in/nowhere.safetensors: No such file' train in/tiny.yaml init=in/nowhere.safetensors
refuses 'in/tiny.yaml: not a safetensors file' eval in/tiny.yaml checkpoint=in/tiny.yaml
refuses 'run/checkpoints: no checkpoint there' eval in/tiny.yaml
refuses 'no checkpoint in run/checkpoints' train in/tiny.yaml --resume
refuses 'in/nowhere.safetensors: No such file' inspect in/nowhere.safetensors
if [ "$(id -u)" != 0 ]; then
    mkdir in/locked
    chmod a-w in/locked
    refuses 'output in/locked/run: in/locked: Permission denied' train in/tiny.yaml output=in/locked/run
fi

# ---- the command line ----

refuses 'no CONFIG' train
refuses 'no option --nope' train in/tiny.yaml --nope
refuses '"in/small.yaml" after "in/tiny.yaml"' train in/tiny.yaml in/small.yaml
refuses 'no command "trian"; did you mean "train"' trian in/tiny.yaml
refuses 'no command or subject "foo"' --help foo
refuses 'no command "config"; did you mean hod --help config' config
refuses 'unknown key "batch_size"; did you mean "effective_batch"' train in/tiny.yaml batch_size=4
refuses 'unknown key "learning_rate"; did you mean "optimizer.lr"' train in/tiny.yaml learning_rate=1
refuses 'a safetensors file has no step' inspect in/nowhere.safetensors --view trace
refuses 'bench: 200 samples make no batch of 256' bench in/tiny.yaml effective_batch=256
refuses '--updates needs a value' train in/tiny.yaml --updates
refuses '--view nothing: wanted trace' inspect in/tiny.yaml --view nothing

# ---- a run that is there already ----

gives 0 train in/tiny.yaml --updates 2
refuses 'output run: holds checkpoints of another run' train in/tiny.yaml
refuses 'run/checkpoints/update-00000002.safetensors: seed is 0 there, 1 here' \
    train in/tiny.yaml --resume seed=1
refuses 'update-00000002.safetensors: optimizer is adamw there, sgd here' \
    train in/tiny.yaml --resume optimizer.name=sgd
refuses 'update-00000002.safetensors: is of another network' train in/tiny.yaml --resume model.layers=[16,16]
