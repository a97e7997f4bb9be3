"""Messages of whole recordings as arrays: what simulators give, and what evaluations read from bags."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Channel


@dataclass(frozen=True, eq=False)
class Series:
    """Messages of one topic as numbers: stamps (K,) int64 ns and values (K, d) as the channel's type sets them."""

    channel: Channel
    stamps_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    def rows(self, rows: NDArray[np.int64] | slice) -> Series:
        """With some of its messages only, or in another order."""
        return replace(self, stamps_ns=self.stamps_ns[rows], values=self.values[rows])


@dataclass(frozen=True, eq=False)
class Recording:
    """All that a bag of a robot would hold.

    Attributes
    ----------
    sensors
        Sensor and command topics.
    truth
        Ground truth topics: pose (7) or position (3) channels.
    """

    sensors: tuple[Series, ...]
    truth: tuple[Series, ...]
