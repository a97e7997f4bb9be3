"""No module needs another that needs it: where one does, it depends on who is loaded first whether both load."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from built_packages import TOP_LEVEL_PACKAGES


def loaded_with(source: str, modules: set[str]) -> Iterator[str]:
    """Modules that one imports while it is loaded: not for types alone, and not within a function."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Import):
            yield from (one.name for one in statement.names if one.name in modules)
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            whole = {f"{statement.module}.{one.name}" for one in statement.names} & modules
            yield from whole or {statement.module} & modules


def test_no_module_needs_one_that_needs_it(repository: Path) -> None:
    sources = {
        ".".join(file.relative_to(repository).with_suffix("").parts): file.read_text(encoding="utf-8")
        for package in TOP_LEVEL_PACKAGES
        for file in (repository / package).rglob("*.py")
        if file.name != "__init__.py"
    }
    assert len(sources) > 300
    needed = {name: set(loaded_with(source, set(sources))) for name, source in sources.items()}
    list(TopologicalSorter(needed).static_order())  # CycleError names the modules


def test_a_cycle_is_found() -> None:
    modules = {"a.one", "a.two"}
    needed = {
        "a.one": set(loaded_with("from a import two", modules)),
        "a.two": set(loaded_with("import a.one", modules)),
    }
    with pytest.raises(CycleError):
        list(TopologicalSorter(needed).static_order())
    assert not set(loaded_with("if TYPE_CHECKING:\n    import a.one\ndef f():\n    import a.two\n", modules))
