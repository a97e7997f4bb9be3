"""Measurements that a filter took at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onboard_estimation.measurement import Estimate, PhaseEvent


class Scanned(NamedTuple):
    """Measurements that were filtered at once.

    Attributes
    ----------
    state
        After them.
    found
        Of each of them, its estimate, if it gave one, and events; there may be fewer of them than were given.
    """

    state: Any
    found: Sequence[tuple[Estimate | None, tuple[PhaseEvent, ...]]]
