# hod_embed(<output> <file> <symbol>): a text file as a C string.
#
# <output> is a name relative to the generated directory, which is on the include path; <file> is
# relative to the source tree. A .h defines `static const char symbol[]`, a .c defines it with
# external linkage. The array ends in a zero byte. The output is remade when the file changes; the
# target that includes it lists it among its sources.

set(HOD_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed.cmake)

function(hod_embed output file symbol)
    set(out ${HOD_GENERATED_DIR}/${output})
    set(in ${PROJECT_SOURCE_DIR}/${file})
    add_custom_command(
        OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DIN=${in} -DNAME=${file} -DOUT=${out} -DSYMBOL=${symbol}
                -P ${HOD_EMBED_SCRIPT}
        DEPENDS ${in} ${HOD_EMBED_SCRIPT}
        COMMENT "Embedding ${file}"
        VERBATIM)
endfunction()
