"""Regressor: the interface of the fits behind learned cost models, and the checks that they share."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.errors import ArtefactError, require

Arrays = Mapping[str, npt.NDArray[Any]]


@runtime_checkable
class Regressor(Protocol):
    """A map from features of an operator to the logarithm of the ratio of its run time to the physical bound.

    The columns of ``x`` are ``hetgym.costs.features.FEATURES``; the target is
    log(seconds / (max(FLOPs / peak, bytes / bandwidth) + floor)). A regressor sees neither operators nor devices, and
    its whole state is a few plain arrays.
    """

    name: ClassVar[str]

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """Fit to measurements.

        Args:
            x: [n, f] features.
            y: [n] log ratios.
            groups: [n] shape group of each row; inner cross-validation does not divide groups.
            seed: seed of all randomness; equal seeds give equal arrays, bit for bit.

        Raises:
            ArtefactError: no rows, lengths that do not match, or a number that is not finite.
        """
        ...

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """[n] log ratios, finite and within the fitted ones; [n] True where a row lies in the range of the fitted rows.

        Rows are [n, f] features; other numbers of columns than in the fit are an ArtefactError.
        """
        ...

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as float64, float32 and int32 arrays."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from :meth:`arrays`, which may come from anywhere.

        Raises:
            ArtefactError: an array is missing, unexpected, of the wrong dtype or shape, or holds a number out of range.
        """
        ...


def check_rows(x: FloatArray, y: FloatArray, groups: IntArray) -> None:
    """Refuse (ArtefactError) no rows, lengths that do not match, and numbers that are not finite."""
    if x.ndim != 2 or not len(x) or y.shape != (len(x),) or groups.shape != (len(x),):
        raise ArtefactError(f"measurements: shapes {x.shape}, {y.shape} and {groups.shape}, expected [n, f], [n], [n]")
    bad = ~(np.isfinite(x).all(axis=1) & np.isfinite(y))
    if bad.any():
        raise ArtefactError(f"measurements: row {int(np.argmax(bad))} holds a number that is not finite")


def check_columns(x: FloatArray, columns: int, who: str) -> None:
    """Refuse (ArtefactError) features whose number of columns differs from that of the fit."""
    if x.ndim != 2 or x.shape[1] != columns:
        raise ArtefactError(f"{who}: features of shape {x.shape}, expected {columns} columns")


def grouped_folds(groups: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """[n] part of each row in a cross-validation, 0 .. folds - 1, of nearly equal sizes; no group is in two of them.

    Groups, in shuffled order from the largest to the smallest, each go to the part with the fewest rows. With fewer
    groups than ``folds`` there are fewer parts.
    """
    _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    filled = np.zeros(min(folds, len(sizes)), np.int64)
    part = np.zeros(len(sizes), np.int32)
    for group in order:
        part[group] = np.argmin(filled)
        filled[part[group]] += sizes[group]
    return np.asarray(part[member], np.int32)


def checked(
    arrays: Arrays,
    name: str,
    who: str,
    shape: tuple[int | None, ...],
    dtype: npt.DTypeLike = np.float64,
    low: float = -np.inf,
    high: float = np.inf,
) -> npt.NDArray[Any]:
    """One array of an artefact; ArtefactError if it is missing or of another shape (None: any size), dtype or range."""
    if name not in arrays:
        raise ArtefactError(f"{who}: array {name!r} is missing")
    array = arrays[name]
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype):
        found = getattr(array, "dtype", type(array).__name__)
        raise ArtefactError(f"{who}: array {name!r} is {found}, expected {np.dtype(dtype)}")
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise ArtefactError(f"{who}: array {name!r} has shape {array.shape}, expected ({expected})")
    if not (np.isfinite(array) & (array >= low) & (array <= high)).all():
        raise ArtefactError(f"{who}: array {name!r} holds numbers that are not between {low:g} and {high:g}")
    return array


def refuse_others(arrays: Arrays, known: Iterable[str], who: str) -> None:
    """Refuse (ArtefactError) an artefact with arrays that the model does not know."""
    odd = sorted(ascii(name) for name in set(arrays) - set(known))
    if odd:
        raise ArtefactError(f"{who}: unexpected arrays {', '.join(odd)}")


@contextmanager
def one_thread(purpose: str) -> Iterator[Any]:
    """PyTorch with gradients on one thread, on which equal seeds give equal fits; MissingExtra without PyTorch."""
    torch: Any = require("torch", "torch", purpose)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.enable_grad():
            yield torch
    finally:
        torch.set_num_threads(threads)


def settled(y: FloatArray, low: float, high: float) -> FloatArray:
    """Clip log ratios to limits and round them to 1e-9.

    The last bits of sums of products depend on the number of rows that are computed together. Rounding makes
    predictions independent of that.
    """
    return np.asarray(np.round(np.clip(y, low, high), 9) + 0.0, np.float64)  # no negative zeros
