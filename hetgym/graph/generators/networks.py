"""Neural networks of any size, made of real operators with consistent shapes."""

from hetgym._sums import summed
from hetgym.errors import GraphError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.network import Network, Value, weight_of
from hetgym.graph.generators.tasks import bounded, real, whole, wholes
from hetgym.graph.ops import Tensor


def transformer(
    blocks: int = 2,
    heads: int = 4,
    hidden: int = 256,
    sequence: int = 128,
    batch: int = 1,
    expansion: int = 4,
    vocabulary: int = 30522,
) -> DataflowGraph:
    """Pre-norm transformer encoder with every attention head as a branch of its own.

    1 + blocks · (8 heads + 9) operators, after Vaswani et al., NeurIPS 2017, section 3; projections
    carry no bias.

    Args:
        blocks: encoder blocks.
        heads: attention heads; must divide ``hidden``.
        hidden: width of the residual stream.
        sequence: tokens per sequence.
        batch: number of sequences.
        expansion: width of the feed-forward layer, as a multiple of ``hidden``.
        vocabulary: rows of the embedding table.

    >>> transformer(blocks=2, heads=4)
    DataflowGraph('transformer', 83 operators, 108 edges)
    """
    wholes("transformer", blocks=blocks, heads=heads, hidden=hidden, sequence=sequence, batch=batch)
    wholes("transformer", expansion=expansion, vocabulary=vocabulary)
    bounded("transformer", blocks * (9 * heads + 20), blocks * (10 * heads + 30))
    if hidden % heads:
        raise GraphError(f"transformer: hidden is {hidden}, which {heads} heads do not divide")
    net = Network("transformer")
    stream, wide, depth = (batch, sequence, hidden), (batch, sequence, expansion * hidden), hidden // heads
    per_head, scores = (batch, sequence, depth), (batch, sequence, sequence)
    x = net.one("embedding", "Gather", [weight_of("table", vocabulary, hidden), Tensor(stream[:2], "int64")], stream)
    for b in range(blocks):
        at = f"block{b}."

        def norm(name: str, value: Value, at: str = at) -> Value:
            scale, shift = weight_of(f"{at}{name}.scale", hidden), weight_of(f"{at}{name}.shift", hidden)
            return net.one(at + name, "LayerNormalization", [value, scale, shift], stream)

        def project(name: str, value: Value, inner: int, shape: tuple[int, ...], at: str = at) -> Value:
            return net.one(at + name, "MatMul", [value, weight_of(f"{at}{name}.weight", inner, shape[-1])], shape)

        y = norm("norm1", x)
        outputs = []
        for h in range(heads):
            head = f"head{h}."
            q, k, v = (project(head + name, y, hidden, per_head) for name in ("query", "key", "value"))
            k = net.one(f"{at}{head}transpose", "Transpose", [k], (batch, depth, sequence), perm=(0, 2, 1))
            weights = net.one(f"{at}{head}scores", "MatMul", [q, k], scores)
            weights = net.one(f"{at}{head}scale", "Mul", [weights, weight_of("scale", 1)], scores)
            weights = net.one(f"{at}{head}softmax", "Softmax", [weights], scores, axis=-1)
            outputs.append(net.one(f"{at}{head}context", "MatMul", [weights, v], per_head))
        joined = net.one(at + "concat", "Concat", outputs, stream, axis=-1)
        x = net.one(at + "add1", "Add", [x, project("output", joined, hidden, stream)], stream)
        y = project("up", norm("norm2", x), hidden, wide)
        y = net.one(at + "gelu", "Gelu", [y], wide)
        x = net.one(at + "add2", "Add", [x, project("down", y, expansion * hidden, stream)], stream)
    return net.graph()


