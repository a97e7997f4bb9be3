"""How well a soft robot's filters know tip and stiffness, and how far their models see ahead; nothing is timed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

from benchmarks.measuring import Array, Row, cells_row, in_turns, middle_worst, recordings
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.tracks import HeldValues
from onboard_estimation.judging.judge import judge
from onboard_estimation.pipeline.estimator import Step
from softrobot_estimation.estimators.particle_estimator import stiffness_prior
from softrobot_estimation.estimators.unscented_estimator import UnscentedEstimator
from softrobot_estimation.judging.ground_truth import in_base, lateness
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import TRUE_STIFFNESS, SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import GreyBox
from softrobot_estimation.robot import ROBOT, SoftRobot
from softrobot_estimation.simulation.paper_simulator import known_configuration
from softrobot_estimation.simulation.unknown_soft_robot import read_unknown_soft_robot

SETTLE_S, EVERY, STEP_S = 5.0, 7, 0.008
_LONGEST_FRAME_S = 0.015
_FRAMES = 5


class Filtered(NamedTuple):
    """What a filter knew at a run's wrenches: (K,) stamps, (K, ROW) rows, pressures, and stiffness as it knew it."""

    configuration: SoftRobotConfiguration
    stamps_s: Array
    rows: Array
    chambers_pa: Array
    readings_pa: Array
    stiffness: Sequence[Callable[[Array], float]]


class TrueStates(NamedTuple):
    """(M,) stamps, (M, 6) bending, elongation and rates by motion capture, and which of them are known."""

    stamps_s: Array
    states: Array
    known: NDArray[np.bool_]


def filtered(configuration: SoftRobotConfiguration, name: str, recording: LoadedRecording) -> Filtered:
    """A whole run."""
    estimator: Any = ROBOT.estimator(configuration, name)
    state, found = estimator.start(None), []
    for measurement in sorted(recording.measurements(), key=lambda one: one.stamp_ns):
        step = estimator.step(state, measurement)
        state = step.state
        if step.estimate is not None and step.innovation is not None:
            row, stiffness = _known(estimator, state.filtered)
            heard, stamp_s = state.sensors, measurement.stamp_ns / NANOSECONDS_PER_SECOND
            found.append((stamp_s, row, heard.chambers_pa, heard.readings_pa, stiffness))
    *arrays, stiffnesses = zip(*found, strict=True)
    return Filtered(estimator.configuration, *map(np.array, arrays), stiffnesses)


def _known(estimator: Any, state: Any) -> tuple[Array, Callable[[Array], float]]:
    """A filter's row, and the stiffness that it would count on from here."""
    box: GreyBox = estimator.grey_box
    if isinstance(estimator, UnscentedEstimator):
        now = box.stiffness * float(np.exp(state.mean[kernels.ROW]))
        return state.mean[: kernels.ROW], lambda row: now
    weights = np.exp(state.cloud.log_weights)
    learned = weights @ state.cloud.learned.means[:, 0]
    unknown = stiffness_prior(estimator.configuration)
    factors = unknown.prior().factors

    def learned_stiffness(row: Array) -> float:
        phi, _ = unknown.basis.functions(row[None, :3], factors)
        return max(0.25 * box.stiffness, box.stiffness + float(phi[0] @ learned))

    return weights @ state.cloud.states, learned_stiffness


