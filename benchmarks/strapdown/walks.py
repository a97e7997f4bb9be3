"""Recorded walks: position and height of the strapdown filter, and touchdowns against Vicon, labels and force.

The figures of `docs/strapdown.md`, position through the same `evaluate` as a user's. Needs the recordings; nothing here
is timed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from benchmarks.measuring import in_turns, recordings, row
from benchmarks.strapdown.touchdowns import (
    Matches,
    Touchdown,
    TouchdownParameters,
    begun_later,
    cleaned_runs,
    find_touchdowns,
    label_onsets,
    match_onsets,
    match_stances,
    onsets,
    speed_from_position,
    stances_from_force,
    stances_from_position,
)
from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import convert
from onboard_estimation.report.evaluate import evaluate_bag
from recorded_robots.pyshoe import read_pyshoe
from recorded_robots.quadruped import contact_threshold, read_quadruped
from strapdown_estimation.estimators.estimator import StrapdownEstimator
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.model.state import attitude

RUNS_UNASKED = ("recorded_walks",)


@dataclass(frozen=True)
class TouchdownHeight:
    """Parameters.

    Attributes
    ----------
    acceleration_density
        Noise density of the vertical acceleration, with the errors of tilt and scale, m/s^2/sqrt(Hz).
    ground_stddev_m
        How well the ground's height is known, and how high the IMU is above it at touchdown.
    stance_speed_stddev_m_s
        Vertical speed at touchdown; None: it tells nothing.
    """

    acceleration_density: float = 0.05
    ground_stddev_m: float = 0.01
    stance_speed_stddev_m_s: float | None = None


def filter_height(
    stamps_ns: NDArray[np.int64],
    acceleration_m_s2: NDArray[np.float64],
    touchdowns_ns: NDArray[np.int64],
    parameters: TouchdownHeight | None = None,
) -> NDArray[np.float64]:
    """Height and its standard deviation (K, 2), m, from the first stamp on, where the IMU rests at height zero.

    Parameters
    ----------
    stamps_ns, acceleration_m_s2
        (K,) stamps and vertical accelerations without gravity, upwards.
    touchdowns_ns
        (M,) stamps of the readings that showed a touchdown: the foot still stands there. The update comes with the
        first reading at or after each.

    Raises
    ------
    UserError
        Stamps that do not increase, or arrays that differ in length.
    """
    p = parameters or TouchdownHeight()
    if len(stamps_ns) != len(acceleration_m_s2):
        raise UserError(f"{len(acceleration_m_s2)} accelerations for {len(stamps_ns)} stamps")
    steps = np.diff(stamps_ns) / NANOSECONDS_PER_SECOND
    if (steps <= 0.0).any():
        raise UserError(f"stamps must increase; {np.count_nonzero(steps <= 0.0)} of {len(steps)} steps do not")
    updated = np.zeros(len(stamps_ns), dtype=bool)
    places = np.searchsorted(stamps_ns, touchdowns_ns)
    updated[places[places < len(stamps_ns)]] = True
    mean, covariance = np.zeros(2), np.zeros((2, 2))
    heights: NDArray[np.float64] = np.zeros((len(stamps_ns), 2))
    for k in range(1, len(stamps_ns)):
        dt = float(steps[k - 1])
        move = np.array([[1.0, dt], [0.0, 1.0]])
        acceleration = 0.5 * (acceleration_m_s2[k - 1] + acceleration_m_s2[k])
        noise = p.acceleration_density**2 * np.array([[dt**3 / 3.0, dt**2 / 2.0], [dt**2 / 2.0, dt]])
        mean = move @ mean + np.array([0.5 * dt**2, dt]) * acceleration
        covariance = move @ covariance @ move.T + noise
        if updated[k]:
            mean, covariance = _updated(mean, covariance, 0, p.ground_stddev_m)
            if p.stance_speed_stddev_m_s is not None:
                mean, covariance = _updated(mean, covariance, 1, p.stance_speed_stddev_m_s)
        heights[k] = mean[0], np.sqrt(covariance[0, 0])
    return heights


def _updated(
    mean: NDArray[np.float64], covariance: NDArray[np.float64], element: int, stddev: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance (Joseph's form) after one element of the state is measured as zero."""
    gain = covariance[:, element] / (covariance[element, element] + stddev**2)
    keep = np.eye(2)
    keep[:, element] -= gain
    return mean - gain * mean[element], keep @ covariance @ keep.T + stddev**2 * np.outer(gain, gain)


TARGETS_CM = {
    "2017-11-22-11-27-30": 4.0,
    "2017-11-22-11-48-35": 7.0,
    "2017-11-27-11-12-44": 8.0,
    "2018-02-09-11-16-53": 12.0,
}
WALKS = tuple(name for name in TARGETS_CM if name.startswith("2017"))
VERTICAL_TARGET_CM = 5.0
SHARE_TARGET = 0.97
WITHOUT = {"all parts": {}, "without heights": {"ground.enabled": False}}
GO1 = TouchdownParameters(accelerometer_range_m_s2=4.0 * STANDARD_GRAVITY_M_S2)


