"""The exceptions that hetgym raises on purpose, and helpers for their messages.

All of them derive from :class:`HetgymError`, so ``except hetgym.HetgymError`` catches what hetgym refused and nothing
else. Each also derives from the built-in exception that a caller would expect.
"""

import difflib
import reprlib
from collections.abc import Collection, Iterable
from importlib import import_module
from types import ModuleType

from hetgym._text import plain

LONGEST_MESSAGE = 600  # Most characters of a message, however long the names are that it quotes
LONGEST_QUOTE = 60  # Most characters of a value that shown quotes: about half a line

_HUGE = 10**30  # larger whole numbers are named, not written out


class HetgymError(Exception):
    """Base of all exceptions that hetgym raises on purpose.

    The message is one printable line of at most :data:`LONGEST_MESSAGE` characters, since it may quote a hostile file.
    """

    def __init__(self, message: object = "", *others: object) -> None:
        super().__init__(sentence(str(message)), *others)


class GraphError(HetgymError, ValueError):
    """A dataflow graph is malformed: a cycle, a bad edge, an impossible shape, an unreadable file."""


class PlatformError(HetgymError, ValueError):
    """A platform description is malformed: an unknown key, a missing route, a negative rate."""


class ProblemError(HetgymError, ValueError):
    """A scheduling problem is malformed: a bad cost, an operator that no device can run, a bad file."""


class InvalidSchedule(HetgymError, ValueError):
    """A schedule breaks a rule; the message names the rule and the operators."""


class InvalidSharding(HetgymError, ValueError):
    """A choice of sharding strategies breaks a rule; the message names the rule and the node, the edge or the time."""


class OutOfMemory(HetgymError, RuntimeError):
    """A run needs more memory than a device has; the message names the peak and what is resident."""


class ConfigError(HetgymError, ValueError):
    """A configuration has an unknown key or a value of the wrong type."""


class UnknownArgument(ConfigError, TypeError):
    """An environment has no such argument. Some libraries try theirs, and leave out what a TypeError names."""

    def __init__(self, message: object = "", *others: object) -> None:
        # gymnasium.make raises the error once more, with the values of all arguments behind the sentence.
        super().__init__(str(message).partition(" was raised from the environment creator for ")[0], *others)


class IllegalAction(HetgymError, ValueError):
    """An action that the mask of an environment with ``illegal="raise"`` forbids."""


class UnknownName(HetgymError, ValueError):
    """A registry has no such name; the message suggests the nearest ones."""


class UnsupportedOperator(HetgymError, ValueError):
    """An operator cannot be run here: no kernel computes it, or none for its shapes and dtypes."""


class ArtefactError(HetgymError, ValueError):
    """A fitted model or a table of measurements is damaged, tampered with, or not what it says it is."""


class ProfilingError(HetgymError, RuntimeError):
    """A measurement cannot be made: the measuring process does not start, or the machine refuses it."""


class ExecutionError(HetgymError, RuntimeError):
    """A run on real devices failed; the message names the worker, and the operator if one was under way.

    Attributes:
        worker: name of the device whose worker failed; empty if no single worker did.
        operator: name of the operator that was running; empty if none was.
    """

    def __init__(self, message: str, worker: str = "", operator: str = "") -> None:
        super().__init__(message)
        self.worker = worker
        self.operator = operator


class ClusterError(HetgymError, RuntimeError):
    """A Ray cluster cannot be used: none answers, or a node lacks what the work needs; the message says which."""


class MissingExtra(HetgymError, RuntimeError):
    """A feature needs an optional dependency; the message is the command that installs it."""


class HetgymWarning(UserWarning):
    """hetgym continued despite something that the caller may want to know, such as an unknown operator."""


