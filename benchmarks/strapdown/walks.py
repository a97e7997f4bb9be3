"""Recorded walks: position and height of the strapdown filter, and touchdowns against Vicon, labels and force.

The figures of `docs/strapdown.md`, position through the same `evaluate` as a user's. Needs the recordings; nothing here
is timed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from benchmarks.measuring import Array, Row, in_turns, recordings, rms, row
from benchmarks.strapdown.touchdowns import (
    Matches,
    Touchdown,
    TouchdownParameters,
    begun_later,
    cleaned_runs,
    find_touchdowns,
    match_onsets,
    match_stances,
    onsets,
    speed_from_position,
    stances_from_force,
    stances_from_position,
    together,
)
from onboard_estimation.base.configuration import load
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
TARGETS_CM = {
    "2017-11-22-11-27-30": 4.0,
    "2017-11-22-11-48-35": 7.0,
    "2017-11-27-11-12-44": 8.0,
    "2018-02-09-11-16-53": 12.0,
}
WALKS = tuple(name for name in TARGETS_CM if name.startswith("2017"))
VERTICAL_TARGET_CM, SHARE_TARGET = 5.0, 0.97
GO1 = TouchdownParameters(accelerometer_range_m_s2=4.0 * STANDARD_GRAVITY_M_S2)
LABELS = ("zv_vicon_opt", "zv_shoe_opt", "zv_ared_opt", "zv_amvd_opt", "zv_mbgtd_opt")
ACCELERATION_DENSITY, GROUND_STDDEV_M = 0.05, 0.01
"""Of the filter of height alone: m/s^2/sqrt(Hz), with the errors of tilt and scale; how well the ground is known."""


def filter_height(
    stamps_ns: NDArray[np.int64], acceleration_m_s2: Array, touchdowns_ns: Array, speed_stddev_m_s: float | None = None
) -> Array:
    """Height (K,), m, from the first stamp on, where the IMU rests at height zero: the simplest filter.

    Parameters
    ----------
    stamps_ns, acceleration_m_s2
        (K,) stamps and vertical accelerations without gravity, upwards.
    touchdowns_ns
        (M,) stamps of the readings that showed a touchdown: the foot still stands there. The update comes with the
        first reading at or after each.
    speed_stddev_m_s
        Of the vertical speed at touchdown; None: it tells nothing.
    """
    steps, updated = np.diff(stamps_ns) / NANOSECONDS_PER_SECOND, np.zeros(len(stamps_ns), dtype=bool)
    places = np.searchsorted(stamps_ns, touchdowns_ns)
    updated[places[places < len(stamps_ns)]] = True
    mean, covariance, heights = np.zeros(2), np.zeros((2, 2)), np.zeros(len(stamps_ns))
    for k, dt in enumerate(steps.tolist(), 1):
        move = np.array([[1.0, dt], [0.0, 1.0]])
        acceleration = 0.5 * (acceleration_m_s2[k - 1] + acceleration_m_s2[k])
        noise = ACCELERATION_DENSITY**2 * np.array([[dt**3 / 3.0, dt**2 / 2.0], [dt**2 / 2.0, dt]])
        mean = move @ mean + np.array([0.5 * dt**2, dt]) * acceleration
        covariance = move @ covariance @ move.T + noise
        for element, stddev in enumerate((GROUND_STDDEV_M, speed_stddev_m_s) if updated[k] else ()):
            if stddev is not None:  # measured as zero
                gain = covariance[:, element] / (covariance[element, element] + stddev**2)
                mean, covariance = mean - gain * mean[element], covariance - np.outer(gain, covariance[element])
        heights[k] = mean[0]
    return heights


class Walk(NamedTuple):
    """A recording: (K,) stamps ns and times s, IMU readings (K, 6), position (K, 3) m and the labels by their names."""

    stamps_ns: NDArray[np.int64]
    times_s: Array
    readings: Array
    position_m: Array
    labels: dict[str, NDArray[np.bool_]]

    def touchdowns(self) -> list[Touchdown]:
        """All, with the default parameters."""
        return find_touchdowns(self.stamps_ns, self.readings)

    def label_onsets(self, name: str) -> Array:
        """Onsets of labelled stances: gaps under 100 ms merged, runs under 100 ms dropped."""
        return onsets(cleaned_runs(self.labels[name], self.times_s), self.times_s)


def load_walk(path: Path) -> Walk:
    """A recording with its labels, which `read_pyshoe` leaves out."""
    content = read_pyshoe(path).recording
    imu, truth = content.sensors[0], content.truth[0]
    arrays = loadmat(path, variable_names=LABELS)
    labels = {name: arrays[name].ravel() > 0 for name in LABELS}
    return Walk(imu.stamps_ns, imu.stamps_ns / NANOSECONDS_PER_SECOND, imu.values, truth.values, labels)


def recorded_walks(quick: bool) -> list[Row]:
    """Recorded walks: position and height of the strapdown filter, and touchdowns against Vicon, labels and force."""
    with tempfile.TemporaryDirectory() as folder:
        rows = position_rows(converted(Path(folder)))
    walks = {name: load_walk(recordings("pyshoe_vicon") / f"{name}.mat") for name in TARGETS_CM}
    found = {name: walk.touchdowns() for name, walk in walks.items()}
    quadruped = quadruped_rows(recordings("quadruped_foot") / "go1_slippery_surface.csv")
    return [*rows, *height_rows(walks, found), *landing_rows(walks, found), *label_rows(walks, found), *quadruped]


def converted(folder: Path) -> dict[str, Path]:
    """Bags of the walks."""
    for name in TARGETS_CM:
        convert("pyshoe", recordings("pyshoe_vicon") / f"{name}.mat", folder / name)
    return {name: folder / name for name in TARGETS_CM}


def judged(bag: Path, overrides: Mapping[str, Any]) -> tuple[float, float]:
    """RMS of the position error after heading alignment, cm, and how much of it is within three deviations."""
    result = evaluate_bag(bag, EvaluateOptions(robot="strapdown", overrides=overrides), keep=None).result
    position = result.metrics["position"]
    return 100.0 * float(position["position_ate_rmse_m"]), float(position["coverage_3_sigma"])


def position_rows(bags: Mapping[str, Path]) -> list[Row]:
    """Position error of the strapdown filter, whole and without heights."""
    rows = []
    for variant, overrides in {"all parts": {}, "without heights": {"ground.enabled": False}}.items():
        for name, bag in bags.items():
            error, _ = judged(bag, overrides)
            target = () if overrides else (f"<= {TARGETS_CM[name]:g} cm", error <= TARGETS_CM[name])
            rows.append(row(f"{name}, {variant}", f"{error:.1f} cm", *target))
    return rows


def height_rows(walks: Mapping[str, Walk], found: Mapping[str, Sequence[Touchdown]]) -> list[Row]:
    """Vertical error in cm RMS: the strapdown filter, and the two-state filter with updates at touchdowns only."""
    rows = []
    for name, walk in walks.items():
        with_heights, _ = strapdown(walk, {})
        _, acceleration = strapdown(walk, {"ground.enabled": False})
        seen = np.array([one.seen_ns for one in found[name]])
        error = vertical_error_cm(walk, with_heights)
        held = f"<= {VERTICAL_TARGET_CM:g} cm", error <= VERTICAL_TARGET_CM
        rows.append(row(f"{name}, height, strapdown filter", f"{error:.1f} cm", *held))
        # Whoever stands still touches down no more: without updates the height drifts away.
        stepping = walk.stamps_ns <= seen[-1] + NANOSECONDS_PER_SECOND // 2
        for title, speed in (("position", None), ("position and velocity", 0.05)):
            height = filter_height(walk.stamps_ns, acceleration, seen, speed)
            whole, until = (vertical_error_cm(walk, one) for one in (height, np.where(stepping, height, np.nan)))
            case = f"{name}, height, {title} updates at touchdowns"
            rows.append(row(case, f"{whole:.1f} cm; {until:.1f} cm until the last"))
    return rows


def strapdown(walk: Walk, overrides: Mapping[str, Any]) -> tuple[Array, Array]:
    """Height (K,), m, NaN before the start, and vertical acceleration (K,), m/s^2, by the filter's attitude."""
    configuration = load(Strapdown, None, overrides)
    estimator = StrapdownEstimator(configuration)
    state, gravity = estimator.start(None), configuration.start.gravity_m_s2
    height, acceleration = np.full(len(walk.stamps_ns), np.nan), np.zeros(len(walk.stamps_ns))
    for k, (stamp, reading) in enumerate(zip(walk.stamps_ns.tolist(), walk.readings, strict=True)):
        state, estimate, *_ = estimator.step(state, Measurement(stamp, "imu/foot", reading))
        if estimate is not None:
            height[k] = estimate.mean[2]
            acceleration[k] = (attitude(estimate.mean) @ reading[IMU.linear_acceleration])[2] - gravity
    return height, acceleration


