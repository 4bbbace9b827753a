/* hod inspect: what is in a checkpoint, or what a config's step is compiled to.
 *
 * A file is taken for safetensors by its ending; everything else is read as a config. Nothing is
 * written unless an output directory is named.
 */
#include "cli.h"

#include <string.h>

/* ---- checkpoints ---- */

static void print_shape(const hod_shape *s)
{
    char text[128] = "(";
    size_t at = 1;
    for (int i = 0; i < s->n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", i ? "," : "",
                               (long long)s->d[i]);
    printf("%s)", text);
}

static int inspect_tensors(const cli_options *o)
{
    const char *path = o->file;
    if (o->view || o->n_overrides > 0) {
        hod_refuse("inspect %s: %s belongs to a config; a safetensors file has no step", path,
                   o->view ? "--view" : o->overrides[0]);
        return -1;
    }
    hod_tensor_file *f = hod_tensor_file_open(path);
    if (!f)
        return -1;
    int64_t n = hod_tensor_file_count(f);
    for (int64_t i = 0; i < n; i++) {
        hod_tensor_info info = hod_tensor_file_info(f, i);
        printf("%-48s %-5s ", info.name, hod_dtype_name(info.dtype));
        print_shape(&info.shape);
        printf("%s%s\n", info.tied_to ? "  = " : "", info.tied_to ? info.tied_to : "");
    }
    printf("%lld tensors, %.2f MiB\n", (long long)n, (double)hod_tensor_file_bytes(f) / 1048576.0);
    hod_tensor_file_close(&f);
    return 0;
}

/* ---- steps ---- */

static const struct {
    const char *name, *file;
    hod_fn_view view;
} views[] = {
    {"trace", "trace.txt", HOD_FN_TRACE},          {"graph", "graph.txt", HOD_FN_GRAPH},
    {"program", "program.txt", HOD_FN_PROGRAM},    {"kernels", "kernels.c", HOD_FN_KERNELS},
    {"timeline", "timeline.svg", HOD_FN_TIMELINE},
};
enum { VIEWS = sizeof views / sizeof *views };

static const struct {
    const char *name;
    hod_trainer_part part;
} parts[] = {{"accumulate", HOD_PART_ACCUMULATE}, {"update", HOD_PART_UPDATE}};
enum { PARTS = sizeof parts / sizeof *parts };

static int find_view(const char *name)
{
    for (int i = 0; i < VIEWS; i++)
        if (strcmp(views[i].name, name) == 0)
            return i;
    hod_refuse("--view %s: wanted trace, graph, program, kernels or timeline", name);
    return -1;
}

typedef struct shown {
    const hod_fn *f;
    hod_fn_view view;
} shown;

static int write_view(const void *what, FILE *out)
{
    const shown *s = what;
    return hod_fn_print(s->f, s->view, out);
}

static void summary(const cli_run *r)
{
    printf("%s: %lld parameters, micro-batch %lld, predicted peak %s\n", r->config.model.name,
           (long long)hod_module_count_parameters(r->net),
           (long long)hod_trainer_micro_batch(r->trainer),
           CLI_BYTES(hod_trainer_predicted_peak(r->trainer)));
    for (int i = 0; i < PARTS; i++) {
        hod_compile_report c = hod_fn_report(hod_trainer_fn(r->trainer, parts[i].part));
        printf("%-11s %4d nodes  %3d kernels  %3d library calls  arena %s (bound %s)  "
               "compiled in %.2f s, %d kernels from the cache\n",
               parts[i].name, c.nodes, c.kernels, c.library_calls, CLI_BYTES(c.arena_bytes),
               CLI_BYTES(c.arena_bound), c.compile_seconds, c.kernels_cached);
    }
}

/* All views of both parts as files in the output directory. */
static int write_all(const cli_run *r)
{
    char name[64], path[HOD_CONFIG_PATH + 64];
    if (hod_directory_prepare(r->config.output) != 0)
        return -1;
    for (int p = 0; p < PARTS; p++) {
        for (int v = 0; v < VIEWS; v++) {
            snprintf(name, sizeof name, "%s-%s", parts[p].name, views[v].file);
            cli_output_path(&r->config, name, path);
            shown s = {hod_trainer_fn(r->trainer, parts[p].part), views[v].view};
            if (cli_write_file(path, write_view, &s) != 0)
                return -1;
            printf("  %s\n", path);
        }
    }
    return 0;
}

static bool names_output(const cli_options *o)
{
    for (int i = 0; i < o->n_overrides; i++)
        if (strncmp(o->overrides[i], "output=", 7) == 0)
            return true;
    return false;
}

static int inspect_step(const cli_options *o, cli_run *r)
{
    int view = o->view ? find_view(o->view) : 0;
    if (view < 0 || cli_config_load(&r->config, o) != 0)
        return -1;
    if (!r->config.compile.enabled) {
        hod_refuse("compile.enabled: false, so there is no compiled step to look at");
        return -1;
    }
    if ((names_output(o) && cli_output_check(r->config.output) != 0) || cli_run_open(r) != 0 ||
        hod_trainer_prepare(r->trainer, r->train) != 0)
        return -1;
    if (o->view)
        return hod_fn_print(hod_trainer_fn(r->trainer, HOD_PART_ACCUMULATE), views[view].view,
                            stdout);
    summary(r);
    return names_output(o) ? write_all(r) : 0;
}

static int run(const cli_options *o)
{
    const char *dot = strrchr(o->file, '.');
    cli_run r = {0};
    int rc = dot && strcmp(dot, ".safetensors") == 0 ? inspect_tensors(o) : inspect_step(o, &r);
    cli_run_close(&r);
    return rc == 0 ? CLI_DONE : cli_fail(cli_setup_status());
}

const cli_command cli_inspect = {
    .name = "inspect",
    .argument = "FILE",
    .text = "tensors of a checkpoint, or what a config's step is compiled to",
    .help =
        "For FILE.safetensors: names, types and shapes. For a config: the compiled step in "
        "figures;\n"
        "with --view one view of it on standard output, with --output DIR all of them as files.\n"
        "The views are of the micro-batch that is chosen. Kernels are shown without the preamble\n"
        "that is put before them, src/codegen/preamble.h, so they do not compile alone.\n",
    .flags = CLI_VIEW | CLI_OUTPUT,
    .run = run,
};
