"""Feed-forward layers of decoders, by the weights of a layer: dense ones, mixtures of experts, shared experts."""

from hetgym.graph.generators.blocks import add
from hetgym.graph.generators.network import Value
from hetgym.graph.generators.run import Run, Stock
from hetgym.graph.language_model import Layer
from hetgym.graph.ops import Tensor


def feed_forward(run: Run, at: str, x: Value, layer: Layer, stock: Stock) -> Value | None:
    """The sum of the dense layer, the experts and the shared experts that a layer has; None if it has none."""
    parts = [
        dense(run, at, x, stock),
        mixture(run, at, x, layer.top, stock),
        shared_expert(run, at, x, stock),
    ]
    found = [part for part in parts if part is not None]
    if len(found) < 2:
        return found[0] if found else None
    y = add(run.net, at + "shared_add", found[0], found[1])
    return y if len(found) == 2 else add(run.net, at + "dense_add", y, found[2])


def dense(run: Run, at: str, x: Value, stock: Stock, suffix: str = "") -> Value | None:
    """Two products with an activation between them, which a third may gate (SwiGLU; Shazeer, arXiv 2002.05202)."""
    net, inner = run.net, x.tensor.shape[-1]
    gate, up = (stock.rows(f"ffn_{part}{suffix}", inner) for part in ("gate", "up"))
    shape = stock.shape(f"ffn_down{suffix}")
    wide = shape[1] if len(shape) == 2 and shape[0] == inner else 0
    if not wide or up not in (wide, 2 * wide) or gate not in (0, wide):
        return None
    if gate and up == wide:
        y = run.project(stock, f"ffn_gate{suffix}", at + "gate_proj", x)
        y = net.one(at + "act", "Swish", [y], y.tensor.shape)
        z = run.project(stock, f"ffn_up{suffix}", at + "up_proj", x)
        y = net.one(at + "mul", "Mul", [y, z], z.tensor.shape)
    elif up == wide:
        y = run.project(stock, f"ffn_up{suffix}", at + "up_proj", x)
        y = net.one(at + "act", "Gelu", [y], y.tensor.shape)
    else:
        y = _split_gate(run, at, run.project(stock, f"ffn_up{suffix}", at + "gate_up_proj", x))
    return run.project(stock, f"ffn_down{suffix}", at + "down_proj", y)


def _split_gate(run: Run, at: str, y: Value) -> Value:
    """The gated product of the two halves of a result."""
    half = (*y.tensor.shape[:-1], y.tensor.shape[-1] // 2)
    gate, up = run.net.add(at + "split", "View", [y], half, half)
    gate = run.net.one(at + "act", "Swish", [gate], half)
    return run.net.one(at + "mul", "Mul", [gate, up], half)


def shared_expert(run: Run, at: str, x: Value, stock: Stock) -> Value | None:
    """The expert of all tokens, with a gate if it has one."""
    y = dense(run, at + "shared_expert.", x, stock, "_shexp")
    if y is None or not stock.shape("ffn_gate_inp_shexp"):
        return y
    gate = run.project(stock, "ffn_gate_inp_shexp", at + "shared_expert_gate", x)
    gate = run.net.one(at + "shared_expert_act", "Sigmoid", [gate], gate.tensor.shape)
    return run.net.one(at + "shared_expert_mul", "Mul", [y, gate], y.tensor.shape)


def mixture(run: Run, at: str, x: Value, top: int, stock: Stock) -> Value | None:
    """Tokens sorted by expert, grouped products, and the weighted sum of the results of each token's experts."""
    net = run.net
    batch, tokens, hidden = x.tensor.shape
    down = stock.shape("ffn_down_exps")
    experts = stock.rows("ffn_gate_inp", hidden)
    if len(down) != 3 or not 0 < top <= experts == down[0] or down[1] != hidden:
        return None
    wide = down[2]
    firsts = [stock.shape(f"ffn_{part}_exps") for part in ("gate_up", "gate", "up")]
    if firsts not in (
        [(experts, 2 * wide, hidden), (), ()],
        [(), *[(experts, wide, hidden)] * 2],
        [(), (), (experts, wide, hidden)],
    ):
        return None
    chosen, rows = (batch, tokens, top), batch * tokens * top
    scores = run.project(stock, "ffn_gate_inp", at + "gate", x)
    scores = net.one(at + "softmax", "Softmax", [scores], scores.tensor.shape, axis=-1)
    correction = stock.take("exp_probs_b", at + "correction")
    share, expert = net.add(at + "top", "TopK", [scores, *correction], chosen, Tensor(chosen, "int64"))
    total = net.one(at + "top_sum", "ReduceSum", [share], (batch, tokens, 1), axis=-1)
    share = net.one(at + "top_share", "Div", [share, total], chosen)
    ids = Tensor((rows,), "int64")
    _, order = net.add(at + "sort", "TopK", [expert], ids, ids)
    counts = net.one(at + "counts", "ReduceSum", [expert], Tensor((experts,), "int32"))
    offsets = net.one(at + "offsets", "CumSum", [counts], Tensor((experts,), "int32"))
    y = net.one(at + "permute", "Gather", [x, order], (rows, hidden), axis=0)
    y = _gated_experts(run, at + "experts.", y, offsets, wide, stock)
    y = _grouped(run, at + "experts.", "down", y, offsets, hidden, stock)
    y = net.one(at + "unpermute", "Gather", [y, order], (*chosen, hidden), axis=0)
    y = net.one(at + "weigh", "Mul", [y, share], (*chosen, hidden))
    return net.one(at + "mix", "ReduceSum", [y], x.tensor.shape, axis=-2)


def _gated_experts(run: Run, at: str, y: Value, offsets: Value, wide: int, stock: Stock) -> Value:
    """The first products of all experts, with their activation."""
    if stock.shape("ffn_gate_up_exps"):
        return _split_gate(run, at, _grouped(run, at, "gate_up", y, offsets, 2 * wide, stock))
    if not stock.shape("ffn_gate_exps"):
        y = _grouped(run, at, "up", y, offsets, wide, stock)
        return run.net.one(at + "act", "Gelu", [y], y.tensor.shape)
    gate = _grouped(run, at, "gate", y, offsets, wide, stock)
    gate = run.net.one(at + "act", "Swish", [gate], gate.tensor.shape)
    up = _grouped(run, at, "up", y, offsets, wide, stock)
    return run.net.one(at + "mul", "Mul", [gate, up], up.tensor.shape)


def _grouped(run: Run, at: str, part: str, y: Value, offsets: Value, width: int, stock: Stock) -> Value:
    """A product of the rows of each expert with its own matrix."""
    name = f"{at}{part}_proj"
    weight, *bias = stock.take(f"ffn_{part}_exps", name)
    return run.net.one(name, "GroupedMatMul", [y, weight, offsets, *bias], (y.tensor.shape[0], width), transB=1)
