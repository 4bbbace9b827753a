/* The disk cache of compiled kernels: a directory of sealed shared objects.
 *
 *     <key of kernel 1>.so --+
 *     <key of kernel 2>.so --+--> one file: [ ELF ][ key 1 ][ key 2 ] ... [ count | size | digest ]
 *
 * A compiler run makes one shared object for several kernels. It is sealed with the keys it serves
 * and a digest over all before it, then appears under each kernel's key: one hard link a kernel,
 * each put in place by rename. A reader takes a name only if the file behind it is ours alone, its
 * digest agrees and its seal names the key; anything else is as good as absent, is compiled again
 * and replaced. Files are never changed in place, so a mapped one stays what it was.
 *
 * Invariants: (1) a name in the directory shows a whole file or none; (2) no two writers need to
 * agree, the last rename wins and all candidates are equally good; (3) without a usable directory
 * everything works, only slower.
 */
#ifndef HOD_CODEGEN_CACHE_H
#define HOD_CODEGEN_CACHE_H

#include "base/base.h"

enum { HOD_CACHE_PATH = 4096 };

typedef struct hod_kernel_key {
    uint64_t lo, hi;
} hod_kernel_key;

/* 128 bits over a text and all that its machine code depends on, given as `environment`. */
hod_kernel_key hod__cache_key(uint64_t environment, const char *text);

/* Where to look and to publish: $HOD_CACHE_DIR, else $XDG_CACHE_HOME/hod, else ~/.cache/hod; made
 * with mode 0700 if absent. False when there is none, or when it is not ours alone to write. */
bool hod__cache_directory(char dir[HOD_CACHE_PATH]);

/* Fills path with the key's entry after verifying it. False: no such entry, or none to trust. */
bool hod__cache_find(const char *dir, hod_kernel_key key, char path[HOD_CACHE_PATH]);

/* Seals the shared object at path for n keys. 0 or -1 without an error set: the file is then as it
 * was, or damaged, and good for this process only. */
int hod__cache_seal(const char *path, const hod_kernel_key *keys, int n);

/* Puts the sealed file at path, which lies in dir, under its keys' names; as many as it can. */
void hod__cache_publish(const char *dir, const char *path, const hod_kernel_key *keys, int n);

/* Removes what killed processes have left in dir more than a day ago. */
void hod__cache_sweep(const char *dir);

/* Removes the entries that were used longest ago while all of them take more than `most` bytes. */
void hod__cache_prune(const char *dir, int64_t most);
/* $HOD_CACHE_MB megabytes, else 256, in bytes. */
int64_t hod__cache_most(void);

/* Waits for other processes that compile into dir, at most `seconds`; the result goes to
 * hod__cache_unlock. Saves work, is not needed for being right. */
int hod__cache_lock(const char *dir, double seconds);
void hod__cache_unlock(int lock);

#endif
