"""What became of the measurements of each sensor: counted by a pipeline or a bulk filter, told as one table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from onboard_estimation.pipeline.buffer import BufferCounters
from onboard_estimation.pipeline.reading_limits import ReadingCheck


class UseCounters(NamedTuple):
    """What the filter did with the measurements of one sensor, over the record as it stands after all roll-backs.

    Attributes
    ----------
    used, gated
        Measurements that entered the state, and those that the gate refused.
    left_out
        Measurements that the estimator did not look at: of a sensor switched off, or from before its start.
    breakdowns
        Measurements that the filter broke down on and was put back from.
    recoveries
        Measurements for which the covariance was inflated after too many refusals.
    nis_sum, nis_degrees, updates
        Sums over all measurements that the gate let pass: NIS and degrees of freedom; their number.

        One outlier weighs more in a mean than a thousand good readings: `gated` and `recoveries` count those.
    normalised_sums
        Sums over the same of each component of the innovation in its standard deviations: one is far from zero for a
        sensor with a bias that the filter does not know.
    """

    used: int = 0
    gated: int = 0
    left_out: int = 0
    breakdowns: int = 0
    recoveries: int = 0
    nis_sum: float = 0.0
    nis_degrees: int = 0
    updates: int = 0
    normalised_sums: tuple[float, ...] = ()

    def unseen(self, count: int) -> UseCounters:
        """With more measurements without an innovation (commands), which are used as they are."""
        return UseCounters(self.used + count, *self[1:])

    def updated(self, nis: float, normalised: Sequence[float], accepted: bool, recovers: bool = False) -> UseCounters:
        """With one more innovation, see `Innovation`."""
        used, gated = self.used + accepted, self.gated + (not accepted)
        if recovers or not accepted:
            return self._replace(used=used, gated=gated, recoveries=self.recoveries + recovers)
        return UseCounters(
            used,
            gated,
            self.left_out,
            self.breakdowns,
            self.recoveries,
            self.nis_sum + nis,
            self.nis_degrees + len(normalised),
            self.updates + 1,
            tuple([a + b for a, b in zip_longest(self.normalised_sums, normalised, fillvalue=0.0)]),
        )

    @property
    def mean_innovation_sigma(self) -> float:
        """Mean of the component of the innovation whose mean is farthest from zero, in its standard deviations."""
        return max(self.normalised_sums, key=abs) / self.updates if self.updates else math.nan


def sensor_table(
    counters: Mapping[str, BufferCounters], use: Mapping[str, UseCounters], check: ReadingCheck
) -> dict[str, dict[str, float]]:
    """`Pipeline.statistics` from what arrived, what the filter did with it, and what was refused before, by sensor."""
    table: dict[str, dict[str, float]] = {}
    for sensor in sorted({*counters, *check.not_finite, *check.out_of_range, *check.incomplete}):
        arrival = counters.get(sensor, BufferCounters())
        used = use.get(sensor, UseCounters())
        not_finite, out_of_range = check.not_finite.get(sensor, 0), check.out_of_range.get(sensor, 0)
        incomplete = check.incomplete.get(sensor, 0)
        table[sensor] = {
            "received": arrival.received + not_finite + out_of_range + incomplete,
            "used": used.used,
            "late": arrival.late,
            "too_late": arrival.too_late,
            "gated": used.gated,
            "left_out": used.left_out,
            "breakdowns": used.breakdowns,
            "recoveries": used.recoveries,
            "duplicates": arrival.duplicates,
            "stray": arrival.stray,
            "invalid": not_finite,
            "out_of_range": out_of_range,
            "incomplete": incomplete,
            "rate_hz": arrival.rate_hz,
            "mean_nis": used.nis_sum / used.nis_degrees if used.nis_degrees else math.nan,
            "mean_innovation_sigma": used.mean_innovation_sigma,
        }
    return table