def vertical_error_cm(walk: Walk, height_m: Array) -> float:
    """RMS against Vicon's height over that at the start (median of 50 samples), where there is an estimate."""
    return 100.0 * rms(height_m - walk.position_m[:, 2] + np.median(walk.position_m[:50, 2]))


def landing_rows(walks: Mapping[str, Walk], found: Mapping[str, Sequence[Touchdown]]) -> list[Row]:
    """Touchdowns against the landings that Vicon shows; the lifts by hand by stance, since they have no sharp onset."""
    rows = []
    for name, walk in walks.items():
        happened = times_of(found[name])
        stances = begun_later(stances_from_position(walk.position_m, walk.times_s), walk.times_s)
        by_time = name in WALKS
        matches = match_onsets(stances[:, 0], happened) if by_time else match_stances(stances, happened)
        delays = [(one.seen_ns - one.happened_ns) * 1e-6 for one in found[name]]
        rule = "within 50 ms" if by_time else "one in each stance"
        shown = share_row(f"{name}, touchdowns against Vicon, {rule}", matches)
        rows.append(shown | {"delay_ms_median": round(float(np.median(delays))), "delay_ms_worst": round(max(delays))})
    return rows


def label_rows(walks: Mapping[str, Walk], found: Mapping[str, Sequence[Touchdown]]) -> list[Row]:
    """Against the cleaned label `zv_vicon_opt`: the detector, other detectors, and Vicon itself by a threshold."""
    reference = {name: walk.label_onsets(LABELS[0]) for name, walk in walks.items()}

    def all_matched(onsets_s: Mapping[str, Array]) -> Matches:
        return together([match_onsets(reference[name], onsets_s[name]) for name in walks])

    rows = []
    for title, seen in (("happened", False), ("seen", True)):
        matches = all_matched({name: times_of(some, seen) for name, some in found.items()})
        met = min(matches.recall, matches.precision) >= SHARE_TARGET
        rows.append(share_row(f"all, label against touchdown {title}", matches, f">= {SHARE_TARGET:g} both", met))
    for label in LABELS[1:]:
        other = all_matched({name: walk.label_onsets(label) for name, walk in walks.items()})
        rows.append(share_row(f"all, label against {label}, tuned to each recording", other))
    smoothings, slow = (5, 9, 13), []
    for samples in smoothings:
        speeds = {name: speed_from_position(walk.position_m, walk.times_s, samples) for name, walk in walks.items()}
        for threshold in np.geomspace(0.01, 1.5, 60).tolist():
            runs = {name: cleaned_runs(speeds[name] < threshold, walk.times_s) for name, walk in walks.items()}
            begun = {name: onsets(runs[name], walk.times_s) for name, walk in walks.items()}
            slow.append((threshold, all_matched(begun)))
    # Twice what was matched over all of both.
    threshold, best = max(slow, key=lambda one: len(one[1].errors_s) / (one[1].reference_count + one[1].found_count))
    case = f"all, label against Vicon's speed below {threshold:.3f} m/s, the best of {len(slow)} rules"
    return [*rows, share_row(case, best)]