def true_states(configuration: SoftRobotConfiguration, recording: LoadedRecording) -> TrueStates:
    """By arcs through the tip's places, as early as the wrench says that they were."""
    box, tip = GreyBox(configuration), recording.tracks[TIP]
    late_s, _ = lateness(configuration, recording.series, recording.tracks)
    stamps_s = tip.stamps_ns / NANOSECONDS_PER_SECOND - late_s
    places = in_base(tip.values[:, :3], recording.tracks[BASE].values)
    shapes = coordinates_of_tip(box.segment, places, box.beyond_m)
    # Slopes of parabolas through five frames in a row.
    offsets = np.arange(_FRAMES) - _FRAMES // 2
    rates, known = np.full_like(shapes, np.nan), np.zeros(len(shapes), dtype=bool)
    for middle in range(_FRAMES // 2, len(shapes) - _FRAMES // 2):
        near = middle + offsets
        times = stamps_s[near] - stamps_s[middle]
        if np.diff(times).max() < _LONGEST_FRAME_S:
            rates[middle], known[middle] = np.polyfit(times, shapes[near], 2)[1], True
    return TrueStates(stamps_s, np.hstack([shapes, rates]), known)


def best_constant(
    known: SoftRobotConfiguration, runs: Sequence[tuple[Filtered, TrueStates]], shares: Array, horizon: int
) -> float:
    """Of these shares of the nominal stiffness, N m/rad, that with which the runs are foreseen best."""
    tried = (known.stiffness.bending_n_m_per_rad * shares).tolist()
    return min(tried, key=lambda k: sum(errors(*run, (horizon,), k)[horizon].mean() for run in runs))


def errors(run: Filtered, truth: TrueStates, steps: Sequence[int], constant: float | None = None) -> dict[int, Array]:
    """NMSE (6,) of bending x, y, elongation and their rates, after each number of steps.

    With one constant stiffness, where it is given, in the place of what the filter knew, and of the law. The model's
    rates are slopes over five frames, as the truth's are: elongation swings at 20 Hz, of which frames 10 ms apart show
    a part.
    """
    known = run.configuration
    if constant is not None:
        even = replace(known.behaviour, bending_stiffening_per_rad2=0.0, pressure_stiffening_per_100_kpa=0.0)
        known = replace(known, behaviour=even)
    box = GreyBox(known)
    frames_s = float(np.median(np.diff(truth.stamps_s))) * (np.arange(_FRAMES) - _FRAMES // 2)
    most = max(steps) + math.ceil(frames_s[-1] / STEP_S)
    found: dict[int, list[Array]] = {count: [] for count in steps}
    first = int(np.searchsorted(run.stamps_s, run.stamps_s[0] + SETTLE_S))
    ahead_s = STEP_S * np.arange(most + 1)
    for start in range(first, len(run.stamps_s) - most - 1, EVERY):
        row, chambers = run.rows[start][None].copy(), run.chambers_pa[start]
        way = [row[0, :6]]
        for step in range(most):
            chambers, mean_pa = box.through_hoses(run.readings_pa[start + step], chambers, STEP_S)
            stiffness = run.stiffness[start](row[0]) if constant is None else constant
            row = box.propagate(row, np.array([stiffness]), mean_pa, STEP_S)
            way.append(row[0, :6])
        states = np.array(way)
        if not np.isfinite(states).all():  # a stiffness with which it falls over
            for step in steps:
                found[step].append(np.full(6, np.inf))
            continue
        shapes = CubicHermiteSpline(ahead_s, states[:, :3], states[:, 3:])
        for step in steps:
            true = _at(truth, run.stamps_s[start] + step * STEP_S)
            if true is not None:
                rates = frames_s @ shapes(ahead_s[step] + frames_s) / (frames_s @ frames_s)
                found[step].append(np.concatenate([states[step, :3], rates]) - true)
    variances = truth.states[truth.known].var(axis=0)
    return {count: np.mean(np.square(rows), axis=0) / variances for count, rows in found.items()}


def _at(truth: TrueStates, stamp_s: float) -> Array | None:
    after = int(np.searchsorted(truth.stamps_s, stamp_s))
    if not 0 < after < len(truth.stamps_s) or not truth.known[after - 1 : after + 1].all():
        return None
    before_s, after_s = truth.stamps_s[after - 1 : after + 1]
    share = (stamp_s - before_s) / (after_s - before_s)
    return np.asarray((1.0 - share) * truth.states[after - 1] + share * truth.states[after])


RUNS, BOTH = (1, 2, 3, 4), ("marginalized_pf", "ukf")
SPLITS = ((1, 3), (2, 4), (1,), (2,), (3,), (4,))
"""Runs that teach; the others judge."""
HORIZONS = (5, 10, 20)
_UNKNOWN_GRID, _PAPER_GRID = np.linspace(0.7, 1.6, 10), np.linspace(0.6, 1.6, 11)


def softrobot_unknown(quick: bool) -> list[Row]:
    """A soft robot of unknown build (simulated by others): identified and tuned on some runs, judged on those left out.

    Two runs teach, both ways round, and then each alone: tip, coverage, and with two how far models see ahead.
    """
    recordings("unknown_soft_robot")
    untaught = in_turns(_untaught, [(number,) for number in RUNS])
    split = in_turns(_of_split, [(one,) for one in (SPLITS[:1] if quick else SPLITS)])
    found = [row for rows in (*untaught, *split) for row in rows]
    return sorted(found, key=lambda row: str(row["table"]), reverse=True)  # one table after the other


def unknown(number: int) -> tuple[SoftRobotConfiguration, LoadedRecording]:
    """What the laboratory knows, and a run as a judge reads it."""
    found = read_unknown_soft_robot(recordings("unknown_soft_robot", f"run_{number}"))
    return found.configurations["softrobot"], from_simulator(found.recording, (TIP, BASE))


def _untaught(number: int) -> list[Row]:
    known, _ = unknown(1)
    _, run = unknown(number)
    return [tip_row(f"run_{number}, nothing identified", name, known, run) for name in (*BOTH, "open_loop")]


def _of_split(teaching: Sequence[int]) -> list[Row]:
    runs = {number: unknown(number)[1] for number in RUNS}
    left_out = [number for number in RUNS if number not in teaching]
    lessons = {f"run_{number}": runs[number] for number in teaching}
    folder = Path(tempfile.mkdtemp(prefix="softrobot-"))
    file, *_ = ROBOT.identify(unknown(1)[0], lessons).write(folder / "identified")
    identified = load(SoftRobotConfiguration, file)
    ROBOT.train(identified, lessons, ["" for _ in lessons]).save(folder / "model.npz")
    tuned = replace(identified, learning=replace(identified.learning, model=str(folder / "model.npz")))
    teachers = " and ".join(map(str, teaching))
    rows = []
    for number in left_out:
        for said, known in (("identified and tuned on", tuned), ("only identified on", identified)):
            rows += [tip_row(f"run_{number}, {said} {teachers}", name, known, runs[number]) for name in BOTH]
    return rows if len(teaching) == 1 else rows + ahead_rows(tuned, runs, teaching, left_out)


def tip_row(case: str, name: str, known: SoftRobotConfiguration, run: LoadedRecording) -> Row:
    """Errors and coverage of a filter's tip, as `evaluate` has them."""
    figures = judge(ROBOT, known, name, run).metrics
    place = figures["position"]
    cells = {
        "run": f"{case}: {name}",
        "3D RMS, mm": f"{1e3 * place['position_ate_rmse_m']:.2f}",
        "worst, mm": f"{1e3 * place['position_ate_max_m']:.1f}",
        "within 1, 3 sigma": f"{place['coverage_1_sigma']:.2f}, {place['coverage_3_sigma']:.3f}",
        "lost": f"{figures['run'].get('times_lost', 0.0):.0f}",
    }
    return cells_row("Tip (simulated robot of others, whole runs but for the first 2 s)", cells["run"], cells)


def ahead_rows(
    tuned: SoftRobotConfiguration, runs: dict[int, LoadedRecording], teaching: Sequence[int], left_out: Sequence[int]
) -> list[Row]:
    """NMSE after 5, 10, 20 steps of 8 ms: learned stiffness, the ukf's, and the best constant of the teaching runs."""
    truth = {number: true_states(tuned, run) for number, run in runs.items()}
    states = {(name, number): filtered(tuned, name, run) for name in BOTH for number, run in runs.items()}
    lessons = [(states["ukf", number], truth[number]) for number in teaching]
    best = best_constant(tuned, lessons, _UNKNOWN_GRID, HORIZONS[-1])
    rows = []
    for number in left_out:
        by = {name: errors(states[name, number], truth[number], HORIZONS) for name in BOTH}
        by[f"best constant, {best:.3f} N m/rad"] = errors(states["ukf", number], truth[number], HORIZONS, best)
        for name, found in by.items():
            cells = {"run, stiffness": f"run_{number}: {name}"}
            cells["NMSE"] = ", ".join(f"{found[count].mean():.3f}" for count in HORIZONS)
            table = "Ahead (NMSE after 5, 10, 20 steps of 8 ms, on runs left out)"
            rows.append(cells_row(table, f"run_{number}: {name}", cells))
    return rows


SEEDS, DURATION_S = range(101, 121), 20.0
KNOWN = known_configuration(SoftRobotConfiguration())
_TOLD_STDDEV = 1e-4
_TOLD = "ukf, told the true stiffness at each sample"


def softrobot_paper(quick: bool) -> list[Row]:
    """The paper's own kind of robot (simulated): a constant-curvature segment of unknown stiffness, 20 of them.

    Tip and coverage, and how far learned stiffness, the ukf's and the best constant see ahead (the paper's Table II).
    Noise was set on seeds 1 to 12.
    """
    found, ahead = zip(*in_turns(_paper_judged, [(seed,) for seed in SEEDS[: 2 if quick else None]]), strict=True)
    rows = []
    for name in (*BOTH, _TOLD):
        place = [one[name] for one in found]
        least = min(one["coverage_3_sigma"] for one in place)
        middle_1, middle_3 = (float(np.median([one[f"coverage_{k}_sigma"] for one in place])) for k in (1, 3))
        cells = {
            "filter": name,
            "tip RMSE, mm": middle_worst([one["position_ate_rmse_m"] for one in place], scale=1e3),
            "largest error, mm": middle_worst([one["position_ate_max_m"] for one in place], 1, scale=1e3),
            "tip within 1, 3 sigma": f"{middle_1:.2f}, {middle_3:.3f} ({least:.3f})",
        }
        table = f"Over {len(place)} robots (simulated, from seed {SEEDS[0]} on; medians, worst run in brackets)"
        rows.append(cells_row(table, name, cells))
    return [*rows, *_table_two(ahead)]


class _Told(UnscentedEstimator):
    def __init__(self, configuration: SoftRobotConfiguration, true: HeldValues) -> None:
        super().__init__(configuration)
        self._true = true

    def step(self, state: Any, measurement: Measurement) -> Step:
        if state.filtered is not None:
            true = np.interp(measurement.stamp_ns, self._true.stamps_ns, self._true.values[:, 0])
            mean, covariance = state.filtered.mean.copy(), self._unscented.covariance(state.filtered)
            place = kernels.ROW
            covariance[place], covariance[:, place] = 0.0, 0.0
            mean[place], covariance[place, place] = math.log(true / self.grey_box.stiffness), _TOLD_STDDEV**2
            state = state._replace(filtered=self._unscented.start(mean, covariance))
        return super().step(state, measurement)


class _ToldRobot(SoftRobot):
    """Whose ukf is told the true stiffness at each measurement: what there is to be had from knowing it."""

    def __init__(self, true: HeldValues) -> None:
        self._true = true

    def estimator(self, configuration: SoftRobotConfiguration, name: str) -> _Told:
        return _Told(configuration, self._true)


def _paper_judged(seed: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[int, Array]]]:
    """Figures of the tip by filter; NMSE (6,) ahead by model and horizon."""
    simulated = ROBOT.simulate(SoftRobotConfiguration(), "paper", "", DURATION_S, np.random.default_rng(seed))
    run = from_simulator(simulated, (TIP, BASE), (TRUE_STIFFNESS,))
    told = _ToldRobot(run.held[TRUE_STIFFNESS.sensor])
    judged = {**{name: judge(ROBOT, KNOWN, name, run) for name in BOTH}, _TOLD: judge(told, KNOWN, "ukf", run)}
    truth, states = true_states(KNOWN, run), {name: filtered(KNOWN, name, run) for name in BOTH}
    best = best_constant(KNOWN, [(states[BOTH[0]], truth)], _PAPER_GRID, HORIZONS[-1])
    ahead = {name: errors(one, truth, HORIZONS) for name, one in states.items()}
    ahead["constant"] = errors(states[BOTH[0]], truth, HORIZONS, best)
    return {name: one.metrics["position"] for name, one in judged.items()}, ahead


def _table_two(ahead: Sequence[dict[str, dict[int, Array]]]) -> list[Row]:
    """NMSE by horizon, medians over robots; how often the learned stiffness is the better one."""
    rows = []
    for name in (*BOTH, "constant"):
        cells = {"stiffness": name}
        for count in HORIZONS:
            values, learned = (np.array([float(one[k][count].mean()) for one in ahead]) for k in (name, BOTH[0]))
            ratios = values / learned
            better = f"learned {np.median(ratios):.2f} times better, in {int((ratios > 1.0).sum())} of {len(ratios)}"
            cells[f"{count} steps"] = f"{middle_worst(values, 4)}; {better}"
        title = "The paper's Table II (NMSE ahead, steps of 8 ms; medians over robots, worst in brackets)"
        rows.append(cells_row(title, f"ahead: {name}", cells))
    return rows
