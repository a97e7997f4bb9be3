"""How far the truth's clock is from an IMU's, and how their frames are turned: found from the motion, or refused.

The offset is what has to be added to the truth's stamps. It holds all that delays the one more than the other:
clocks, buffers, a gyro's own low-pass filter; motion alone cannot tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.bulk import Column
from onboard_estimation.bags.topics import TRUTH
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, POSE
from onboard_estimation.contract.tracks import BodyTrack, clock_parts
from onboard_estimation.soundness.delay_fit import (
    DelayFit,
    Motion,
    Sensed,
    body_turns,
    body_ways,
    coarse,
    fit_delay,
    gyro_turns,
    imu_ways,
    long_run_variance,
)

Rows = NDArray[np.float64]

LONGEST_OFFSET_S = 1.0
"""Looked for so far either way of where the recorder saw the two."""
LARGEST_STDDEV_S = 3e-3
"""An offset that is told worse than this is refused."""

_COARSE_STEP_S = 0.01
_COARSE_ROWS = 3000
_ENOUGH_EXPLAINED = 0.5
# Of what the sensor does not explain (markers that give way, a skew gyro) so much may go along with the motion.
_ALONG_SHARE = 0.03
_SURELY_MIRRORED = 0.8
_CLEARLY_OWN = 0.97
_MOST_PAIRS = 60
_RIVAL = 0.5
_SURE = 4.0
_STRETCH_S = 1.0
_ROTATION_TOLD_RAD = np.deg2rad(3.0)
_STILL_AXIS = 1e-9
_STILL_SHARE, _SURELY, _MOVING = 0.1, 20.0, 3.0
_CLIPPED_OFTEN, _SHOCK_M_S2 = 5, 30.0
_SURELY_TURNED_RAD = np.deg2rad(20.0)
_W_FIRST = "its driver writes w first"
_ALONG = float(np.cos(np.deg2rad(9.0)))
_CONJUGATE = np.array([-1.0, -1.0, -1.0, 1.0])
Integers = NDArray[np.int64]

_LONGEST_S = 300.0
_MOST_STRETCHES = 2000
_SHORTEST_S = 5.0
_OTHER_CLOCK_S = 0.5
_FARTHEST_S = 3e9
# Beyond these no body moves; sums and squares of such numbers would overflow.
_LARGEST_READING = 1e6
_LARGEST_POSITION_M = 1e6
# Weighs changes of rates (rad/s) against those of forces (m/s^2) where the liveliest part of a recording is looked for.
_LIVELY = np.repeat([1.0, 0.1], 3)

# What the readings' sampling leaves open beside the noise: no IMU of several outweighs the others by more.
_LEAST_STDDEV_S = 2e-4


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
        Of the IMU's readings, each counted once however often its driver repeats it.
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
    attitude
        What is wrong with the body's orientation, in words that follow it; empty: nothing that shows.
    still
        How the gyro stands still while the body turns, in words that follow the sensor; empty: it does not.
    weaker
        Why turns were not compared, where the ways are, which tell less.
    contradicted
        The body turns, or moves, otherwise than the IMU.
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
    attitude: str = ""
    still: str = ""
    weaker: str = ""
    contradicted: bool = False


def find_offset(sensor: str, body: str, readings: Column, tracked: TrackedBody) -> ClockReport:
    """Compare one IMU with one body: by what they turn; by the way that they go where turns do not tell."""
    found_overlap = overlap(readings, tracked)
    if isinstance(found_overlap, str):
        return ClockReport(sensor, body, found_overlap)
    guess_s, common_s, times_s, values, body_s, poses = found_overlap
    turning = turning_axes(values[:, IMU.angular_velocity])
    blank = ClockReport(sensor, body, "", common_s=common_s, period_s=_fresh_period_s(times_s, values))
    reasons, unexplained = [], False
    if poses.shape[1] == 7:
        rates, quaternions = values[:, IMU.angular_velocity], poses[:, POSE.orientation]
        if still := _standing(rates, quaternions):
            return replace(blank, still=still, refused=f"its gyro {still}")
        if turning.any():
            sensed = gyro_turns(times_s, rates[:, turning])
            found = _best(body_turns(body_s, quaternions), sensed, _TURNS)
            if isinstance(found, DelayFit):
                told = _of_turns(blank, found, turning)
                told = replace(told, attitude=_other_order(told, turning, body_s, quaternions, sensed))
                return _with_offset(told, found, guess_s, "turns")
            if found.cause == "still":
                return replace(blank, still=found.words, refused=f"its gyro {found.words}")
            up = np.column_stack([np.interp(body_s, times_s, axis) for axis in values[:, IMU.linear_acceleration].T])
            attitude = _wrong_attitude(body_s, quaternions, sensed, up) if found.cause else ""
            unexplained = found.cause == "unexplained" and not attitude
            blank = replace(blank, attitude=attitude, weaker=found.words)
            reasons.append(f"its orientation {attitude}" if attitude else found.words)
    if clipped := _clipped_at(values[:, IMU.linear_acceleration]):
        reasons.append(f"its accelerometer is clipped at {clipped:.0f} m/s^2")
    elif np.isfinite(values).all() and turning.all():
        sensed = imu_ways(times_s, values[:, IMU.angular_velocity], values[:, IMU.linear_acceleration])
        found = _best(body_ways(body_s, poses[:, POSE.position]), sensed, _WAYS)
        if isinstance(found, DelayFit):
            if unexplained and found.explained > _CLEARLY_OWN:
                blank = replace(blank, attitude="is not how it turns, though its positions agree with the IMU")
            return _with_offset(blank, found, guess_s, "ways")
        reasons.append(found.words)
        unexplained = unexplained or found.cause == "unexplained"
    lacking = "it has no gyro with three axes, and no orientation of the body is there for fewer"
    if poses.shape[1] == 7:
        lacking = "it has no gyro, without which its accelerations have no direction"
    return replace(blank, refused="; ".join(reasons) or lacking, contradicted=unexplained)


def _fresh_period_s(times_s: Rows, values: Rows) -> float:
    changes = np.count_nonzero((np.diff(np.nan_to_num(values), axis=0) != 0.0).any(axis=1))
    return float(np.median(np.diff(times_s))) * (len(times_s) - 1) / max(int(changes), 1)


def _clipped_at(forces: Rows) -> float:
    """Largest size of an accelerometer's readings (N, 3) if it is met so often that it is its range; else zero."""
    sizes = np.nan_to_num(np.abs(forces))
    largest = float(sizes.max(initial=0.0))
    often = np.count_nonzero(sizes > (1.0 - 1e-6) * largest) >= _CLIPPED_OFTEN
    return largest if often and largest > _SHOCK_M_S2 else 0.0


