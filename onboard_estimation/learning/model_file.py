"""Files of learned models: named arrays, a header that says what they are, and a checksum of both, without pickle.

The header says for which robot and sensors a model is, from which data it was learned, and by which version.
A file is an `.npz` of plain arrays; one of them, `header`, holds JSON as UTF-8 bytes. The same header and arrays give
the same bytes. Whoever loads a file from elsewhere risks a clear message at worst: sizes are limited, nothing is
unpickled, and every number is checked to be finite. One that an older version wrote has no checksum, and is read.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.bounded_file import read_bounded
from onboard_estimation.base.configuration import ConfigurationError, parameter
from onboard_estimation.base.configuration import load as load_configuration
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import versions

Arrays = dict[str, NDArray[np.generic]]

FORMAT_VERSION = 1
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
_HEADER, _CHECKSUM = "header", "checksum"
_SUFFIX = ".npy"
_ROUNDING = 1e-9
_REMEDY = "copy it again or train it anew"
_SAME_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip knows


@dataclass(frozen=True)
class TrainingConditions:
    """The data that a model was trained with."""

    rate_hz: float = parameter(MISSING, "of the training points", unit="Hz")
    duration_s: float = parameter(MISSING, "of all runs together", unit="s")
    point_count: int = parameter(MISSING, "number of training points")
    runs: tuple[str, ...] = parameter(MISSING, "names of the runs, e.g. file names of bags")
    gaits: tuple[str, ...] = parameter(MISSING, "of each run; empty where it is not known")
    hashes: tuple[str, ...] = parameter(MISSING, "SHA-256 of each run's data, hexadecimal")
    input_lowest: tuple[float, ...] = parameter(MISSING, "lower end of the range of each input, in its unit")
    input_highest: tuple[float, ...] = parameter(MISSING, "upper end")


@dataclass(frozen=True)
class ModelHeader:
    """Header of a model."""

    kind: str = parameter(MISSING, "of model, e.g. the form of a salp's residual model")
    robot: str = parameter(MISSING, "name of the robot, as on the command line")
    sensors: tuple[str, ...] = parameter(MISSING, "whose residuals were learned, in the order of the outputs")
    configuration_hash: str = parameter(MISSING, "of the robot's configuration, by whoever trains")
    input_names: tuple[str, ...] = parameter(MISSING, "one for each input")
    input_units: tuple[str, ...] = parameter(MISSING, "one for each input")
    output_names: tuple[str, ...] = parameter(MISSING, "one for each output")
    output_units: tuple[str, ...] = parameter(MISSING, "one for each output")
    training: TrainingConditions = parameter(MISSING, "the data that it was trained with")
    package_version: str = parameter("", "of this package; empty until it is saved")
    created_utc: str = parameter("", "ISO 8601; empty until it is saved")
    format_version: int = parameter(FORMAT_VERSION, "of the file")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str) -> ModelHeader:
        """The header of a file, checked.

        Parameters
        ----------
        where
            Start of error messages.

        Raises
        ------
        UserError
            Another format version, a name too few or too many, a wrong type, or lists that do not fit together.
        """
        found = content.get("format_version")
        if found != FORMAT_VERSION:
            raise UserError(
                f"{where}: format version {found}, this program reads {FORMAT_VERSION}; train it anew, or use version "
                f"{content.get('package_version', 'unknown')} of onboard_estimation, which wrote it"
            )
        try:
            return load_configuration(cls, content)
        except ConfigurationError as error:
            raise UserError(f"{where}: the header: {'; '.join(error.faults)}; train it anew") from error

    def faults(self) -> Iterator[str]:
        """Numbers of values that do not fit together."""
        inputs, conditions = len(self.input_names), self.training
        for name, values, needed in (
            ("input_units", self.input_units, inputs),
            ("output_units", self.output_units, len(self.output_names)),
            ("training.input_lowest", conditions.input_lowest, inputs),
            ("training.input_highest", conditions.input_highest, inputs),
            ("training.hashes", conditions.hashes, len(conditions.runs)),
        ):
            if len(values) != needed:
                yield f"{name} {len(values)}, not {needed}"

    def require(self, robot: str, sensors: tuple[str, ...], configuration_hash: str, where: str) -> None:
        """UserError if the model was trained for another robot, other sensors, or another configuration."""
        if self.robot != robot:
            raise UserError(f"{where}: trained for the robot {self.robot}, not for {robot}; train one for it")
        if self.sensors != sensors:
            raise UserError(
                f"{where}: trained for the sensors {', '.join(self.sensors) or 'none'}, there are "
                f"{', '.join(sensors) or 'none'}; train it with a recording of these"
            )
        if self.configuration_hash != configuration_hash:
            raise UserError(
                f"{where}: trained for another configuration of {robot} (hash {self.configuration_hash[:12]}, here "
                f"{configuration_hash[:12]}): what it learned goes with other parameters. Use that configuration, or "
                "train it anew"
            )


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
    if taken := {_HEADER, _CHECKSUM} & set(content):
        raise UserError(f"model cannot be saved: an array may not be called {', '.join(taken)}")
    version = header.package_version or versions(["onboard_estimation"])["onboard_estimation"]
    created = header.created_utc or datetime.now(timezone.utc).isoformat(timespec="seconds")
    header = replace(header, package_version=version, created_utc=created)
    text = json.dumps(asdict(header), indent=1, sort_keys=True, allow_nan=False).encode()
    entries = {_HEADER: _npy(np.frombuffer(text, dtype=np.uint8))}
    entries |= {name: _npy(value) for name, value in sorted(content.items())}
    entries[_CHECKSUM] = _npy(_checksum(entries))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, entry in entries.items():
            archive.writestr(zipfile.ZipInfo(name + _SUFFIX, _SAME_DATE), entry)
    data = buffer.getvalue()
    if len(data) > LARGEST_FILE_BYTES or len(text) > LARGEST_HEADER_BYTES or len(content) > MOST_ARRAYS:
        raise UserError(
            f"model cannot be saved: {len(content)} arrays, {len(data) / 1e6:.0f} MB, of them {len(text) / 1e6:.1f} MB "
            f"header; at most {MOST_ARRAYS}, {LARGEST_FILE_BYTES / 1e6:.0f} and {LARGEST_HEADER_BYTES / 1e6:.1f}: "
            "take fewer inducing points"
        )
    write_atomically(path, data, f"model {path}")


def load(path: Path, *kinds: str) -> tuple[ModelHeader, Arrays]:
    """Header and arrays of a model, of one of the kinds where any are named.

    Raises
    ------
    UserError
        Not there, not such a file, of another kind, too large, of another format version, damaged, or with numbers
        that are not finite.
    """
    where = f"model {path}"
    data = read_bounded(path, where, LARGEST_FILE_BYTES, "make one with `onboard-estimation train`")
    arrays = _read_arrays(data, where)
    text = arrays.pop(_HEADER, None)
    if text is None or text.dtype != np.uint8 or text.ndim != 1:
        raise UserError(f"{where}: no header, so not a model of `onboard-estimation train`")
    for name, value in arrays.items():
        _check_array(name, value, where)
    header = ModelHeader.from_dict(_parsed(text.tobytes(), where), where)
    if kinds and header.kind not in kinds:
        raise UserError(f"{where}: a model of the kind {header.kind!r}, not {' or '.join(kinds)}")
    return header, arrays


def _read_arrays(data: bytes, where: str) -> Arrays:
    """Arrays and header of a file's bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_ARRAYS + 2:
                raise UserError(f"{where}: {len(infos)} arrays, a model has at most {MOST_ARRAYS}")
            if sum(info.file_size for info in infos) > LARGEST_FILE_BYTES:
                raise UserError(f"{where}: unpacks to more than {LARGEST_FILE_BYTES / 1e6:.0f} MB; not a model")
            entries: dict[str, bytes] = {}
            for info in infos:
                name = info.filename.removesuffix(_SUFFIX)
                if name == info.filename or name in entries:
                    raise UserError(f"{where}: entry {info.filename!r} is not an array, or is there twice")
                if info.compress_type != zipfile.ZIP_STORED:
                    raise UserError(f"{where}: array {name} is compressed, so not written by this program")
                entries[name] = archive.read(info)
            arrays = {name: _array(entry) for name, entry in entries.items()}
    except _DAMAGE as error:
        raise UserError(f"{where}: not a model, or damaged ({error}); {_REMEDY}") from error
    told = arrays.pop(_CHECKSUM, None)
    if told is not None and not np.array_equal(told, _checksum(entries)):
        raise UserError(f"{where}: its content is not that of its checksum: it was changed or damaged; {_REMEDY}")
    return arrays


