"""The operators that have golden cases: OpInfo's name, the parameters' names in order, options.

A row is  "name[.variant] parameter..."  with options in brackets at its end:

    b       its tensors broadcast together; b2: over all but the last two dimensions
    d       elements are made distinct: PyTorch does not say which of equal ones it takes
    i, B    also on i64, on bool; I: on i64 only
    r       reference inputs, too (special values, odd shapes)
    nz      no zero-size cases are made
    N       a number: at most so many cases (default 24)
    L       f32 may be off by 1e-5, for its sums are long; else by 1e-6
    lN      at most N elements in the inputs, and in the results (default 700)

A name with a leading "+" is a maker of opinfo_made.py or opinfo_made_nets.py; the cases of
"<operator>_more" and "<operator>_tensors_more" join the operator's. A last parameter with a leading "*" takes
all positional arguments that are left.
"""
import dataclasses
import re

import torch


@dataclasses.dataclass
class Row:
    op: str
    names: list
    name: str = ""
    variant: str = ""
    made: object = None
    broadcasts: bool = False
    core: int = 0
    ties: bool = True
    reference: bool = False
    zero: bool = True
    dtypes: tuple = (torch.float64,)
    most: int = 24
    limit: int = 700
    long: bool = False


F = "nn.functional."
LONG = ["matmul", "conv", "norm", "attention", "rnn", "loss"]  # families of long sums
UNARY = """neg abs sign reciprocal exp expm1 log log1p sqrt rsqrt square sin cos tanh sigmoid erf
floor ceil round trunc isnan isinf isfinite"""
POINTWISE = f"""
logical_not input [r i B]
{F}relu input [r]
{F}silu input [r]
{F}mish input [r]
{F}hardswish input [r]
+hardswish_more input
{F}hardsigmoid input [r]
{F}relu6 input [r]
{F}hardtanh input min_val max_val [r]
{F}leaky_relu input negative_slope [r]
+leaky_relu_more input negative_slope
{F}elu input alpha [r]
+elu_more input alpha
{F}gelu input approximate [r]
+gelu_more input approximate
{F}softplus input beta threshold [r]
+softplus_more input beta threshold
{F}logsigmoid input [r]
{F}dropout input p training
add input other [b r i 40]
sub input other [b r i 40]
rsub input other [b]
mul input other [b r i 40]
div.no_rounding_mode input other [b r 40]
div.trunc_rounding input other [b]
div.floor_rounding input other [b]
floor_divide input other [b]
remainder input other [b]
fmod input other [b]
pow input exponent [b r 40]
maximum input other [b r i 40]
minimum input other [b r i 40]
eq input other [b r i]
ne input other [b r i]
lt input other [b r i]
le input other [b r i]
gt input other [b r i]
ge input other [b r i]
logical_and input other [b r i B]
logical_or input other [b r i B]
logical_xor input other [b r i B]
bitwise_and input other [b I B]
bitwise_or input other [b I B]
bitwise_xor input other [b I B]
bitwise_not input [I B]
bitwise_left_shift input other [b I]
bitwise_right_shift input other [b I]
clamp input min max [b i 40]
+clamp_more input min max
+clamp_tensors_more input min max
clamp_min input other [b]
clamp_max input other [b]
where input condition other [b]
+where_more input condition other [b]
lerp input end weight [b 40]
float input
double input
half input
bfloat16 input
bool input
int input
long input
byte input
"""
REDUCE = f"""
sum input dim keepdim [r i 40]
mean input dim keepdim [r 40]
var input dim [40]
var.unbiased input unbiased
std input dim [40]
std.unbiased input unbiased
max.reduction_no_dim input [r]
max.reduction_with_dim input dim keepdim [r]
min.reduction_no_dim input [r]
min.reduction_with_dim input dim keepdim [r]
amax input dim keepdim [r 40]
amin input dim keepdim [r 40]
prod input dim keepdim [r 40]
argmax input dim keepdim [r]
argmin input dim keepdim [r]
any input dim keepdim [r B]
all input dim keepdim [r B]
count_nonzero input dim
norm input p dim keepdim [48]
norm.inf input p dim keepdim
norm.fro input p dim keepdim
linalg.vector_norm input ord dim keepdim [60]
logsumexp input dim keepdim [40]
cumsum input dim [r i 40]
cumprod input dim [40]
softmax input dim [40]
log_softmax input dim [40]
"""
MOVEMENT = f"""
reshape input shape
view input shape
permute input dims
transpose input dim0 dim1
expand input size
+expand_more input size
expand_as input other
broadcast_to input size
+broadcast_to_more input size
slice input dim start end step
+slice_more input dim start end step
select input dim index
narrow input dim start length
{F}pad.constant input pad mode value [40]
{F}pad.reflect input pad mode value
{F}pad.replicate input pad mode value
{F}pad.circular input pad mode value
cat tensors dim
stack tensors dim
split input split_size dim
split.list_args input split_size dim
split_with_sizes input split_sizes dim
chunk input chunks dim
unbind input dim
flip input dims
roll input shifts dims
{F}unfold input kernel_size dilation padding stride [48]
+fold input output_size kernel_size dilation padding stride
unfold input dimension size step
tril input diagonal
triu input diagonal
squeeze input dim
squeeze.multiple input dim
unsqueeze input dim
movedim input source destination
flatten input start_dim end_dim
unflatten input dim sizes
repeat input repeats [40]
tile input dims [40]
repeat_interleave input repeats dim
contiguous input
clone input
"""
INDEX = f"""
gather input dim index
scatter input dim index src
scatter_add input dim index src
index_select input dim index
index_add input dim index source
take_along_dim input indices dim
masked_fill input mask value [b]
{F}one_hot input num_classes [I]
{F}embedding weight input [l2000]
"""
SORT = f"""
sort input dim descending [d 60]
+sort_more input dim descending stable
argsort input dim descending [d 60]
topk input k dim largest sorted [d 40]
unique input [d 80]
nonzero input [40]
bincount input weights minlength [I]
searchsorted sorted_sequence input [d 80]
+nms boxes scores iou_threshold [nz]
"""
MATMUL = f"""
matmul input other [b2 40]
+matmul_more input other [b2]
mm input mat2
bmm input mat2 [l2000]
mv input vec
dot input other
outer input vec2
einsum operands equation [40]
+einsum_more operands equation
addmm input mat1 mat2 beta alpha
addmv input mat1 mat2 beta alpha
baddbmm input mat1 mat2 beta alpha [l2000]
{F}bilinear input1 input2 weight bias
cdist x1 x2 p compute_mode [l2000]
{F}linear input weight bias
"""
CONV = f"""
{F}conv1d input weight bias stride padding dilation groups [l2000 40]
+conv1d_more input weight bias stride padding dilation groups [l2000]
{F}conv2d input weight bias stride padding dilation groups [l2000 60]
+conv2d_more input weight bias stride padding dilation groups [l2000]
+conv2d_asymmetric input weight padding stride
{F}conv_transpose1d input weight bias stride padding output_padding groups dilation [l2000 40]
+conv_transpose1d_more input weight bias stride padding output_padding groups dilation [l2000]
{F}conv_transpose2d input weight bias stride padding output_padding groups dilation [l2000 60]
+conv_transpose2d_more input weight bias stride padding output_padding groups dilation [l2000]
"""
NORM = f"""
{F}batch_norm input running_mean running_var weight bias training momentum eps [40]
+batch_norm_more input running_mean running_var weight bias training momentum eps [40]
{F}layer_norm input normalized_shape weight bias eps [40]
+layer_norm_more input normalized_shape weight bias eps [40]
{F}group_norm input num_groups weight bias eps [40]
+group_norm_more input num_groups weight bias eps [40]
{F}instance_norm input running_mean running_var weight bias use_input_stats momentum eps [40]
{F}rms_norm input normalized_shape weight eps [40]
+rms_norm_more input normalized_shape weight eps [40]
"""
POOL = f"""
{F}max_pool1d input kernel_size [60]
{F}max_pool2d input kernel_size [100]
+max_pool2d_more input kernel_size [40]
{F}avg_pool1d input kernel_size stride padding ceil_mode count_include_pad [40]
{F}avg_pool2d input kernel_size stride padding ceil_mode count_include_pad divisor_override [60]
+avg_pool2d_more input kernel_size stride padding ceil_mode count_include_pad divisor_override [40]
{F}adaptive_avg_pool1d input output_size
{F}adaptive_avg_pool2d input output_size
{F}adaptive_max_pool1d input output_size return_indices
{F}adaptive_max_pool2d input output_size return_indices [40]
"""
RESAMPLE = f"""
{F}interpolate.nearest input size scale_factor mode align_corners [40]
+interpolate_nearest_more input size scale_factor mode align_corners
{F}interpolate.nearest-exact input size scale_factor mode align_corners
{F}interpolate.linear input size scale_factor mode align_corners [40]
{F}interpolate.bilinear input size scale_factor mode align_corners [40]
+interpolate_bilinear_more input size scale_factor mode align_corners
{F}grid_sample input grid mode padding_mode align_corners [60]
+grid_sample_more input grid mode padding_mode align_corners
+roi_align input boxes output_size spatial_scale sampling_ratio aligned [60]
"""
ATTENTION = f"""
{F}scaled_dot_product_attention query key value attn_mask dropout_p is_causal [l2000 20]
+scaled_dot_product_attention_more query key value attn_mask dropout_p is_causal scale enable_gqa [40]
"""
RNN = """
+lstm input weights hx num_layers bidirectional batch_first lengths [l3000 60]
+gru input weights hx num_layers bidirectional batch_first lengths [l3000 60]
"""
LOSS = f"""
{F}cross_entropy input target [40]
+cross_entropy_more input target weight ignore_index reduction label_smoothing [80]
{F}nll_loss input target [60]
{F}binary_cross_entropy_with_logits input target [40]
{F}binary_cross_entropy input target
{F}mse_loss input target
{F}l1_loss input target
{F}smooth_l1_loss input target
{F}huber_loss input target
{F}kl_div input target [40]
+ctc_loss_more log_probs targets input_lengths target_lengths blank reduction zero_infinity [80]
{F}cosine_similarity input other dim eps
{F}cosine_embedding_loss input other target
{F}triplet_margin_loss anchor positive negative [40]
+focal input target alpha gamma reduction [40]
+dice input target smooth reduction
+dfl input target reduction
+iou input target kind reduction [60]
"""