def mixture_of_experts(
    blocks: int = 2,
    experts: int = 8,
    hidden: int = 512,
    tokens: int = 1024,
    expansion: int = 4,
    top: int = 2,
    skew: float = 0.5,
) -> DataflowGraph:
    """Feed-forward layers whose tokens pass through a few experts each (Fedus et al., JMLR 23, 2022).

    blocks · (4 experts + 9) operators: a router sends each token to its ``top`` experts, each expert gathers its tokens
    and runs them through two products, and the results are put back in order and summed. How many tokens an expert gets
    is fixed: a share in proportion to 1 / rank^skew.

    Args:
        blocks: layers, one after the other.
        experts: experts of a layer; each has weights of its own.
        hidden: width of the residual stream.
        tokens: tokens that pass through the network.
        expansion: width within an expert, as a multiple of ``hidden``.
        top: experts of a token; at most ``experts``.
        skew: 0 for experts of equal load.

    >>> mixture_of_experts(blocks=2, experts=8)
    DataflowGraph('mixture_of_experts', 82 operators, 116 edges)
    """
    wholes("mixture_of_experts", blocks=blocks, experts=experts, hidden=hidden, tokens=tokens, expansion=expansion)
    whole("mixture_of_experts: top", top)
    real("mixture_of_experts: skew", skew, 0.0, 8.0)
    bounded("mixture_of_experts", blocks * (4 * experts + 9), blocks * (6 * experts + 12))
    if top > experts:
        raise GraphError(f"mixture_of_experts: top is {top}, but there are {experts} experts")
    net = Network("mixture_of_experts")
    stream, wide = (tokens, hidden), expansion * hidden
    weight = [rank**-skew for rank in range(1, experts + 1)]
    load = [max(1, round(top * tokens * share / summed(weight))) for share in weight]
    x: Value | Tensor = Tensor(stream)
    for b in range(blocks):
        at = f"block{b}."
        norms = weight_of(f"{at}norm.scale", hidden), weight_of(f"{at}norm.shift", hidden)
        y = net.one(f"{at}norm", "LayerNormalization", [x, *norms], stream)
        router = weight_of(f"{at}router.weight", hidden, experts)
        scores = net.one(f"{at}router", "MatMul", [y, router], (tokens, experts))
        scores = net.one(f"{at}softmax", "Softmax", [scores], (tokens, experts), axis=-1)
        share, chosen = net.add(f"{at}top", "TopK", [scores], (tokens, top), (tokens, top))
        outputs: list[Value | Tensor] = []
        for e in range(experts):
            own = f"{at}expert{e}."
            up, down = weight_of(f"{own}up.weight", hidden, wide), weight_of(f"{own}down.weight", wide, hidden)
            z = net.one(f"{own}gather", "Gather", [y, chosen], (load[e], hidden), axis=0)
            z = net.one(f"{own}up", "MatMul", [z, up], (load[e], wide))
            z = net.one(f"{own}gelu", "Gelu", [z], (load[e], wide))
            outputs.append(net.one(f"{own}down", "MatMul", [z, down], (load[e], hidden)))
        joined = net.one(f"{at}concat", "Concat", outputs, (summed(load), hidden), axis=0)
        back = net.one(f"{at}order", "Gather", [joined, chosen], (tokens, top, hidden), axis=0)
        weighed = net.one(f"{at}weigh", "Mul", [back, share], (tokens, top, hidden))
        mixed = net.one(f"{at}mix", "ReduceSum", [weighed], stream, axes=(1,), keepdims=0)
        x = net.one(f"{at}add", "Add", [x, mixed], stream)
    return net.graph()


def sharded_product(blocks: int = 4, size: int = 1024, factors: int = 2) -> DataflowGraph:
    """A chain of products of square matrices, cut into square shards (as the graphs of DOPPLER, arXiv 2505.23131).

    Each factor after the first gives blocks^3 products of shards and blocks^2 · (blocks - 1) additions: with the
    defaults 112 operators.

    Args:
        blocks: shards along each side of a matrix.
        size: rows and columns of a shard.
        factors: matrices that are multiplied, at least 2.

    >>> sharded_product(blocks=4)
    DataflowGraph('sharded_product', 112 operators, 96 edges)
    """
    wholes("sharded_product", blocks=blocks, size=size)
    whole("sharded_product: factors", factors, 2)
    bounded("sharded_product", factors * 2 * blocks**3, factors * 3 * blocks**3)
    net = Network("sharded_product")
    shard, grid = (size, size), range(blocks)
    left: dict[tuple[int, int], Value | Tensor] = {(i, k): Tensor(shard) for i in grid for k in grid}
    for factor in range(1, factors):
        right = {(k, j): Tensor(shard) for k in grid for j in grid}
        result: dict[tuple[int, int], Value | Tensor] = {}
        for i in grid:
            for j in grid:
                at = f"{factor}.({i},{j})"
                terms = [net.one(f"product{at}.{k}", "MatMul", [left[i, k], right[k, j]], shard) for k in grid]
                total = terms[0]
                for k in grid[1:]:
                    total = net.one(f"sum{at}.{k}", "Add", [total, terms[k]], shard)
                result[i, j] = total
        left = result
    return net.graph()


