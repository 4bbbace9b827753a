/* Any bytes as an IDX file, plain or gzip: a dataset or one error, and no more memory than there
 * are bytes. The first byte decides how many dimensions are asked for. */
#include "base/base.h"
#include "data/idx.h"

#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    int fd = memfd_create("idx", 0);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)size - 1)
        return 0;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    hod_idx x;
    int rc = hod__idx_read(path, data[0] % HOD_IDX_DIMS + 1, &x);
    close(fd);
    assert((rc == 0) == (hod_error() == NULL));
    assert((rc == 0) == (x.data != NULL));
    if (rc == 0) {
        volatile uint8_t sum = 0;
        for (int64_t i = 0; i < x.bytes; i++) /* every byte is there to be read */
            sum = (uint8_t)(sum + x.data[i]);
    }
    free(x.data);
    hod_error_take(NULL);
    return 0;
}
