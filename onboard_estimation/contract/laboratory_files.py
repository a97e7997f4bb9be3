"""Tables and YAML files of laboratories, read with suspicion: each fault is a sentence with file, place and number."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.bounded_file import open_regular, read_bounded
from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.parameter_file import read_parameter_file

POSE_COLUMNS = ("x", "y", "z", "qx", "qy", "qz", "qw")
_STAMP = "stamp_ns"
_LARGEST_STAMP_NS = 2**62


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table in the order of their stamps: (K,) ns and (K, d) values, and what was done to them."""

    stamps_ns: NDArray[np.int64]
    values: NDArray[np.float64]
    notes: tuple[str, ...] = ()


def faulty(file: Path, what: str) -> UserError:
    """Error that names the file."""
    return UserError(f"{file}: {what}")


def read_table(folder: Path, name: str, columns: tuple[str, ...]) -> Table | None:
    """The table `<name>.csv.gz` or `<name>.csv`: `stamp_ns`, and these columns; None where there is none.

    Rows that are not finite and repeated stamps are left out, rows out of order are sorted; the notes say how many.

    Raises
    ------
    UserError
        It cannot be read, its columns are others, a cell is no number, or fewer than two rows are left.
    """
    file = next((one for one in (folder / f"{name}.csv.gz", folder / f"{name}.csv") if one.is_file()), None)
    if file is None:
        return None
    stamps, rows = [], []
    with _opened(file) as stream:
        lines = csv.reader(stream)
        header = [cell.strip() for cell in next(lines, [])]
        if header != [_STAMP, *columns]:
            raise faulty(
                file, f"its columns are {', '.join(header) or 'none'}; they must be stamp_ns, {', '.join(columns)}"
            )
        for line, cells in enumerate(lines, start=2):
            if len(cells) != len(header):
                raise faulty(file, f"line {line} has {len(cells)} cells, not {len(header)}")
            try:
                stamps.append(int(cells[0]))
                rows.append([float(cell) for cell in cells[1:]])
            except ValueError as error:
                raise faulty(file, f"line {line}: {error}") from error
            if not 0 <= stamps[-1] < _LARGEST_STAMP_NS:
                raise faulty(file, f"line {line}: {stamps[-1]} is no stamp in nanoseconds since 1970")
    return _cleaned(file, np.array(stamps, dtype=np.int64), np.array(rows).reshape(len(rows), len(columns)))


def _cleaned(file: Path, stamps_ns: NDArray[np.int64], values: NDArray[np.float64]) -> Table:
    notes = []
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1), dtype=np.bool_)
    if not finite.all():
        notes.append(f"{file.name}: {np.sum(~finite)} of {len(values)} rows left out, not finite.")
    stamps_ns, values = stamps_ns[finite], values[finite]
    if backward := int(np.sum(np.diff(stamps_ns) < 0)):
        notes.append(f"{file.name}: rows sorted by their stamps, which go back {backward} times.")
    unique, first = np.unique(stamps_ns, return_index=True)
    if len(unique) < len(stamps_ns):
        notes.append(f"{file.name}: {len(stamps_ns) - len(unique)} rows left out, their stamps repeat.")
    if len(unique) < 2:
        raise faulty(file, f"{len(unique)} of {len(finite)} rows can be used; there must be two at least")
    return Table(unique, values[first], tuple(notes))


