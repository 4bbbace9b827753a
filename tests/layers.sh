#!/bin/sh
# layers.sh TOOL: a tree with a wrong arrow is refused, and the message names the line.
#
# Each case adds one file to a small right tree, expects the verdict, and takes the file away.
set -eu
tool=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/src/base" "$root/src/tensor/part" "$root/src/nn" "$root/src/optim" "$root/src/cli"
cat > "$root/src/LAYERS" <<'END'
# a small house
base:
tensor: base
nn:     base tensor   # siblings
optim:  base tensor
cli:    public
END

# expect STATUS FILE INCLUDE [TEXT]
expect() {
    printf '/* x */\n  # include %s\n' "$3" > "$root/src/$2"
    status=0
    said=$("$tool" "$root" 2>&1) || status=$?
    rm "$root/src/$2"
    case $said in *"${4-}"*) ;; *) status="$status, said: $said" ;; esac
    if [ "$status" != "$1" ]; then
        echo "layers.sh: $2 includes $3: expected $1 ${4-}, got $status"
        exit 1
    fi
}

expect 0 tensor/a.c '"base/error.h"'
expect 0 tensor/a.c '"tensor/tensor.h"'
expect 0 tensor/part/a.c '"view.h"'
expect 0 tensor/a.c '<hod/tensor.h>'
expect 0 cli/a.c '<hod/hod.h>'
expect 1 base/a.c '"tensor/tensor.h"' 'src/base/a.c:2: base includes "tensor/tensor.h"'
expect 1 tensor/part/a.c '"nn/linear.h"' 'points up or sideways'
expect 1 nn/a.h '"optim/sgd.h"' 'points up or sideways'
expect 1 cli/a.c '"base/error.h"' 'points up or sideways'
expect 1 tensor/a.c '"../nn/linear.h"' 'path with ..'
expect 1 tensor/a.c '<hod/hod.h>' 'name the header you mean'
expect 1 tensor/a.c '"strange/x.h"' 'not a layer'

mkdir "$root/src/strange"
if "$tool" "$root" 2>/dev/null; then
    echo "layers.sh: a directory that LAYERS does not list was not noticed"
    exit 1
fi
rmdir "$root/src/strange"
echo 'loop: later' >> "$root/src/LAYERS"
if "$tool" "$root" 2>/dev/null; then
    echo "layers.sh: a layer that stands on no line above was not noticed"
    exit 1
fi
echo "layers: right arrows pass, wrong ones are caught"
