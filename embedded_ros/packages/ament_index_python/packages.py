"""Packages by name: their prefix and their share folder.

A package is a Python distribution of that name that brings a package.xml, in its source tree or below the prefix it was
installed into; what this Python runs comes first, for the reasons that `onboard_estimation.resources` gives. After it
come the prefixes of AMENT_PREFIX_PATH.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from importlib.metadata import PackageNotFoundError as DistributionNotFoundError
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ament_index_python.search_paths import get_search_paths

_INDEX = Path("share") / "ament_index" / "resource_index" / "packages"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]+", re.ASCII)
_PACKAGE_XML_NAME = re.compile(r"<name>\s*([^<\s]+)\s*</name>")
_OF_ROS = (
    "rviz2",
    "robot_state_publisher",
    "joint_state_publisher",
    "joint_state_publisher_gui",
    "plotjuggler",
    "rqt_plot",
    "rosbag2_transport",
    "tf2_ros",
    "foxglove_bridge",
    "rqt_gui",
    "demo_nodes_cpp",
    "demo_nodes_py",
)


class PackageNotFoundError(KeyError):
    """There is no package of that name; the text is the whole sentence."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def get_packages_with_prefixes() -> dict[str, str]:
    """Prefix of every package there is, by name."""
    found: dict[str, str] = {}
    for one in distributions():
        name = _package_name(one)
        if name and name not in found:
            found[name] = str(_prefix_of(_share_of(name, one)))
    for prefix in get_search_paths():
        index = Path(prefix) / _INDEX
        for path in sorted(index.iterdir()) if index.is_dir() else ():
            found.setdefault(path.name, prefix)
    return found


def get_package_prefix(package_name: str) -> str:
    """Prefix a package is installed into; of a package that runs from its source tree, the root of that tree.

    Raises
    ------
    PackageNotFoundError
        There is no such package.
    ValueError
        That is no name of a package.
    """
    return str(_prefix_of(_share(package_name)))


def get_package_share_directory(package_name: str, print_warning: bool = True) -> str:
    """Folder with a package's launch files and configurations. Raises as `get_package_prefix` does."""
    return str(_share(package_name))


def get_package_share_path(package_name: str, print_warning: bool = True) -> Path:
    """The same as a path."""
    return _share(package_name)


def _share(name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"'{name}' is not a valid package name")
    try:
        share = _share_of(name, distribution(name))
    except DistributionNotFoundError:
        share = None
    if share is not None:
        return share
    for prefix in get_search_paths():
        if (Path(prefix) / _INDEX / name).is_file():
            return Path(prefix) / "share" / name
    raise PackageNotFoundError(_not_found(name))


def _share_of(name: str, one: Distribution) -> Path | None:
    for place in _places(name, one):
        if _declares(place / "package.xml", name):
            return place
    return None


def _places(name: str, one: Distribution) -> Iterator[Path]:
    source = _editable_source(one)
    if source is not None:
        yield source
    code = Path(str(one.locate_file(""))).resolve()
    yield code
    for prefix in code.parents[:3]:  # of <prefix>/lib/python3.12/site-packages
        yield prefix / "share" / name
    # A distribution may lie anywhere while what it gives is imported from its source tree.
    for top in (one.read_text("top_level.txt") or "").split():
        if top == name:
            yield from _source_trees(top)


def _source_trees(module: str) -> Iterator[Path]:
    import importlib.util

    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(folder).resolve().parent


def _editable_source(one: Distribution) -> Path | None:
    """Source tree of an editable installation, as direct_url.json (PEP 610) names it."""
    try:
        described = json.loads(one.read_text("direct_url.json") or "{}")
        url, editable = str(described.get("url", "")), bool(described.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return None
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if editable and parts.scheme == "file" else None


@cache
def _declares(package_xml: Path, name: str) -> bool:
    """Whether a package.xml is there and is that package's."""
    try:
        found = _PACKAGE_XML_NAME.search(package_xml.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return False
    return found is not None and found[1] == name


def _package_name(one: Distribution) -> str:
    """Name of the package that a distribution holds; empty where it holds none."""
    written = one.metadata["Name"] or ""
    for name in (written, written.replace("-", "_")):  # newer tools normalise underscores away
        if _NAME.fullmatch(name) and _share_of(name, one) is not None:
            return name
    return ""


def _prefix_of(share: Path | None) -> Path:
    if share is None:
        return Path()
    return share.parent.parent if share.parent.name == "share" else share


def _not_found(name: str) -> str:
    there = ", ".join(sorted(get_packages_with_prefixes())) or "none"
    sentence = f"package '{name}' not found, searching: {get_search_paths()}; installed without ROS 2: {there}"
    if name in _OF_ROS:
        sentence += f". '{name}' comes with ROS 2, which is not in use here: source ROS 2, or see the graph with"
        sentence += " 'onboard-estimation view'"
    return sentence
