"""Changes of bytes that know nothing of a format, and of lists of records, for `fuzz_bags`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")

EXTREME = (0, 1, 2, 3, 9, 127, 128, 255, 256, 4096, 65_535, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63)
_LONGEST_BLOCK = 64


def extreme(rng: Random, size: int, now: int = 0) -> int:
    """A number of `size` bytes that is likely to be wrong: far out, or beside the one that is there."""
    value = rng.choice((*EXTREME, 2 ** (8 * size) - 1, now + 1, now - 1, now * 2, now // 2, now ^ 1))
    return value % 2 ** (8 * size)


def set_number(data: bytearray, place: int, size: int, rng: Random, big_endian: bool = False) -> None:
    """Set a field of a fixed size to an extreme value."""
    order = "big" if big_endian else "little"
    now = int.from_bytes(data[place : place + size], order)  # type: ignore[arg-type]
    data[place : place + size] = extreme(rng, size, now).to_bytes(size, order)  # type: ignore[arg-type]


def change_bytes(data: bytes, rng: Random, places: Sequence[int] = ()) -> bytes:
    """One to three changes: bits, bytes and numbers set, blocks inserted, removed, doubled, swapped, or an early end.

    Half of them lie at or just behind one of the `places` that mean something in the format.
    """
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not changed:
            break
        place = rng.randrange(len(changed))
        if places and rng.random() < 0.5:
            place = min(rng.choice(places) + rng.choice((0, 0, 0, 1, 2, 4, 8)), len(changed) - 1)
        rng.choice(_CHANGES)(changed, place, rng)
    return bytes(changed)


def change_items(items: list[Item], rng: Random) -> None:
    """Remove, double, swap or move one of a list, or cut the list off."""
    if not items:
        return
    first, second = rng.randrange(len(items)), rng.randrange(len(items))
    kind = rng.randrange(5)
    if kind == 0:
        del items[first]
    elif kind == 1:
        items.insert(second, items[first])
    elif kind == 2:
        items[first], items[second] = items[second], items[first]
    elif kind == 3:
        items.insert(second, items.pop(first))
    else:
        del items[first:]


def _flip(data: bytearray, place: int, rng: Random) -> None:
    data[place] ^= 1 << rng.randrange(8)


def _set(data: bytearray, place: int, rng: Random) -> None:
    data[place] = rng.choice((0, 1, 255, rng.randrange(256)))


def _number(data: bytearray, place: int, rng: Random) -> None:
    size = min(rng.choice((1, 2, 4, 8)), len(data) - place)
    set_number(data, place, size, rng, rng.random() < 0.3)


def _truncate(data: bytearray, place: int, rng: Random) -> None:
    del data[place:]


def _insert(data: bytearray, place: int, rng: Random) -> None:
    data[place:place] = rng.choice((rng.randbytes, bytes))(rng.randint(1, _LONGEST_BLOCK))


def _remove(data: bytearray, place: int, rng: Random) -> None:
    del data[place : place + _length(rng)]


def _double(data: bytearray, place: int, rng: Random) -> None:
    target = rng.randrange(len(data))
    data[target:target] = data[place : place + _length(rng)]


def _swap(data: bytearray, place: int, rng: Random) -> None:
    other, length = rng.randrange(len(data)), _length(rng)
    first, second = sorted((place, other))
    length = min(length, second - first, len(data) - second)
    first_block, second_block = data[first : first + length], data[second : second + length]
    data[first : first + length], data[second : second + length] = second_block, first_block


def _overwrite(data: bytearray, place: int, rng: Random) -> None:
    length = min(_length(rng), len(data) - place)
    data[place : place + length] = rng.choice((rng.randbytes, bytes))(length)


def _length(rng: Random) -> int:
    return rng.choice((1, 2, 4, 8, 16, 512, rng.randint(1, _LONGEST_BLOCK)))


_CHANGES: tuple[Callable[[bytearray, int, Random], None], ...] = (
    _flip,
    _flip,
    _set,
    _set,
    _number,
    _number,
    _truncate,
    _insert,
    _remove,
    _double,
    _swap,
    _overwrite,
)
