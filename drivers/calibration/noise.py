"""Noise of a sensor's six axes from its longest rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drivers.calibration.allan import AxisNoise, axis_noise
from drivers.calibration.logs import ImuLog
from drivers.calibration.parameter_file import Noise
from drivers.calibration.sections import Section, find_rests
from onboard_estimation.errors import UserError

_LONGEST_GAP = 5.0
_QUANTITIES = ("density", "instability", "random_walk")


def noise_of_rest(
    log: ImuLog, reference: ImuLog, rests: Sequence[Section] | None = None
) -> tuple[Noise, float, list[str]]:
    """Noise, length of the rest it is from (s), and sentences on what the rest does not show.

    Parameters
    ----------
    reference
        Log that the rests are found in.
    rests
        Where they are known already.

    Raises
    ------
    UserError
        The log holds no rest.
    """
    rests = find_rests(reference) if rests is None else rests
    if not rests:
        raise UserError(f"{log.name}: no rest in {log.time_s[-1]:.4g} s; leave the sensor on a quiet table")
    longest = max(rests, key=lambda one: one.end_s - one.start_s)
    values, duration_s = _longest_whole(log, longest.rows(log))
    rate_hz = (len(values) - 1) / duration_s if duration_s > 0.0 else 1.0 / log.period_s
    parts = ("gyro", "accelerometer") if log.has_gyro else ("accelerometer",)
    known: dict[str, tuple[float, ...]] = {}
    sentences = []
    for part in parts:
        columns = values[:, :3] if part == "gyro" else values[:, 3:]
        axes = [axis_noise(column, rate_hz) for column in columns.T]
        known |= {f"{part} {name}": _of_all(axes, name) for name in _QUANTITIES}
        reasons: dict[str, str] = {}
        for axis, one in zip("xyz", axes, strict=True):
            for why in one.why:
                what, _, reason = why.partition(": ")
                reasons[what] = (
                    f"{reasons[what].partition(':')[0]}, {axis}: {reason}" if what in reasons else f"{axis}: {reason}"
                )
        sentences += [f"{part}, {what} not told of {reason}" for what, reason in reasons.items()]
    return (
        Noise(
            known["accelerometer density"],
            known["accelerometer instability"],
            known["accelerometer random_walk"],
            known.get("gyro density", ()),
            known.get("gyro instability", ()),
            known.get("gyro random_walk", ()),
        ),
        duration_s,
        sentences,
    )


def _of_all(axes: Sequence[AxisNoise], name: str) -> tuple[float, ...]:
    """Of x, y, z; none where one of them is not known."""
    found = [getattr(one, name) for one in axes]
    return () if None in found else tuple(float(f"{value:.4g}") for value in found)


def _longest_whole(log: ImuLog, rows: slice) -> tuple[NDArray[np.float64], float]:
    """The longest stretch of these rows without a gap, and its length in s."""
    times = log.time_s[rows]
    cuts = np.flatnonzero(np.diff(times) > _LONGEST_GAP * log.period_s) + 1
    edges = [0, *cuts.tolist(), len(times)]
    place = int(np.argmax(np.diff(edges)))
    first, last = edges[place], edges[place + 1]
    return log.values[rows][first:last], float(times[last - 1] - times[first])