def options(row, words):
    for w in words:
        if w.isdigit():
            row.most = int(w)
        elif w[0] == "l":
            row.limit = int(w[1:])
        elif w[0] == "b":
            row.broadcasts, row.core = True, int(w[1:] or 0)
        elif w == "d":
            row.ties = False
        elif w == "r":
            row.reference = True
        elif w == "L":
            row.long = True
        elif w == "nz":
            row.zero = False
        elif w == "I":
            row.dtypes = (torch.int64,)
        else:
            row.dtypes += {"i": (torch.int64,), "B": (torch.bool,)}[w]
    return row


def parsed(line, makers):
    line, _, bracket = line.partition("[")
    op, *names = line.split()
    if op[0] == "+":
        joined = re.sub("(_tensors)?_more$", "", op[1:]).replace("interpolate_", "interpolate.")
        row = Row(joined, names, made=makers[op[1:]])
    else:
        known = {o.full_name: o for o in _op_db()}
        info = known[op]
        row = Row("im2col" if op == F + "unfold" else op.replace(F, ""), names, name=info.name, variant=info.variant_test_name)
    return options(row, bracket.rstrip("] ").split())


def _op_db():
    from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def families(makers):
    tables = {
        "pointwise": "\n".join(u + " input [r]" for u in UNARY.split()) + POINTWISE,
        "reduce": REDUCE, "movement": MOVEMENT, "index": INDEX, "sort": SORT, "matmul": MATMUL,
        "conv": CONV, "norm": NORM, "pool": POOL, "resample": RESAMPLE, "attention": ATTENTION,
        "rnn": RNN, "loss": LOSS}
    found = {f: [parsed(line, makers) for line in t.strip().splitlines()]
             for f, t in tables.items()}
    for row in (r for f in LONG for r in found[f]):
        row.long = True
    return found
