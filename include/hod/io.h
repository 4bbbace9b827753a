/* Files: tensors with names (safetensors), checkpoints made of them, events as JSON lines.
 *
 *     hod_named_tensor all[] = {{"fc.weight", w}, {"fc.bias", b}};
 *     hod_save_tensors("net.safetensors", all, 2, NULL, 0);
 *
 *     hod_tensor_file *f = hod_tensor_file_open("net.safetensors");
 *     hod_load_into(f, all, 2, true, NULL);          // strict: all or nothing
 *     hod_tensor_file_close(&f);
 *
 * A file appears under its name complete or not at all: it is written aside, flushed to the disk
 * and renamed. A reader trusts nothing: lengths, offsets, shapes and names are checked against
 * the real file before anything is allocated, and a checksum in the metadata of hod's own files
 * against the content before a whole file is taken over.
 */
#ifndef HOD_IO_H
#define HOD_IO_H

#include <hod/tensor.h>
#include <stdio.h>

typedef struct hod_named_tensor {
    const char *name;
    hod_tensor *tensor;
} hod_named_tensor;

typedef struct hod_named_text {
    const char *name, *text;
} hod_named_text;

/* ---- safetensors ---- */

/* Writes n tensors, any strides, row-major, with `notes` as the header's metadata. Names that
 * share the very same tensor (same storage, offset, shape and strides) are stored once under the
 * first; the others become notes `name -> first name`. On failure the old file is untouched. */
HOD_API int hod_save_tensors(const char *path, const hod_named_tensor *tensors, int64_t n,
                             const hod_named_text *notes, int64_t n_notes);

typedef struct hod_tensor_file hod_tensor_file;
typedef struct hod_tensor_info {
    const char *name;
    const char *tied_to; /* the name under which its bytes lie; NULL: its own */
    hod_dtype dtype;
    hod_shape shape;
} hod_tensor_info;

HOD_API hod_tensor_file *hod_tensor_file_open(const char *path);
HOD_API void hod_tensor_file_close(hod_tensor_file **f);         /* sets *f to NULL */
HOD_API int64_t hod_tensor_file_count(const hod_tensor_file *f); /* names, tied ones included */
HOD_API hod_tensor_info hod_tensor_file_info(const hod_tensor_file *f, int64_t i);
HOD_API int64_t hod_tensor_file_find(const hod_tensor_file *f, const char *name); /* -1: absent */
HOD_API const char *hod_tensor_file_note(const hod_tensor_file *f,
                                         const char *name); /* NULL: absent */
/* The bytes that tensors take in the file. */
HOD_API int64_t hod_tensor_file_bytes(const hod_tensor_file *f);
/* A fresh tensor with the content of entry i; belongs to the innermost scope. */
HOD_API hod_tensor *hod_tensor_file_read(hod_tensor_file *f, int64_t i);

/* All tensors of a file; tied names are one tensor. Freed as a whole; NULL is allowed. */
typedef struct hod_tensor_list {
    hod_named_tensor *items;
    int64_t n;
    hod_named_text *notes;
    int64_t n_notes;
} hod_tensor_list;
HOD_API hod_tensor_list *hod_load_tensors(const char *path);
HOD_API void hod_tensor_list_free(hod_tensor_list *list);

/* ---- loading into what exists ---- */

typedef struct hod_load_report {
    int64_t loaded, missing, unexpected, mismatched;
    char *text; /* one line a name: "missing fc.bias", "unexpected ...", "mismatched fc.weight:
                   file (1,64,3,3), wanted (32,64,3,3)"; "" when all is well */
} hod_load_report;
HOD_API void hod_load_report_free(hod_load_report *r);

/* Copies entries of the file into the tensors of the same name. Names match after wrappers'
 * components (`_orig_mod`, `module`) are taken off where that is needed; shapes must be equal;
 * floating dtypes convert into each other. strict: a missing, unexpected or mismatched name is an
 * error that lists them, and nothing has been modified. Otherwise the rest is loaded. `report`,
 * which may be NULL, receives the lists either way and is freed by the caller. */
