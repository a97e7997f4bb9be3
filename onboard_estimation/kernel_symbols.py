"""Whether a compiled kernel can be linked in this process: which symbols its machine code asks for.

LLVM ends the process where it links a symbol that nobody knows, so that has to be asked before.
"""

from __future__ import annotations

import struct
from typing import Any

_SYMBOL_TABLE = 2  # type of a section
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MADE_BY_THE_LINKER = frozenset({b"_GLOBAL_OFFSET_TABLE_"})


def can_be_linked(payload: Any) -> bool:
    """Whether all that a kernel needs is known to LLVM already, before numba has loaded what it compiles with.

    Parameters
    ----------
    payload
        What numba keeps of a kernel (its `CompileResult` reduced).

    Returns
    -------
    False as well where the payload is built otherwise, or not for 64-bit Linux.
    """
    import llvmlite.binding

    try:
        _, kind, (code, _) = payload[0]
        names = undefined_symbols(code) if kind == "object" else None
    except (TypeError, ValueError, IndexError, KeyError):
        return False
    if names is None:
        return False
    return all(llvmlite.binding.address_of_symbol(name.decode()) for name in names - _MADE_BY_THE_LINKER)


def undefined_symbols(code: bytes) -> set[bytes] | None:
    """Names that an object file in ELF, 64-bit and little-endian, does not define itself; None for any other file."""
    if code[:6] != b"\x7fELF\x02\x01":
        return None
    try:
        (start,), (size, count) = struct.unpack_from("<Q", code, 0x28), struct.unpack_from("<HH", code, 0x3A)
        sections = [_SECTION.unpack_from(code, start + i * size) for i in range(count)]
        found = set()
        for _, kind, _, _, offset, length, strings, _, _, _ in sections:
            if kind != _SYMBOL_TABLE:
                continue
            names = sections[strings][4]
            for name, _, _, section, _, _ in _SYMBOL.iter_unpack(code[offset : offset + length]):
                if section == 0 and name:
                    found.add(code[names + name : code.index(b"\0", names + name)])
    except (struct.error, IndexError, ValueError):
        return None
    return found if sections else None
