# What hod links: one interface target, hod-dependencies. The Debian packages behind these names
# are listed in tools/setup.sh, the reasons for choosing them in docs/.
#
# OpenMP: one runtime in the process. libdnnl brings GCC's libgomp, which GCC builds share. A Clang
# build uses libomp instead, because -fopenmp=libgomp makes Clang emit no parallel code. libomp
# answers to libgomp's names too, and the loader meets it first (it is needed by libhod.so itself,
# libgomp only by libdnnl below it), so libdnnl and kernels built by GCC run on libomp's threads.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HOD_DEPS REQUIRED IMPORTED_TARGET yaml-0.1 cairo libxxhash jansson zlib)

# oneDNN's own CMake package also asks for OpenCL headers, which the C interface does not need.
find_path(DNNL_INCLUDE_DIR NAMES dnnl.h REQUIRED)
find_library(DNNL_LIBRARY NAMES dnnl REQUIRED)

add_library(hod-dependencies INTERFACE)
target_include_directories(hod-dependencies SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(hod-dependencies INTERFACE
    ${DNNL_LIBRARY} PkgConfig::HOD_DEPS OpenMP::OpenMP_C Threads::Threads ${CMAKE_DL_LIBS} m)
