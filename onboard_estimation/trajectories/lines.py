"""Lines of a text file as cells, read with suspicion: whatever is no table of numbers is refused by its line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.bounded_file import open_regular, reading
from onboard_estimation.base.errors import UserError, first_of, short
from onboard_estimation.trajectories.units import stamp_unit

Rows = NDArray[np.float64]

_LARGEST_BYTES = 500_000_000
_LONGEST_LINE = 10_000
_LARGEST_STAMP_NS = 2**62


class Lines(NamedTuple):
    """What a file holds: comment or header lines at its start, and rows of cells with their lines' numbers.

    `commas`: the first row is separated by them, or by semicolons.
    """

    header: Sequence[str]
    rows: list[list[str]]
    numbers: list[int]
    commas: bool = False

    @property
    def names(self) -> list[str]:
        """Cells of the last line of the header, without units in brackets."""
        last = self.header[-1] if self.header else ""
        return cells(re.sub(r"\[.*?\]", "", last).lstrip("# "))


def read_lines(file: Path, most: int | None = None) -> Lines:
    """Cells of all lines, or of so many; what is no table of short lines is refused."""
    header: list[str] = []
    rows: list[list[str]] = []
    numbers: list[int] = []
    commas = False
    with reading(file):
        if (size := file.stat().st_size) > _LARGEST_BYTES:
            raise UserError(
                f"{file} has {size / 1e6:.0f} MB; trajectories of up to {_LARGEST_BYTES / 1e6:.0f} are read"
            )
        for number, line in _text_lines(file):
            if line.startswith("#") or (not rows and not header and not is_number(cells(line)[0])):
                if not rows:
                    header.append(line)
                continue
            commas |= not rows and ("," in line or ";" in line)
            rows.append(cells(line))
            numbers.append(number)
            if len(rows) == most:
                break
    if not rows:
        raise UserError(f"{file} holds no line with numbers")
    return Lines(header, rows, numbers, commas)


def _text_lines(file: Path) -> Iterator[tuple[int, str]]:
    with open_regular(file) as stream:
        number = 0
        while raw := stream.readline(_LONGEST_LINE + 1):
            number += 1
            if len(raw) > _LONGEST_LINE:
                raise UserError(
                    f"{file}: line {number} has more than {_LONGEST_LINE:,} characters, it is no trajectory"
                )
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                line = "\0"
            if "\0" in line:
                raise UserError(f"{file}: line {number} is no text, it is no trajectory")
            if line:
                yield number, line


def cells(line: str) -> list[str]:
    """Separated by semicolons (then commas are decimal points), else by commas, else by blanks."""
    if ";" in line:
        return [cell.strip().replace(",", ".") for cell in line.split(";")]
    return [cell.strip() for cell in line.split(",")] if "," in line else line.split()


def is_number(text: str) -> bool:
    """Whether it reads as one."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def numbers_of(
    file: Path, lines: Lines, least: int, most: int | None, stamp: tuple[int, int] | None, read: Sequence[int]
) -> tuple[NDArray[np.int64], Rows]:
    """Stamps (K,) in ns, exact (a double has no nanoseconds of today), and numbers (K, d) of the columns to be read.

    `stamp` is their column, and how many ns its unit has; None: there are none. UserError at the first row with too few
    or too many cells, or another count than the one before, or with what is no number.
    """
    stamps, out = np.zeros(len(lines.rows), dtype=np.int64), np.empty((len(lines.rows), len(read)))
    usual = len(lines.rows[0]) if lines.rows else 0
    for place, (row, number) in enumerate(zip(lines.rows, lines.numbers, strict=True)):
        if len(row) < least or (most is not None and len(row) > most) or len(row) != usual:
            expected = usual if usual >= least and most is None else least
            raise UserError(f"{file}: line {number} has {len(row)} columns, not {expected}")
        if stamp is not None:
            found = _stamp_ns(row[stamp[0]], stamp[1])
            if found is None:
                unit = "nanoseconds" if stamp[1] == 1 else "seconds"
                cell = row[stamp[0]]
                raise UserError(f"{file}: line {number}: {shown(cell)} is no time in {unit}{stamp_unit(cell)}")
            stamps[place] = found
        for i, column in enumerate(read):
            try:
                out[place, i] = float(row[column])
            except ValueError:
                raise UserError(f"{file}: line {number}: {shown(row[column])} is no number") from None
    return stamps, out


def _stamp_ns(text: str, ns: int) -> int | None:
    try:
        stamp = Decimal(text) * ns
        return int(stamp.to_integral_value()) if abs(stamp) <= _LARGEST_STAMP_NS else None
    except ArithmeticError:  # no number, NaN, or one too large for any
        return None


def chosen_body(file: Path, bodies: Collection[str], body: str | None) -> str:
    """The body asked for, or the only one; UserError, naming all, where it is not there or one has to be chosen."""
    if not bodies:
        raise UserError(f"{file} holds no rigid body")
    offers = first_of([f"--body {short(name)}" for name in bodies], 20)
    if body is not None and body not in bodies:
        raise UserError(f"--body {body}: {file} has no such rigid body; it has {offers}")
    if body is None and len(bodies) != 1:
        raise UserError(f"{file} has {len(bodies)} rigid bodies; choose: {offers}")
    return body or next(iter(bodies))


def shown(cell: str) -> str:
    """A cell for a message."""
    return repr(short(cell))
