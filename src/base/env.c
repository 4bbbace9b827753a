/* Environment variables whose value means nothing: told once in a process, on standard error, and
 * then as if they were not set. They tune how a run is made, never what it computes, so a typing
 * mistake in one stops nobody. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

void hod__env_ignored(const char *name, const char *known, atomic_flag *told)
{
    if (!atomic_flag_test_and_set(told))
        fprintf(stderr, "hod: %s=%s is ignored; %s\n", name, getenv(name), known);
}

bool hod__env_flag(const char *name, atomic_flag *told)
{
    const char *value = getenv(name);
    bool on = value && strcmp(value, "1") == 0;
    if (value && *value && !on && strcmp(value, "0") != 0)
        hod__env_ignored(name, "known are 0, 1", told);
    return on;
}
