# cmake -DIN=<file> -DNAME=<its name in comments> -DOUT=<file> -DSYMBOL=<name> -P embed.cmake
#
# Writes IN as an array of characters. A string literal would read better, but C17 guarantees only
# 4095 characters for one, and -Wpedantic holds us to it.

file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," array "${bytes}")
# Twelve characters a line, each written in seven. Pieces, because a CMake regex has no {12}.
set(one "'.x..',")
string(REPEAT "${one}" 12 line)
string(REGEX REPLACE "(${line})" "    \\1\n" array "${array}")

if(OUT MATCHES "\\.h$")
    set(linkage "static const")
else()
    set(linkage "extern const char ${SYMBOL}[];\nconst")
endif()
file(WRITE ${OUT} "/* Made from ${NAME}; edit that. */\n${linkage} char ${SYMBOL}[] = {\n${array}0};\n")
