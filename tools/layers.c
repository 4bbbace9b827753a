/* layers ROOT: does every #include in the tree point down?
 *
 * ROOT/src/LAYERS says which layer may include which (its head explains the form). A quoted
 * include "layer/file.h" is an arrow to that layer; one without a slash stays in its directory;
 * <hod/hod.h> is for the layers marked `public`, which may use nothing of src/. The tool reads
 * lines, not C: an include behind #if counts, and so it should.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAYERS = 64, LINE = 1024, PATH = 4096 };

static struct layer {
    char name[LINE];
    char allowed[2 * LINE]; /* " base tensor ": a space on either side of every name */
} layers[LAYERS];
static int n_layers, n_wrong;

static bool allows(const struct layer *l, const char *name)
{
    char word[LINE + 2];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(l->allowed, word) != NULL;
}

static bool known(const char *name)
{
    for (int i = 0; i < n_layers; i++)
        if (strcmp(layers[i].name, name) == 0)
            return true;
    return false;
}

/* Judges the include of `target` on a line of `path`, a file of layer l. */
static void judge(const struct layer *l, const char *path, int line, char open, const char *target)
{
    const char *why = NULL;
    char first[LINE];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(target, "/"), target);
    if (open == '<')
        why = strcmp(target, "hod/hod.h") == 0 && !allows(l, "public") ? "name the header you mean"
                                                                       : NULL;
    else if (strstr(target, ".."))
        why = "path with ..";
    else if (strchr(target, '/') && strcmp(first, l->name) != 0 && !allows(l, first))
        why = known(first) ? "arrow points up or sideways" : "not a layer that LAYERS allows here";
    if (why) {
        fprintf(stderr, "%s:%d: %s includes \"%s\": %s\n", path, line, l->name, target, why);
        n_wrong++;
    }
}

static void read_source(const struct layer *l, const char *path)
{
    char text[LINE], target[LINE], open;
    FILE *f = fopen(path, "r");
    for (int line = 1; f && fgets(text, sizeof text, f); line++)
        if (sscanf(text, " # include %c%1000[^\">]", &open, target) == 2 &&
            (open == '"' || open == '<'))
            judge(l, path, line, open, target);
    if (f)
        fclose(f);
}

static void walk(const struct layer *l, const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH];
        const char *dot = strrchr(e->d_name, '.');
        struct stat st;
        if (e->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= PATH ||
            stat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            walk(l, path);
        else if (dot && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0))
            read_source(l, path);
    }
    if (d)
        closedir(d);
}

/* Takes one line of LAYERS; a name after the colon must have been declared before. */
static void declare(int number, char *text)
{
    text[strcspn(text, "#\n")] = '\0';
    char *rest = strchr(text, ':'), *save = NULL;
    if (!rest || n_layers == LAYERS) {
        if (text[strspn(text, " \t")])
            exit((fprintf(stderr, "src/LAYERS:%d: expected `name: allowed ...`\n", number), 2));
        return;
    }
    *rest++ = '\0';
    struct layer *l = &layers[n_layers];
    snprintf(l->name, sizeof l->name, "%s", text);
    size_t at = (size_t)snprintf(l->allowed, sizeof l->allowed, " ");
    for (char *w = strtok_r(rest, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
        if (!known(w) && strcmp(w, "public") != 0)
            exit((fprintf(stderr, "src/LAYERS:%d: %s stands on no line above\n", number, w), 2));
        at += (size_t)snprintf(l->allowed + at, sizeof l->allowed - at, "%s ", w);
    }
    n_layers++;
}

/* A directory of src/ that LAYERS does not know would escape the check. */
static void find_strangers(const char *src)
{
    DIR *d = opendir(src);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_type == DT_DIR && e->d_name[0] != '.' && !known(e->d_name))
            fprintf(stderr, "%s/%s: not in LAYERS\n", src, e->d_name), n_wrong++;
    if (d)
        closedir(d);
}

int main(int argc, char **argv)
{
    char path[PATH], text[LINE];
    if (argc != 2)
        return fprintf(stderr, "usage: layers ROOT\n"), 2;
    if (chdir(argv[1]) != 0)
        return perror(argv[1]), 2;
    FILE *f = fopen("src/LAYERS", "r");
    if (!f)
        return perror("src/LAYERS"), 2;
    for (int line = 1; fgets(text, sizeof text, f); line++)
        declare(line, text);
    fclose(f);

    for (int i = 0; i < n_layers; i++) {
        struct stat st;
        snprintf(path, sizeof path, "src/%s", layers[i].name);
        walk(&layers[i], stat(path, &st) == 0 ? path : layers[i].name);
    }
    find_strangers("src");
    return n_wrong ? 1 : 0;
}