def _checksum(entries: Mapping[str, bytes]) -> NDArray[np.uint8]:
    """(32,) SHA-256 of the entries and their names."""
    digest = hashlib.sha256()
    for name, entry in sorted(entries.items()):
        if name != _CHECKSUM:
            digest.update(b"%s %d " % (name.encode(), len(entry)) + entry)
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _npy(value: NDArray[np.generic]) -> bytes:
    entry = io.BytesIO()
    np.lib.format.write_array(entry, value, version=(1, 0), allow_pickle=False)
    return entry.getvalue()


def fitting(
    arrays: Mapping[str, NDArray[np.generic]], shapes: Mapping[str, str], where: str, **sizes: int
) -> dict[str, NDArray[np.float64]]:
    """The arrays of these names as float64.

    Parameters
    ----------
    shapes
        Of each, e.g. "3 M M": a letter is a size that is the same wherever it stands, of `sizes` or of the first array.

    Raises
    ------
    UserError
        One lacks or has another shape; begins with `where`.
    """
    if missing := [name for name in shapes if name not in arrays]:
        raise UserError(f"{where}: no array {', '.join(missing)}; train it anew")
    wrong = []
    for name, letters in shapes.items():
        found, wanted = arrays[name].shape, letters.split()
        if len(found) == len(wanted):
            sizes = {**dict(zip(wanted, found, strict=True)), **sizes}
        needed = tuple(int(one) if one.isdigit() else sizes.get(one, one) for one in wanted)
        if found != needed:
            wrong.append(f"{name} {found}, not {needed}")
    if wrong:
        raise UserError(f"{where}: arrays that do not fit together: {'; '.join(wrong)}; train it anew")
    return {name: np.ascontiguousarray(arrays[name], dtype=np.float64) for name in shapes}


