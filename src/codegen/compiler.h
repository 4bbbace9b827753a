/* The system's C compiler as a child process: found, identified, started, heard.
 *
 *     hod_compiler cc;
 *     if (hod__compiler_find(&cc) == 0) {
 *         hod_compilation job = hod__compiler_start(&cc, "/tmp/k.c", "/tmp/k.so", "/tmp");
 *         bool made = hod__compiler_wait(&job);   // job.said: what it printed
 *     }
 */
#ifndef HOD_CODEGEN_COMPILER_H
#define HOD_CODEGEN_COMPILER_H

#include "base/base.h"
#include <sys/types.h>

enum { HOD_COMPILER_PATH = 4096 };

typedef struct hod_compiler {
    char path[HOD_COMPILER_PATH];
    uint64_t identity; /* hash of its version, our flags and this machine's processor */
} hod_compiler;

typedef struct hod_compilation {
    pid_t pid; /* -1: it did not start */
    int out;   /* what it prints, in memory */
    char said[4096];
} hod_compilation;

/* $HOD_CC, else the first of cc, gcc, clang in PATH. The last answer is remembered, so callers hold
 * a lock. 0 or -1. */
int hod__compiler_find(hod_compiler *out);

/* Starts making a shared object of a C file; the compiler's own temporary files go to dir. */
hod_compilation hod__compiler_start(const hod_compiler *c, const char *source, const char *object,
                                    const char *dir);

/* Ends it and fills job->said. True when the compiler reports success, and when its status is lost
 * because the program ignores SIGCHLD: look at the object as well. */
bool hod__compiler_wait(hod_compilation *job);

#endif