def unknown_name(what: str, name: object, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not in a registry; it lists the nearest names, or all if none is near.

    Args:
        what: the noun for such names, such as ``"scheduler"``.
        name, known: the name that the caller asked for, and those that exist.

    >>> str(unknown_name("scheduler", "hetf", ["heft", "peft", "donf"]))
    "unknown scheduler 'hetf'; did you mean 'heft'?"
    """
    return UnknownName(f"unknown {what} {shown(name)}; {suggestion(name, known)}")


def check_name(what: str, name: object, known: Collection[str]) -> None:
    """Refuse a name that is not in a registry with :func:`unknown_name`."""
    if name not in known:
        raise unknown_name(what, name, known)


def suggestion(name: object, known: Iterable[str]) -> str:
    """Return ``did you mean …?`` with the nearest known names, or a list of all of them if none is near.

    Upper and lower case make no difference; a name that differs only in case is the only suggestion.

    >>> suggestion("HEFT", ["heft", "peft"]), suggestion("CPU-GPO", ["cpu-gpu"])
    ("did you mean 'heft'?", "did you mean 'cpu-gpu'?")
    """
    names = sorted(known)
    written = name if isinstance(name, str) else shown(name)
    # Of names that differ in case alone, the one that is written most like it.
    likeness = {known_name: difflib.SequenceMatcher(None, written, known_name).ratio() for known_name in names}
    folded = {known_name.casefold(): known_name for known_name in sorted(names, key=likeness.__getitem__)}
    word = written.casefold()
    near = (
        [folded[word]] if word in folded and name not in names else [folded[found] for found in _nearest(word, folded)]
    )
    if near:
        return f"did you mean {' or '.join(repr(n) for n in near)}?"
    return f"known: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"


def _nearest(word: str, known: Iterable[str]) -> list[str]:
    """At most three words that are like a word, and about as like it as the best of them; else those it begins."""
    found = difflib.get_close_matches(word, known, n=3)
    if not found and len(word) > 2:
        return [one for one in known if one.startswith(word)][:3]
    likeness = [difflib.SequenceMatcher(None, one, word).ratio() for one in found]
    return [one for one, ratio in zip(found, likeness, strict=True) if ratio > likeness[0] - 0.15]


def sentence(text: str) -> str:
    r"""Put a text on one printable line, without its middle if it is longer than :data:`LONGEST_MESSAGE`.

    >>> sentence("a\nb\x07")
    'a b\\x07'
    """
    return _clipped(plain(_clipped(text)))


def _clipped(text: str) -> str:
    """Cut the middle out of a long text: the place in the file is at its start, the advice at its end."""
    if len(text) <= LONGEST_MESSAGE:
        return text
    head = 2 * LONGEST_MESSAGE // 3
    return f"{text[: head - 3]} … {text[head - LONGEST_MESSAGE :]}"


def shown(value: object) -> str:
    """Format a value for quoting in a message, in at most :data:`LONGEST_QUOTE` characters.

    >>> shown("x" * 1000), shown(10**400), shown([3, 4])
    ("'xxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxx'", 'a huge number', '[3, 4]')
    """
    if isinstance(value, int):
        return repr(value) if abs(value) < _HUGE else "a huge number"
    if type(value) is str and len(value) < LONGEST_QUOTE // 4:  # the common case, and fast
        return repr(value)
    try:
        text = _SHORT.repr(value)
    except Exception:  # an object whose own repr fails
        text = f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


def size(amount: float, digits: int = 3) -> str:
    """Bytes in the unit that suits them.

    >>> size(102_228_128), size(102_228_128, digits=4), size(12.3)
    ('102 MB', '102.2 MB', '12.3 B')
    """
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if amount >= scale:
            return f"{amount / scale:.{digits}g} {unit}"
    return f"{amount:.{digits}g} B"


class _Short(reprlib.Repr):
    """A repr that abbreviates, including integers too long for Python to convert to text."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = LONGEST_QUOTE
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        return "a huge number" if abs(x) >= _HUGE else repr(x)


_SHORT = _Short()


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say in one line how to install it.

    Args:
        extra: hetgym's extra that brings it.
        purpose: the feature that needs it, with which the message starts.

    Raises:
        MissingExtra: the module is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        raise MissingExtra(f'{purpose} needs {top}: pip install "hetgym[{extra}]"') from error
