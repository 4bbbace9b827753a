# cmake --install: library, headers, command, package files for pkg-config and CMake, manual page,
# completion.

include(CMakePackageConfigHelpers)

install(TARGETS hod EXPORT hodTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${HOD_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hod)
if(TARGET hod-command)
    set_target_properties(hod-command PROPERTIES
        INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS hod-command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The package files find their prefix from where they lie, so an installed tree can be moved.
string(REGEX REPLACE "[^/]+" ".." up ${CMAKE_INSTALL_LIBDIR})
configure_file(cmake/hod.pc.in hod.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/hod.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hod)
configure_package_config_file(cmake/hodConfig.cmake.in hodConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(hodConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hodConfig.cmake ${PROJECT_BINARY_DIR}/hodConfigVersion.cmake
    DESTINATION ${package_dir})
install(EXPORT hodTargets NAMESPACE hod:: DESTINATION ${package_dir})

install(FILES docs/hod.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES tools/completion.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME hod)
