/* The inner loops for any machine; see rows.h. CMakeLists.txt has the flags. */
#define ROWS      hod__rows_plain
#define ROWS_NAME "plain"
#include "ops/rows_tmpl.c"
