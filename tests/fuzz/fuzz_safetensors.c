/* Any bytes as a safetensors file: what opens can be read, saved, and opens again the same. */
#include "base/base.h"
#include "tensor/tensor.h"

#include <assert.h>
#include <hod/io.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const char *path)
{
    hod_tensor_file *f = hod_tensor_file_open(path);
    assert((f == NULL) == (hod_error() != NULL));
    for (int64_t i = 0; i < hod_tensor_file_count(f); i++) {
        HOD_SCOPE(s);
        hod_tensor_info info = hod_tensor_file_info(f, i);
        assert(hod_tensor_file_find(f, info.name) == i);
        hod_tensor *t = hod_tensor_file_read(f, i);
        assert(t && hod_tensor_ndim(t) == info.shape.n);
        hod_named_tensor want = {info.name, t};
        hod_load_report r;
        int rc = hod_load_into(f, &want, 1, false, &r);
        assert(rc == 0 && r.loaded == 1);
        hod_load_report_free(&r);
    }
    hod_tensor_file_close(&f);
}

static void save_again(const char *path)
{
    hod_tensor_list *list = hod_load_tensors(path);
    if (!list)
        return;
    char copy[40];
    snprintf(copy, sizeof copy, "/tmp/hod-fuzz-%d", (int)getpid());
    /* Ties come back from the tensors themselves, so the notes stay behind. */
    if (hod_save_tensors(copy, list->items, list->n, NULL, 0) == 0) {
        hod_tensor_file *f = hod_tensor_file_open(copy);
        assert(f && hod_tensor_file_count(f) == list->n);
        hod_tensor_file_close(&f);
    }
    unlink(copy);
    hod_tensor_list_free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("safetensors", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_all(path);
    hod_error_take(NULL);
    save_again(path);
    hod_error_take(NULL);
    close(fd);
    return 0;
}