def lstm_grid(
    layers: int = 4, steps: int = 12, hidden: int = 256, batch: int = 1, features: int | None = None
) -> DataflowGraph:
    """Stacked LSTM, unrolled in time: cell (l, t) reads from the cells (l - 1, t) and (l, t - 1).

    Cells of one layer share its weights.

    Args:
        layers: stacked layers.
        steps: time steps; ``layers · steps`` operators.
        hidden: units per layer.
        batch: number of sequences.
        features: width of the input; ``hidden`` by default.
    """
    features = hidden if features is None else features
    wholes("lstm_grid", layers=layers, steps=steps, hidden=hidden, batch=batch, features=features)
    bounded("lstm_grid", 12 * layers * steps, 30 * layers * steps)
    net = Network("lstm_grid")
    state = (batch, hidden)
    below: list[Value | Tensor] = [Tensor((batch, features)) for _ in range(steps)]
    for layer in range(layers):
        inner = hidden if layer else features
        weights = [
            weight_of(f"W{layer}", 4 * hidden, inner),
            weight_of(f"R{layer}", 4 * hidden, hidden),
            weight_of(f"B{layer}", 8 * hidden),
        ]
        h: Value | Tensor = Tensor(state)
        cell: Value | Tensor = Tensor(state)
        for t in range(steps):
            h, cell = net.add(f"cell({layer},{t})", "LSTMCell", [below[t], h, cell, *weights], state, state)
            below[t] = h
    return net.graph()


_MODULES = (  # Szegedy et al., CVPR 2015, table 1: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)
_POOL_BEFORE = (2, 7)  # a max pool of stride 2 precedes these modules


def inception(blocks: int = 3, batch: int = 1, resolution: int = 28, channels: int = 192) -> DataflowGraph:
    """Inception modules with the channels of GoogLeNet (Szegedy et al., CVPR 2015, table 1).

    A module has four branches with 14 operators: six convolutions, each followed by a Relu, a max pool, and a Concat
    that joins the branches. Beyond the nine modules of the paper, the last one is repeated.

    Args:
        blocks: number of modules.
        batch: number of images.
        resolution: rows and columns of the first module's input.
        channels: channels of the first module's input.
    """
    wholes("inception", blocks=blocks, batch=batch, resolution=resolution, channels=channels)
    bounded("inception", 14 * blocks, 20 * blocks)
    net = Network("inception")
    side = resolution
    x = net.one("stem.relu", "Relu", [Tensor((batch, channels, side, side))], (batch, channels, side, side))

    def conv(name: str, value: Value, out: int, kernel: int) -> Value:
        weight = weight_of(f"{name}.weight", out, value.tensor.shape[1], kernel, kernel)
        bias, shape = weight_of(f"{name}.bias", out), (batch, out, side, side)
        window = {"kernel_shape": (kernel, kernel), "pads": (kernel // 2,) * 4}
        y = net.one(name, "Conv", [value, weight, bias], shape, **window)
        return net.one(f"{name}.relu", "Relu", [y], shape)

    for block in range(blocks):
        if block in _POOL_BEFORE:
            side = -(-side // 2)
            smaller = (batch, x.tensor.shape[1], side, side)
            x = net.one(f"pool{block}", "MaxPool", [x], smaller, kernel_shape=(3, 3), strides=(2, 2))
        one, reduce3, three, reduce5, five, projection = _MODULES[min(block, len(_MODULES) - 1)]
        at = f"module{block}."
        pooled = net.one(at + "pool", "MaxPool", [x], x.tensor.shape, kernel_shape=(3, 3), strides=(1, 1))
        branches = [
            conv(at + "1x1", x, one, 1),
            conv(at + "3x3", conv(at + "3x3.reduce", x, reduce3, 1), three, 3),
            conv(at + "5x5", conv(at + "5x5.reduce", x, reduce5, 1), five, 5),
            conv(at + "projection", pooled, projection, 1),
        ]
        x = net.one(at + "concat", "Concat", branches, (batch, one + three + five + projection, side, side), axis=1)
    return net.graph()
