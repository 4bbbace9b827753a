#!/bin/sh
# install.sh CMAKE BUILD CC: the installed hod is found and linked by pkg-config and by CMake.
#
# Installs into a directory of its own, moves it (the package files must not remember the place),
# and builds the same program twice against the public headers. The examples must build so, too:
# they are what a user would write. So must README's program, which is run, too.
set -eu
cmake=$1 build=$2 cc=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

"$cmake" --install "$build" --prefix "$root/first" > /dev/null
mv "$root/first" "$root/hod"
for file in share/man/man1/hod.1 share/bash-completion/completions/hod; do
    [ -f "$root/hod/$file" ] || { echo "install.sh: $file is not installed"; exit 1; }
done

mkdir "$root/user"
cat > "$root/user/main.c" <<'END'
#include <hod/error.h>

int main(void)
{
    return hod_error() ? 1 : hod_finish();
}
END
cat > "$root/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(hod 0.1 REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE hod::hod)
END

pc=$(find "$root/hod" -name hod.pc)
lib=$(dirname "$(find "$root/hod" -name libhod.so)")
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs hod)
# shellcheck disable=SC2086
"$cc" -std=c17 -o "$root/user/plain" "$root/user/main.c" $flags
LD_LIBRARY_PATH=$lib "$root/user/plain"

# README's lines for it, with the prefix that was taken here.
sed -n 's/^    \(export PKG_CONFIG_PATH=\|cc -o mlp \)/\1/p' README.md | sed "s#/opt/hod#$root/hod#; s#^cc #$cc #" \
    > "$root/user/lines"
[ "$(wc -l < "$root/user/lines")" = 2 ] || { echo "install.sh: README has no lines to build with"; exit 1; }
sed -n '/^```c$/,/^```$/p' README.md | sed '/^```/d' > "$root/user/mlp.c"
(cd "$root/user" && sh -e ./lines)

for example in examples/*.c; do
    [ -f "$example" ] || continue
    models=$(find models -name '*.c' ! -name '*_tmpl.c')
    # shellcheck disable=SC2086
    "$cc" -std=c17 -D_GNU_SOURCE -I. -o "$root/user/example" "$example" $models $flags -lm
done

# README's program, as it stands there, and its commands, as plans.
data=/usr/share/datasets/fashion-mnist
sed -n '/^```c$/,/^```$/p' README.md | sed '/^```/d' > "$root/user/readme.c"
# shellcheck disable=SC2086
"$cc" -std=c17 -Wall -Wextra -Werror -o "$root/user/readme" "$root/user/readme.c" $flags
if [ -f "$data/train-images-idx3-ubyte.gz" ]; then
    LD_LIBRARY_PATH=$lib "$root/user/readme" > "$root/user/said"
    grep -q '^200  loss 0\.' "$root/user/said" || { echo "install.sh: README's program says:";
        cat "$root/user/said"; exit 1; }
    sed -n 's/^    build\/hod [a-z]*  *\([^#]*\).*/\1/p' README.md > "$root/user/commands"
    [ -s "$root/user/commands" ] || { echo "install.sh: README has no commands"; exit 1; }
    while read -r arguments; do
        # shellcheck disable=SC2086
        "$root/hod/bin/hod" plan $arguments > /dev/null < /dev/null
    done < "$root/user/commands"
fi

"$cmake" -S "$root/user" -B "$root/user/build" -DCMAKE_PREFIX_PATH="$root/hod" \
    -DCMAKE_C_COMPILER="$cc" > /dev/null
"$cmake" --build "$root/user/build" > /dev/null
"$root/user/build/user"

[ ! -x "$root/hod/bin/hod" ] || "$root/hod/bin/hod" --help > /dev/null
echo "install: pkg-config and CMake find it"
