# The two commands of the README, and short names for the rest. Each of them sets up what it needs
# first: on a fresh Debian machine, git and make are enough.

JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)
prefix ?= /usr/local

.DEFAULT_GOAL := build
.PHONY: demo check build setup debug asan tsan clang fuzz test ops-table format headers install size clean help

demo: build          ## train a small network four ways and show the difference
	@sh tools/demo.sh

check: build         ## all tests, one at a time
	@cd build && ctest --output-on-failure --no-tests=error -j1

build: setup         ## the library, the command and the tests, into build/
	@cmake --preset release --log-level=WARNING
	@echo "building into build/; the first time takes minutes"
	@cmake --build build -- --quiet

setup:               ## install the Debian packages that are missing
	@sh tools/setup.sh

debug asan: setup
tsan clang fuzz: setup-clang
debug asan tsan clang fuzz:  ## build that preset into build-NAME/ and run its tests
	@cmake --preset $@ --log-level=WARNING
	@cmake --build build-$@
	@cd build-$@ && ctest --output-on-failure --no-tests=error -j1

.PHONY: setup-clang
setup-clang:
	@sh tools/setup.sh clang

test: build          ## the unit tests whose name begins with T: make test T=tensor_
	@build/hod-tests $(T)

ops-table: build     ## what is shown of each operator: PyTorch's values, gradients, types, ...
	@HOD_COMPILE=require build/hod-golden

format: setup-clang  ## lay out the C sources as .clang-format says
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: build       ## make install prefix=/opt/hod
	@cmake --install build --prefix $(prefix)

headers: setup       ## renew the public headers that are printed from tables
	@cmake --preset release --log-level=WARNING
	@cmake --build build --target print-headers

size:                ## lines of C a layer; read it in reviews
	@sh tools/size.sh

clean:               ## remove every build directory
	@rm -rf build build-*

help:
	@sed -n 's/^\([a-z -]*\):.*## /  make \1\t/p' Makefile | expand -t 30