@dataclass(frozen=True, eq=False)
class Walk:
    """A recording: (K,) stamps ns and times s, IMU readings (K, 6), position (K, 3) m and the labels by their names."""

    stamps_ns: NDArray[np.int64]
    times_s: NDArray[np.float64]
    readings: NDArray[np.float64]
    position_m: NDArray[np.float64]
    labels: dict[str, NDArray[np.bool_]]
    vicon_threshold_m_s: float

    def touchdowns(self) -> list[Touchdown]:
        """All, with the default parameters."""
        return find_touchdowns(self.stamps_ns, self.readings)


def load_walk(path: Path) -> Walk:
    """A recording with its labels, which `read_pyshoe` leaves out."""
    content = read_pyshoe(path).recording
    imu, truth = content.sensors[0], content.truth[0]
    names = ("zv_vicon_opt", "zv_shoe_opt", "zv_ared_opt", "zv_amvd_opt", "zv_mbgtd_opt")
    arrays = loadmat(path, variable_names=[*names, "G_vicon_opt"])
    labels = {name: arrays[name].ravel() > 0 for name in names}
    times = imu.stamps_ns / NANOSECONDS_PER_SECOND
    return Walk(imu.stamps_ns, times, imu.values, truth.values, labels, float(arrays["G_vicon_opt"].item()))


def recorded_walks(quick: bool) -> list[dict[str, Any]]:
    """Recorded walks: position and height of the strapdown filter, and touchdowns against Vicon, labels and force."""
    files = {name: recordings("pyshoe_vicon") / f"{name}.mat" for name in TARGETS_CM}
    walks = {name: load_walk(path) for name, path in files.items()}
    return [
        *position_rows(files),
        *height_rows(walks),
        *landing_rows(walks),
        *label_rows(walks),
        *quadruped_rows(recordings("quadruped_foot") / "go1_slippery_surface.csv"),
    ]


def position_rows(files: dict[str, Path]) -> list[dict[str, Any]]:
    """Position error of the strapdown filter in cm RMS after heading alignment, whole and without heights."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bags = {name: Path(folder) / name for name in files}
        for name, path in files.items():
            convert("pyshoe", path, bags[name])
        for variant, overrides in WITHOUT.items():
            for name, bag in bags.items():
                error = error_cm(bag, overrides)
                target = () if overrides else (f"<= {TARGETS_CM[name]:g} cm", error <= TARGETS_CM[name])
                rows.append(row(f"{name}, {variant}", f"{error:.1f} cm", *target))
    return rows


def error_cm(bag: Path, overrides: dict[str, Any]) -> float:
    """RMS of the position error."""
    result = evaluate_bag(bag, EvaluateOptions(robot="strapdown", overrides=overrides), write=False).result
    return 100.0 * float(np.asarray(result.metrics["position"]["position_ate_rmse_m"]))


def height_rows(walks: dict[str, Walk]) -> list[dict[str, Any]]:
    """Vertical error in cm RMS: the strapdown filter, and the two-state filter with updates at touchdowns only."""
    rows = []
    for name, walk in walks.items():
        with_heights, _ = strapdown(walk, {})
        _, acceleration = strapdown(walk, {"ground.enabled": False})
        seen = np.array([one.seen_ns for one in walk.touchdowns()])
        error = vertical_error_cm(walk, with_heights)
        held = f"<= {VERTICAL_TARGET_CM:g} cm", error <= VERTICAL_TARGET_CM
        rows.append(row(f"{name}, height, strapdown filter", f"{error:.1f} cm", *held))
        # Whoever stands still touches down no more: without updates the height drifts away.
        stepping = walk.stamps_ns <= seen[-1] + NANOSECONDS_PER_SECOND // 2
        for title, speed in (("position", None), ("position and velocity", 0.05)):
            height = filter_height(walk.stamps_ns, acceleration, seen, TouchdownHeight(stance_speed_stddev_m_s=speed))
            whole = vertical_error_cm(walk, height[:, 0])
            until = vertical_error_cm(walk, np.where(stepping, height[:, 0], np.nan))
            case = f"{name}, height, {title} updates at touchdowns"
            rows.append(row(case, f"{whole:.1f} cm; {until:.1f} cm until the last"))
    return rows


def strapdown(walk: Walk, overrides: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Height (K,), m, NaN before the start, and vertical acceleration (K,), m/s^2, by the filter's attitude."""
    configuration = load(Strapdown, None, overrides)
    estimator = StrapdownEstimator(configuration)
    state = estimator.start(None)
    height = np.full(len(walk.stamps_ns), np.nan)
    acceleration = np.zeros(len(walk.stamps_ns))
    for k, (stamp, reading) in enumerate(zip(walk.stamps_ns.tolist(), walk.readings, strict=True)):
        state, estimate, *_ = estimator.step(state, Measurement(stamp, "imu/foot", reading))
        if estimate is not None:
            height[k] = estimate.mean[2]
            acceleration[k] = (attitude(estimate.mean) @ reading[IMU.linear_acceleration])[
                2
            ] - configuration.start.gravity_m_s2
    return height, acceleration


