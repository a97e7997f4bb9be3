"""Writes down how messages look from Python: run by a real ROS 2's interpreter and by ours, and the two are compared.

python ros2_messages_dump.py ros2     OUTPUT.json              every type of the installation
python ros2_messages_dump.py embedded OUTPUT.json NAMES.json   those of the types that it knows
"""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_SEQUENCE = re.compile(r"sequence<(?P<element>[^,]+?)(?:, (?P<bound>\d+))?>$")
_ARRAY = re.compile(r"(?P<element>.+)\[(?P<size>\d+)\]$")
_STRING = re.compile(r"w?string(?:<(?P<bound>\d+)>)?$")
_INTEGER = re.compile(r"(?P<unsigned>u?)int(?P<bits>\d+)$")


class Ros2:
    """The messages of a real ROS 2."""

    def names(self) -> list[str]:
        from rosidl_runtime_py import get_interfaces

        return sorted(
            f"{package}/{name}"
            for package, names in get_interfaces().items()
            for name in names
            if "/msg/" in f"/{name}" or "/srv/" in f"/{name}"
        )

    def find(self, name: str) -> Any:
        package, kind, short = name.split("/")
        return getattr(importlib.import_module(f"{package}.{kind}"), short)

    def hashes(self, name: str) -> dict[str, str]:
        from ament_index_python import get_package_share_directory

        package, kind, short = name.split("/")
        told = json.loads((Path(get_package_share_directory(package)) / kind / f"{short}.json").read_text())
        return {entry["type_name"]: entry["hash_string"] for entry in told["type_hashes"]}

    def serialize(self, message: Any) -> bytes:
        from rclpy.serialization import serialize_message

        return bytes(serialize_message(message))

    def deserialize(self, data: bytes, cls: Any) -> Any:
        from rclpy.serialization import deserialize_message

        return deserialize_message(data, cls)


class Embedded:
    """The messages of the embedded runtime."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def names(self) -> list[str]:
        return self._names

    def find(self, name: str) -> Any:
        from embedded_ros.messages import message_class, service_class

        try:
            return service_class(name) if "/srv/" in name else message_class(name)
        except LookupError:
            base, _, part = name.rpartition("_")
            return getattr(service_class(base), part) if "/srv/" in name and part in _PARTS else None

    def hashes(self, name: str) -> dict[str, str]:
        from embedded_ros.messages import support

        cls = self.find(name)
        named = {name: cls}
        if "/srv/" in name:
            named.update({f"{name}_{part}": getattr(cls, part) for part in _PARTS})
        return {key: support(value).type_hash for key, value in named.items()}

    def serialize(self, message: Any) -> bytes:
        from embedded_ros.messages import support

        return bytes(support(type(message)).serialize(message))

    def deserialize(self, data: bytes, cls: Any) -> Any:
        from embedded_ros.messages import support

        return support(cls).deserialize(data)


_PARTS = ("Request", "Response", "Event")


def describe(source: Any, name: str) -> dict[str, Any] | None:
    """Everything of one message or service that a program can see; None if there is no such type."""
    cls = source.find(name)
    if cls is None:
        return None
    parts = {name: cls}
    if "/srv/" in name:
        parts = {f"{name}_{part}": getattr(cls, part) for part in _PARTS}
    hashes = source.hashes(name)
    own = {key: value for key, value in hashes.items() if key == name or key in parts}
    return {"hashes": own, "messages": {key: _message(source, key, part) for key, part in parts.items()}}


def _message(source: Any, name: str, cls: Any) -> dict[str, Any]:
    default, filled = cls(), fill(source, cls, random.Random(name))
    told = {
        "fields": list(cls.get_fields_and_field_types().items()),
        "constants": {
            key: repr(getattr(cls, key)) for key in dir(cls) if key.isupper() and key[0] != "_" and key != "SLOT_TYPES"
        },
        "kinds": {key: _kind(getattr(default, key)) for key in cls.get_fields_and_field_types()},
        "faults": _faults(cls),
        "unknown_argument": _unknown_argument(cls),
    }
    for label, message in (("default", default), ("filled", filled)):
        data = source.serialize(message)
        back = source.deserialize(data, cls)
        told[label] = {
            "repr": repr(message),
            "cdr": _unpadded(data).hex(),
            "back": repr(back),
            "equal": bool(back == message),
        }
    return told


def _unpadded(data: bytes) -> bytes:
    """CDR without the padding to four bytes, which its header counts."""
    return data[:3] + b"\0" + data[4 : len(data) - (data[3] & 3)]


def _kind(value: Any) -> str:
    if isinstance(value, np.generic):
        return value.dtype.name
    if isinstance(value, np.ndarray):
        return f"ndarray {value.dtype.name} {value.shape}"
    return f"array {value.typecode}" if isinstance(value, array) else type(value).__name__


def _text(value: Any) -> str:
    """A value, told alike by NumPy 1 and 2."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def fill(source: Any, cls: Any, rng: random.Random) -> Any:
    """A message with a value in every field, the same ones wherever it is made."""
    return cls(**{name: _value(source, cls, kind, rng) for name, kind in cls.get_fields_and_field_types().items()})


