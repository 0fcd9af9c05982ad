"""Types of results: every expression has the shape, dtype and memory order that PyTorch gives it."""

from __future__ import annotations

import ast

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensorMode  # noqa: E402

from hetgym.graph.graphnet_graph import Nodes, type_of  # noqa: E402
from hetgym.graph.graphnet_nodes import Tracer  # noqa: E402
from hetgym.graph.graphnet_text import Statement  # noqa: E402
from hetgym.graph.pt2_nodes import Node  # noqa: E402
from hetgym.graph.torch_functions import FUNCTIONS  # noqa: E402
from hetgym.graph.torch_layouts import tensor  # noqa: E402

OPERANDS = {
    "x": ((2, 6, 8, 4), "float32"), "h": ((2, 6, 8, 4), "float16"), "b": ((8, 1), "float32"), "i": ((3, 5), "int64"),
    "m": ((2, 6, 8, 4), "bool"), "w": ((10, 4), "float32"), "v": ((4,), "float32"), "k": ((12, 3, 3, 3), "float32"),
    "u": ((6, 5, 2, 2), "float32"), "d": ((6, 1, 3), "float32"), "s": ((2, 6, 9), "float32"), "z": ((), "float64"),
    "n": ((), "int32"), "c": ((6, 2, 4), "float32"), "o": ((1, 8), "float32"), "e": ((6,), "float32"),
    "image": ((2, 8, 6, 6), "float32"), "q": ((4, 4), "float32"), "vol": ((1, 6, 4, 4, 4), "float32"),
    "k3": ((2, 6, 3, 3, 3), "float32"), "t3": ((6, 3, 3, 3, 3), "float32"),
}  # fmt: skip