def vertical_error_cm(walk: Walk, height_m: NDArray[np.float64]) -> float:
    """RMS against Vicon's height over that at the start (median of 50 samples), where there is an estimate."""
    known = np.isfinite(height_m)
    truth = walk.position_m[:, 2] - np.median(walk.position_m[:50, 2])
    return 100.0 * float(np.sqrt(np.mean((height_m - truth)[known] ** 2)))


def landing_rows(walks: dict[str, Walk]) -> list[dict[str, Any]]:
    """Touchdowns against the landings that Vicon shows; the lifts by hand by stance, since they have no sharp onset."""
    rows, total = [], []
    for name, walk in walks.items():
        found = walk.touchdowns()
        happened = times_of(found)
        stances = begun_later(stances_from_position(walk.position_m, walk.times_s), walk.times_s)
        by_time = name in WALKS
        matches = match_onsets(stances[:, 0], happened) if by_time else match_stances(stances, happened)
        delays = [(one.seen_ns - one.happened_ns) * 1e-6 for one in found]
        rule = "within 50 ms" if by_time else "one in each stance"
        found_row = share_row(f"{name}, touchdowns against Vicon, {rule}", [matches])
        rows.append(
            found_row | {"delay_ms_median": round(float(np.median(delays))), "delay_ms_worst": round(max(delays))}
        )
        if by_time:
            total.append(matches)
    return [*rows, share_row("the walks together, touchdowns against Vicon, within 50 ms", total)]


def label_rows(walks: dict[str, Walk]) -> list[dict[str, Any]]:
    """Against the cleaned label `zv_vicon_opt`: the detector, other detectors, and Vicon itself by a threshold."""
    reference = {name: label_onsets(walk.labels["zv_vicon_opt"], walk.times_s) for name, walk in walks.items()}

    def judged(found: dict[str, NDArray[np.float64]]) -> list[Matches]:
        return [match_onsets(reference[name], found[name]) for name in walks]

    touchdowns = {name: walk.touchdowns() for name, walk in walks.items()}
    rows = []
    for title, seen in (("happened", False), ("seen", True)):
        one_each = judged({name: times_of(found, seen) for name, found in touchdowns.items()})
        rows += [
            share_row(f"{name}, label against touchdown {title}", [one])
            for name, one in zip(walks, one_each, strict=True)
        ]
        rows.append(with_target(share_row(f"all, label against touchdown {title}", one_each)))
    for label in ("zv_shoe_opt", "zv_ared_opt", "zv_amvd_opt", "zv_mbgtd_opt"):
        other = judged({name: label_onsets(walk.labels[label], walk.times_s) for name, walk in walks.items()})
        rows.append(share_row(f"all, label against {label}, tuned to each recording", other))
    smoothings = (5, 9, 13)
    speeds = {
        (name, samples): speed_from_position(walk.position_m, walk.times_s, samples)
        for name, walk in walks.items()
        for samples in smoothings
    }

    def slower(samples: int, threshold_m_s: float | None) -> list[Matches]:
        """Vicon's speed below a threshold, cleaned as the labels are; None: below that of each label."""
        found = {}
        for name, walk in walks.items():
            slow = speeds[name, samples] < (threshold_m_s or walk.vicon_threshold_m_s)
            found[name] = onsets(cleaned_runs(slow, walk.times_s, 0.1, 0.1), walk.times_s)
        return judged(found)

    rules = [(threshold, samples) for threshold in np.geomspace(0.01, 1.5, 60).tolist() for samples in smoothings]
    threshold, samples = max(rules, key=lambda rule: balance(slower(rule[1], rule[0])))
    own = max((slower(samples, None) for samples in smoothings), key=balance)
    best = slower(samples, threshold)
    return [
        *rows,
        share_row(f"all, label against Vicon's speed below {threshold:.3f} m/s, the best of {len(rules)} rules", best),
        share_row("all, label against Vicon's speed below each label's own threshold", own),
    ]


