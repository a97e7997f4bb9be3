"""Where the files beside the code are (configurations, launch files, RViz set-ups), and those among it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from onboard_estimation.errors import UserError

PACKAGE = "onboard_estimation"


def resource(name: str, package: str = PACKAGE) -> Path:
    """Path of a resource, e.g. `config/salp.yaml`, of this or another package; of the folder of all of them: `""`.

    It is the one that belongs to the code that runs: of the source tree for an editable or symlinked installation, so
    that an edit counts at once; else of the prefix that pip or colcon installed into. ament's index comes last, since a
    sourced workspace may hold another version than the one that runs.

    Raises
    ------
    UserError
        It is nowhere; the message names the places.
    """
    places = []
    for place in _places(name, package):
        if place.exists():
            return place
        places.append(str(place))
    raise UserError(f"{f'resource {name}' if name else package} not found; looked at {', '.join(places) or 'nothing'}")


def packaged_text(package: str, name: str) -> str:
    """Text of a file that lies among the modules of a package, e.g. the report's style sheet.

    Raises
    ------
    UserError
        It is not there: whoever built or copied this installation left it out.
    """
    file = Path(str(files(package).joinpath(name)))
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise UserError(f"this installation of {PACKAGE} is incomplete: {file} {reason}; install it anew") from error


def _places(name: str, package: str) -> Iterator[Path]:
    spec = find_spec(package) if package.isidentifier() else None
    if spec is not None and spec.origin is not None:
        code = Path(spec.origin).resolve().parent.parent
        if (code / "package.xml").is_file():
            yield code / name
            return
        # Of <prefix>/lib/python3.12/site-packages, or one folder deeper; `pip install --target` has it beside.
        for prefix in (code, *code.parents[:4]):
            yield prefix / "share" / package / name
    try:
        from ament_index_python.packages import get_package_share_directory

        yield Path(get_package_share_directory(package)) / name
    except (ImportError, LookupError, ValueError, OSError):  # no ROS 2, no workspace is sourced or has it, no such name
        return
