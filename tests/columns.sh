#!/bin/sh
# columns.sh [directory ...]: no line of C is longer than 100 columns, comments and tables included,
# which clang-format leaves as they are. Without a directory: all of ours.
set -eu
if [ $# = 0 ]; then
    cd "$(dirname "$0")/.."
    set -- src include tests tools models examples bench
fi
for directory; do
    [ -d "$directory" ] || { echo "columns.sh: no directory $directory"; exit 2; }
done
long=$(LC_ALL=C.UTF-8 grep -rnE '^.{101,}' --include='*.[ch]' --include='*.def' "$@" |
    cut -d: -f1-2)
if [ -n "$long" ]; then
    echo "columns.sh: longer than 100 columns:"
    echo "$long"
    exit 1
fi
