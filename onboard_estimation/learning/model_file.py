"""Files of learned models: named arrays and a header that says what they are, without pickle.

The header says for which robot and sensors a model is, from which data it was learned, and by which version.
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
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.atomic_file import write_atomically
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
_HEADER = "header"
_SUFFIX = ".npy"
_SAME_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip knows


@dataclass(frozen=True)
class TrainingConditions:
    """The data that a model was trained with.

    Attributes
    ----------
    rate_hz
        Of the training points.
    duration_s
        Of all runs together.
    point_count
        Number of training points.
    runs
        Names of the runs, e.g. file names of bags.
    gaits
        Of each run; empty where it is not known.
    hashes
        SHA-256 of each run's data, hexadecimal.
    input_lowest, input_highest
        Covered range of each input, in its unit.
    """

    rate_hz: float
    duration_s: float
    point_count: int
    runs: tuple[str, ...]
    gaits: tuple[str, ...]
    hashes: tuple[str, ...]
    input_lowest: tuple[float, ...]
    input_highest: tuple[float, ...]


@dataclass(frozen=True)
class ModelHeader:
    """Header of a model.

    Attributes
    ----------
    kind
        Of model, e.g. the form of a salp's residual model.
    robot
        Name of the robot, as on the command line.
    sensors
        Names of the sensors whose residuals were learned, in the order of the outputs.
    configuration_hash
        Of the robot's configuration, by whoever trains.
    input_names, input_units, output_names, output_units
        One for each input (d,) and output (m,).
    training
        The data.
    package_version
        Of this package, when the model was trained.
    created_utc
        ISO 8601.
    format_version
        Of the file.
    """

    kind: str
    robot: str
    sensors: tuple[str, ...]
    configuration_hash: str
    input_names: tuple[str, ...]
    input_units: tuple[str, ...]
    output_names: tuple[str, ...]
    output_units: tuple[str, ...]
    training: TrainingConditions
    package_version: str = field(default_factory=lambda: versions(["onboard_estimation"])["onboard_estimation"])
    created_utc: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    format_version: int = FORMAT_VERSION

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
        training = content.get("training")
        if not isinstance(training, dict):
            raise UserError(f"{where}: the header does not say what it was trained with; train it anew")
        conditions = TrainingConditions(**_checked(TrainingConditions, training, f"{where}: training"))
        header = cls(**_checked(cls, {**content, "training": conditions}, where))
        inputs, runs = len(header.input_names), len(conditions.runs)
        lengths = {
            "input_units": (len(header.input_units), inputs),
            "output_units": (len(header.output_units), len(header.output_names)),
            "input_lowest": (len(conditions.input_lowest), inputs),
            "input_highest": (len(conditions.input_highest), inputs),
            "hashes": (len(conditions.hashes), runs),
        }
        wrong = [f"{name} {has}, not {needed}" for name, (has, needed) in lengths.items() if has != needed]
        if wrong:
            raise UserError(f"{where}: numbers of values that do not fit together: {'; '.join(wrong)}; train it anew")
        return header

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
                f"{configuration_hash[:12]}): its residuals are those of other parameters. Use that configuration, or "
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
    if _HEADER in content:
        raise UserError(f"model cannot be saved: the name {_HEADER} is taken by the header")
    text = json.dumps(asdict(header), indent=1, sort_keys=True, allow_nan=False).encode()
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
        arrays = read_arrays(path, where, "a model", "copy it again or train it anew", LARGEST_FILE_BYTES, MOST_ARRAYS)
    except FileNotFoundError:
        raise UserError(f"{where}: there is no such file; make one with `onboard-estimation train`") from None
    text = arrays.pop(_HEADER, None)
    if text is None or text.dtype != np.uint8 or text.ndim != 1:
        raise UserError(f"{where}: no header, so not a model of `onboard-estimation train`")
    for name, value in arrays.items():
        _check_array(name, value, where)
    return ModelHeader.from_dict(_parsed(text.tobytes(), where), where), arrays


def read_arrays(path: Path, where: str, what: str, remedy: str, largest: int, most: int) -> Arrays:
    """Arrays and header of an archive of `.npy` files.

    Parameters
    ----------
    where, what, remedy
        For messages: their beginning, what the file should be, and the way out.
    largest, most
        Bytes and arrays, beside the header, that it may hold.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    UserError
        Not such a file, too large, or damaged.
    """
    try:
        size = path.stat().st_size
        if size > largest:
            raise UserError(f"{where}: {size / 1e6:.0f} MB, {what} has at most {largest / 1e6:.0f}; {remedy}")
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if len(infos) > most + 1:
                raise UserError(f"{where}: {len(infos)} arrays, {what} has at most {most}")
            if sum(info.file_size for info in infos) > largest:
                raise UserError(f"{where}: unpacks to more than {largest / 1e6:.0f} MB; not {what}")
            arrays: Arrays = {}
            for info in infos:
                name = info.filename.removesuffix(_SUFFIX)
                if name == info.filename or name in arrays:
                    raise UserError(f"{where}: entry {info.filename!r} is not an array, or is there twice")
                if info.compress_type != zipfile.ZIP_STORED:
                    raise UserError(f"{where}: array {name} is compressed, so not written by this program")
                arrays[name] = _array(archive.read(info))  # which checks the checksum
            return arrays
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{where}: cannot be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise UserError(f"{where}: not {what}, or damaged ({error}); {remedy}") from error


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


def _checked(kind: type[Any], content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Arguments for a dataclass of texts, numbers and tuples of them, from JSON."""
    types = {entry.name: str(entry.type) for entry in fields(kind)}
    if set(types) != set(content):
        missing, unknown = sorted(set(types) - set(content)), sorted(set(content) - set(types))
        raise UserError(f"{where}: the header lacks {missing} and has {unknown} too many; train it anew")
    values: dict[str, Any] = {}
    for name, wanted in types.items():
        value = content[name]
        values[name] = tuple(value) if isinstance(value, list) else value
        if not _fits(values[name], wanted):
            raise UserError(f"{where}: {name} in the header is {str(value)[:60]!r}, not {wanted}; train it anew")
    return values


def _fits(value: object, wanted: str) -> bool:
    if wanted.startswith("tuple["):
        inner = wanted.removeprefix("tuple[").partition(",")[0]
        return isinstance(value, tuple) and all(_fits(item, inner) for item in value)
    if wanted == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if wanted == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) if wanted == "str" else isinstance(value, TrainingConditions)
