#!/bin/sh
# size.sh: lines of C in each layer, and every file over the soft limit of 600 lines.
set -eu
cd "$(dirname "$0")/.."
for dir in src/* models include/hod tests examples bench tools; do
    [ -d "$dir" ] || continue
    lines=$(find "$dir" -name '*.[ch]' -exec cat {} + | wc -l)
    files=$(find "$dir" -name '*.[ch]' | wc -l)
    printf '%7d lines %4d files  %s\n' "$lines" "$files" "$dir"
done
find src models include tests examples bench tools -name '*.[ch]' 2>/dev/null |
    while read -r file; do
        lines=$(wc -l < "$file")
        [ "$lines" -le 600 ] || echo "$file: $lines lines"
    done
