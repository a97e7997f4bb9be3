"""The library `hebi-py`, which is optional (whoever has no HEBI modules needs none), and modules that it finds."""

from __future__ import annotations

import contextlib
import io
import time
from importlib import import_module
from typing import Any

from drivers.hebi.configuration import HebiConfiguration
from onboard_estimation.errors import UserError


def hebi_library() -> Any:
    """The module `hebi`, with `hebi.util`; UserError with the way to get it where it is not installed."""
    try:
        # It prints that optional packages for drawing and keyboards are not there, which is nobody's concern here.
        with contextlib.redirect_stdout(io.StringIO()):
            import_module("hebi.util")
            return import_module("hebi")
    except (ImportError, OSError) as error:  # OSError: its binary is for another machine
        raise UserError(
            f"hebi-py cannot be loaded ({error}): pip install 'onboard_estimation[hebi]'; beside NumPy 2, which it "
            "works with though it asks for numpy<2: pip install --no-deps hebi-py"
        ) from error


def find_group(configuration: HebiConfiguration) -> Any:
    """The group of the configured modules on the network.

    Raises
    ------
    UserError
        Some of them do not answer; it names them, and those that are there.
    """
    lookup = hebi_library().Lookup()
    families, names = list(configuration.families), list(configuration.names)
    if len(families) == 1:
        families *= len(names)
    wanted = set(zip(families, names, strict=True))
    stop_s = time.monotonic() + configuration.lookup_timeout_s
    # The look-up fills in the background: to wait for all is quicker than the fixed wait that HEBI's examples have.
    while not wanted <= (there := _there(lookup)) and time.monotonic() < stop_s:
        time.sleep(0.05)
    if not wanted <= there:
        raise UserError(
            f"modules not found within {configuration.lookup_timeout_s:g} s: {_listed(wanted - there)}; on the network "
            f"there are: {_listed(there) or 'none (power, cable, network; a firewall that lets no UDP through)'}"
        )
    # Never -1, with which the library waits for ever.
    group = lookup.get_group_from_names(families, names, max(1, round(1e3 * configuration.lookup_timeout_s)))
    if group is None:
        raise UserError(f"modules {_listed(wanted)} are on the network, but do not answer as a group")
    return group


def _there(lookup: Any) -> set[tuple[str, str]]:
    return {(entry.family, entry.name) for entry in lookup.entrylist if entry is not None}


def _listed(modules: set[tuple[str, str]]) -> str:
    return ", ".join(f"{family}/{name}" for family, name in sorted(modules))
