"""Reader of `drivers.ethercat.description`: YAML files that describe a sensor on the bus."""

from __future__ import annotations

from benchmarks.fuzz.target import Target
from drivers.ethercat.description import SensorDescription, parse
from drivers.ethercat.device import dtype_of
from onboard_estimation.configuration import ConfigurationError

_LARGEST_RECORD = 4096
_FAULT_BYTES = 400

_INPUTS = b"name: A\ninputs:\n- pdo: 0x1A00\n  entries:\n"
_ENTRY = b"  - {index: 0x6000, subindex: 1, type: int32, field: force_x, scale: f}\n"
_PARTS = (
    b"scales: {f: {factor: {index: 8, subindex: 1, type: int32}, unit: N}}\n",
    b"startup: [{index: 8, subindex: 1, type: uint8, value: 1}]\n",
    b"bias: {output: c, set: 1, clear: 4, hold_s: 0.1}\nstatus: [{field: s, mask: 1, level: error, meaning: m}]\n",
    b"outputs: [{pdo: 0x1600, entries: [{index: 7, subindex: 1, type: uint32, field: c, initial: 0}]}]\nassign: true\n",
)
_FIELDS = (b"force_x", b"force_y", b"force_z", b"torque_x", b"torque_y", b"torque_z")


def check(data: bytes) -> None:
    """A description that is taken has a layout; what is wrong with another is said in so many words for each fault."""
    try:
        found = parse(data)
    except ConfigurationError as error:
        _check_reason(error, len(data))
        return
    assert isinstance(found, SensorDescription)
    assert dtype_of(found.input_entries).itemsize <= _LARGEST_RECORD


def _check_reason(error: ConfigurationError, size: int) -> None:
    assert len(str(error)) < _FAULT_BYTES * (size + 10)


def _seeds() -> list[bytes]:
    entries = b"".join(_ENTRY.replace(b"force_x", field) for field in _FIELDS)
    whole = _INPUTS + entries + b"scales: {f: {factor: 1e-6, unit: N}}\n"
    return [_INPUTS + _ENTRY, whole, *(_INPUTS + _ENTRY + part for part in _PARTS), *_PARTS]


TARGET = Target(check, _seeds, longest=512)
