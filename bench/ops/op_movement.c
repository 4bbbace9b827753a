/* Movement over what networks hold: images (N,C,H,W), tokens (B,T,D), squares and tables, f32.
 * Views are timed as calls; what would be a view in one of the two only is made solid in both. */
#include "bench/ops/family.h"

/* x images, t tokens, u tokens as (B,T,heads,width of one), m squares, v (B,1,D), table (V,D);
 * their leaves; the indices are named after what they index. */
typedef struct operands {
    hod_tensor *x, *t, *u, *m, *v, *table, *windows;
    hod_tensor *leaf_x, *leaf_t, *leaf_m, *leaf_table;
    hod_tensor *column_of, *row_of, *rows, *columns, *words, *places, *classes, *mask;
    int64_t b, length, d, side, n_words;
} operands;

static hod_tensor *leaf(hod_tensor *t)
{
    return hod_requires_grad(hod_copy(t), true);
}

/* Whole numbers of [0, n). */
static hod_tensor *below(hod_shape shape, int64_t n)
{
    return hod_cast(op_uniform(shape, 0, (double)n), HOD_I64);
}

static int make(int size, operands *o)
{
    hod_shape image = (hod_shape[]){HOD_SHAPE(2, 8, 16, 16), HOD_SHAPE(8, 32, 32, 32),
                                    HOD_SHAPE(16, 64, 56, 56)}[size];
    int64_t b = (int64_t[]){2, 8, 16}[size], length = (int64_t[]){16, 128, 512}[size];
    int64_t d = (int64_t[]){64, 256, 512}[size], side = (int64_t[]){32, 256, 2048}[size];
    int64_t words = (int64_t[]){100, 5000, 50000}[size], heads = (int64_t[]){4, 8, 8}[size];
    *o = (operands){.b = b, .length = length, .d = d, .side = side, .n_words = words};
    o->x = op_uniform(image, -1, 1);
    o->t = op_uniform(HOD_SHAPE(b, length, d), -1, 1);
    o->u = hod_reshape(o->t, HOD_SHAPE(b, length, heads, d / heads));
    o->m = op_uniform(HOD_SHAPE(side, side), -1, 1);
    o->v = op_uniform(HOD_SHAPE(b, 1, d), -1, 1);
    o->table = op_uniform(HOD_SHAPE(words, d), -1, 1);
    o->windows = hod_unfold2d(o->x, 3, .padding = 1);
    o->leaf_x = leaf(o->x);
    o->leaf_t = leaf(o->t);
    o->leaf_m = leaf(o->m);
    o->leaf_table = leaf(o->table);
    o->column_of = below(HOD_SHAPE(side, side / 2), side);
    o->row_of = below(HOD_SHAPE(side / 2, side), side);
    o->rows = below(HOD_SHAPE(side / 2), side);
    o->columns = below(HOD_SHAPE(side / 2), side);
    o->words = below(HOD_SHAPE(b, length), words);
    o->places = below(HOD_SHAPE(b, 1, d), length);
    o->classes = below(HOD_SHAPE(b * length), 100);
    o->mask = hod_lt_scalar(o->m, -0.5);
    return o->windows && o->leaf_table && o->mask && o->classes ? 0 : -1;
}

static hod_tensor *split(hod_tensor *t)
{
    hod_tensor *parts[4];
    return hod_chunk(t, -1, 4, parts) == 0 ? parts[0] : NULL;
}

#define AROUND HOD_SHAPE(0, 0, 1, 2)
#define PAIR(x)                                                                                    \
    2, (hod_tensor *[])                                                                            \
    {                                                                                              \
        x, x                                                                                       \
    }
