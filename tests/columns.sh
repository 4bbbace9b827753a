#!/bin/sh
# columns.sh: no line of C is longer than 100 columns, comments and tables included, which clang-format
# leaves as they are.
set -eu
long=$(LC_ALL=C.UTF-8 grep -rnE '^.{101,}' --include='*.[ch]' --include='*.def' \
    src include tests tools models examples bench | cut -d: -f1-2) || true
if [ -n "$long" ]; then
    echo "columns.sh: longer than 100 columns:"
    echo "$long"
    exit 1
fi
