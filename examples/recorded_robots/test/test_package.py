"""The package is what a laboratory's could be: found by entry points, and on nothing but what is public."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from importlib.metadata import distribution
from pathlib import Path

import pytest

from onboard_estimation.base import installed
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract import converters
from onboard_estimation.contract import robot as robots

PACKAGE = Path(__file__).resolve().parents[1]
LIBRARIES = {"c3d", "numba", "numpy", "scipy"}


def imported() -> dict[str, set[str]]:
    """Names by module, of all that the package imports: within functions and for the type checker as well."""
    found = defaultdict(set)
    for file in (PACKAGE / "recorded_robots").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, file
                found[node.module or ""] |= {one.name for one in node.names}
            elif isinstance(node, ast.Import):
                found.update({one.name: set() for one in node.names})
    return found


def test_the_readme_lists_all_that_it_uses() -> None:
    page = (PACKAGE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(onboard_estimation[\w.]*)` \| (.+?) \|$", page, re.MULTILINE)
    listed = {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}
    assert listed == {name: found for name, found in imported().items() if name.startswith("onboard_estimation")}


def test_it_needs_no_other_package_of_ours() -> None:
    tops = {name.partition(".")[0] for name in imported()} - set(sys.stdlib_module_names)
    assert tops <= {"onboard_estimation", "recorded_robots", *LIBRARIES}


def test_whoever_lacks_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """onboard_estimation knows the names of what is offered here, and no more."""
    offered = [
        one for one in distribution("recorded_robots").entry_points if one.group.startswith("onboard_estimation.")
    ]
    assert {one.group for one in offered} == {robots.GROUP, converters.GROUP}
    assert {one.name: PACKAGE.name for one in offered} == installed.IN_EXAMPLES
    monkeypatch.setattr(installed, "_points", lambda group: {})
    with pytest.raises(
        UserError, match=r"no format 'soft-arm'; it comes with: pip install \./examples/recorded_robots;"
    ):
        installed.load(converters.GROUP, "format", "soft-arm")
