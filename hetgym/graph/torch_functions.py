"""PyTorch's operators by ATen's names: the parameters of each, and the rule for the types of its results.

This module does not import torch.
"""

import re
from typing import NamedTuple

from hetgym.graph import torch_shapes as shapes
from hetgym.graph import torch_views as views
from hetgym.graph import torch_windows as windows
from hetgym.graph.torch_shapes import Rule


class Function(NamedTuple):
    """A function of PyTorch."""

    name: str  # ATen's name
    parameters: tuple[str, ...]  # of the arguments, by position; one with * takes all the rest
    rule: Rule  # types of its results
    is_view: bool = False  # whether its results lie in the memory of its first argument


_COMPUTE: tuple[tuple[Rule, str], ...] = (
    (shapes.same, "relu(self,inplace) relu6(self,inplace) hardtanh(self,min_val,max_val,inplace) clamp(self,min,max) "
     "clamp_min(self,min) clamp_max(self,max) leaky_relu(self,negative_slope,inplace) elu(self,alpha,inplace) "
     "selu(self,inplace) celu(self,alpha,inplace) hardswish(self,inplace) hardsigmoid(self,inplace) "
     "gelu(self,approximate) silu(self,inplace) mish(self,inplace) prelu(self,weight) "
     "threshold(self,threshold,value) neg abs floor ceil round(self,decimals) trunc sign sgn square bitwise_not "
     "batch_norm(input,running_mean,running_var,weight,bias,training,momentum,eps) "
     "instance_norm(input,running_mean,running_var,weight,bias) roll(self,shifts,dims) flip(self,dims*) "
     "tril(self,diagonal) triu(self,diagonal) fill(self,value) zero scatter(self,dim,index,src) "
     "scatter_add(self,dim,index,src) scatter_reduce(self,dim,index,src,reduce) index_put(self,indices,values) "
     "index_copy(self,dim,index,source) index_add(self,dim,index,source) index_fill(self,dim,index,value) "
     "slice_scatter(self,src,dim) clone(self,memory_format) _weight_norm(self,g,dim) "
     "nan_to_num(self,nan,posinf,neginf) bernoulli normal uniform(self,from,to) copy(self,src) "
     "channel_shuffle(self,groups) local_response_norm(self,size,alpha,beta,k)"),
    (shapes.plain, "layer_norm(input,normalized_shape,weight,bias,eps) group_norm(input,num_groups,weight,bias,eps) "
     "rms_norm(input,normalized_shape,weight,eps)"),
    (shapes.floats, "special_logit logit exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin "
     "acos atan sinh cosh erf erfinv tanh sigmoid softplus(self,beta,threshold) softsign logsigmoid log_sigmoid "
     "softmax(self,dim) log_softmax(self,dim) _softmax(self,dim) deg2rad"),
    (shapes.truths, "eq(self,other) ne(self,other) gt(self,other) lt(self,other) ge(self,other) le(self,other) "
     "logical_and(self,other) logical_or(self,other) logical_xor(self,other) logical_not isnan isinf isfinite "
     "isin(elements,test_elements)"),
    (shapes.binary, "add(self,other,alpha) sub(self,other,alpha) rsub(self,other) mul(self,other) pow(self,exponent) "
     "remainder(self,other) fmod(self,other) floor_divide(self,other) maximum(self,other) minimum(self,other) "
     "bitwise_and(self,other) bitwise_or(self,other) bitwise_xor(self,other) atan2(self,other) "
     "addcmul(self,tensor1,tensor2,value) addcdiv(self,tensor1,tensor2,value) lerp(self,end,weight) "
     "bitwise_left_shift(self,other) bitwise_right_shift(self,other)"),
    (shapes.quotient, "div(self,other,rounding_mode)"),
    (shapes.chosen, "where(condition,self,other)"),
    (shapes.masked, "masked_fill(self,mask,value)"),
    (shapes.real_of, "real"),
    (shapes.complex_of, "fft_fftn(self) fft_fft(self) fft_fft2(self) fft_ifft2(self) fft_ifftn(self)"),
    (shapes.reduction, "mean(self,dim,keepdim) sum(self,dim,keepdim) prod(self,dim,keepdim) "
     "logsumexp(self,dim,keepdim) var(self,dim,unbiased,keepdim) std(self,dim,unbiased,keepdim) "
     "norm(self,p,dim,keepdim) linalg_vector_norm(self,ord,dim,keepdim) nansum(self,dim,keepdim)"),
    (shapes.truth, "any(self,dim,keepdim) all(self,dim,keepdim)"),
    (shapes.places, "argmax(self,dim,keepdim) argmin(self,dim,keepdim)"),
    (shapes.largest, "amax(self,dim,keepdim) amin(self,dim,keepdim)"),
    (shapes.moments, "var_mean(self,dim,unbiased,keepdim) std_mean(self,dim,unbiased,keepdim)"),
    (shapes.first_of_axis, "topk(self,k,dim,largest,sorted) sort(self,dim,descending)"),
    (shapes.places, "count_nonzero(self,dim)"),
    (shapes.running, "cumsum(self,dim) cumprod(self,dim)"),
    (windows.convolution, "conv1d(input,weight,bias,stride,padding,dilation,groups) "
     "conv2d(input,weight,bias,stride,padding,dilation,groups) "
     "conv3d(input,weight,bias,stride,padding,dilation,groups)"),
    (windows.transposed_convolution, " "
     "conv_transpose1d(input,weight,bias,stride,padding,output_padding,groups,dilation) "
     "conv_transpose2d(input,weight,bias,stride,padding,output_padding,groups,dilation) "
     "conv_transpose3d(input,weight,bias,stride,padding,output_padding,groups,dilation)"),
    *((windows.pooling(rank), f"max_pool{rank}d(self,kernel_size,stride,padding,dilation,ceil_mode,return_indices) "
       f"avg_pool{rank}d(self,kernel_size,stride,padding,ceil_mode,count_include_pad)") for rank in (1, 2, 3)),
    *((windows.adaptive(rank), f"adaptive_avg_pool{rank}d(self,output_size) adaptive_max_pool{rank}d(self,output_size)")
      for rank in (1, 2, 3)),
    (windows.resized, "interpolate(self,size,scale_factor,mode,align_corners)"),
    (shapes.linear, "linear(input,weight,bias)"),
    (shapes.matrix_product, "matmul(self,other) bmm(self,mat2) mm(self,mat2) mv(self,vec) dot(self,tensor)"),
    (shapes.outer_product, "outer(self,vec2)"),
    (shapes.added_product, "addmm(self,mat1,mat2,beta,alpha) baddbmm(self,batch1,batch2,beta,alpha)"),
    (shapes.einsum, "einsum(equation,tensors*)"),
    (shapes.attention, "scaled_dot_product_attention(query,key,value,attn_mask,dropout_p,is_causal,scale)"),
    (shapes.rows_of, "embedding(weight,indices)"),
    (shapes.joined, "cat(tensors,dim) concat(tensors,dim)"),
    (shapes.stacked, "stack(tensors,dim)"),
    (shapes.differences, "diff(self,n,dim,prepend,append)"),
    (windows.padded, "pad(self,pad,mode,value)"),
    (shapes.repeated, "repeat(self,repeats*) tile(self,repeats*)"),
    (shapes.interleaved, "repeat_interleave(self,repeats,dim)"),
    (shapes.selected, "index_select(self,dim,index)"),
    (shapes.gathered, "gather(self,dim,index) take_along_dim(self,index,dim)"),
    (windows.shuffled, "pixel_shuffle(self,upscale_factor)"),
    (windows.unshuffled, "pixel_unshuffle(self,downscale_factor)"),
    (shapes.gated, "glu(self,dim)"),
    (windows.patches, "im2col(self,kernel_size,dilation,padding,stride)"),
    (windows.image, "col2im(self,output_size,kernel_size,dilation,padding,stride)"),
    (shapes.classes, "one_hot(self,num_classes)"),
    (views.dense, "contiguous(self,memory_format)"),
    (views.cast, "to(self,dtype,other,more) type_as(self,other)"),
    (views.indexed, "index(self,indices)"),
    (views.blank, "zeros(size*) ones(size*) empty(size*) rand(size*) randn(size*)"),
    (views.full, "full(size,fill_value)"),
    (views.blank_like, "zeros_like ones_like empty_like rand_like randn_like full_like(self,fill_value)"),
    (views.new_blank, "new_zeros(self,size*) new_ones(self,size*) new_empty(self,size*) "
     "new_full(self,size,fill_value)"),
    (views.counted, "arange(start,end,step)"),
    (views.spaced, "linspace(start,end,steps)"),
    (views.square, "eye(n,m)"),
    (views.literal, "scalar_tensor(data)"),
)  # fmt: skip