def refuse_no_covariance(matrices: NDArray[np.float64], where: str) -> None:
    """UserError, beginning with `where`, where one of (..., n, n) is no covariance, or leaves nothing in doubt."""
    eigenvalues = np.linalg.eigvalsh(matrices)
    if not np.allclose(matrices, np.swapaxes(matrices, -2, -1)):
        raise UserError(f"{where} is no covariance: it is not symmetric; train it anew")
    if (eigenvalues[..., 0] < -_ROUNDING * np.abs(eigenvalues[..., -1])).any():
        raise UserError(f"{where} is no covariance: an eigenvalue is {eigenvalues.min():.3g}; train it anew")
    if not np.trace(matrices, axis1=-2, axis2=-1).all():
        raise UserError(f"{where} is all zero, as if nothing were in doubt; train it anew")


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
    return np.frombuffer(data, dtype).reshape(shape).copy()  # kernels compile anew for arrays that cannot be written


def _check_array(name: str, value: NDArray[np.generic], where: str) -> None:
    if value.dtype not in DTYPES:
        raise UserError(f"{where}: array {name} is of type {value.dtype}, float64 or int64 is needed")
    if value.ndim > MOST_DIMENSIONS:
        raise UserError(f"{where}: array {name} has {value.ndim} dimensions, at most {MOST_DIMENSIONS} are allowed")
    bad = int((~np.isfinite(value.astype(np.float64))).sum())
    if bad:
        raise UserError(f"{where}: {bad} of {value.size} numbers of array {name} are not finite; train it anew")


def _parsed(text: bytes, where: str) -> dict[str, Any]:
    if len(text) > LARGEST_HEADER_BYTES:
        raise UserError(f"{where}: header of {len(text) / 1e6:.1f} MB, at most {LARGEST_HEADER_BYTES / 1e6:.1f}")
    try:
        return {**json.loads(text.decode())}
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{where}: the header is damaged ({error}); {_REMEDY}") from error