def _standing(rates: Rows, quaternions: Rows) -> str:
    """How a gyro (N, 3) stands still while the body (K, 4) turns; empty where it moves, or is not there."""
    turned = Rotation.from_quat(quaternions[0]).inv() * Rotation.from_quat(quaternions)
    most_rad = float(turned.magnitude().max())
    if most_rad < _SURELY_TURNED_RAD or not np.isfinite(rates).any():
        return ""
    if np.ptp(np.nan_to_num(rates), axis=0).max() > 0.0:
        return ""
    reads = "reads zero" if not np.nan_to_num(rates).any() else "repeats one reading"
    return f"{reads} while the body turns by up to {np.rad2deg(most_rad):.0f} deg"


def _wrong_attitude(body_s: Rows, quaternions: Rows, sensed: Sensed, up: Rows) -> str:
    """What is wrong with orientations (K, 4), x, y, z, w, that contradict a gyro; empty where nothing is found.

    Written w first, an orientation turns as its inverse does, seen from a body that is turned otherwise: gravity tells
    them apart.
    """
    if not np.ptp(quaternions, axis=0).any():
        return "never changes, while the gyro turns"
    x_first = quaternions[:, [1, 2, 3, 0]]
    forms = {
        f"agrees with the gyro as w, x, y, z: {_W_FIRST}": x_first,
        "agrees with the gyro inverted: it is from the world to the body": quaternions * _CONJUGATE,
        f"agrees with the gyro inverted and as w, x, y, z: {_W_FIRST}": x_first * _CONJUGATE,
    }
    upright = {}
    for words, form in forms.items():
        fit = _best(body_turns(body_s, np.ascontiguousarray(form)), sensed, _TURNS)
        if isinstance(fit, DelayFit) and fit.handedness > 0.0 and fit.explained > _CLEARLY_OWN:
            left, _, right = np.linalg.svd(fit.matrix)
            world = Rotation.from_quat(form).apply(up @ (left @ right).T).mean(axis=0)
            upright[words] = float(np.nan_to_num(world[2] / np.linalg.norm(world)))
    return max(upright, key=lambda words: upright[words], default="")


