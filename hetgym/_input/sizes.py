"""Parsing of sizes with units, such as ``8GB``."""

import re

from hetgym.errors import ConfigError, shown

BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}  # Unit -> bytes

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")


def parse_size(text: str) -> float:
    """Convert a number with a unit to bytes.

    Raises:
        ConfigError: the text is not a number with a unit of :data:`BYTES`, or the size is 0 or more than 1e18 B.

    >>> parse_size("1.5GB"), parse_size("2 KiB")
    (1500000000.0, 2048.0)
    """
    found = _SIZE.fullmatch(text.strip())
    if not found or found[2] not in BYTES or not 0 < (size := float(found[1]) * BYTES[found[2]]) <= 1e18:
        raise ConfigError(
            f"Invalid size {shown(text)}: expected a positive number with a unit ({', '.join(BYTES)}), such as 8GB"
        )
    return size
