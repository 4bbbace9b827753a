/* Any bytes as a config, the part after a NUL as an override: a config or one error, and what is
 * printed reads back to the same bytes. */
#include "base/base.h"

#include <assert.h>
#include <hod/config.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_and_read(const hod_config *c)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return;
    int rc = hod_config_print(c, f);
    fclose(f);
    hod_config again;
    assert(rc == 0);
    rc = hod_config_parse(&again, "printed", text, n, NULL, 0);
    assert(rc == 0);
    assert(memcmp(c, &again, sizeof again) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t length = nul ? (size_t)(nul - data) : size;
    char override[256] = "";
    if (nul)
        memcpy(override, nul + 1, HOD_MIN(size - length - 1, sizeof override - 1));
    hod_config c;
    int rc = hod_config_parse(&c, "fuzz", length ? (const char *)data : "", length,
                              (const char *[]){override}, nul ? 1 : 0);
    assert((rc == 0) == (hod_error() == NULL));
    if (rc == 0)
        print_and_read(&c);
    hod_error_take(NULL);
    return 0;
}