def quadruped_rows(path: Path) -> list[dict[str, Any]]:
    """Touchdowns of the quadruped against the onsets of the force, parameters as for the walks but for the range."""
    if not path.exists():
        return []
    imu, force = read_quadruped(path).recording.sensors
    counts, times = force.values[:, 0], force.stamps_ns / NANOSECONDS_PER_SECOND
    reference = onsets(stances_from_force(counts, times, contact_threshold(counts)), times)
    found = times_of(find_touchdowns(imu.stamps_ns, imu.values, GO1))
    return [
        share_row(f"quadruped, touchdowns against the force, within {round(1000 * tolerance)} ms", [matches])
        | {"error_ms_median": round(1000 * float(np.median(matches.errors_s)))}
        for tolerance in (0.05, 0.1)
        for matches in [match_onsets(reference, found, tolerance)]
    ]


def times_of(touchdowns: list[Touchdown], seen: bool = False) -> NDArray[np.float64]:
    """When they happened, or were seen, s."""
    return np.array([one.seen_ns if seen else one.happened_ns for one in touchdowns]) / NANOSECONDS_PER_SECOND


def balance(matches: list[Matches]) -> float:
    """Twice what was matched over all of both."""
    count = sum(one.reference_count + one.found_count for one in matches)
    return 2.0 * sum(len(one.errors_s) for one in matches) / max(count, 1)


def share_row(case: str, matches: list[Matches]) -> dict[str, Any]:
    """Recall and precision of several recordings together."""
    matched = sum(len(one.errors_s) for one in matches)
    reference, found = sum(one.reference_count for one in matches), sum(one.found_count for one in matches)
    recall, precision = matched / max(reference, 1), matched / max(found, 1)
    return {
        "case": case,
        "figure": f"{matched} of {reference} found, {matched} of {found} right",
        "recall": round(recall, 3),
        "precision": round(precision, 3),
    }


def with_target(shares: dict[str, Any]) -> dict[str, Any]:
    """A row of `share_row`, judged."""
    met = min(shares["recall"], shares["precision"]) >= SHARE_TARGET
    return shares | {"target": f">= {SHARE_TARGET:g} both", "met": met}


SHARES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.55, 0.75)
SLOW_RAD_S = (0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
NEARLY_AS_GOOD = 1.1
LEFT_OUT_CM, COVERED_TARGET = 6.0, 0.97
Setting = tuple[float, float]


def walks_left_out(quick: bool) -> list[dict[str, Any]]:
    """Recorded walks by a strapdown filter whose contact detector was set without the walk that is judged.

    What decides between stance and swing is the share of the recent peak of energy, and what counts as slow. Both are
    varied over a grid, from a quarter of the shipped values to three times them; of the settings within 10 % of the
    best on three walks (geometric mean of the position errors), the middle one judges the fourth, each in turn.
    """
    shares, slow = (SHARES[3:6], SLOW_RAD_S[3:4]) if quick else (SHARES, SLOW_RAD_S)
    settings = list(product(shares, slow))
    with tempfile.TemporaryDirectory() as folder:
        bags = {name: Path(folder) / name for name in TARGETS_CM}
        for name, bag in bags.items():
            convert("pyshoe", recordings("pyshoe_vicon") / f"{name}.mat", bag)
        jobs = list(product(bags.values(), settings))
        found = dict(zip(jobs, in_turns(_judged_setting, jobs), strict=True))
    rows = []
    for name, bag in bags.items():
        others = [one for one in bags.values() if one != bag]
        share, slow_rad_s = chosen = middle({one: [found[bag, one][0] for bag in others] for one in settings})
        error_cm, within = found[bag, chosen]
        figure = f"{error_cm:.1f} cm, within 3 sigma {within:.3f}; share {share:g}, slow {slow_rad_s:g} rad/s"
        met = error_cm <= LEFT_OUT_CM and within >= COVERED_TARGET
        rows.append(row(f"{name}, left out", figure, f"<= {LEFT_OUT_CM:g} cm, {COVERED_TARGET:g}", met))
    return rows


def middle(errors_cm: dict[Setting, list[float]]) -> Setting:
    """The setting in the middle, by ratios, of those that do nearly as well as the best."""
    scores = {one: float(np.exp(np.mean(np.log(errors)))) for one, errors in errors_cm.items()}
    best = min(scores.values())
    centre = np.mean([np.log(one) for one, score in scores.items() if score <= NEARLY_AS_GOOD * best], axis=0)
    return min(scores, key=lambda one: float(np.sum((np.log(one) - centre) ** 2)))


def _judged_setting(bag: Path, setting: Setting) -> tuple[float, float]:
    """RMS of the position error, cm, and how much of it is within three standard deviations."""
    overrides = {"contact.relative_energy": setting[0], "contact.slow_energy_rad_s": setting[1]}
    result = evaluate_bag(bag, EvaluateOptions(robot="strapdown", overrides=overrides), write=False).result
    position = result.metrics["position"]
    return 100.0 * float(position["position_ate_rmse_m"]), float(position["coverage_3_sigma"])
