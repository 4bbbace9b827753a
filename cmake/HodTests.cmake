# CTest. Tests run one at a time: two OpenMP programs at once on few cores slow each other down by
# far more than half, and a time limit would then be a lottery.
#
#   unit.foo      the tests of tests/unit/test_foo.c, each in a process of its own
#   golden.foo    the golden cases of tests/golden/foo.golden: PyTorch's values
#   harness       the harness catches what it must
#   api.foo       tests/api/foo.c, a program that sees the public headers only
#   api.headers   each public header compiles by itself as strict C17
#   printed.foo   include/hod/foo.h is what tools/print_foo.c prints
#   cli.foo       tests/cli/foo.sh drives the command
#   layers        the tree obeys src/LAYERS; layers.catches: a tree that does not is refused
#   columns       no line of C is longer than 100 columns
#   install       the installed library is found by pkg-config and by CMake

set(HOD_TEST_ENV
    HOD_COMPILE=require # a kernel that does not compile must not pass as an eager one
    HOD_SOURCE_DIR=${PROJECT_SOURCE_DIR} HOD_BUILD_DIR=${PROJECT_BINARY_DIR})
if(HOD_SANITIZE)
    string(REPLACE "fuzzer-no-link," "" HOD_KERNEL_SANITIZE "${HOD_SANITIZE}")
    configure_file(tests/kernel_cc.sh.in tools/kernel-cc @ONLY
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                         WORLD_EXECUTE) # a test runs it as nobody
    list(APPEND HOD_TEST_ENV HOD_CC=${PROJECT_BINARY_DIR}/tools/kernel-cc)
endif()
# exitcode: a status that hod never ends with, so that a test which expects hod to fail sees a leak.
if(HOD_SANITIZE MATCHES address)
    list(APPEND HOD_TEST_ENV
        ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:exitcode=99
        UBSAN_OPTIONS=print_stacktrace=1
        LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0
        HOD_TEST_TIMEOUT=1200)
elseif(HOD_SANITIZE MATCHES thread)
    # Archer tells ThreadSanitizer what an OpenMP barrier orders; without it every parallel region
    # looks like a race.
    set(HOD_TSAN_SUPP ${PROJECT_SOURCE_DIR}/tests/tsan.supp)
    string(REGEX MATCH "^[0-9]+" major ${CMAKE_C_COMPILER_VERSION})
    find_library(HOD_ARCHER archer PATHS /usr/lib/llvm-${major}/lib REQUIRED)
    list(APPEND HOD_TEST_ENV
        TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${HOD_TSAN_SUPP}
        OMP_TOOL_LIBRARIES=${HOD_ARCHER}
        HOD_TEST_TIMEOUT=1200)
endif()

function(hod_test name)
    add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES
        RUN_SERIAL ON TIMEOUT 3600 ENVIRONMENT "${HOD_TEST_ENV}")
endfunction()

# ---- unit ---------------------------------------------------------------------------------------

# The models come along: what holds for every network is tested on all of them.
add_executable(hod-tests tests/harness.c ${HOD_UNIT_TESTS} ${HOD_MODEL_SOURCES})
target_include_directories(hod-tests PRIVATE tests ${PROJECT_SOURCE_DIR})
target_link_libraries(hod-tests PRIVATE hod-objects)
foreach(source IN LISTS HOD_UNIT_TESTS)
    cmake_path(GET source FILENAME file)
    string(REGEX REPLACE "^(test_)?(.*)\\.c$" "\\2" name ${file})
    hod_test(unit.${name} hod-tests --file ${file})
endforeach()

