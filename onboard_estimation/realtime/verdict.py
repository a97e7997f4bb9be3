"""Whether a computer is fast enough for an estimator, by figures of it at work; and what to lower where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["fits", "tight", "too slow"]

FITS_SHARE, TIGHT_SHARE = 0.5, 0.8
LEAST_LATENCY_MS = 5.0
"""What a system that keeps no deadlines may take at times, whatever the estimator does."""
_TIGHT_LATENCY = 4.0
_TIGHT_LOST = 0.001
_MUCH_ELSE = 0.3
_OUTPUTS = ((120.0, 100.0), (60.0, 50.0))
"""What goes out more often than the first is worth thinning to the second, 1/s."""

RULE = (
    f"fits: at most {100 * FITS_SHARE:.0f} % of a core, 99 % of the estimates within one period of those that go out "
    f"({LEAST_LATENCY_MS:g} ms at least), no reading lost; tight: at most {100 * TIGHT_SHARE:.0f} %, "
    f"{_TIGHT_LATENCY:g} periods, {1e3 * _TIGHT_LOST:g} reading in 1000 lost, or later where other programs "
    "hold it up; else too slow"
)


@dataclass(frozen=True)
class Figures:
    """An estimator node at work, in the measured seconds.

    Attributes
    ----------
    sensors_hz
        Messages a second sent to it, by sensor.
    share, sender_share, listener_share
        Of one core: of the node, and of what sends to it and listens to it.
    others_share
        Of one core, of all other programs and of the kernel.
    estimates_per_s
        That the filter made; None: its diagnostics did not come.
    topic, outputs_per_s
        What was listened to, and its messages a second.
    latency_ms
        Sending of a reading to arrival of the estimate with its stamp: median, 99 %, worst. None: no estimate came.
    sent, lost
        Readings in all, also while warming up, and those that did not reach the filter.
    memory_mb
        Resident memory of the node at the end.
    sender_late_ms
        So late was the sender itself, 99 %.
    """

    robot: str
    estimator: str
    seconds: float
    sensors_hz: dict[str, float]
    share: float
    sender_share: float
    listener_share: float
    others_share: float
    estimates_per_s: float | None
    topic: str
    outputs_per_s: float
    latency_ms: tuple[float, float, float] | None
    sent: int
    lost: int
    memory_mb: float
    sender_late_ms: float

    @property
    def readings_per_s(self) -> float:
        """Messages in."""
        return sum(self.sensors_hz.values())

    @property
    def latency_limit_ms(self) -> float:
        """Until the next estimate is due."""
        return max(LEAST_LATENCY_MS, 1e3 / self.outputs_per_s if self.outputs_per_s else 0.0)

    @property
    def needed_share(self) -> float:
        """Of one core, had it taken what was lost as well."""
        return self.share / max(0.05, 1.0 - self.lost / max(1, self.sent))

    @property
    def headroom(self) -> float:
        """How many times slower the computer might be, or faster the sensors, until one core is all taken."""
        return 1.0 / max(self.needed_share, 1e-3)


def state(figures: Figures) -> State:
    """By `RULE`."""
    if figures.latency_ms is None:
        return "too slow"
    late = figures.latency_ms[1] / figures.latency_limit_ms
    if figures.share <= FITS_SHARE and late <= 1.0 and figures.lost == 0:
        return "fits"
    held_up = figures.share <= FITS_SHARE and figures.others_share > _MUCH_ELSE
    keeps_up = figures.share <= TIGHT_SHARE and figures.lost <= _TIGHT_LOST * figures.sent
    return "tight" if keeps_up and (late <= _TIGHT_LATENCY or held_up) else "too slow"


def sentence(figures: Figures) -> str:
    """Whether this computer is fast enough, and what to lower if not."""
    verdict = state(figures)
    fastest, rate_hz = max(figures.sensors_hz.items(), key=lambda item: item[1])
    share = (
        f"{100.0 * figures.share:.0f} % of one core at {figures.readings_per_s:.0f} readings a second ({fastest}: "
        f"{rate_hz:.0f} Hz)"
    )
    if verdict == "fits" and figures.latency_ms is not None:
        return (
            f"{figures.robot} fits this computer: {figures.estimator} takes {share} and answers within "
            f"{figures.latency_ms[1]:.1f} ms (99 %); it would still keep up on a computer "
            f"{figures.headroom:.{0 if figures.headroom >= 3.0 else 1}f} times slower, or with sensors so much faster."
        )
    what = "is tight on this computer" if verdict == "tight" else "is too slow on this computer"
    found = f"{figures.robot} {what}: {figures.estimator} takes {share}{_symptoms(figures)}"
    if figures.needed_share <= FITS_SHARE:
        return f"{found}; it works less than half the time, so others hold it up: end other programs and measure again."
    return f"{found}; {_advice(figures)}."


def notes(figures: Figures) -> list[str]:
    """Why the figures may not count."""
    found = []
    if figures.others_share > _MUCH_ELSE:
        found.append(
            f"other programs took {100 * figures.others_share:.0f} % of a core meanwhile: figures count only on a "
            "quiet machine"
        )
    if figures.sender_late_ms > figures.latency_limit_ms:
        found.append(
            f"the sender itself was late by {figures.sender_late_ms:.0f} ms (99 %): this computer cannot send so much "
            "beside the estimator; readings came in bursts"
        )
    return found


def _symptoms(figures: Figures) -> str:
    if figures.latency_ms is None:
        return f", and no {figures.topic} came"
    found = []
    if figures.latency_ms[1] > figures.latency_limit_ms:
        found.append(f"1 % of the estimates come after {figures.latency_ms[1]:.0f} ms")
    if figures.lost:
        found.append(f"{figures.lost} of {figures.sent} readings are lost")
    return "".join(f", {one}" for one in found)


def _advice(figures: Figures) -> str:
    """Ways out by the names of parameters."""
    ways = ["a lighter --estimator", "fewer particles where it has some"]
    fewer = next((least for many, least in _OUTPUTS if figures.outputs_per_s > many), None)
    if fewer is not None:
        ways.append(f"output_rate_hz:={fewer:g} (now {figures.outputs_per_s:.0f})")
    sensor, rate_hz = max(figures.sensors_hz.items(), key=lambda item: item[1])
    part = FITS_SHARE / figures.needed_share
    ways.append(f"sensors at {100 * part:.0f} % of their rates ({sensor}: {rate_hz * part:.0f} Hz, now {rate_hz:.0f})")
    return f"to lower it: {', or '.join(ways)}"
