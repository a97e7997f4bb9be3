"""Where the files beside the code are: configurations, launch files, RViz set-ups."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from onboard_estimation.errors import UserError

PACKAGE = "onboard_estimation"


def resource(name: str) -> Path:
    """Path of a resource, e.g. `config/salp.yaml`.

    Code that runs from a source tree takes that tree's, so that an edit there counts at once and an older installation
    on the same machine does not. Otherwise ament's share folder, then that of the installed distribution.

    Raises
    ------
    UserError
        It is nowhere; the message names the places.
    """
    places = []
    for place in _places(name):
        if place.exists():
            return place
        places.append(str(place))
    raise UserError(f"resource {name} not found; looked at {', '.join(places)}")


def _places(name: str) -> Iterator[Path]:
    source_tree = Path(__file__).resolve().parent.parent
    if (source_tree / "package.xml").is_file():
        yield source_tree / name
    yield from _ament_share(name)
    yield Path(sys.prefix) / "share" / PACKAGE / name
    yield from _installed(name)


def _ament_share(name: str) -> Iterator[Path]:
    try:
        from ament_index_python.packages import get_package_share_directory

        yield Path(get_package_share_directory(PACKAGE)) / name
    except (ImportError, LookupError):  # no ROS 2 here, or its workspace is not sourced
        return


def _installed(name: str) -> Iterator[Path]:
    """Where pip put it, wherever its scheme has `share/` (`--user`, Debian's `/usr/local`)."""
    try:
        recorded = files(PACKAGE) or ()
    except PackageNotFoundError:
        return
    for path in recorded:
        if path.as_posix().endswith(f"share/{PACKAGE}/{name}"):
            yield Path(str(path.locate())).resolve()