#define GRAD(leaf, ...) op_gradients(__VA_ARGS__, 1, &o->leaf)
#define VIEWS(ROW)                                                                                 \
    ROW(reshape, hod_reshape(o->t, HOD_SHAPE(-1, o->d)))                                           \
    ROW(flatten, hod_flatten(o->x, 1))                                                             \
    ROW(unflatten, hod_unflatten(o->t, -1, HOD_SHAPE(4, -1)))                                      \
    ROW(squeeze, hod_squeeze(o->v, 1))                                                             \
    ROW(unsqueeze, hod_unsqueeze(o->t, 1))                                                         \
    ROW(transpose, hod_transpose(o->t, 1, 2))                                                      \
    ROW(permute, hod_permute(o->x, 0, 2, 3, 1))                                                    \
    ROW(movedim, hod_movedim(o->x, 1, -1))                                                         \
    ROW(expand, hod_expand(o->v, HOD_SHAPE(o->b, o->length, o->d)))                                \
    ROW(slice, hod_slice(o->t, 1, 1, o->length))                                                   \
    ROW(slice_step, hod_slice_step(o->t, 1, 0, o->length, 2))                                      \
    ROW(narrow, hod_narrow(o->t, -1, 1, o->d / 2))                                                 \
    ROW(select, hod_select(o->t, 1, 0))                                                            \
    ROW(chunk, split(o->t))
#define COPIES(ROW)                                                                                \
    ROW(copy, hod_copy(o->t))                                                                      \
    ROW(copy_transposed, hod_contiguous(hod_transpose(o->m, 0, 1)))                                \
    ROW(copy_to_channels_last, hod_contiguous(hod_permute(o->x, 0, 2, 3, 1)))                      \
    ROW(copy_heads, hod_contiguous(hod_permute(o->u, 0, 2, 1, 3)))                                 \
    ROW(copy_keys, hod_contiguous(hod_permute(o->u, 0, 2, 3, 1)))                                  \
    ROW(copy_expanded, hod_contiguous(hod_expand(o->v, HOD_SHAPE(o->b, o->length, o->d))))         \
    ROW(copy_slice, hod_contiguous(hod_slice(o->t, -1, 1, o->d / 2)))                              \
    ROW(copy_step, hod_contiguous(hod_slice_step(o->x, 3, 0, 56, 2)))                              \
    ROW(copy_slice_grad, GRAD(leaf_t, hod_copy(hod_slice(o->leaf_t, -1, 1, o->d / 2))))            \
    ROW(concat_first, hod_concat(PAIR(o->x), 0))                                                   \
    ROW(concat_channels, hod_concat(PAIR(o->x), 1))                                                \
    ROW(concat_last, hod_concat(PAIR(o->t), 2))                                                    \
    ROW(concat_grad, GRAD(leaf_x, hod_concat(PAIR(o->leaf_x), 1)))                                 \
    ROW(stack_first, hod_stack(PAIR(o->t), 0))                                                     \
    ROW(stack_last, hod_stack(PAIR(o->t), -1))                                                     \
    ROW(flip_last, hod_flip(o->x, 3))                                                              \
    ROW(flip_first, hod_flip(o->t, 1))                                                             \
    ROW(roll_last, hod_roll(o->x, 3, 3))                                                           \
    ROW(roll_middle, hod_roll(o->t, 3, 1))                                                         \
    ROW(roll_grad, GRAD(leaf_t, hod_roll(o->leaf_t, 3, 1)))                                        \
    ROW(repeat, hod_repeat(o->m, 2, 2))                                                            \
    ROW(tile, hod_tile(o->t, HOD_SHAPE(1, 2, 1)))                                                  \
    ROW(repeat_interleave, hod_repeat_interleave(o->t, 2, 1))                                      \
    ROW(repeat_interleave_last, hod_repeat_interleave(o->t, 2, -1))                                \
    ROW(repeat_grad, GRAD(leaf_t, hod_repeat(o->leaf_t, 1, 2, 1)))                                 \
    ROW(tril, hod_tril(o->m, 0))                                                                   \
    ROW(triu, hod_triu(o->m, 1))                                                                   \
    ROW(tril_grad, GRAD(leaf_m, hod_tril(o->leaf_m, 0)))
