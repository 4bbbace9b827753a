/* The table of keys and what a value can be. */
#ifndef HOD_IO_CONFIG_KEYS_H
#define HOD_IO_CONFIG_KEYS_H

#include "base/base.h"
#include <hod/config.h>

typedef enum hod_value_kind {
    HOD_VALUE_NAME,     /* char [HOD_CONFIG_NAME], one of `choices` where there are some */
    HOD_VALUE_PATH,     /* char [HOD_CONFIG_PATH] */
    HOD_VALUE_INT,      /* int64_t in low..high */
    HOD_VALUE_AUTO,     /* the same, or `auto`, HOD_AUTO */
    HOD_VALUE_SEED,     /* uint64_t */
    HOD_VALUE_NUMBER,   /* double in low..high */
    HOD_VALUE_SHARE,    /* double in low..high, high excluded */
    HOD_VALUE_FLAG,     /* bool */
    HOD_VALUE_CHOICE,   /* an enum: the place in `choices` */
    HOD_VALUE_FRACTION, /* an enum as above, or a number in 0..1 with the double at `offset_more` */
    HOD_VALUE_SET,      /* uint32_t: bits in the order of `choices` */
    HOD_VALUE_BYTES,    /* int64_t */
    HOD_VALUE_PERIOD,   /* hod_period */
    HOD_VALUE_INTS,     /* hod_int_list, each in low..high */
    HOD_VALUE_NUMBERS,  /* hod_number_list, each in low..high, high excluded */
} hod_value_kind;

typedef struct hod_config_key {
    const char *path; /* "optimizer.lr" */
    hod_value_kind kind;
    size_t offset;
    const char *fallback; /* the default, as one would write it */
    const char *meaning;
    double low, high;
    const char *choices; /* "sgd|adam|adamw" */
    size_t offset_more;
} hod_config_key;

extern const hod_config_key hod__config_keys[];
enum { HOD_CONFIG_KEYS_MAX = 64 };
int hod__config_key_count(void);

/* The row of a path, -1: none. */
int hod__config_find(const char *path);
/* Is "path." the beginning of some key? */
bool hod__config_is_group(const char *path);
/* The key or group that `path` may have been meant to be, NULL: none is near. Written to buf. */
const char *hod__config_nearest(const char *path, char *buf, size_t cap);

/* A value as it was written: one text, or a list of texts. */
typedef struct hod_config_value {
    bool is_list;
    int n;
    const char *text[HOD_CONFIG_LIST + 1];
} hod_config_value;

enum { HOD_CONFIG_WHY = 256 };
/* Stores a value; -1 and the reason, which does not name the key, when it is none for this key. */
int hod__config_set(hod_config *c, const hod_config_key *k, const hod_config_value *v,
                    char why[HOD_CONFIG_WHY]);
/* The field as YAML text. */
void hod__config_show(const hod_config *c, const hod_config_key *k, hod_text *out);

#endif
