"""The EEPROM of a slave (slave information interface, ETG.1000.6 and ETG.2010): identity, mailboxes, PDOs."""

from __future__ import annotations

import struct
from typing import NamedTuple

from drivers.ethercat.description import Pdo, SensorDescription

STRINGS, GENERAL, FMMU, SYNC_MANAGERS, TX_PDO, RX_PDO, END = 10, 30, 40, 41, 50, 51, 0xFFFF
_FIRST_CATEGORY = 0x40
_COE = 0x04
_SDO, _ASSIGN = 0x01, 0x04
_DATA_TYPES = {
    "int8": 0x02, "int16": 0x03, "int32": 0x04, "uint8": 0x05, "uint16": 0x06, "uint32": 0x07, "float32": 0x08,
    "float64": 0x11, "int64": 0x15, "uint64": 0x1B,
}  # fmt: skip
"""CoE's numbers of data types."""


class SyncManager(NamedTuple):
    """One window into a slave's memory: start address, length in bytes, control byte, type as in 0x1C00."""

    start: int
    length: int
    control: int
    type: int


MAILBOX_BYTES = 256
OUT_MAILBOX = SyncManager(0x1000, MAILBOX_BYTES, 0x26, 1)
"""The master writes here."""
IN_MAILBOX = SyncManager(0x1200, MAILBOX_BYTES, 0x22, 2)
OUTPUT_START, OUTPUT_CONTROL = 0x1400, 0x64
INPUT_START, INPUT_CONTROL = 0x2400, 0x20


def image(description: SensorDescription, vendor_id: int, product_id: int, serial: int) -> bytes:
    """An EEPROM for such a device, 2 KiB or as many as it takes."""
    configuration = struct.pack("<7H", 0x0005, 0, 0, 0, 0, 0, 0)
    head = configuration + struct.pack("<H", _crc8(configuration))
    head += struct.pack("<4I", vendor_id, product_id, 1, serial) + bytes(8)
    mailboxes = (OUT_MAILBOX.start, OUT_MAILBOX.length, IN_MAILBOX.start, IN_MAILBOX.length)
    head += struct.pack("<4H", 0, 0, 0, 0) + struct.pack("<4H", *mailboxes) + struct.pack("<H", _COE)
    text = description.name.encode("ascii", "replace")[:63]
    general = bytes((0, 0, 1, 1, 0, _SDO | _ASSIGN)) + bytes(26)
    categories = _category(STRINGS, bytes((1, len(text))) + text) + _category(GENERAL, general)
    categories += _category(FMMU, b"\x01\x02")
    categories += _category(SYNC_MANAGERS, b"".join(_sync_manager(one) for one in sync_managers(description)))
    categories += b"".join(_category(TX_PDO, _pdo(one, 3)) for one in description.inputs)
    categories += b"".join(_category(RX_PDO, _pdo(one, 2)) for one in description.outputs)
    size = 2048
    while size < 2 * _FIRST_CATEGORY + len(categories) + 2:
        size *= 2
    head = head.ljust(2 * _FIRST_CATEGORY - 4, b"\x00") + struct.pack("<2H", size // 128 - 1, 1)
    return (head + categories + struct.pack("<H", END)).ljust(size, b"\xff")


def sync_managers(description: SensorDescription) -> tuple[SyncManager, SyncManager, SyncManager, SyncManager]:
    """Mailboxes out and in, process data out and in."""
    sizes = [
        sum(entry.size for entry in entries) for entries in (description.output_entries, description.input_entries)
    ]
    return (
        OUT_MAILBOX,
        IN_MAILBOX,
        SyncManager(OUTPUT_START, sizes[0], OUTPUT_CONTROL, 3),
        SyncManager(INPUT_START, sizes[1], INPUT_CONTROL, 4),
    )


def _category(kind: int, content: bytes) -> bytes:
    content += bytes(len(content) % 2)
    return struct.pack("<2H", kind, len(content) // 2) + content


def _sync_manager(one: SyncManager) -> bytes:
    enabled = 1 if one.length else 0
    return struct.pack("<HHBBBB", one.start, one.length, one.control, 0, enabled, one.type)


def _pdo(pdo: Pdo, sync_manager: int) -> bytes:
    rows = [
        struct.pack("<HBBBBH", one.index or 0, one.subindex, 0, _DATA_TYPES[one.type], 8 * one.size, 0)
        for one in pdo.entries
    ]
    return struct.pack("<HBBBBH", pdo.index, len(rows), sync_manager, 0, 0, 0) + b"".join(rows)


def _crc8(data: bytes) -> int:
    """x^8 + x^2 + x + 1, first 0xFF (ETG.1000.6, 5.4)."""
    remainder = 0xFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = (remainder << 1 ^ (0x07 if remainder & 0x80 else 0)) & 0xFF
    return remainder