def _value(source: Any, cls: Any, kind: str, rng: random.Random) -> Any:
    if match := _SEQUENCE.match(kind):
        count = min(rng.randrange(4), int(match["bound"] or 3))
        return [_value(source, cls, match["element"], rng) for _ in range(count)]
    if match := _ARRAY.match(kind):
        return [_value(source, cls, match["element"], rng) for _ in range(int(match["size"]))]
    if match := _STRING.match(kind):
        return "".join(rng.choice("ab ä") for _ in range(min(rng.randrange(6), int(match["bound"] or 6))))
    if match := _INTEGER.match(kind):
        bits = int(match["bits"])
        return rng.getrandbits(bits) if match["unsigned"] else rng.getrandbits(bits) - 2 ** (bits - 1)
    simple: dict[str, Callable[[], Any]] = {
        "boolean": lambda: rng.random() < 0.5,
        "octet": lambda: bytes([rng.randrange(256)]),
        "char": lambda: rng.randrange(256),
        # Exact in single precision, so that text and bytes agree.
        "float": lambda: rng.randrange(-1000, 1000) / 8.0,
        "double": lambda: rng.uniform(-1.0, 1.0),
    }
    if kind in simple:
        return simple[kind]()
    package, short = kind.split("/")
    nested = source.find(f"{package}/srv/{short}" if short.endswith(_PARTS) else f"{package}/msg/{short}")
    return fill(source, nested, rng)


def _candidates() -> list[Any]:
    """Values of all kinds, right and wrong."""
    return [
        None, True, 0, 1, -1, 127, 255, 256, -129, 2**31, 2**63, 2**64, 1.5, 1e300, float("inf"), float("nan"), 1j,
        "", "text", "ä" * 300, b"", b"x", b"xy", bytearray(b"x"), [], [1], [1.5, 2.5], [True], ["a"], [b"x"],
        [None], ["a", 1],
        (1, 2), (1.0,) * 3, {1}, {"a": 1}, range(3), [0.0] * 9, [0.0] * 36, [0] * 16, [256], [-1], [1e300] * 9,
        array("d", [1.0]), array("f", [1.0]), array("B", [1]), array("i", [1]), np.zeros(0), np.zeros(3), np.zeros(9),
        np.zeros(9, np.float32), np.zeros(36), np.zeros((3, 3)), np.zeros(9, int), np.float64(1.5), np.float32(1.5),
        np.int32(1),
        np.uint8(1), np.bool_(True), object,
    ]  # fmt: skip


def _faults(cls: Any) -> dict[str, list[str]]:
    """What assigning each candidate to each field does: the value that is there afterwards, or the exception."""
    outcomes: dict[str, list[str]] = {}
    for name in cls.get_fields_and_field_types():
        outcomes[name] = []
        for value in _candidates():
            message = cls()
            try:
                setattr(message, name, value)
            except Exception as error:
                outcomes[name].append(type(error).__name__)
                if isinstance(error, AssertionError) and f"'{name}'" not in str(error):
                    outcomes[name][-1] += f" that does not name the field: {error}"
            else:
                kept = getattr(message, name)
                outcomes[name].append(f"{_kind(kept)}: {_text(kept)}")
    return outcomes


def _unknown_argument(cls: Any) -> str:
    try:
        cls(no_such_field=1)
    except Exception as error:
        return type(error).__name__
    return "ignored"


def main() -> None:
    runtime, output = sys.argv[1:3]
    source: Any = Ros2() if runtime == "ros2" else Embedded(json.loads(Path(sys.argv[3]).read_text()))
    Path(output).write_text(json.dumps({name: describe(source, name) for name in source.names()}))


if __name__ == "__main__":
    main()
