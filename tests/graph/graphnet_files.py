"""Models in GraphNet's format: written by hand, or of a module, as the tracer of PyTorch's compiler prints it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Types = Mapping[str, tuple[list[int], str]]

MLP: dict[str, tuple[list[int], str]] = {
    "L_self_modules_fc1_parameters_weight_": ([64, 32], "float32"),
    "L_self_modules_fc1_parameters_bias_": ([64], "float32"),
    "L_x_": ([4, 32], "float32"),
    "L_self_modules_norm_buffers_scale_": ([64], "float32"),
}
"""Types of the arguments of :data:`MLP_BODY`."""

MLP_BODY = """
l_x_ = L_x_
x = torch._C._nn.linear(
    l_x_,
    L_self_modules_fc1_parameters_weight_,
    L_self_modules_fc1_parameters_bias_,
)
l_x_ = L_self_modules_fc1_parameters_weight_ = None
x_1 = torch.nn.functional.relu(x, inplace=False);  x = None
x_2 = torch.nn.functional.dropout(x_1, 0.5, False, False);  x_1 = None
scaled = x_2 * L_self_modules_norm_buffers_scale_
# the mean of each row
mean = scaled.mean(-1, keepdim=True)
x_2 -= mean
return (x_2,)
"""
"""A layer, its activation and a mean."""


def model_text(body: str, arguments: Types) -> str:
    """A ``model.py``, as GraphNet formats it."""
    kinds = {name: "nn.parameter.Parameter" if "_parameters_" in name else "Tensor" for name in arguments}
    lines = [f"        {name}: torch.{'SymInt' if name[0] == 's' else kinds[name]}," for name in arguments]
    text = "\n".join(f"        {line}" if line.strip() else "" for line in body.strip("\n").split("\n"))
    head = "import torch\n\nfrom torch import device\n\n\nclass GraphModule(torch.nn.Module):\n    def forward(\n"
    return "\n".join([head + "        self,", *lines, "    ):", text, ""])


def types_text(arguments: Types, data: Mapping[str, list[float]] | None = None) -> str:
    """A ``weight_meta.py``."""
    return "\n\n".join(
        f"class Program_weight_tensor_meta_{name}:\n    name = {name!r}\n    shape = {shape}\n"
        f'    dtype = "torch.{dtype}"\n    device = "cpu"\n    mean = None\n    std = None\n'
        f"    data = {(data or {}).get(name)}\n"
        for name, (shape, dtype) in arguments.items()
    )


EVERYTHING: dict[str, tuple[list[int], str]] = {
    "L_x_": ([2, 8, 6, 6], "float32"),
    "L_ids_": ([2, 5], "int64"),
    "L_self_modules_conv_parameters_weight_": ([12, 4, 3, 3], "float32"),
    "L_self_modules_words_parameters_weight_": ([50, 16], "float32"),
    "L_self_modules_attn_parameters_weight_": ([48, 16], "float32"),
    "L_self_modules_attn_parameters_bias_": ([48], "float32"),
    "L_self_modules_out_parameters_weight_": ([16, 16], "float32"),
}
"""Types of the arguments of :data:`EVERYTHING_BODY`."""

EVERYTHING_BODY = """
x = torch.conv2d(L_x_, L_self_modules_conv_parameters_weight_, None, (1, 1), (1, 1), (1, 1), 2)
x_1 = torch.nn.functional.interpolate(torch.nn.functional.max_pool2d(x, 3, 2, 1), None, 2.0, 'nearest')
x_2 = torch.nn.functional.normalize(x_1, p = 2, dim = 1);  x_1 = None
a = x_2.mean((2, 3), keepdim = True).split(12, dim = 1)
x_2 *= 0.5
b = x_2[:, 0]
b.fill_(1.0)
x_2[(slice(None, None, None), 1)] = 0.0
c = torch.cat([x_2.flatten(2), x.flatten(2)], dim = -1).transpose(1, 2).contiguous().reshape(2, -1, 12)
e = torch.nn.functional.embedding(L_ids_, L_self_modules_words_parameters_weight_)
places = torch.arange(5, dtype = torch.int64, device = device(type='cpu'))
mask = (places[None, :] <= places[:, None]) & torch.ones(5, 5, dtype = torch.bool)
e = e.transpose(0, 1)
f = torch.nn.functional.multi_head_attention_forward(
    e, e, e, 16, 4, L_self_modules_attn_parameters_weight_, L_self_modules_attn_parameters_bias_, None, None, False,
    0.0, L_self_modules_out_parameters_weight_, None, training = False, need_weights = True,
)
g = f[0].masked_fill(~mask[:, :1].unsqueeze(-1), float('-inf')).softmax(dim = -1)
h = torch.functional.einsum('sbd,sbe->bde', g, e).chunk(2, dim = 1)
i = torch.stack((h[0], h[1]), dim = 0).unbind(0)[1].max(-1)[0].to(torch.float16)
j = torch.nn.functional.unfold(x, kernel_size = (2, 2), stride = (2, 2)).float().sum(-1)
k = L_ids_[0].item()
m = L_self_modules_words_parameters_weight_[L_ids_[:, :2]] + k
return (c, i, j, m)
"""
"""Calls of many forms."""


def graphnet_models() -> list[tuple[str, Types]]:
    """Models by hand: the text and the types of the arguments."""
    return [(model_text(text, types), types) for text, types in ((MLP_BODY, MLP), (EVERYTHING_BODY, EVERYTHING))]


def write(folder: Path, body: str, arguments: Types, data: Mapping[str, list[float]] | None = None) -> Path:
    """A model's folder; returns the path of its ``model.py``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weight_meta.py").write_text(types_text(arguments, data))
    (folder / "model.py").write_text(model_text(body, arguments))
    return folder / "model.py"


def captured(folder: Path, module: Any, args: tuple[Any, ...]) -> Path:
    """The folder of a module: the text that PyTorch prints of the graph that it would compile."""
    import torch

    found: list[tuple[Any, Any]] = []

    def keep(graph: Any, inputs: Any) -> Any:
        found.append((graph, inputs))
        return graph.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(module.eval(), backend=keep, dynamic=False, fullgraph=True)(*args)
    ((graph, inputs),) = found
    names = [node.target for node in graph.graph.nodes if node.op == "placeholder"]
    types = {name: (list(x.shape), str(x.dtype).removeprefix("torch.")) for name, x in zip(names, inputs, strict=True)}
    lines = ["import torch", "class GraphModule(torch.nn.Module):"]
    lines += [f"    {line}" if line.strip() else "" for line in graph.code.strip("\n").split("\n")]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weight_meta.py").write_text(types_text(types))
    (folder / "model.py").write_text("\n".join(lines))
    return folder