def quadruped_rows(path: Path) -> list[Row]:
    """Touchdowns of the quadruped against the onsets of the force, parameters as for the walks but for the range."""
    imu, force = read_quadruped(path).recording.sensors
    counts, times = force.values[:, 0], force.stamps_ns / NANOSECONDS_PER_SECOND
    reference = onsets(stances_from_force(counts, times, contact_threshold(counts)), times)
    found, rows = times_of(find_touchdowns(imu.stamps_ns, imu.values, GO1)), []
    for tolerance in (0.05, 0.1):
        matches = match_onsets(reference, found, tolerance)
        shown = share_row(f"quadruped, touchdowns against the force, within {round(1000 * tolerance)} ms", matches)
        rows.append(shown | {"error_ms_median": round(1000 * float(np.median(matches.errors_s)))})
    return rows


def times_of(touchdowns: Sequence[Touchdown], seen: bool = False) -> Array:
    """When they happened, or were seen, s."""
    return np.array([one.seen_ns if seen else one.happened_ns for one in touchdowns]) / NANOSECONDS_PER_SECOND


def share_row(case: str, one: Matches, *target: Any) -> Row:
    """Recall and precision."""
    matched = len(one.errors_s)
    figure = f"{matched} of {one.reference_count} found, {matched} of {one.found_count} right"
    return row(case, figure, *target, recall=round(one.recall, 3), precision=round(one.precision, 3))


SHARES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.55, 0.75)
SLOW_RAD_S = (0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
NEARLY_AS_GOOD = 1.1
LEFT_OUT_CM, COVERED_TARGET = 6.0, 0.97
Setting = tuple[float, float]


def walks_left_out(quick: bool) -> list[Row]:
    """Recorded walks by a strapdown filter whose contact detector was set without the walk that is judged.

    What decides between stance and swing is the share of the recent peak of energy, and what counts as slow. Both are
    varied over a grid, from a quarter of the shipped values to three times them; of the settings within 10 % of the
    best on three walks (geometric mean of the position errors), the middle one judges the fourth, each in turn.
    """
    settings = list(product(SHARES[3:6], SLOW_RAD_S[3:4]) if quick else product(SHARES, SLOW_RAD_S))
    with tempfile.TemporaryDirectory() as folder:
        bags = converted(Path(folder))
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


def middle(errors_cm: Mapping[Setting, Sequence[float]]) -> Setting:
    """The setting in the middle, by ratios, of those that do nearly as well as the best."""
    scores = {one: float(np.exp(np.mean(np.log(errors)))) for one, errors in errors_cm.items()}
    best = min(scores.values())
    centre = np.mean([np.log(one) for one, score in scores.items() if score <= NEARLY_AS_GOOD * best], axis=0)
    return min(scores, key=lambda one: float(np.sum((np.log(one) - centre) ** 2)))


def _judged_setting(bag: Path, setting: Setting) -> tuple[float, float]:
    return judged(bag, {"contact.relative_energy": setting[0], "contact.slow_energy_rad_s": setting[1]})
