"""Tables and YAML files of a laboratory's folder, written, read and changed by tests."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml


def write(file: Path, lines: list[str]) -> None:
    """A table from its lines; `file` without its endings."""
    with gzip.open(file.with_name(f"{file.name}.csv.gz"), "wt") as stream:
        stream.write("\n".join(lines) + "\n")


def lines(file: Path) -> list[str]:
    """Of a table."""
    with gzip.open(file.with_name(f"{file.name}.csv.gz"), "rt") as stream:
        return stream.read().splitlines()


def changed(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Another content in a YAML file."""
    content = yaml.safe_load(file.read_text())
    change(content)
    file.write_text(yaml.safe_dump(content))
