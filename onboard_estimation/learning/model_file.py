"""Files of learned models: named arrays and a header that says what they are, without pickle.

A file is an `.npz` of plain arrays; one of them, `header`, holds JSON as UTF-8 bytes. The same header and arrays give
the same bytes. Whoever loads a file from elsewhere risks a clear message at worst: sizes are limited, nothing is
unpickled, and every number is checked to be finite.
"""

from __future__ import annotations

import io
import json
import math
import struct
import tokenize
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.atomic_file import write_atomically
from onboard_estimation.errors import UserError
from onboard_estimation.learning.model_header import ModelHeader

Arrays = dict[str, NDArray[np.generic]]

LARGEST_FILE_BYTES = 64 * 1024 * 1024
LARGEST_HEADER_BYTES = 1024 * 1024
MOST_ARRAYS = 64
MOST_DIMENSIONS = 3
DTYPES = (np.dtype("<f8"), np.dtype("<i8"))
# What zipfile and NumPy raise on damaged files; RuntimeError: encrypted.
_DAMAGE = (
    *(zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, SyntaxError, TypeError),
    *(tokenize.TokenError, OverflowError, struct.error),
)
_HEADER = "header"
_SUFFIX = ".npy"
_SAME_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip knows


def save(path: Path, header: ModelHeader, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write a model, all of it or nothing: whoever reads `path` meanwhile finds the old file or the new one.

    Raises
    ------
    UserError
        The file cannot be written, or the arrays are such that `load` would refuse them.
    """
    content: Arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    for name, value in content.items():
        _check_array(name, value, "model cannot be saved")
    if _HEADER in content:
        raise UserError(f"model cannot be saved: the name {_HEADER} is taken by the header")
    text = json.dumps(header.as_dict(), indent=1, sort_keys=True, allow_nan=False).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, value in [(_HEADER, np.frombuffer(text, dtype=np.uint8)), *sorted(content.items())]:
            entry = io.BytesIO()
            np.lib.format.write_array(entry, value, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(name + _SUFFIX, _SAME_DATE), entry.getvalue())
    data = buffer.getvalue()
    if len(data) > LARGEST_FILE_BYTES or len(text) > LARGEST_HEADER_BYTES or len(content) > MOST_ARRAYS:
        raise UserError(
            f"model cannot be saved: {len(content)} arrays, {len(data) / 1e6:.0f} MB, of them {len(text) / 1e6:.1f} MB "
            f"header; at most {MOST_ARRAYS}, {LARGEST_FILE_BYTES / 1e6:.0f} and {LARGEST_HEADER_BYTES / 1e6:.1f}: "
            "take fewer inducing points"
        )
    write_atomically(path, data, f"model {path}")


def load(path: Path) -> tuple[ModelHeader, Arrays]:
    """Header and arrays of a model.

    Raises
    ------
    UserError
        Not there, not such a file, too large, of another format version, damaged, or with numbers that are not finite.
    """
    where = f"model {path}"
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise UserError(f"{where}: {size / 1e6:.0f} MB, a model has at most {LARGEST_FILE_BYTES / 1e6:.0f}")
        with zipfile.ZipFile(path) as archive:
            arrays = _entries(archive, where)
    except FileNotFoundError:
        raise UserError(f"{where}: there is no such file; make one with `onboard-estimation train`") from None
    except OSError as error:
        raise UserError(f"{where}: cannot be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise UserError(f"{where}: not a model, or damaged ({error}); copy it again or train it anew") from error
    text = arrays.pop(_HEADER, None)
    if text is None or text.dtype != np.uint8 or text.ndim != 1:
        raise UserError(f"{where}: no header, so not a model of `onboard-estimation train`")
    for name, value in arrays.items():
        _check_array(name, value, where)
    return ModelHeader.from_dict(_parsed(text.tobytes(), where), where), arrays


def package_version() -> str:
    """Version of this package, for the header."""
    try:
        return version("onboard_estimation")
    except PackageNotFoundError:  # runs from a source tree that is not installed
        return "not installed"


def _entries(archive: zipfile.ZipFile, where: str) -> Arrays:
    infos = archive.infolist()
    if len(infos) > MOST_ARRAYS + 1:
        raise UserError(f"{where}: {len(infos)} arrays, a model has at most {MOST_ARRAYS}")
    if sum(info.file_size for info in infos) > LARGEST_FILE_BYTES:
        raise UserError(f"{where}: unpacks to more than {LARGEST_FILE_BYTES / 1e6:.0f} MB; not a model")
    arrays: Arrays = {}
    for info in infos:
        name = info.filename.removesuffix(_SUFFIX)
        if name == info.filename or name in arrays:
            raise UserError(f"{where}: entry {info.filename!r} is not an array, or is there twice")
        if info.compress_type != zipfile.ZIP_STORED:
            raise UserError(f"{where}: array {name} is compressed, so not written by this program")
        arrays[name] = _array(archive.read(info))  # which checks the checksum
    return arrays


def _array(content: bytes) -> NDArray[np.generic]:
    """The array of an `.npy`; ValueError where it is none. NumPy's reader would first allocate what the file claims."""
    entry = io.BytesIO(content)
    if np.lib.format.read_magic(entry) != (1, 0):
        raise ValueError("an array of another version of NumPy's format")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(entry)
    data = content[entry.tell() :]
    if dtype not in (*DTYPES, np.uint8) or fortran_order or any(size < 0 for size in shape):
        raise ValueError(f"an array of type {dtype}, shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array of shape {shape} with {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape)


def _check_array(name: str, value: NDArray[np.generic], where: str) -> None:
    if value.dtype not in DTYPES:
        raise UserError(f"{where}: array {name} is of type {value.dtype}, float64 or int64 is needed")
    if value.ndim > MOST_DIMENSIONS:
        raise UserError(f"{where}: array {name} has {value.ndim} dimensions, at most {MOST_DIMENSIONS} are allowed")
    bad = int((~np.isfinite(value.astype(np.float64))).sum())
    if bad:
        raise UserError(f"{where}: {bad} of {value.size} numbers of array {name} are not finite; train it anew")


def _parsed(text: bytes, where: str) -> dict[str, Any]:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not a number")

    if len(text) > LARGEST_HEADER_BYTES:
        raise UserError(f"{where}: header of {len(text) / 1e6:.1f} MB, at most {LARGEST_HEADER_BYTES / 1e6:.1f}")
    try:
        content = json.loads(text.decode(), parse_constant=refuse, parse_float=_finite, parse_int=_moderate)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: the header is damaged ({error}); copy it again or train it anew") from error
    if not isinstance(content, dict):
        raise UserError(f"{where}: the header is damaged (no names in it); copy it again or train it anew")
    return content


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def _moderate(text: str) -> int:
    value = int(text)
    if abs(value) >= 2**53:  # beyond this it would not fit a float without loss
        raise ValueError(f"a whole number of {len(text)} digits is too large")
    return value