def _other_order(
    report: ClockReport, turning: NDArray[np.bool_], body_s: Rows, quaternions: Rows, sensed: Sensed
) -> str:
    """Whether a body turns about the one axis of its gyro as soon as its quaternion (K, 4) is read w first."""
    own = turning.astype(np.float64)
    if report.axis is None or abs(own @ report.axis) > _ALONG:
        return ""
    fit = _best(body_turns(body_s, np.ascontiguousarray(quaternions[:, [1, 2, 3, 0]])), sensed, _TURNS)
    if not isinstance(fit, DelayFit) or fit.explained < _CLEARLY_OWN:
        return ""
    axis = fit.matrix[:, 0] / np.linalg.norm(fit.matrix[:, 0])
    return f"turns about the gyro's axis as w, x, y, z: {_W_FIRST}" if own @ axis > _ALONG else ""


def pair(
    imus: Mapping[str, Column], bodies: Mapping[str, TrackedBody], named: Mapping[str, str]
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
        if own is not None and not own.contradicted and (own.explained is None or own.explained > _CLEARLY_OWN):
            reports.append(own)
            continue
        others = [body for body in bodies if own is None or body != own.body][: max(1, _MOST_PAIRS // len(imus))]
        found = [find_offset(sensor, body, readings, bodies[body]) for body in others]
        best = max(found, key=lambda report: report.explained or 0.0, default=None)
        if best is not None and len(bodies) > 1:
            best = replace(best, still="")  # it may be on none of them
        if own is not None:
            moves_so = best is not None and (best.explained or 0.0) > _CLEARLY_OWN
            best = replace(own, rather=best.body) if best is not None and moves_so else own
        reports += [best] if best is not None else []
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


class _Refusal(NamedTuple):
    """Why there is no fit, and where it is more than too little motion, which contradiction; `one` moves alone."""

    words: str
    cause: Literal["", "still", "one", "unexplained"] = ""


def _best(motion: Motion, sensed: Sensed, kind: _Kind) -> DelayFit | _Refusal:
    """The fit at the best offset within reach, or why there is none."""
    rate_hz = float(np.clip(_COARSE_ROWS / (motion.times_s[-1] - motion.times_s[0]), 10.0, 50.0))
    offsets, explained, true, seen = coarse(motion, sensed, LONGEST_OFFSET_S, _COARSE_STEP_S, rate_hz)
    if not len(offsets):
        return _Refusal(f"no second without a gap is there in which both {kind.verb}")
    peak = int(np.argmax(explained))
    if seen < _STILL_SHARE * true and true > _SURELY * kind.least and explained[peak] < _ENOUGH_EXPLAINED:
        words = f"{kind.verb}s by {kind.size(seen)} RMS where the body {kind.verb}s by {kind.size(true)}: it is dead"
        return _Refusal(words, "still")
    if min(true, seen) < kind.least:
        return _Refusal(
            f"it {kind.verb}s by {kind.size(min(true, seen))} RMS beside what is even, and {kind.size(kind.least)} is "
            f"needed (rest, or a steady {kind.verb}, tells nothing)",
            "unexplained" if max(true, seen) > _SURELY * kind.least else "one" if seen > _MOVING * kind.least else "",
        )
    if explained[peak] < _ENOUGH_EXPLAINED:
        return _Refusal(
            f"the IMU explains {explained[peak]:.0%} of how the body {kind.verb}s, at the best offset within "
            f"{LONGEST_OFFSET_S:g} s (another body, or wrong axes?)",
            "unexplained",
        )
    if peak in (0, len(offsets) - 1):
        others = [f"{offset:+.2f}" for offset in _rivals(offsets, explained, peak)]
        at = " or ".join([f"{offsets[peak]:+.2f}", *others])
        return _Refusal(f"they fit best {at} s apart, as far as was looked")
    fit = fit_delay(motion, sensed, float(offsets[peak]))
    if fit is None or fit.explained < _ENOUGH_EXPLAINED:
        return _Refusal("too little is left between its jumps")
    fit = replace(fit, stddev_s=math.hypot(fit.stddev_s, _ALONG_SHARE * fit.slack_s()))
    if not fit.stddev_s < LARGEST_STDDEV_S:
        return _Refusal(f"the motion tells it to {1e3 * fit.stddev_s:.2g} ms only (1 sigma)")
    for rival in _rivals(offsets, explained, peak):
        other = fit_delay(motion, sensed, rival)
        if other is not None and _alike(fit, other):
            return _Refusal(
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


class TrackedBody(NamedTuple):
    """Truth of a body, and how long after its stamps it was recorded, see `delay_s`."""

    track: BodyTrack
    delay_s: float


class Overlap(NamedTuple):
    """What both know.

    Attributes
    ----------
    guess_s
        What was added to the truth's stamps, so that both are where the recorder saw them; 0 where they nearly are.
    common_s
        How long both know the motion; of long recordings the liveliest part.
    times_s, values
        (N,) and (N, 6) of the IMU, a little more than that.
    body_s, poses
        (K,) and (K, 7) or (K, 3) of the body, on the same axis of time.
    """

    guess_s: float
    common_s: float
    times_s: Rows
    values: Rows
    body_s: Rows
    poses: Rows


def overlap(readings: Column, tracked: TrackedBody) -> Overlap | str:
    """What both know, or in words why that is too little."""
    imu, track = _cleaned(readings), tracked.track
    if len(imu.stamps_ns) < 2 or len(track.stamps_ns) < 2:
        return "too few usable messages"
    guess_s = tracked.delay_s - delay_s(imu)
    guess_s = guess_s if abs(guess_s) > _OTHER_CLOCK_S else 0.0
    if abs(guess_s) > _FARTHEST_S or np.ptp(imu.stamps_ns.astype(np.float64)) > _FARTHEST_S * NANOSECONDS_PER_SECOND:
        return "their clocks are decades apart"
    truth_ns = track.stamps_ns + round(guess_s * NANOSECONDS_PER_SECOND)
    start_ns, stop_ns = _liveliest(imu, int(truth_ns[0]), int(truth_ns[-1]))
    common_s = (stop_ns - start_ns) / NANOSECONDS_PER_SECOND
    if common_s < _SHORTEST_S:
        return f"they share {max(common_s, 0.0):.1f} s, {_SHORTEST_S:g} s are needed"
    inside = (truth_ns >= start_ns) & (truth_ns <= stop_ns)
    inside &= (np.abs(track.values) < _LARGEST_POSITION_M).all(axis=1)
    reach_ns = round((LONGEST_OFFSET_S + 0.1) * NANOSECONDS_PER_SECOND)
    near = (imu.stamps_ns >= start_ns - reach_ns) & (imu.stamps_ns <= stop_ns + reach_ns)
    times_s = (imu.stamps_ns[near] - start_ns) / NANOSECONDS_PER_SECOND
    body_s = (truth_ns[inside] - start_ns) / NANOSECONDS_PER_SECOND
    if len(body_s) < 2 or len(times_s) < 4:
        return "too few usable messages"
    return Overlap(guess_s, common_s, times_s, imu.values[near], body_s, track.values[inside])


def turning_axes(rates: Rows) -> NDArray[np.bool_]:
    """Axes of a gyro that are there: a planar robot's driver leaves two at zero, or absent."""
    known = np.isfinite(rates).all(axis=0)
    return np.array(known & (np.nan_to_num(rates).std(axis=0) > 0.0))


def _cleaned(readings: Column) -> Column:
    """Rows in the order of their stamps, each stamp once, without those that are not finite."""
    stamps_ns, values = readings.stamps_ns, readings.values
    known = np.count_nonzero(np.isfinite(values), axis=0) > 0.5 * len(values)
    usable = np.array((np.abs(values[:, known]) < _LARGEST_READING).all(axis=1))
    # Parts of a clock that jumps back are no motion at all.
    start, stop = clock_parts(stamps_ns, np.zeros(len(stamps_ns), dtype=np.int64), longest_gap_s=math.inf).longest()
    usable[:start] = usable[stop:] = False
    if usable.all() and (stamps_ns[1:] > stamps_ns[:-1]).all():
        return readings
    rows = np.flatnonzero(usable)
    _, first = np.unique(stamps_ns[rows], return_index=True)
    return readings.at(rows[first])


def delay_s(column: Column) -> float:
    """How long after their stamps messages were recorded, in the median; 0 of none."""
    delays_ns = column.log_times_ns - column.stamps_ns
    return float(np.median(delays_ns)) / NANOSECONDS_PER_SECOND if len(delays_ns) else 0.0


def _liveliest(imu: Column, start_ns: int, stop_ns: int) -> tuple[int, int]:
    """The stretch that both know, or the part of a long one with the most motion."""
    start_ns, stop_ns = max(start_ns, int(imu.stamps_ns[0])), min(stop_ns, int(imu.stamps_ns[-1]))
    longest_ns = round(_LONGEST_S * NANOSECONDS_PER_SECOND)
    if stop_ns - start_ns <= longest_ns:
        return start_ns, stop_ns
    moving = np.nansum(np.abs(np.diff(imu.values, axis=0, prepend=imu.values[:1])) * _LIVELY, axis=1)
    total = np.concatenate([[0.0], np.cumsum(moving)])
    count = min((stop_ns - start_ns) * 20 // longest_ns, _MOST_STRETCHES)
    starts = np.linspace(start_ns, stop_ns - longest_ns, count, dtype=np.int64)
    sums = total[np.searchsorted(imu.stamps_ns, starts + longest_ns)] - total[np.searchsorted(imu.stamps_ns, starts)]
    first = int(starts[np.argmax(sums)])
    return first, first + longest_ns


class TruthClock(NamedTuple):
    """How far the truth's clock is from the sensors', by all IMUs that tell it: bodies have one clock.

    Attributes
    ----------
    offset_s, stddev_s
        To be added to the truth's stamps: the mean of all IMUs, by their uncertainties.
    each
        By IMU, where there are several: its offset.
    """

    offset_s: float
    stddev_s: float
    each: Mapping[str, float]

    def words(self) -> str:
        """The offset, how sure it is, and that of each IMU."""
        each = ", ".join(f"{name} {1e3 * offset:+.2f} ms" for name, offset in self.each.items())
        sure_ms = 3e3 * self.stddev_s
        return f"{1e3 * self.offset_s:+.2f} +- {sure_ms:.2f} ms (3 sigma){': ' if each else ''}{each}"


def truth_clock(reports: Iterable[ClockReport]) -> TruthClock | str:
    """The truth's clock, or why motion does not tell it."""
    reports = list(reports)
    told = [one for one in reports if one.offset_s is not None and not one.rather]
    if not told:
        reasons = dict.fromkeys(f"{one.sensor}: {why_not(one)}" for one in reports)
        return "; ".join(reasons) or "there is no IMU with a body that was tracked"
    offsets_s = np.array([one.offset_s for one in told])
    information = np.hypot([one.stddev_s or 0.0 for one in told], _LEAST_STDDEV_S) ** -2
    offset_s = float(information @ offsets_s / information.sum())
    each = {one.sensor: one.offset_s or 0.0 for one in told} if len(told) > 1 else {}
    return TruthClock(offset_s, float(information.sum() ** -0.5), each)


def why_not(report: ClockReport) -> str:
    """Why an IMU tells no offset."""
    return f"it moves as {report.rather} does, not as {report.body}" if report.rather else report.refused
