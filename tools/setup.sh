#!/bin/sh
# setup.sh [clang]: installs the Debian packages that hod needs and that are missing.
#
# Says nothing when there is nothing to do. Everything comes from the distribution's own packages,
# through apt, as root or through sudo. `clang` adds what the presets clang and tsan and
# `make format` need. Written for a machine that has only git and make: no locale, no time zone,
# no package lists, nobody at the keyboard.
set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

packages='
    gcc libc6-dev cmake ninja-build pkg-config
    libdnnl-dev
    libyaml-dev libjansson-dev libxxhash-dev zlib1g-dev
    libcairo2-dev
    dataset-fashion-mnist
'
case ${1-} in
'') ;;
clang) packages="$packages clang libomp-dev llvm clang-format" ;;
*) echo "usage: setup.sh [clang]" >&2; exit 2 ;;
esac

fail() {
    echo "setup: $*" >&2
    exit 1
}

# One line however the list is laid out.
packages=$(echo $packages)

command -v dpkg-query > /dev/null && command -v apt-get > /dev/null ||
    fail "not a Debian system; install what these packages hold, then use cmake: $packages"

missing=
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null) || state=
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
    echo "setup: installing$missing"
elif command -v sudo > /dev/null; then
    as_root='sudo env LC_ALL=C DEBIAN_FRONTEND=noninteractive'
    echo "setup: installing through sudo apt-get:$missing"
else
    fail "not root and no sudo; as root: apt-get install$missing"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The lists may be empty or old; without a network those at hand may still do.
$as_root apt-get update -o APT::Update::Error-Mode=any > "$log" 2>&1 ||
    echo "setup: apt-get update did not work, going on with the package lists at hand"
if ! $as_root apt-get install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 $missing > "$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "apt-get install did not work; its last lines stand above"
fi
echo "setup: done"
