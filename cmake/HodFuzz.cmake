# libFuzzer on every reader of foreign bytes: preset fuzz. Each tests/fuzz/fuzz_<name>.c is a
# program that starts from tests/fuzz/seeds/<name>; under CTest it runs for HOD_FUZZ_SECONDS. To
# search longer and keep what is found: build-fuzz/fuzz-config -max_total_time=3600 some/directory

set(HOD_FUZZ_SECONDS 20 CACHE STRING "Seconds that each fuzz target runs under CTest")
file(GLOB HOD_FUZZ_TARGETS CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)

foreach(source IN LISTS HOD_FUZZ_TARGETS)
    cmake_path(GET source STEM stem)
    string(REPLACE "fuzz_" "" name ${stem})
    add_executable(fuzz-${name} ${source})
    target_link_libraries(fuzz-${name} PRIVATE hod-objects)
    target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
    set(found ${PROJECT_BINARY_DIR}/corpus/${name})
    file(MAKE_DIRECTORY ${found})
    hod_test(fuzz.${name} fuzz-${name} -max_total_time=${HOD_FUZZ_SECONDS} -max_len=4096
        -rss_limit_mb=2000 -artifact_prefix=${PROJECT_BINARY_DIR}/corpus/ ${found}
        ${PROJECT_SOURCE_DIR}/tests/fuzz/seeds/${name})
endforeach()