#define WINDOWS(ROW)                                                                               \
    ROW(pad_one_side, hod_pad(o->t, 1, 1, 0, 0))                                                   \
    ROW(pad_constant, hod_pad_around(o->x, AROUND, AROUND, HOD_PAD_CONSTANT, 0.5))                 \
    ROW(pad_reflect, hod_pad_around(o->x, AROUND, AROUND, HOD_PAD_REFLECT, 0))                     \
    ROW(pad_replicate, hod_pad_around(o->x, AROUND, AROUND, HOD_PAD_REPLICATE, 0))                 \
    ROW(pad_circular, hod_pad_around(o->x, AROUND, AROUND, HOD_PAD_CIRCULAR, 0))                   \
    ROW(pad_constant_grad,                                                                         \
        GRAD(leaf_x, hod_pad_around(o->leaf_x, AROUND, AROUND, HOD_PAD_CONSTANT, 0.5)))            \
    ROW(pad_reflect_grad,                                                                          \
        GRAD(leaf_x, hod_pad_around(o->leaf_x, AROUND, AROUND, HOD_PAD_REFLECT, 0)))               \
    ROW(windows, hod_contiguous(hod_windows(o->m, 1, 16, 8)))                                      \
    ROW(windows_grad, GRAD(leaf_m, hod_contiguous(hod_windows(o->leaf_m, 1, 16, 8))))              \
    ROW(unfold2d, hod_unfold2d(o->x, 3, .padding = 1))                                             \
    ROW(unfold2d_step, hod_unfold2d(o->x, 2, .stride = 2))                                         \
    ROW(unfold2d_grad, GRAD(leaf_x, hod_unfold2d(o->leaf_x, 3, .padding = 1)))                     \
    ROW(fold2d, hod_fold2d(o->windows, hod_tensor_shape(o->x).d[2], hod_tensor_shape(o->x).d[3],   \
                           3, .padding = 1))
#define INDEXED(ROW)                                                                               \
    ROW(gather_columns, hod_gather(o->m, 1, o->column_of))                                         \
    ROW(gather_rows, hod_gather(o->m, 0, o->row_of))                                               \
    ROW(gather_grad, GRAD(leaf_m, hod_gather(o->leaf_m, 1, o->column_of)))                         \
    ROW(take_along, hod_take_along(o->t, o->places, 1))                                            \
    ROW(scatter_columns, hod_scatter(o->m, 1, o->column_of, o->m))                                 \
    ROW(scatter_value, hod_scatter_value(o->m, 1, o->column_of, 2))                                \
    ROW(scatter_grad, GRAD(leaf_m, hod_scatter(o->leaf_m, 1, o->column_of, o->m)))                 \
    ROW(scatter_add_columns, hod_scatter_add(o->m, 1, o->column_of, o->m))                         \
    ROW(scatter_add_rows, hod_scatter_add(o->m, 0, o->row_of, o->m))                               \
    ROW(index_select_rows, hod_index_select(o->m, 0, o->rows))                                     \
    ROW(index_select_columns, hod_index_select(o->m, 1, o->columns))                               \
    ROW(index_select_grad, GRAD(leaf_m, hod_index_select(o->leaf_m, 0, o->rows)))                  \
    ROW(embedding, hod_embedding(o->table, o->words))                                              \
    ROW(embedding_grad, GRAD(leaf_table, hod_embedding(o->leaf_table, o->words)))                  \
    ROW(one_hot, hod_one_hot(o->classes, 100))                                                     \
    ROW(masked_fill, hod_masked_fill(o->m, o->mask, -1e9))                                         \
    ROW(masked_fill_grad, GRAD(leaf_m, hod_masked_fill(o->leaf_m, o->mask, -1e9)))
#define OPS(ROW) VIEWS(ROW) COPIES(ROW) WINDOWS(ROW) INDEXED(ROW)

OP_FAMILY(movement, OPS, "4 k elements", "256 k", "3 to 4 M")