TEXT = """
x + b; x * 2.0; 2 - x; i + 1; i / 2; i // 2; i * 0.5; x ** 2; x + z; h + n; h + z; n + 1.0; -x; ~m; x == 1; i > x[0, :3, :5, 0]
m & m; torch.logical_and(m, m); torch.pow(x, 3.0); torch.div(x, b); torch.div(i, 2, rounding_mode='floor')
torch.maximum(x, b); torch.max(x, b); x.max(); x.max(-1)[0]; torch.max(x, dim=1, keepdim=True)[1]; x.min(dim=0).values
x.amax(1); x.argmax(dim=-1); x.topk(2, -1)[1]; torch.sort(x, 2)[0]; x.cumsum(1); m.cumsum(1); torch.cumprod(x, dim=1)
x.mean((2, 3), keepdim=True); x.sum(1); m.sum(-1); x.sum(); torch.mean(x, 1, True); x.var(1); x.std(-1, keepdim=True)
torch.var_mean(x, dim=1, keepdim=True)[1]; x.norm(p=2, dim=-1, keepdim=True); torch.any(m, dim=1); m.all(); i.prod()
x.logsumexp(-1); x.softmax(dim=-1); torch.nn.functional.softmax(h, dim=1, dtype=torch.float32); torch.log_softmax(x, 1)
torch.exp(i); torch.rsqrt(x); torch.sigmoid(h); x.relu(); torch.nn.functional.gelu(x, approximate='tanh'); x.clamp(0, 1)
torch.nn.functional.silu(x.transpose(1, 2)); torch.where(m, x, 0.0); x.masked_fill(m, -1.0); torch.addcmul(x, x, b)
x.float(); h.to(torch.float32); x.type_as(h); x.to(torch.float16); x.long(); i.bool(); x.half(); x.double()
torch._C._nn.linear(x, w, None); torch.nn.functional.linear(h, w.half()); torch.matmul(x, x.transpose(-2, -1)); x @ v
torch.matmul(x, q); v @ q; torch.bmm(c, c.mT); q.mm(q); q.mv(v)
torch.addmm(v, q, q); c.baddbmm(batch1=c, batch2=q.expand(6, 4, 4), beta=1.0)
torch.functional.einsum('bhsd,bhtd->bhst', x, x); torch.functional.einsum('...d,kd->...k', x, w); torch.outer(v, e)
torch._C._nn.scaled_dot_product_attention(x, x, x)
torch.nn.functional.embedding(i, w, None, None, 2.0, False, False); torch.nn.functional.layer_norm(x, (4,), v, v, 1e-05)
torch.nn.functional.layer_norm(x.transpose(1, 2), (4,), v, v); torch.nn.functional.group_norm(x, 3, e, e, 1e-05)
torch.nn.functional.batch_norm(x, e, e, e, e, False, 0.1, 1e-05); torch.rms_norm(x, (4,), v)
torch.conv2d(image, k.new_zeros(12, 8, 3, 3), None, (2, 2), (1, 1), (1, 1), 1); torch.conv2d(x, k, None, 1, 'same', 1, 2)
torch.conv2d(image.permute(0, 2, 3, 1)[:, :, :, :6].contiguous().permute(0, 3, 1, 2), k, None, (1, 1), (0, 0), (1, 1), 2)
torch.conv1d(s, d, None, (2,), (1,), (1,), 6); torch.conv_transpose2d(x, u, None, (2, 2), (1, 1), (0, 0), 1, (1, 1))
torch.conv3d(vol, k3, None, (1, 1, 1), (1, 1, 1)); torch.conv_transpose3d(vol, t3, None, (2, 2, 2))
torch.nn.functional.max_pool2d(image, 3, 2, 1, 1, ceil_mode=False, return_indices=False); torch.nn.functional.max_pool2d(image, 3, 2, 0, 1, ceil_mode=True)
torch._C._nn.avg_pool2d(image, 3, 2, 1, True, True, None); torch.nn.functional.max_pool1d(s, 2, 2, 0, 1)
torch.nn.functional.adaptive_avg_pool2d(x, 1); torch.nn.functional.adaptive_avg_pool2d(image, (None, 3)); torch.nn.functional.adaptive_avg_pool3d(vol, (1, 2, 1))
torch.nn.functional.interpolate(image, None, 2.0, 'nearest', None, recompute_scale_factor=None); torch.nn.functional.interpolate(image, (5, 9), None, 'bilinear', False); torch.nn.functional.interpolate(image, size=3, mode='bicubic')
torch._C._nn.pad(x, (1, 0), 'constant', None); torch._C._nn.pad(x, (0, 0, 1, 2, -1, 0), 'constant', 0); torch.pixel_shuffle(image, 2); torch.nn.functional.pixel_unshuffle(image, 2)
torch.nn.functional.unfold(image, kernel_size=(3, 3), stride=(2, 2), padding=1); torch.nn.functional.fold(torch.nn.functional.unfold(image, 2, stride=2), output_size=(6, 6), kernel_size=(2, 2), stride=(2, 2))
torch.cat([x, x], dim=1); torch.cat((x, h), -1); torch.stack((x, x), dim=-1); torch.nn.functional.glu(x, dim=1); torch.roll(x, shifts=(-3, -3), dims=(1, 2)); x.flip(1)
x.repeat(1, 2, 1, 1); x.repeat([3, 1, 1, 1, 1]); v.tile([2, 2]); x.repeat_interleave(2, -1); torch.repeat_interleave(x, 2, 1); x.index_select(1, i[0])
torch.gather(x[0, 0], 1, i[:, :4]); w[i]; x[:, i]; x[:, i, :, i]; x[0, :, i[0, :4]]; x[:, None]; x[..., 0]; x[0]; x[:, -1, 1:]; x[:, ::2]; x[..., None, :]; x[slice(None, None, None), 1]
x.view(2, -1); x.view((12, 32)); x.reshape(2, 6, -1); x.transpose(1, 2).reshape(2, 8, 24); x.transpose(1, 2).flatten(2); x.flatten(1, -1); x.transpose(0, 1).reshape(6, 2, 32); x.unflatten(1, (2, -1)); x.view_as(m)
x.permute(0, 2, 3, 1); torch.permute(x, (3, 2, 1, 0)); x.transpose(-1, -2); q.t(); q.T; x.mT; torch.movedim(x, 1, -1); x.movedim((0, 1), (-1, -2)); torch.swapaxes(x, 0, 1)
x.contiguous(); x.transpose(1, 2).contiguous(); x.clone(); x.detach(); o.expand(3, -1); o.expand(2, 3, 8); b.expand_as(x[:, :, :, :1]); torch.broadcast_to(o, (4, 8)); v.expand(3, 4) + 1
o.squeeze(0); o.squeeze(); x.squeeze(0); x.unsqueeze(-1); x.unsqueeze(1); x.narrow(1, 2, 3); x.select(1, 2); x.split(4, dim=1)[1]; x.split([1, 2, 3], 1)[2]; x.chunk(4, dim=1)[-1]; x.unbind(0)[1]; x.tensor_split(4, -2)[0]; x.tensor_split((1, 3), 1)[1]
x.diagonal(0, 1, 2); s.unfold(-1, 3, 2); torch.functional.meshgrid(v, e, indexing='ij')[1]; torch.functional.meshgrid(v, e, indexing='xy')[0]; torch.functional.split(x, 4, dim=1)[1]
torch.arange(5); torch.arange(1, 10, 2, dtype=torch.float32); torch.arange(0.0, 1.0, 0.25); torch.zeros(2, 3); torch.ones((2, 3), dtype=torch.bool); torch.full((2,), 1.5); torch.full((2,), 1); torch.eye(3); torch.linspace(0, 1, 5); torch.tensor([[1, 2], [3, 4]]); torch.tensor(0.5); torch.zeros_like(x.transpose(1, 2)); x.new_ones((2, 2)); x.new_zeros(3, dtype=torch.int64); x.new_full((2,), 0.0)
torch.tril(q, diagonal=-1); torch.triu(m[0, 0]); x.scatter(1, i.new_zeros(2, 6, 8, 4), 1.0); torch.nn.functional.one_hot(i, 7); x.index_add(1, i[0], x[:, :5]); torch.diff(x, dim=1, n=1, prepend=x[:, :1])
torch.nn.functional.normalize(x, p=2, dim=-1); x.real; torch._C._fft.fft_fftn(v); torch.isnan(x); x.transpose(1, 3) * 2 + b.T.reshape(1, 1, 1, 8)[..., :6]; (x.permute(0, 2, 3, 1) + e).mean(-1)
"""  # noqa: E501

