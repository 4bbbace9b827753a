/* oneDNN's engine, and what the conversion between its world and ours needs. */
#include "device/dnn_engine.h"
#include "base/base.h"
#include "device/device.h"

#include <omp.h>
#include <pthread.h>

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make(void)
{
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
    else if (dnnl_stream_create(&stream, engine, dnnl_stream_in_order) != dnnl_success)
        stream = NULL;
}

dnnl_engine_t hod__dnn_engine(void)
{
    pthread_once(&made, make);
    return stream ? engine : HOD_FAIL(MEMORY, "oneDNN: no engine");
}

dnnl_stream_t hod__dnn_stream(void)
{
    return hod__dnn_engine() ? stream : NULL;
}

int hod__dnn_check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return 0;
    if (status == dnnl_out_of_memory)
        return HOD_FAIL_RC(MEMORY, "%s: oneDNN has no memory", what);
    return HOD_FAIL_RC(ARGUMENT, "%s: oneDNN answers %s", what,
                       status == dnnl_unimplemented       ? "unimplemented"
                       : status == dnnl_invalid_arguments ? "invalid arguments"
                                                          : "runtime error");
}

static dnnl_data_type_t type_of(hod_dtype dtype)
{
    return dtype == HOD_F32 ? dnnl_f32 : dtype == HOD_BF16 ? dnnl_bf16 : dnnl_data_type_undef;
}

int hod__dnn_image(dnnl_memory_desc_t *md, int64_t n, int64_t c, int64_t h, int64_t w,
                   hod_dtype dtype, int block)
{
    if (c % block != 0)
        return HOD_FAIL_RC(ARGUMENT, "layout: %lld channels are no multiple of the block %d",
                           (long long)c, block);
    dnnl_format_tag_t tag = block == 1    ? dnnl_nchw
                            : block == 16 ? dnnl_nChw16c
                            : block == 8  ? dnnl_nChw8c
                                          : dnnl_nChw4c;
    return hod__dnn_check(
        dnnl_memory_desc_init_by_tag(md, 4, (dnnl_dims_t){n, c, h, w}, type_of(dtype), tag),
        "layout");
}

int hod__dnn_team(int threads)
{
    if (omp_in_parallel())
        return HOD_FAIL_RC(STATE, "oneDNN: called inside a parallel region");
    int before = omp_get_max_threads();
    if (before != threads)
        omp_set_num_threads(threads);
    return before;
}
