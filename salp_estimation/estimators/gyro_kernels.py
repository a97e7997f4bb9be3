"""What is known of the gyros of a chain, and whether they are to be believed: compiled, for both of its filters.

A gyro whose readings contradict a state that all others confirm is refused, however long; where they do not confirm it
the filter may have gone astray, and its covariance is inflated, see `onboard_estimation.filtering.gating.decide`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.pipeline.sensor_trust import SILENT_S, TRUST_READINGS, WELL

Records = NDArray[Any]

COMMAND, OTHER = -1, -2
"""Of readings that are not of the gyro of a link, which has the link's number."""
NEVER = -(2**62)
"""Stands for the stamp of what has not been; the difference to any other stamp is a whole number of 64 bits."""
GYRO = np.dtype(
    [("last_ns", np.int64), ("rejected_in_a_row", np.int64), ("trust", np.float64), ("is_silent", np.int64)]
)
"""One gyro: stamp of its last reading that was used; its last readings that the gate refused; share of its readings
that pass the gate, a running mean; 1 where it was not heard for longer than `SILENT_S` while others were. There are no
bytes between, which a copy leaves as they come."""
SILENT_NS = round(SILENT_S * NANOSECONDS_PER_SECOND)


class GateSettings(NamedTuple):
    """Largest NIS that passes, and `Gate.recover_after`."""

    threshold: float
    recover_after: int


class Readings(NamedTuple):
    """M of them: link of the gyro or `COMMAND` (M,) int64, stamps (M,) int64, values (M, W) as in a `Block`."""

    kinds: NDArray[np.int64]
    stamps_ns: NDArray[np.int64]
    values: Matrix


class Estimates(NamedTuple):
    """What came of readings: room for it, and after a kernel the part of that which is used.

    Attributes
    ----------
    made_of
        (E,) int64, of each the number of the reading.
    means, covariances
        (E, a) and (E, n, n).
    seen
        (E, 5) of each its `Innovation`: value, standard deviation, NIS, whether it was accepted, inflation.
    left_out
        (M,) of each reading, whether it was not looked at.
    """

    made_of: NDArray[np.int64]
    means: Matrix
    covariances: NDArray[np.float64]
    seen: Matrix
    left_out: NDArray[np.bool_]

    @classmethod
    def room(cls, count: int, space: StateSpace) -> Estimates:
        """For so many."""
        a, n = space.coordinate_count, space.dimension
        moments = np.empty((count, a)), np.empty((count, n, n))
        return cls(np.empty(count, np.int64), *moments, np.empty((count, 5)), np.zeros(count, np.bool_))

    def first(self, count: int) -> Estimates:
        """So many."""
        if count == len(self.made_of):
            return self
        return Estimates(
            self.made_of[:count], self.means[:count], self.covariances[:count], self.seen[:count], self.left_out
        )


def unheard(count: int) -> Records:
    """So many gyros before their first reading."""
    gyros = np.zeros(count, GYRO)
    gyros["last_ns"] = NEVER
    return gyros


@njit(cache=True)
def inflation_for(gate: GateSettings, gyros: Records, link: int, stamp_ns: int, nis: float) -> float:
    """By what the covariance is to be inflated to let in a reading; 1: not at all, for it passes or is refused."""
    if nis <= gate.threshold or not 0 < gate.recover_after <= gyros[link].rejected_in_a_row + 1:
        return 1.0
    heard = 0
    for other in range(len(gyros)):
        one = gyros[other]
        if other != link and one.last_ns != NEVER and stamp_ns - one.last_ns <= SILENT_NS:
            if not one.trust > WELL:
                return max(1.0, nis / gate.threshold)
            heard += 1
    return 1.0 if heard > 0 else max(1.0, nis / gate.threshold)


@njit(cache=True)
def is_news(gate: GateSettings, gyros: Records, link: int, stamp_ns: int, accepted: bool, inflation: float) -> bool:
    """Keep in the gyros what became of a reading; whether there is something to be told, or a recovery."""
    gyro = gyros[link]
    period_ns, gyro.last_ns, gyro.is_silent = stamp_ns - gyro.last_ns, stamp_ns, 0
    gyro.rejected_in_a_row = 0 if accepted or inflation > 1.0 else gyro.rejected_in_a_row + 1
    gyro.trust += (accepted - gyro.trust) / TRUST_READINGS
    news = inflation > 1.0 or 0 < gate.recover_after == gyro.rejected_in_a_row
    if period_ns <= SILENT_NS:  # not the first one, nor the first after a gap of all
        for other in range(len(gyros)):
            one = gyros[other]
            if one.last_ns != NEVER and one.is_silent == 0 and stamp_ns - one.last_ns > SILENT_NS:
                one.is_silent, news = 1, True
    return news