_VIEWS: tuple[tuple[Rule, str], ...] = (
    (views.unchanged, "detach alias dropout(self,p,training,inplace) feature_dropout(self,p,training,inplace) "
     "alpha_dropout(self,p,training,inplace)"),
    (views.viewed, "view(self,shape*) reshape(self,shape*)"),
    (views.viewed_as, "view_as(self,other) reshape_as(self,other)"),
    (views.flattened, "flatten(self,start_dim,end_dim)"),
    (views.unflattened, "unflatten(self,dim,sizes)"),
    (views.swapped, "transpose(self,dim0,dim1) swapaxes(self,dim0,dim1)"),
    (views.transposed, "t numpy_T mT"),
    (views.permuted, "permute(self,dims*)"),
    (views.moved, "movedim(self,source,destination)"),
    (views.expanded, "expand(self,size*) expand_as(self,size) broadcast_to(self,size)"),
    (views.squeezed, "squeeze(self,dim)"),
    (views.unsqueezed, "unsqueeze(self,dim)"),
    (views.narrowed, "narrow(self,dim,start,length)"),
    (views.picked, "select(self,dim,index)"),
    (views.sliced, "slice(self,dim,start,end,step)"),
    (views.parts, "split(self,split_size,dim) split_with_sizes(self,split_size,dim)"),
    (views.chunks, "chunk(self,chunks,dim)"),
    (views.even_parts, "tensor_split(self,indices_or_sections,dim)"),
    (views.unbound, "unbind(self,dim)"),
    (views.diagonal, "diagonal(self,offset,dim1,dim2)"),
    (views.windows, "unfold(self,dimension,size,step)"),
    (views.grids, "meshgrid(tensors*,indexing)"),
    (views.common, "broadcast_tensors(tensors*)"),
)  # fmt: skip

_ROW = re.compile(r"(\w+)(?:\(([^)]*)\))?")

FUNCTIONS: dict[str, Function] = {
    match[1]: Function(match[1], tuple((match[2] or "self").split(",")), rule, is_view)
    for rows, is_view in ((_COMPUTE, False), (_VIEWS, True))
    for rule, text in rows
    for match in _ROW.finditer(text)
}
"""ATen's name -> the function."""

MAX_ALONG, MIN_ALONG = (Function(name, ("self", "dim", "keepdim"), shapes.largest_along) for name in ("max", "min"))
"""``max`` and ``min`` along an axis, which also give the places."""

MAX_OF_ALL, MIN_OF_ALL = (Function(name, ("self",), shapes.largest) for name in ("max", "min"))
"""``max`` and ``min`` of all elements."""