EXPRESSIONS = [text.strip() for line in TEXT.strip().split("\n") for text in line.split(";")]


def ours(text: str) -> object:
    inputs = [Node("placeholder", name, meta={"val": tensor(*held)}) for name, held in OPERANDS.items()]
    tracer = Tracer("model.py", Nodes(inputs, {node.name: node for node in inputs}, {}))
    nodes = tracer.follow([Statement(1, text, ast.parse(f"return {text}").body[0])])
    (result,) = nodes[-1].args
    return result


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_types_are_those_of_pytorch(text: str) -> None:
    with FakeTensorMode():
        kinds = {name: (shape, getattr(torch, dtype)) for name, (shape, dtype) in OPERANDS.items()}
        operands = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in kinds.items()}
        theirs = eval(compile(text, "<text>", "eval"), {"torch": torch, **operands})
    found = ours(text)
    assert isinstance(found, Node)
    held = type_of(found)
    assert (held.shape, held.dtype) == (tuple(theirs.shape), str(theirs.dtype).removeprefix("torch."))
    if theirs.numel() > 1:
        axes = [axis for axis, size in enumerate(theirs.shape) if size > 1]
        assert [held.strides[axis] for axis in axes] == [theirs.stride(axis) for axis in axes]


def test_every_operator_has_parameters_that_a_call_can_name() -> None:
    assert len(FUNCTIONS) > 200
    for name, function in FUNCTIONS.items():
        assert name == function.name and function.parameters and all(function.parameters), name
        assert len(set(function.parameters)) == len(function.parameters), name
