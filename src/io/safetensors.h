/* Safetensors: names, dtypes and where the bytes lie.
 *
 *     offset  bytes  content
 *     0       8      H, little endian
 *     8       H      JSON: {"__metadata__": {"text": "text"}, "name": {"dtype": "F32",
 *                    "shape": [2,3], "data_offsets": [begin, end]}, ...}, padded with spaces
 *     8+H     rest   tensors, row-major, little endian, without gaps; offsets count from here
 *
 * The text "hod.xxh3" of our own files is the XXH3 of everything behind the header, 16 hexadecimal
 * digits: a byte that changed on a disk would otherwise be a weight that nobody can tell is wrong.
 * What loads a whole file compares; files of others have no such text and are taken as they are.
 */
#ifndef HOD_IO_SAFETENSORS_H
#define HOD_IO_SAFETENSORS_H

#include "tensor/tensor.h"
#include <hod/io.h>

#define HOD_SAFETENSORS_SUM "hod.xxh3"

enum { HOD_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000 }; /* the reference implementation's cap */

/* "F32" and its like; NULL never. */
const char *hod__safetensors_name(hod_dtype dtype);
bool hod__safetensors_dtype(const char *name, hod_dtype *out);

typedef struct hod_tensor_entry {
    char *name;
    hod_meta meta;
    int64_t begin, end; /* in the data section */
    int64_t tied_to;    /* entry whose bytes these are, -1: own */
} hod_tensor_entry;

struct hod_tensor_file { /* typedef in <hod/io.h> */
    int fd;
    char *path;
    int64_t data_at; /* file offset of the data section */
    int64_t data_bytes;
    hod_tensor_entry *entries; /* sorted by name */
    int64_t n, cap;
    hod_named_text *notes;
    int64_t n_notes, cap_notes;
    char sum[17]; /* as the file says; "": it does not */
};

/* Copies bytes [from, from + n) of the data section. */
int hod__tensor_file_copy(hod_tensor_file *f, int64_t from, void *to, int64_t n);
/* Reads all data and compares the checksum, where there is one. 0, or -1 with a format error. */
int hod__tensor_file_verify(hod_tensor_file *f);

#endif
