"""The nodes of a GraphNet model as they are made, and what a write in place means for the names of a tensor."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetgym._sums import summed
from hetgym.graph.pt2_nodes import Argument, Node, SavedTensor, Schema, Target
from hetgym.graph.torch_calls import bound
from hetgym.graph.torch_functions import FUNCTIONS, Function

MOST_NODES = 1 << 16
"""Most nodes of a model; the longest of GraphNet has some ten thousand."""

MOST_WORK = 1 << 21  # Most values that all statements read, those inside lists included
MOST_ITEMS = 1 << 15  # Most values of a list, those inside lists included
DEEPEST = 60  # Most lists or expressions inside one another

_ITEM = Target("getitem")


@dataclass(frozen=True)
class View:
    """How a value lies in the memory of another one."""

    source: Node
    function: Function
    arguments: Mapping[str, Any]


class Nodes:
    """Makes nodes, and knows which value each name has.

    Args:
        inputs: the nodes of the arguments.
        values: name -> node or number.
        modules: node of a weight -> path of its module.
    """

    def __init__(self, inputs: Iterable[Node], values: Mapping[str, Any], modules: Mapping[str, str]) -> None:
        self.made = list(inputs)
        self.target = ""  # the name that the statement assigns
        self._values: dict[str, Any] = {}
        self._holders: defaultdict[int, set[str]] = defaultdict(set)  # id of a node -> names of its memory
        self._modules = modules
        self._module = ""  # the path around the last weight read
        self._names = Counter(node.name for node in self.made)
        self._work = 0
        for name, value in values.items():
            self.assign(name, value)

    def spend(self, amount: int) -> None:
        """Count work.

        Raises:
            ValueError: the model is too large.
        """
        self._work += amount
        if self._work > MOST_WORK or len(self.made) > MOST_NODES:
            raise ValueError(f"the model has more than {MOST_NODES} nodes, or its statements read too many values")

    def value(self, name: str) -> Any:
        """The value of a name; KeyError if it has none."""
        return self._values[name]

    def assign(self, name: str, value: Any) -> None:
        """Give a name a value."""
        self._values[name] = value
        if isinstance(value, Node):
            self._holders[id(root_of(value))].add(name)

    def forget(self, name: str) -> None:
        """Take a name's value away."""
        self._values.pop(name, None)

    def call(self, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A node, or a list of one for each result of a function that has several.

        Raises:
            ArithmeticError, AttributeError, LookupError, TypeError, ValueError: the arguments do not fit.
        """
        given = bound(function, args, {key: value for key, value in kwargs.items() if key != "inplace"})
        in_place = given.pop("inplace", None) is True or kwargs.get("inplace") is True
        made = self._node(function, given)
        if in_place and isinstance(made, Node) and isinstance(given.get("self"), Node):
            self.write(given["self"], made)
        return made

    def make(self, name: str, *args: Any) -> Any:
        """A call of an operator by its name."""
        return self.call(FUNCTIONS[name], args, {})

    def _node(self, function: Function, given: Mapping[str, Any]) -> Any:
        types = {name: self._typed(value) for name, value in given.items()}
        result = function.rule(types)
        schema = Schema(f"aten::{function.name}", "", tuple(map(Argument, given)))
        meta: dict[str, Any] = {"val": result, "nn_module_stack": self._stack(given.values())}
        target = Target(function.name, schema)
        node = Node("call_function", self._fresh(function.name), target, tuple(given.values()), meta)
        self.made.append(node)
        found = [node]
        if isinstance(result, list):
            found = [
                Node("call_function", self._fresh(f"{node.name}.{k}"), _ITEM, (node, k), {"val": held})
                for k, held in enumerate(result)
            ]
            self.made += found
        source = given.get("self")
        if function.is_view and isinstance(source, Node):
            for item in found:
                item.meta |= {"view": View(source, function, given), "root": root_of(source)}
        return found if isinstance(result, list) else node

    def _typed(self, value: Any) -> Any:
        """A value with types in place of tensors."""
        self.spend(1)
        if isinstance(value, Node):
            return type_of(value)
        return [self._typed(item) for item in value] if isinstance(value, list | tuple) else value

    def _stack(self, values: Iterable[Any]) -> dict[int, tuple[str, str]]:
        """The module of an operator: that of the weight that it reads, else the one around the last weight read."""
        for value in values:
            path = self._modules.get(value.name) if isinstance(value, Node) else None
            if path:
                self._module = path.rpartition(".")[0]
                return {0: (path, "")}
        return {0: (self._module, "")} if self._module else {}

    def _fresh(self, stem: str) -> str:
        """A new name for a node: that which the statement assigns, if it is free."""
        stem = self.target if self.target and not self._names[self.target] else stem
        name = stem
        while self._names[name]:
            self._names[stem] += 1
            name = f"{stem}_{self._names[stem]}"
        self._names[name] = 1
        return name

    def write(self, old: Node, new: Node) -> None:
        """Let every name of the memory in which a tensor lies have what was written to the tensor."""
        root = root_of(old)
        again = {id(old): new}
        if root is not old:
            again[id(root)] = self.make("slice_scatter", root, new)
        for name in sorted(self._holders.pop(id(root), ())):
            value = self._values.get(name)
            if isinstance(value, Node) and root_of(value) is root:
                self.spend(1)
                self.assign(name, self._renewed(value, again))

    def _renewed(self, value: Node, again: dict[int, Node]) -> Node:
        """The same view of what the memory holds now."""
        chain = [value]
        while id(chain[-1]) not in again:
            chain.append(chain[-1].meta["view"].source)
        for item in reversed(chain[:-1]):
            view = item.meta["view"]
            made = self._node(view.function, {**view.arguments, "self": again[id(view.source)]})
            again[id(item)] = made[item.args[1]] if isinstance(made, list) else made
        return again[id(value)]


def root_of(node: Node) -> Node:
    """The node in whose memory a value lies: itself unless it is a view."""
    return node.meta.get("root", node)  # type: ignore[no-any-return]


def type_of(node: Node) -> SavedTensor:
    """The type of a node with one result; TypeError if it has several."""
    held = node.meta["val"]
    if not isinstance(held, SavedTensor):
        raise TypeError("several results where one tensor is due")
    return held


def leaves(value: Any, depth: int = 0) -> int:
    """Number of values in nested lists.

    Raises:
        ValueError: they are nested too deeply.
    """
    if not isinstance(value, list | tuple):
        return 1
    if depth > DEEPEST:
        raise ValueError("lists are nested too deeply")
    return 1 + summed(leaves(item, depth + 1) for item in value)
