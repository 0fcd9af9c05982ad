"""Safe loading of YAML configurations: plain types only, no repeated keys, and a bound on how far aliases expand."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from hetgym._input.config import mapping_of
from hetgym._input.files import as_path, read_bytes
from hetgym.errors import ConfigError, shown

SIZE_LIMIT = 1 << 20  # Largest configuration file that is accepted [byte]
NODE_LIMIT = 1 << 19  # Most values in a document after aliases are expanded: as many as fit in SIZE_LIMIT

DIGIT_LIMIT = 40
"""Longest number that is accepted [characters]; a sexagesimal one of a million characters would take minutes."""

_PLAIN = ("null", "bool", "int", "float", "timestamp", "seq", "map", "str", "merge")


class _Loader(yaml.SafeLoader):
    """SafeLoader for configurations: plain types only, no repeated keys, and bounded expansion of aliases.

    Anchors and aliases are legal. The number of values that they expand to is counted on the parsed nodes before
    values are made; there are never more nodes than bytes in the file.
    """

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            self._count(node, {})
        return node

    def _count(self, node: yaml.Node, known: dict[int, int]) -> int:
        """Number of values that a node expands to; 0 in ``known`` marks a node that is being counted."""
        if id(node) in known:
            if not known[id(node)]:
                raise yaml.MarkedYAMLError(problem="a value contains itself", problem_mark=node.start_mark)
            return known[id(node)]
        known[id(node)] = 0
        total = 1
        if isinstance(node, yaml.ScalarNode) and any("\ud800" <= sign <= "\udfff" for sign in node.value):
            raise yaml.MarkedYAMLError(problem="half of a surrogate pair", problem_mark=node.start_mark)
        if isinstance(node, yaml.CollectionNode):
            for entry in node.value:
                for child in entry if isinstance(entry, tuple) else (entry,):
                    total += self._count(child, known)
        if total > NODE_LIMIT:
            problem = f"aliases unfold to more than {NODE_LIMIT} values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        known[id(node)] = total
        return total

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {shown(key.value)} is written twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """A number of at most :data:`DIGIT_LIMIT` characters."""
        if not isinstance(node, yaml.ScalarNode) or len(node.value) > DIGIT_LIMIT:
            problem = f"a number of more than {DIGIT_LIMIT} characters"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        whole = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in _PLAIN
}
for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_number)


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping; no tag in it can run code.

    Raises:
        ConfigError: the file is missing, unreadable, larger than :data:`SIZE_LIMIT`, invalid YAML (the message gives
            the line), or not a mapping with text as keys.
    """
    content = read_bytes(as_path(path, "a configuration", ConfigError), SIZE_LIMIT, ConfigError)
    try:
        data = yaml.load(content, _Loader)  # a SafeLoader
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:  # values that are none
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(f"{path}{line}: not valid YAML ({problem})") from error
    return dict(mapping_of(data, str(path)))
