/* json_lines EVENT KEY...: checks that standard input is JSON objects, one a line, each with an
 * "event", and prints the keys of those named EVENT, tab-separated, floats with 17 digits.
 *
 *     build/hod train c.yaml --json | json_lines update update loss
 *
 * Status 1, with the line's number, for anything else on a line, a key that is missing, or no such
 * event at all.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong(long line, const char *what, const char *which)
{
    fprintf(stderr, "json_lines: line %ld: %s%s\n", line, what, which);
    return 1;
}

static void print(const json_t *v)
{
    if (json_is_string(v))
        printf("%s", json_string_value(v));
    else if (json_is_real(v))
        printf("%.17g", json_real_value(v));
    else if (json_is_integer(v))
        printf("%lld", (long long)json_integer_value(v));
    else if (json_is_array(v))
        printf("[%zu]", json_array_size(v));
    else
        printf("%s", json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
}

int main(int argc, char **argv)
{
    char *text = NULL;
    size_t cap = 0;
    long line = 0, found = 0;
    if (argc < 2)
        return fprintf(stderr, "usage: json_lines EVENT KEY... < events\n"), 2;
    while (getline(&text, &cap, stdin) > 0) {
        json_error_t error;
        json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        const char *event = json_string_value(json_object_get(o, "event"));
        line++;
        if (!o)
            return wrong(line, error.text, "");
        if (!event)
            return wrong(line, "no \"event\"", "");
        if (strcmp(event, argv[1]) == 0) {
            found++;
            for (int i = 2; i < argc; i++) {
                const json_t *v = json_object_get(o, argv[i]);
                if (!v)
                    return wrong(line, "no key ", argv[i]);
                printf(i > 2 ? "\t" : "");
                print(v);
            }
            printf("\n");
        }
        json_decref(o);
    }
    free(text);
    return found ? 0 : wrong(line, "the last; no event ", argv[1]);
}