add_executable(hod-selftest tests/harness.c tests/selftest.c)
target_link_libraries(hod-selftest PRIVATE hod-objects)
set_target_properties(hod-selftest PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
set(hang 1)
foreach(kind IN ITEMS address undefined thread)
    if(HOD_SANITIZE MATCHES ${kind})
        string(TOUPPER SELFTEST_${kind} macro)
        target_compile_definitions(hod-selftest PRIVATE ${macro})
        set(hang 5)
    endif()
endforeach()
hod_test(harness sh tests/selftest.sh $<TARGET_FILE:hod-selftest> ${hang})

# ---- golden cases -------------------------------------------------------------------------------
#
# tests/golden/bind_foo.c binds the operators of a family to the cases in foo.golden; golden.h says
# how. Without an argument hod-golden prints the table of all of them (`make ops-table`).

hod_glob(HOD_GOLDEN tests/golden/*.c)
add_executable(hod-golden ${HOD_GOLDEN})
target_link_libraries(hod-golden PRIVATE hod-objects)
hod_test(golden.table hod-golden) # all families together: every row of ops.def is reached
foreach(source IN LISTS HOD_GOLDEN)
    cmake_path(GET source STEM stem)
    if(stem MATCHES "^bind_(.*)$")
        hod_test(golden.${CMAKE_MATCH_1} hod-golden ${CMAKE_MATCH_1})
    endif()
endforeach()

# ---- public interface ---------------------------------------------------------------------------

foreach(source IN LISTS HOD_API_TESTS)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "^test_" "" name ${name})
    hod_public_program(api-${name} ${source})
    hod_test(api.${name} api-${name})
endforeach()

# Two inclusions, so that a missing guard shows; no _GNU_SOURCE, no include path but ours.
set(units)
foreach(header IN LISTS HOD_PUBLIC_HEADERS)
    cmake_path(GET header STEM name)
    set(unit ${PROJECT_BINARY_DIR}/headers/${name}.c)
    file(CONFIGURE OUTPUT ${unit} CONTENT
        "#include <hod/${name}.h>\n#include <hod/${name}.h>\nextern int hod_header_${name};\n")
    list(APPEND units ${unit})
endforeach()
if(units)
    add_library(hod-headers OBJECT EXCLUDE_FROM_ALL ${units})
    target_include_directories(hod-headers PRIVATE include)
    target_compile_options(hod-headers PRIVATE -Wall -Wextra -Wpedantic -Werror)
    hod_test(api.headers
        ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target hod-headers)
endif()

# ---- headers that a program prints ---------------------------------------------------------------
#
# tools/print_foo.c writes include/hod/foo.h to standard output. The header is checked in, so that
# it can be read and grepped; the test printed.foo fails when it is stale, and the target
# print-headers (`make headers`) renews it.

add_custom_target(print-headers)
foreach(source IN LISTS HOD_PRINTERS)
    cmake_path(GET source STEM stem)
    string(REGEX REPLACE "^print_" "" name ${stem})
    set(header ${PROJECT_SOURCE_DIR}/include/hod/${name}.h)
    add_executable(print-${name} ${source})
    target_include_directories(print-${name} PRIVATE include src)
    target_link_libraries(print-${name} PRIVATE hod-flags)
    set_target_properties(print-${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
    hod_test(printed.${name} sh -c "$<TARGET_FILE:print-${name}> | diff -u ${header} -")
    add_custom_target(print-header-${name}
        COMMAND print-${name} > ${header}.new
        COMMAND ${CMAKE_COMMAND} -E rename ${header}.new ${header}
        VERBATIM)
    add_dependencies(print-headers print-header-${name})
endforeach()

# ---- the house itself ---------------------------------------------------------------------------

hod_test(layers hod-layers ${PROJECT_SOURCE_DIR})
hod_test(layers.catches sh tests/layers.sh $<TARGET_FILE:hod-layers>)
hod_test(columns sh tests/columns.sh)
if(HOD_PUBLIC_HEADERS AND NOT HOD_SANITIZE)
    hod_test(install sh tests/install.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
endif()

if(HOD_SANITIZE MATCHES fuzzer)
    include(HodFuzz)
endif()

# ---- the command --------------------------------------------------------------------------------

# tests/cli/foo.sh drives build/hod as a user would, in a directory of its own.
if(TARGET hod-command)
    add_executable(json-lines tests/cli/json_lines.c)
    target_link_libraries(json-lines PRIVATE hod-flags hod-dependencies)
    set_target_properties(json-lines PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
    foreach(name IN ITEMS bad_input bench commands interrupt json same_output streams)
        hod_test(cli.${name} sh -c "HOD=$<TARGET_FILE:hod-command> JSON_LINES=$<TARGET_FILE:json-lines> exec sh tests/cli/${name}.sh")
    endforeach()
endif()