HOD_API int hod_load_into(hod_tensor_file *f, const hod_named_tensor *want, int64_t n, bool strict,
                          hod_load_report *report);

/* ---- checkpoints: <dir>/update-<number>.safetensors, one complete file each ---- */

/* Makes `dir` where needed, writes the file, then deletes all but the `keep` newest (0: keeps
 * all). -1 leaves what was there. */
HOD_API int hod_checkpoint_save(const char *dir, int64_t update, const hod_named_tensor *tensors,
                                int64_t n, const hod_named_text *notes, int64_t n_notes, int keep);
/* The newest complete checkpoint: 1 and its path, 0 when there is none, -1 on error. Leftovers of
 * a killed run are passed over, and so are damaged files, with a line on standard error about the
 * newest; but damaged files alone are an error. */
HOD_API int hod_checkpoint_latest(const char *dir, char *path, size_t cap);
/* Can files be made in `dir`? Creates it where needed: 0, or -1 with the reason. */
HOD_API int hod_directory_prepare(const char *dir);

/* ---- events: one JSON object a line ---- */

typedef struct hod_field {
    const char *key; /* NULL ends the list */
    enum {
        HOD_FIELD_INT,
        HOD_FIELD_NUMBER,
        HOD_FIELD_TEXT,
        HOD_FIELD_BOOL,
        HOD_FIELD_NUMBERS
    } kind;
    int64_t i;        /* INT, BOOL, and the length of NUMBERS */
    double number;    /* not finite: written as null */
    const char *text; /* NULL: written as null */
    const double *numbers;
} hod_field;
#define HOD_INT(key_, value_)                                                                      \
    {                                                                                              \
        .key = key_, .kind = HOD_FIELD_INT, .i = (value_)                                          \
    }
#define HOD_NUMBER(key_, value_)                                                                   \
    {                                                                                              \
        .key = key_, .kind = HOD_FIELD_NUMBER, .number = (value_)                                  \
    }
#define HOD_TEXT(key_, value_)                                                                     \
    {                                                                                              \
        .key = key_, .kind = HOD_FIELD_TEXT, .text = (value_)                                      \
    }
#define HOD_FLAG(key_, value_)                                                                     \
    {                                                                                              \
        .key = key_, .kind = HOD_FIELD_BOOL, .i = (value_)                                         \
    }
#define HOD_NUMBERS(key_, values_, n_)                                                             \
    {                                                                                              \
        .key = key_, .kind = HOD_FIELD_NUMBERS, .i = (n_), .numbers = (values_)                    \
    }

/* hod_event(stdout, "update", HOD_INT("update", 3), HOD_NUMBER("loss", 0.25)) prints
 * {"event":"update","update":3,"loss":0.25} and flushes. 0 or -1. */
#define hod_event(out, name, ...) hod_event_write(out, name, (hod_field[]){__VA_ARGS__, {0}})
HOD_API int hod_event_write(FILE *out, const char *name, const hod_field *fields);

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(tensor_file, hod_tensor_file *)
HOD_PLACED_RESULT(tensor_list, hod_tensor_list *)
#define hod_save_tensors(...)      HOD_PLACED(int, hod_save_tensors(__VA_ARGS__))
#define hod_tensor_file_open(...)  HOD_PLACED(tensor_file, hod_tensor_file_open(__VA_ARGS__))
#define hod_tensor_file_read(...)  HOD_PLACED(tensor, hod_tensor_file_read(__VA_ARGS__))
#define hod_load_tensors(...)      HOD_PLACED(tensor_list, hod_load_tensors(__VA_ARGS__))
#define hod_load_into(...)         HOD_PLACED(int, hod_load_into(__VA_ARGS__))
#define hod_checkpoint_save(...)   HOD_PLACED(int, hod_checkpoint_save(__VA_ARGS__))
#define hod_checkpoint_latest(...) HOD_PLACED(int, hod_checkpoint_latest(__VA_ARGS__))
#define hod_directory_prepare(...) HOD_PLACED(int, hod_directory_prepare(__VA_ARGS__))
#define hod_event_write(...)       HOD_PLACED(int, hod_event_write(__VA_ARGS__))
#endif

#endif
