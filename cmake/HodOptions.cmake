# How hod is compiled: one interface target, hod-flags, that every target of ours links.
#
# -ffp-contract=off keeps a*b+c from becoming one rounding here and two there: eager kernels and
# generated kernels must agree to the bit. NaN and infinity keep their meaning (the finite check
# and -inf masks need them), so there is no -ffast-math; errno and traps are all that is given up.

set(HOD_SANITIZE "" CACHE STRING "As -fsanitize= takes them: address,undefined or thread")
set(HOD_MARCH "" CACHE STRING "A -march= value for hod itself; generated kernels always use native")
option(HOD_WERROR "Warnings are errors" ON)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-Og -g3 -fno-omit-frame-pointer")

# hod, libhod.so and the tests lie side by side at the top of the build directory.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(HOD_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)

# -Wno-format-truncation: snprintf into a fixed buffer is how a message is meant to be cut.
# -Wno-pass-failed: an `omp simd` loop that stays scalar, as under a sanitizer, is slow, not wrong.
add_library(hod-flags INTERFACE)
target_compile_definitions(hod-flags INTERFACE _GNU_SOURCE)
target_compile_options(hod-flags INTERFACE
    -Wall -Wextra -Wpedantic -Wstrict-prototypes -Wmissing-prototypes
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>
    -ffp-contract=off -fno-math-errno -fno-trapping-math)
target_link_options(hod-flags INTERFACE -Wl,--as-needed)
if(HOD_WERROR)
    target_compile_options(hod-flags INTERFACE -Werror)
endif()
if(HOD_MARCH)
    target_compile_options(hod-flags INTERFACE -march=${HOD_MARCH})
endif()
if(HOD_SANITIZE)
    target_compile_options(hod-flags INTERFACE
        -fsanitize=${HOD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(hod-flags INTERFACE -fsanitize=${HOD_SANITIZE})
endif()
