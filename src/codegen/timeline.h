/* The memory plan as a picture: arena offsets over calls. */
#ifndef HOD_CODEGEN_TIMELINE_H
#define HOD_CODEGEN_TIMELINE_H

#include "codegen/plan.h"

/* Appends an SVG: one rectangle a buffer, from its first call to its last, named in its title. */
int hod__timeline_svg(const hod_plan_buffer *buffers, const char *const *names, int64_t n,
                      int32_t calls, int64_t arena_bytes, hod_text *out);

#endif
