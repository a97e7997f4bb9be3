"""How far the truth's clock is from an IMU's, and how their frames are turned: found from the motion, or refused.

The offset is what has to be added to the truth's stamps. It holds all that delays the one more than the other:
clocks, buffers, a gyro's own low-pass filter; motion alone cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.evaluation.delay_fit import DelayFit, Motion, Sensed, coarse, fit_delay, long_run_variance
from onboard_estimation.evaluation.motion_pairs import body_turns, body_ways, gyro_turns, imu_ways
from onboard_estimation.evaluation.overlap import ImuReadings, TrackedBody, overlap, turning_axes
from onboard_estimation.evaluation.topics import TRUTH
from onboard_estimation.reading_parts import IMU, POSE

Rows = NDArray[np.float64]

LONGEST_OFFSET_S = 1.0
"""Looked for so far either way of where the recorder saw the two."""
LARGEST_STDDEV_S = 3e-3
"""An offset that is told worse than this is refused."""

_COARSE_STEP_S = 0.01
_COARSE_ROWS = 3000
_ENOUGH_EXPLAINED = 0.5
_SURELY_MIRRORED = 0.8
_CLEARLY_OWN = 0.97
_MOST_PAIRS = 60
_RIVAL = 0.5
_SURE = 4.0
_STRETCH_S = 1.0
_ROTATION_TOLD_RAD = np.deg2rad(3.0)
_STILL_AXIS = 1e-9


@dataclass(frozen=True)
class ClockReport:
    """Time offset and rotation between an IMU and a tracked body.

    Attributes
    ----------
    sensor, body
        Their topics.
    refused
        Why there is no offset; empty where there is one.
    offset_s, stddev_s
        To be added to the truth's stamps, and its standard deviation; None where refused.
    told_by
        `turns` (orientation and gyro), or `ways` (position and accelerometer).
    explained
        Share of the body's motion, within seconds, that the IMU's readings explain.
    common_s
        Time that was compared.
    period_s
        Of the IMU's readings.
    scale
        Size of the body's turns against those of the IMU; None where turns were not compared.
    rotation_rad, rotation_stddev_rad
        Rotation vector from the IMU's frame to the body's, and its standard deviations; None where the motion does not
        tell it, as where the body turns about one axis.
    axis
        The body's axis about which the IMU's only turning axis turns it, where there is one; else None.
    mirrored
        The body's motion is a mirror image of the IMU's.
    rather
        Another body that moves as the IMU does, where the one that it is named after does not.
    """

    sensor: str
    body: str
    refused: str
    offset_s: float | None = None
    stddev_s: float | None = None
    told_by: str = ""
    explained: float | None = None
    common_s: float = 0.0
    period_s: float = 0.0
    scale: float | None = None
    rotation_rad: tuple[float, float, float] | None = None
    rotation_stddev_rad: tuple[float, float, float] | None = None
    axis: tuple[float, float, float] | None = None
    mirrored: bool = False
    rather: str = ""


def find_offset(sensor: str, body: str, readings: ImuReadings, tracked: TrackedBody) -> ClockReport:
    """Compare one IMU with one body: by what they turn; by the way that they go where turns do not tell."""
    found_overlap = overlap(readings, tracked, LONGEST_OFFSET_S)
    if isinstance(found_overlap, str):
        return ClockReport(sensor, body, found_overlap)
    guess_s, common_s, times_s, values, body_s, poses = found_overlap
    turning = turning_axes(values[:, IMU.angular_velocity])
    blank = ClockReport(sensor, body, "", common_s=common_s, period_s=float(np.median(np.diff(times_s))))
    reasons = []
    if poses.shape[1] == 7 and turning.any():
        motion = body_turns(body_s, poses[:, POSE.orientation])
        sensed = gyro_turns(times_s, values[:, IMU.angular_velocity][:, turning])
        found = _best(motion, sensed, _TURNS)
        if isinstance(found, DelayFit):
            report = _of_turns(blank, found, turning)
            return _with_offset(report, found, guess_s, "turns")
        reasons.append(found)
    if np.isfinite(values).all() and turning.all():
        found = _best(
            body_ways(body_s, poses[:, POSE.position]),
            imu_ways(times_s, values[:, IMU.angular_velocity], values[:, IMU.linear_acceleration]),
            _WAYS,
        )
        if isinstance(found, DelayFit):
            return _with_offset(blank, found, guess_s, "ways")
        reasons.append(found)
    lacking = "it has no gyro with three axes, and no orientation of the body is there for fewer"
    if poses.shape[1] == 7:
        lacking = "it has no gyro, without which its accelerations have no direction"
    return ClockReport(sensor, body, "; ".join(reasons) or lacking, common_s=common_s)


def pair(
    imus: Mapping[str, ImuReadings], bodies: Mapping[str, TrackedBody], named: Mapping[str, str]
) -> tuple[ClockReport, ...]:
    """A report of each IMU with its body: the one that it is named after, else the one that moves as it does.

    Parameters
    ----------
    named
        Body by IMU, where names tell.
    """
    reports = []
    for sensor, readings in imus.items():
        if not np.isfinite(readings.values).any():
            continue  # an attitude alone
        own = find_offset(sensor, named[sensor], readings, bodies[named[sensor]]) if sensor in named else None
        if own is not None and (own.explained or 0.0) > _CLEARLY_OWN:
            reports.append(own)
            continue
        others = [body for body in bodies if own is None or body != own.body][: max(1, _MOST_PAIRS // len(imus))]
        found = [find_offset(sensor, body, readings, bodies[body]) for body in others]
        best = max(found, key=lambda report: report.explained or 0.0, default=own)
        if own is not None and best is not None and (best.explained or 0.0) <= _CLEARLY_OWN:
            best = own
        if own is not None and best is not None and best.body != own.body:
            best = replace(own, rather=best.body)
        if best is not None:
            reports.append(best)
    return tuple(reports)


def named_after(sensors: Iterable[str], bodies: Iterable[str]) -> dict[str, str]:
    """Body of each IMU that has a folder of its topic's name in common, as `imu/link_1/...`, `ground_truth/link_1/...`.

    Of folders that all share, as a namespace, nothing is to be had.
    """
    bodies, found = list(bodies), {}
    names = {body: body.rpartition(f"{TRUTH}/")[2].split("/")[0] for body in bodies}
    for sensor in sensors:
        of_name = [body for body in bodies if names[body] in sensor.split("/")[:-1]]
        if len(of_name) == 1:
            found[sensor] = of_name[0]
    return found


def _with_offset(report: ClockReport, fit: DelayFit, guess_s: float, told_by: Literal["turns", "ways"]) -> ClockReport:
    return replace(
        report,
        offset_s=guess_s + fit.offset_s,
        stddev_s=fit.stddev_s,
        told_by=told_by,
        explained=fit.explained,
        mirrored=fit.handedness < -_SURELY_MIRRORED,
    )


class _Kind(NamedTuple):
    """Words and limits of what is compared."""

    verb: str
    unit: str
    scale: float
    least: float

    def size(self, value: float) -> str:
        return f"{self.scale * value:.2g} {self.unit}"


_TURNS = _Kind("turn", "deg", float(np.rad2deg(1.0)), float(np.deg2rad(0.5)))
_WAYS = _Kind("move", "mm", 1e3, 0.003)


def _best(motion: Motion, sensed: Sensed, kind: _Kind) -> DelayFit | str:
    """The fit at the best offset within reach, or why there is none."""
    rate_hz = float(np.clip(_COARSE_ROWS / (motion.times_s[-1] - motion.times_s[0]), 10.0, 50.0))
    offsets, explained, true, seen = coarse(motion, sensed, LONGEST_OFFSET_S, _COARSE_STEP_S, rate_hz)
    if not len(offsets):
        return f"no second without a gap is there in which both {kind.verb}"
    peak = int(np.argmax(explained))
    if min(true, seen) < kind.least:
        return (
            f"it {kind.verb}s by {kind.size(min(true, seen))} RMS beside what is even, and {kind.size(kind.least)} is "
            f"needed (rest, or a steady {kind.verb}, tells nothing)"
        )
    if explained[peak] < _ENOUGH_EXPLAINED:
        return (
            f"the IMU explains {explained[peak]:.0%} of how the body {kind.verb}s, at the best offset within "
            f"{LONGEST_OFFSET_S:g} s (another body, or wrong axes?)"
        )
    if peak in (0, len(offsets) - 1):
        others = [f"{offset:+.2f}" for offset in _rivals(offsets, explained, peak)]
        return f"they fit best {' or '.join([f'{offsets[peak]:+.2f}', *others])} s apart, as far as was looked"
    fit = fit_delay(motion, sensed, float(offsets[peak]))
    if fit is None or fit.explained < _ENOUGH_EXPLAINED:
        return "too little is left between its jumps"
    if not fit.stddev_s < LARGEST_STDDEV_S:
        return f"the motion tells it to {1e3 * fit.stddev_s:.2g} ms only (1 sigma)"
    for rival in _rivals(offsets, explained, peak):
        other = fit_delay(motion, sensed, rival)
        if other is not None and _alike(fit, other):
            return (
                f"the motion repeats: {1e3 * fit.offset_s:.0f} ms and {1e3 * other.offset_s:.0f} ms fit alike "
                "(move it irregularly for some seconds)"
            )
    return fit


def _rivals(offsets: Rows, explained: Rows, peak: int) -> list[float]:
    """Other offsets at which the fit is best around, the best two of those that explain much."""
    inner = np.arange(1, len(offsets) - 1)
    tops = inner[(explained[inner] >= explained[inner - 1]) & (explained[inner] > explained[inner + 1])]
    tops = tops[(np.abs(tops - peak) > 2) & (explained[tops] > _RIVAL * explained[peak])]
    return [float(offsets[top]) for top in tops[np.argsort(-explained[tops])][:2]]


def _alike(fit: DelayFit, other: DelayFit) -> bool:
    """Whether it may be chance that the first one fits better, from the ratio of their residuals in each second."""
    if abs(other.offset_s - fit.offset_s) < 2.0 * _COARSE_STEP_S:
        return False
    first, second = fit.squares(_STRETCH_S), other.squares(_STRETCH_S)
    count = min(len(first), len(second))
    first, second = first[:count], second[:count]
    # Seconds of rest tell nothing: the half with the larger residuals does, of either.
    larger = np.maximum(first, second)
    busy = (first > 0.0) & (second > 0.0) & (larger >= np.median(larger))
    ratios = np.log(second[busy] / first[busy])
    return len(ratios) < 2 or float(ratios.mean()) < _SURE * float(ratios.std()) / np.sqrt(len(ratios))


def _of_turns(report: ClockReport, fit: DelayFit, turning: NDArray[np.bool_]) -> ClockReport:
    """How the frames are turned against each other, as far as the turns tell."""
    if not turning.all():
        scale = float(np.linalg.norm(fit.matrix, axis=0).mean())
        if turning.sum() > 1:
            return replace(report, scale=scale)
        x, y, z = (fit.matrix[:, 0] / scale).tolist()
        return replace(report, scale=scale, axis=(x, y, z))
    seen, true = fit.sensed, fit.left + fit.sensed @ fit.matrix.T
    scale = float(np.sqrt(np.sum((seen @ fit.matrix.T) ** 2) / np.sum(seen**2)))
    left, _, right = np.linalg.svd(true.T @ seen)
    turn = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    turned = scale * seen @ turn.T
    # A small turn e more moves what is turned by e x turned.
    slopes = np.stack([np.cross(axis, turned) for axis in np.eye(3)], axis=2)
    information = np.einsum("rci,rcj->ij", slopes, slopes)
    if np.linalg.cond(information) > 1.0 / _STILL_AXIS:
        return replace(report, scale=scale)
    inverse = np.linalg.inv(information)
    noise = long_run_variance(fit.times_s, np.einsum("rci,rc->ri", slopes, true - turned))
    # A gyro's own skewness turns it, too: so far is M from any rotation.
    skewness = float(np.sum((fit.matrix / scale - turn) ** 2)) / 6.0
    stddev = np.sqrt(np.diag(inverse @ noise @ inverse) + skewness)
    if stddev.max() > _ROTATION_TOLD_RAD:
        return replace(report, scale=scale)
    x, y, z = Rotation.from_matrix(turn).as_rotvec().tolist()
    sx, sy, sz = stddev.tolist()
    return replace(report, scale=scale, rotation_rad=(x, y, z), rotation_stddev_rad=(sx, sy, sz))
