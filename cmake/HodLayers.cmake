# Builds tools/layers and runs it over the tree. hod-layers-check is a dependency of everything
# that is compiled, so an include that points up fails the build at once.

add_executable(hod-layers tools/layers.c)
set_target_properties(hod-layers PROPERTIES
    OUTPUT_NAME layers RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
target_link_libraries(hod-layers PRIVATE hod-flags)

file(GLOB_RECURSE HOD_LAYERED CONFIGURE_DEPENDS
    src/*.[ch] include/*.h models/*.[ch] examples/*.[ch] tests/api/*.[ch])
set(stamp ${PROJECT_BINARY_DIR}/tools/layers.stamp)
add_custom_command(
    OUTPUT ${stamp}
    COMMAND hod-layers ${PROJECT_SOURCE_DIR}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS hod-layers src/LAYERS ${HOD_LAYERED}
    COMMENT "Checking layers"
    VERBATIM)
add_custom_target(hod-layers-check DEPENDS ${stamp})
