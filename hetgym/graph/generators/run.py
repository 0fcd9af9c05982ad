"""A pass of a decoder: its network, caches and positions, and the weights that its operators take."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hetgym.graph.generators.blocks import Shape, linear, norm
from hetgym.graph.generators.network import Network, Value
from hetgym.graph.language_model import Layer, Weight
from hetgym.graph.ops import Tensor


class Stock:
    """Weights of a layer, or around the layers; each is taken once, so what no operator takes is left.

    Args:
        weights: the weights.
        prefix: begin of their names, such as ``blk.3.``.
    """

    def __init__(self, weights: Iterable[Weight], prefix: str = "") -> None:
        self.left = {weight.name: weight for weight in weights}
        self.prefix = prefix

    def shape(self, role: str) -> tuple[int, ...]:
        """Shape of a weight; empty if it is missing."""
        weight = self.left.get(f"{self.prefix}{role}.weight")
        return weight.shape if weight else ()

    def rows(self, role: str, columns: int) -> int:
        """Rows of the weight of a product that takes ``columns`` numbers; 0 if there is none."""
        shape = self.shape(role)
        return shape[0] if len(shape) == 2 and shape[1] == columns else 0

    def take(self, role: str, name: str) -> list[Tensor]:
        """A weight and its bias, as constants of the operator of a name; empty if both are missing."""
        parts = [(part, self.left.pop(f"{self.prefix}{role}{part}", None)) for part in (".weight", ".bias", "")]
        return [Tensor(w.shape, w.dtype, True, name + part) for part, w in parts if w is not None]

    def rest(self, at: str, begin: str = "", but: str = "-") -> list[Tensor]:
        """All weights that are left whose roles begin with some letters, ``but`` one."""
        start, kept = self.prefix + begin, f"{self.prefix}{but}."
        names = [name for name in self.left if name.startswith(start) and not name.startswith(kept)]
        found = [self.left.pop(name) for name in names]
        return [Tensor(w.shape, w.dtype, True, at + w.name.removeprefix(self.prefix)) for w in found]


@dataclass
class Run:
    """A pass of a decoder.

    Args:
        net: the network, to which operators are added.
        shape: sequences and tokens.
        key: dtype of cached keys.
        value: dtype of cached values.
        allocated: whether the constants are those that llama.cpp allocates. Otherwise caches have no padding, and
            tables of rotations and positions are constants, too.
        rotary: whether queries and keys are rotated; otherwise a table of positions is added to words.
        tables: tables of rotations.
    """

    net: Network
    shape: Shape
    key: str
    value: str
    allocated: bool
    rotary: bool
    tables: tuple[Tensor, ...] = ()
    shared: dict[int, tuple[Layer, list[Value], list[Tensor]]] = field(default_factory=dict, init=False)
    """Width of heads -> the last layer with its own keys, these, and their cache."""

    def held(self, own: str, layer: Layer) -> list[Tensor]:
        """Caches of the keys and values of a layer."""
        if self.shape.phase == "forward":
            return []
        cells = layer.cells(self.shape.keys, 1, self.shape.tokens) if self.allocated else self.shape.keys
        sizes = (("key", layer.key_size, self.key), ("value", layer.value_size, self.value))
        place = (self.shape.batch, layer.kv_heads, cells)
        return [Tensor((*place, size), dtype, True, f"{own}{name}_cache") for name, size, dtype in sizes if size]

    def rotated(self, name: str, x: Value) -> Value:
        """Queries or keys, turned by their positions."""
        if not self.rotary:
            return x
        return self.net.one(name, "RotaryEmbedding", [x, *self.tables], x.tensor.shape)

    def norm(self, stock: Stock, role: str, name: str, x: Value) -> Value:
        """A norm; the value itself if the stock has no such weight."""
        weights = stock.take(role, name)
        return norm(self.net, name, x, weights) if weights else x

    def project(self, stock: Stock, role: str, name: str, x: Value) -> Value:
        """A product with a weight of the stock."""
        weight, *bias = stock.take(role, name)
        shape = weight.shape if len(weight.shape) == 2 else (1, weight.size)
        return linear(self.net, name, x, [replace(weight, shape=shape), *bias])
