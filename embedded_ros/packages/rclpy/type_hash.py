"""Hash of a message's definition."""

from __future__ import annotations

_SIZE = 32


class TypeHash:
    """Version and value of a type hash; prints as `RIHS01_...`."""

    __slots__ = ["_value", "_version"]

    def __init__(self, version: int = -1, value: bytes = bytes(_SIZE)) -> None:
        assert isinstance(version, int)
        assert isinstance(value, bytes)
        self._version = version
        self._value = value

    @classmethod
    def _from_text(cls, text: str) -> TypeHash:
        """`RIHS01_<hexadecimal>`; an invalid hash for anything else."""
        head, _, digits = text.partition("_")
        if head.startswith("RIHS") and head[4:].isdigit() and len(digits) == 2 * _SIZE:
            try:
                return cls(int(head[4:]), bytes.fromhex(digits))
            except ValueError:
                pass
        return cls()

    @property
    def version(self) -> int:
        """Version of the way of hashing."""
        return self._version

    @property
    def value(self) -> bytes:
        """32 bytes."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeHash) and (self._version, self._value) == (other._version, other._value)

    __hash__ = None  # type: ignore[assignment]  # as in rclpy

    def __str__(self) -> str:
        if self._version <= 0 or len(self._value) != _SIZE:
            return "INVALID"
        return f"RIHS{self._version:02}_{self._value.hex()}"
