"""Measurements that a filter took at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Estimate, Matrix, PhaseEvent


class Scanned(NamedTuple):
    """Measurements that were filtered at once.

    Attributes
    ----------
    state
        After them.
    found
        Of each of them, its estimate, if it gave one, and events; there may be fewer of them than were given.
    means, covariances
        (E, a) and (E, n, n): those of all these estimates once more, to be looked at together.
    """

    state: Any
    found: Sequence[tuple[Estimate | None, tuple[PhaseEvent, ...]]]
    means: Matrix
    covariances: NDArray[np.float64]
