"""Files of other groups, read with suspicion: what is wrong with one is said in a sentence, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """What goes wrong within, as UserError: the file cannot be read, or is no `what`."""
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # readers raise whatever a damaged file leads them to
        raise UserError(f"{path} is no {what}: {error or type(error).__name__}") from error


def read_matlab(path: Path, *names: str) -> dict[str, Any]:
    """The variables of those names that a MATLAB file holds.

    Raises
    ------
    UserError
        The file cannot be read, is none of MATLAB's, or is one of version 7.3.
    """
    with reading(path, "readable MATLAB file"), path.open("rb") as file:
        try:
            content: dict[str, Any] = loadmat(file, variable_names=names)
        except NotImplementedError as error:
            raise UserError(f"{path} is a MATLAB file of version 7.3 (HDF5); save it with -v7") from error
    return content


def real(path: Path, name: str, array: NDArray[Any]) -> Matrix:
    """An array as float64; UserError where it holds no real numbers."""
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise UserError(f"{path}: {name} holds {array.dtype}, not real numbers")
    return array.astype(np.float64)


def size(array: NDArray[Any]) -> str:
    """Shape of an array, in words."""
    return " x ".join(map(str, array.shape))


def increasing(path: Path, time_s: Vector) -> None:
    """Raise UserError where times (K,) are not finite or do not increase."""
    if not np.isfinite(time_s).all():
        raise UserError(f"{path}: {np.sum(~np.isfinite(time_s))} of {len(time_s)} time stamps are not finite")
    back = np.flatnonzero(np.diff(time_s) <= 0.0)
    if len(back):
        first = int(back[0])
        raise UserError(
            f"{path}: time does not increase at {len(back)} of {len(time_s) - 1} steps, "
            f"first from {time_s[first]:.6f} s to {time_s[first + 1]:.6f} s (row {first + 1})"
        )


def in_unit(path: Path, force: Matrix, low: float, high: float, unit: str) -> None:
    """Raise UserError where the median of specific forces (K, 3) is not between half and twice gravity in their unit.

    That of somebody who walks or moves a limb is; in another unit it is not.
    """
    median = float(np.nanmedian(np.linalg.norm(force, axis=1)))
    if not low < median < high:
        raise UserError(
            f"{path}: accelerometer reads {median:.3g} in the median; in {unit} it would be {low:g} to {high:g}"
        )
