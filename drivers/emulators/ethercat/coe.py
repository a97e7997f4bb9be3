"""CANopen over EtherCAT (ETG.1000.6, 5.6): SDOs in one mailbox message, expedited or not, and aborts.

A mailbox message: length u16, station u16, channel and priority u8, type (4 bits) and counter (3 bits); with CoE (type
3) follow a u16, its upper four bits the service, and the SDO: command u8, index u16, subindex u8, four bytes or a
length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

_HEADER = struct.Struct("<HHBB")
_COE = struct.Struct("<H")
_SDO = struct.Struct("<BHB")
_TYPE_ERROR, _TYPE_COE = 0, 3
_REQUEST, _RESPONSE = 2, 3
_DOWNLOAD, _UPLOAD, _ABORTED = 1, 2, 4
_NO_PROTOCOL, _NO_SERVICE, _TOO_SHORT = 2, 4, 6

TOGGLE_OR_COMMAND = 0x0504_0001
NO_COMPLETE_ACCESS = 0x0601_0000
READ_ONLY = 0x0601_0002
NO_OBJECT = 0x0602_0000
WRONG_LENGTH = 0x0607_0010
NO_SUBINDEX, WRONG_VALUE = 0x0609_0011, 0x0609_0030
GENERAL = 0x0800_0000
NOT_IN_THIS_STATE = 0x0800_0022


class Abort(Exception):
    """An SDO is refused, with a code of ETG.1000.6, table 41."""

    def __init__(self, code: int) -> None:
        super().__init__(f"0x{code:08X}")
        self.code = code


@dataclass
class Object:
    """One entry of the dictionary; `written` takes a new value, and may raise `Abort`. None: it is read only."""

    value: bytes
    written: Callable[[bytes], None] | None = None


class Dictionary:
    """Objects by index and subindex.

    Attributes
    ----------
    aborts
        Instead of an answer, for these: faults on request.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[int, int], Object] = {}
        self.aborts: dict[tuple[int, int], int] = {}

    def read(self, index: int, subindex: int) -> bytes:
        """Its value.

        Raises
        ------
        Abort
            There is none.
        """
        return self._object(index, subindex).value

    def write(self, index: int, subindex: int, value: bytes) -> None:
        """Set it.

        Raises
        ------
        Abort
            There is none, it cannot be written, or not with so many bytes.
        """
        found = self._object(index, subindex)
        if found.written is None:
            raise Abort(READ_ONLY)
        if len(value) != len(found.value):
            raise Abort(WRONG_LENGTH)
        found.written(value)
        found.value = value

    def _object(self, index: int, subindex: int) -> Object:
        if (index, subindex) in self.aborts:
            raise Abort(self.aborts[index, subindex])
        found = self.objects.get((index, subindex))
        if found is None:
            known = any(one == index for one, _ in self.objects)
            raise Abort(NO_SUBINDEX if known else NO_OBJECT)
        return found


def answer(message: bytes, dictionary: Dictionary, counter: int, room: int) -> bytes | None:
    """The reply to a mailbox message, with that counter (1 to 7); None: nothing is to be said.

    Parameters
    ----------
    room
        Bytes of the mailbox for the reply.
    """
    if len(message) < _HEADER.size:
        return None
    length, station, _, kind = _HEADER.unpack_from(message)

    def wrap(type_: int, content: bytes) -> bytes:
        return _HEADER.pack(len(content), station, 0, type_ | counter << 4) + content

    content = message[_HEADER.size : _HEADER.size + length]
    is_whole = len(content) == length
    if is_whole and kind & 0x0F != _TYPE_COE:
        fault = _NO_PROTOCOL
    elif not is_whole or len(content) < _COE.size + _SDO.size + 4:
        fault = _TOO_SHORT
    else:
        fault = 0 if _COE.unpack_from(content)[0] >> 12 == _REQUEST else _NO_SERVICE
    if fault:
        return wrap(_TYPE_ERROR, struct.pack("<HH", 1, fault))
    command, index, subindex = _SDO.unpack_from(content, _COE.size)
    rest = content[_COE.size + _SDO.size :]
    if command >> 5 == _ABORTED:
        return None
    try:
        reply = _sdo(command, index, subindex, rest, dictionary, room - _HEADER.size - _COE.size)
        return wrap(_TYPE_COE, _COE.pack(_RESPONSE << 12) + reply)
    except Abort as abort:
        told = _SDO.pack(_ABORTED << 5, index, subindex) + struct.pack("<I", abort.code)
        return wrap(_TYPE_COE, _COE.pack(_REQUEST << 12) + told)


def _sdo(command: int, index: int, subindex: int, rest: bytes, dictionary: Dictionary, room: int) -> bytes:
    if command >> 5 not in (_DOWNLOAD, _UPLOAD):
        raise Abort(TOGGLE_OR_COMMAND)
    if command & 0x10:
        raise Abort(NO_COMPLETE_ACCESS)
    if command >> 5 == _UPLOAD:
        value = dictionary.read(index, subindex)
        if len(value) <= 4:
            unused = 4 - len(value)
            return _SDO.pack(0x43 | unused << 2, index, subindex) + value.ljust(4, b"\x00")
        reply = _SDO.pack(0x41, index, subindex) + struct.pack("<I", len(value)) + value
        if len(reply) > room:
            raise Abort(GENERAL)
        return reply
    if command & 0x02:
        value = rest[: 4 - (command >> 2 & 0x03) if command & 0x01 else 4]
    else:
        (length,) = struct.unpack_from("<I", rest)
        value = rest[4 : 4 + length]
        if length != len(value):  # in segments, which nothing here is long enough for
            raise Abort(WRONG_LENGTH)
    dictionary.write(index, subindex, value)
    return _SDO.pack(0x60, index, subindex) + bytes(4)
