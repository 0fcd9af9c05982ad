"""Regressor: what every fit behind a learned cost model offers, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.errors import ArtefactError

Arrays = Mapping[str, npt.NDArray[Any]]


@runtime_checkable
class Regressor(Protocol):
    """A map from features of an operator to the logarithm of its run time over what physics allows.

    The columns of ``x`` are ``hetgym.costs.features.FEATURES``; the target is
    log(seconds / (max(FLOPs / peak, bytes / bandwidth) + floor)). A fit knows neither operators nor
    devices, and its whole state is a few plain arrays.
    """

    name: ClassVar[str]

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """Fit to measurements.

        Args:
            x: [n, f] features.
            y: [n] log ratios.
            groups: [n] shape group of each row; rows of a group never part in inner cross-validation.
            seed: of everything that is random; equal seeds give equal arrays, bit for bit.

        Raises:
            ArtefactError: no rows, lengths that do not match, or a number that is not finite.
        """
        ...

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Predict log ratios.

        Args:
            x: [n, f] features.

        Returns:
            [n] log ratios, finite and within what the fit saw; [n] whether a row lies in the range of
            the rows that were fitted.

        Raises:
            ArtefactError: another number of columns than were fitted.
        """
        ...

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as float64, float32 and int32 arrays."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from :meth:`arrays`, which may come from anywhere.

        Raises:
            ArtefactError: an array is missing, unexpected, of the wrong dtype or shape, or holds a
                number that cannot be.
        """
        ...


def check_rows(x: FloatArray, y: FloatArray, groups: IntArray) -> None:
    """Refuse rows that cannot be fitted.

    Raises:
        ArtefactError: no rows, lengths that do not match, or a number that is not finite.
    """
    if x.ndim != 2 or not len(x) or y.shape != (len(x),) or groups.shape != (len(x),):
        raise ArtefactError(f"measurements: shapes {x.shape}, {y.shape} and {groups.shape}, expected [n, f], [n], [n]")
    bad = ~(np.isfinite(x).all(axis=1) & np.isfinite(y))
    if bad.any():
        raise ArtefactError(f"measurements: row {int(np.argmax(bad))} holds a number that is not finite")


def check_columns(x: FloatArray, columns: int, who: str) -> None:
    """Refuse features in another number of columns than were fitted.

    Raises:
        ArtefactError: so many columns were not fitted.
    """
    if x.ndim != 2 or x.shape[1] != columns:
        raise ArtefactError(f"{who}: features of shape {x.shape}, expected {columns} columns")


def grouped_folds(groups: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """Number the parts of a cross-validation so that no group is in two of them.

    Args:
        groups: [n] group of each row.
        folds: number of parts; fewer where there are fewer groups.
        rng: shuffles the groups.

    Returns:
        [n] part of each row, 0 .. folds - 1, of nearly equal sizes: the largest groups are dealt
        first, each to the part with the fewest rows.
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
    """One array of an artefact, after checking that it is what it should be.

    Args:
        arrays: the artefact.
        name: of the array.
        who: the model, for messages.
        shape: expected sizes; None is any.
        dtype: expected dtype.
        low: smallest legal number.
        high: largest legal number.

    Raises:
        ArtefactError: it is missing, or something else.
    """
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
        raise ArtefactError(f"{who}: array {name!r} holds numbers that are not within {low:g} and {high:g}")
    return array


def refuse_others(arrays: Arrays, known: Iterable[str], who: str) -> None:
    """Refuse an artefact with arrays that the model does not have.

    Raises:
        ArtefactError: there is such an array.
    """
    odd = sorted(ascii(name) for name in set(arrays) - set(known))
    if odd:
        raise ArtefactError(f"{who}: unexpected arrays {', '.join(odd)}")


def settled(y: FloatArray, low: float, high: float) -> FloatArray:
    """Log ratios within limits and rounded to 1e-9.

    Sums of products come out differently in the last bits when other rows stand beside them; a
    prediction must not depend on that.
    """
    return np.asarray(np.round(np.clip(y, low, high), 9) + 0.0, np.float64)  # no negative zeros
