"""Finds modules on the network."""

from __future__ import annotations

import time
from typing import Any

from drivers.hebi.configuration import HebiConfiguration
from drivers.hebi.library import hebi_library
from onboard_estimation.errors import UserError


def find_group(configuration: HebiConfiguration) -> Any:
    """The group of the configured modules.

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
    if wanted <= there:
        # Never -1, with which the library waits for ever.
        group = lookup.get_group_from_names(families, names, max(1, round(1e3 * configuration.lookup_timeout_s)))
        if group is not None:
            return group
        raise UserError(f"modules {_listed(wanted)} are on the network, but do not answer as a group")
    raise UserError(
        f"modules not found within {configuration.lookup_timeout_s:g} s: {_listed(wanted - there)}; on the network "
        f"there are: {_listed(there) or 'none (power, cable, network; a firewall that lets no UDP through)'}"
    )


def _there(lookup: Any) -> set[tuple[str, str]]:
    return {(entry.family, entry.name) for entry in lookup.entrylist if entry is not None}


def _listed(modules: set[tuple[str, str]]) -> str:
    return ", ".join(f"{family}/{name}" for family, name in sorted(modules))
