"""Do a sensor's innovations agree with what the filter expects, over seconds? If not, a sentence says so.

One wild reading is the gate's business. What is looked for here lasts: a filter that is lost and sure of itself, a
model that the robot does not keep to, a sensor turned round. Readings are looked at in stretches of SPAN_S seconds, or
longer where a sensor is slow. A stretch contradicts where the mean NIS per degree of freedom is above CONTRADICTED,
which is 1 for a filter that is right. Single readings count for no more than FARTHEST standard deviations: one in eight
would have to be wild to make a contradiction.

False alarms: the mean over n white innovations of a consistent filter, of m elements each, is chi-square with n m
degrees of freedom, over n m. With LEAST_READINGS readings of one element it is above CONTRADICTED once in 3e8
stretches, with more of them never.
"""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import NamedTuple

from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

SPAN_S = 5.0
LEAST_READINGS = 20
CONTRADICTED, AGREED = 4.0, 2.0
"""Mean NIS per degree of freedom above which a stretch contradicts the filter, and below which an episode is over."""
FARTHEST = 5.0
_SPAN_NS = round(SPAN_S * NANOSECONDS_PER_SECOND)


class Contradiction(NamedTuple):
    """A stretch of readings that the filter did not expect.

    Attributes
    ----------
    sensor
        Whose readings.
    stamp_ns, span_s
        Where it ends, and how long it is.
    size
        Mean size of the innovations in the standard deviations that the filter states for them.
    bias
        Mean, in its standard deviation, of the element of the innovations that it is largest for.
    """

    sensor: str
    stamp_ns: int
    span_s: float
    size: float
    bias: float

    def sentence(self, remedy: str) -> str:
        """For the log and the notes of a run, with what to do about it (empty: nothing is known)."""
        one_sided = f", most of it to one side (mean {self.bias:+.3g})" if abs(self.bias) > 0.5 * self.size else ""
        stamp_s = self.stamp_ns / NANOSECONDS_PER_SECOND
        return (
            f"{self.sensor} contradicts the filter: in the {self.span_s:.0f} s up to {stamp_s:.3f} s its readings were "
            f"{self.size:.3g} standard deviations from what was expected, in the mean{one_sided}; the estimate may be "
            f"farther from the truth than it states{remedy and ': '}{remedy}"
        )


class Agreement(NamedTuple):
    """What is known of one sensor's innovations: a value, to be kept with the filter's state and rolled back with it.

    Attributes
    ----------
    since_ns
        Stamp of the first reading of this stretch; None before it.
    readings
        So many in this stretch.
    nis, sizes, normalised
        Sums over them: NIS per degree of freedom, none above FARTHEST^2; its roots, without a bound; each element of
        the innovation in its standard deviation.
    is_contradicted
        Whether an episode of contradiction goes on, which has been told.
    """

    since_ns: int | None = None
    readings: int = 0
    nis: float = 0.0
    sizes: float = 0.0
    normalised: tuple[float, ...] = ()
    is_contradicted: bool = False

    def seen(self, sensor: str, stamp_ns: int, innovation: Innovation) -> tuple[Agreement, Contradiction | None]:
        """With one more innovation, refused ones as well; a contradiction once an episode, at its first stretch."""
        nis = innovation.nis / len(innovation.value)
        since_ns = stamp_ns if self.since_ns is None else self.since_ns
        summed = Agreement(
            since_ns,
            self.readings + 1,
            self.nis + min(nis, FARTHEST**2),
            self.sizes + math.sqrt(nis),
            tuple([a + b for a, b in zip_longest(self.normalised, innovation.normalised, fillvalue=0.0)]),
            self.is_contradicted,
        )
        if stamp_ns - since_ns < _SPAN_NS or summed.readings < LEAST_READINGS:
            return summed, None
        return summed._judged(sensor, stamp_ns, since_ns)

    def _judged(self, sensor: str, stamp_ns: int, since_ns: int) -> tuple[Agreement, Contradiction | None]:
        """At the end of a stretch; the next one is empty."""
        mean_nis = self.nis / self.readings
        goes_on = mean_nis > (AGREED if self.is_contradicted else CONTRADICTED)
        found = None
        if goes_on and not self.is_contradicted:
            span_s = (stamp_ns - since_ns) / NANOSECONDS_PER_SECOND
            bias = max(self.normalised, key=abs) / self.readings
            found = Contradiction(sensor, stamp_ns, span_s, self.sizes / self.readings, bias)
        return Agreement(is_contradicted=goes_on), found


def is_news(found: Contradiction, told_ns: int | None) -> bool:
    """Whether it is another one than that told last of this sensor: a roll-back finds the same one once more."""
    return told_ns is None or abs(found.stamp_ns - told_ns) > _SPAN_NS