def refuse_other_time(file: Path, table: Table, other: Table, what: str) -> None:
    """UserError where a file's table and another one, of `what`, have no time in common."""
    (start, stop), (first, last) = (one.stamps_ns[[0, -1]].tolist() for one in (table, other))
    if stop <= first or start >= last:
        outside = f"are all outside of those of the {what}"
        raise faulty(file, f"its stamps, {start} to {stop} ns, {outside}, {first} to {last} ns")


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    """The file as text; its faults as UserError."""
    try:
        with open_regular(file) as packed:
            unpacked = gzip.GzipFile(fileobj=packed) if file.suffix == ".gz" else packed
            yield io.TextIOWrapper(unpacked, encoding="utf-8", newline="")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise faulty(file, f"is no whole gzip file ({error})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise faulty(file, f"is no table ({error})") from error
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error


class Entries(Mapping[str, Any]):
    """Names with values of a YAML file; it keeps in mind which of them were looked up.

    A dotted name is looked up in the sections that it names. Sections, also those in lists, are `Entries` themselves.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = {name: _kept_in_mind(value) for name, value in content.items()}
        self._looked_up: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        section, _, rest = name.partition(".")
        self._looked_up.add(section if rest else name)
        found = self._content[section if rest else name]
        if not rest:
            return found
        if not isinstance(found, Entries):
            raise KeyError(name)
        return found[rest]

    def __contains__(self, name: object) -> bool:
        section, _, rest = str(name).partition(".")
        inside = self._content.get(section)
        return rest in inside if rest and isinstance(inside, Entries) else not rest and section in self._content

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return repr(self._content)

    def unread(self, above: str = "") -> list[str]:
        """Dotted names of what nobody looked up, each once: that of a list's element is that of the list."""
        names = []
        for name, value in self._content.items():
            if name not in self._looked_up:
                names.append(above + name)
                continue
            for one in value if isinstance(value, list) else [value]:
                names += one.unread(f"{above}{name}.") if isinstance(one, Entries) else []
        return list(dict.fromkeys(names))


def _kept_in_mind(value: Any) -> Any:
    if isinstance(value, list):
        return [_kept_in_mind(one) for one in value]
    return Entries(value) if isinstance(value, Mapping) else value


def said_of_unread(file: Path, entries: Entries | None, for_people: Collection[str]) -> list[str]:
    """A sentence naming entries that no reader of the file looked up and that are not for people only; or none."""
    unread = [] if entries is None else [name for name in entries.unread() if name not in for_people]
    return [f"{file.name}: nothing reads {', '.join(map(printable, unread))}."] if unread else []


def mapping(file: Path) -> Entries | None:
    """Content of a YAML file that holds names with values, numbers as ROS 2 reads them; None where there is no file."""
    if not file.is_file():
        return None
    content, faults = read_parameter_file(file)
    if faults:
        raise faulty(file, "; ".join(faults))
    return Entries(content)


def sequence(file: Path, entries: Mapping[str, Any], name: str) -> list[Any]:
    """An entry that is a list with something in it."""
    found = entries.get(name)
    if not isinstance(found, list) or not found:
        raise faulty(file, f"{name} is {'missing' if found is None else repr(found)}; it must be a list")
    return found


def number(file: Path, entries: Mapping[str, Any], name: str, of: str = "") -> float:
    """An entry that is a finite number."""
    found = entries.get(name)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
        raise faulty(file, f"{name}{f' of {of}' if of else ''} is {_shown(found)}; it must be a number")
    return float(found)


def numbers(file: Path, entries: Mapping[str, Any], name: str, count: int, of: str) -> tuple[float, ...]:
    """An entry that is a list of so many finite numbers."""
    found = entries.get(name)
    if not isinstance(found, list) or len(found) != count:
        raise faulty(file, f"{name} of {of} is {_shown(found)}; it must be {count} numbers")
    return tuple(number(file, {name: one}, name, of) for one in found)


def text(file: Path, entries: Mapping[str, Any], name: str) -> str:
    """An entry that is a text with something in it."""
    found = entries.get(name)
    if not isinstance(found, str) or not found:
        raise faulty(file, f"{name} is {_shown(found)}; it must be a text")
    return found


def _shown(found: Any) -> str:
    return "missing" if found is None else repr(found)


def said_to_be_simulated(folder: Path) -> list[str]:
    """A sentence naming the README, in a folder or up to two above it, that calls the recordings simulated; or none."""
    for place in (folder, *folder.resolve().parents[:2]):
        readme = place / "README.md"
        try:
            if b"simulated recording" in read_bounded(readme, "README").lower():
                return [f"The recording is simulated, as {place.name}/README.md says; the bag says so too."]
        except UserError:
            continue
    return []
