"""From a loaded recording to a judged result: replay through the robot's pipeline, comparison with the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.drawn import outline_of, planar_position, point_outline
from onboard_estimation.capabilities.reported import Reported
from onboard_estimation.capabilities.truth import StartedFromTruth, WithLateTruth, WithTrueRates, initial_state
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation import metrics, truth, verdict
from onboard_estimation.evaluation.alignment import aligned
from onboard_estimation.evaluation.beacon import with_beacon
from onboard_estimation.evaluation.handedness import Compared, refuse_mirrored
from onboard_estimation.evaluation.options import JudgeSettings
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.replay import EstimateSeries, Replayed, replay
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, PartResult
from onboard_estimation.evaluation.run_notes import gap_note, nees_notes, no_estimate, pipeline_notes, truth_notes
from onboard_estimation.evaluation.verdict import scaled_nees
from onboard_estimation.filtering.manifold_kernels import SE2, SO3
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.filtering.state_space import Block, StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix
from onboard_estimation.robots import Alignment, Robot

__all__ = ["EstimateSeries", "judge"]

Rows = NDArray[np.float64]

_LOOKED_AT_ONCE = 100_000
_SMOOTHED = (
    "Smoothed: each estimate knows the measurements after it too, as no live filter can; "
    "counts and NIS of the sensors are the filter's."
)

_JUDGED_SHARE = 0.2


def judge(
    robot: Robot,
    configuration: Any,
    estimator_name: str,
    recording: LoadedRecording,
    settings: JudgeSettings | None = None,
    bag: str = "",
    command: str = "",
) -> EvaluationResult:
    """Replay a recording and judge the estimates.

    Raises
    ------
    UserError
        The filter gave no estimate, only a mirror image of the ground truth fits it, or there can be no beacon.
    """
    settings = settings or JudgeSettings()
    plain, late_note = _in_time(robot, configuration, recording)
    recording = with_beacon(robot, configuration, plain, settings.beacon_s, settings.longest_truth_gap_s)
    specification = robot.truth_specification(configuration)
    initial, initial_note = _initial(robot, configuration, estimator_name, plain, settings)
    replayed = _replay(robot, configuration, estimator_name, recording, initial, settings)
    space, record, sensors = replayed.space, replayed.record, replayed.sensors
    if len(record.stamps_ns) == 0:
        raise UserError(f"{robot.name} gave no estimate from this recording: {no_estimate(recording.series, sensors)}")
    time_s = (record.stamps_ns - record.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    true_parts, known = truth_at(robot, configuration, recording, record.stamps_ns, settings)

    def mirrored(axes: str) -> Compared:
        tracks = {body: replace(one, values=truth.mirror(one.values, axes)) for body, one in plain.tracks.items()}
        image, seen = replace(plain, tracks=tracks), record
        image = with_beacon(robot, configuration, image, settings.beacon_s, settings.longest_truth_gap_s)
        if initial is not None:
            start, _ = _initial(robot, configuration, estimator_name, image, settings)
            seen = _replay(robot, configuration, estimator_name, image, start, settings).record
        return Compared(seen.stamps_ns, seen.means, truth_at(robot, configuration, image, seen.stamps_ns, settings)[0])

    refuse_mirrored(space, Compared(record.stamps_ns, record.means, true_parts), mirrored)
    judged = judge_record(
        space,
        Truth(record, true_parts, known),
        specification.alignment if settings.alignment is None else settings.alignment,
        specification.covariances,
        robot.settle_s if settings.settle_s is None else settings.settle_s,
    )
    record, parts = judged.record, judged.parts
    all_figures = dict(judged.metrics)
    all_figures["run"] |= replayed.health
    notes = [
        *recording.notes,
        initial_note,
        _SMOOTHED if settings.smooth else "",
        judged.alignment_note,
        late_note,
        *pipeline_notes(replayed.messages, sensors),
        gap_note(time_s),
        *truth_notes(recording.tracks, record.stamps_ns, judged.matched_ratio, settings.longest_truth_gap_s),
        *nees_notes(parts),
        judged.settle_note,
    ]
    result = EvaluationResult(
        robot=robot.name,
        estimator=f"{estimator_name}, smoothed" if settings.smooth else estimator_name,
        source="simulated" if recording.simulated else "recorded",
        bag=bag,
        time_s=time_s,
        stamps_ns=record.stamps_ns,
        mean=record.means,
        covariance=record.covariances,
        parts=parts,
        drawing=drawing_of(robot, configuration, space, record, true_parts),
        matched_ratio=judged.matched_ratio,
        sensors=sensors,
        metrics=all_figures,
        verdict="",
        command=command,
        notes=tuple(note for note in notes if note),
        phase_events=replayed.events,
        learned=replayed.learned,
    )
    stretches = robot.stretches(configuration, result) if isinstance(robot, Reported) else {}
    sentence = verdict.verdict(parts, time_s, judged.settle_s, sensors, judged.matched_ratio, stretches)
    if not isinstance(robot, Reported):
        return replace(result, verdict=sentence)
    if figures := robot.metrics(configuration, recording.series, result):
        result = replace(result, metrics={**result.metrics, robot.name: figures})
    own = robot.notes(configuration, recording.series, result)
    return replace(
        result,
        notes=(*result.notes, *(note.sentence for note in own)),
        verdict="; ".join([sentence, *(note.verdict for note in own if note.verdict)]),
    )


def _in_time(robot: Robot, configuration: Any, recording: LoadedRecording) -> tuple[LoadedRecording, str]:
    """With the truth as early as the robot's sensors say that it was, and a sentence on it."""
    if not isinstance(robot, WithLateTruth) or not recording.tracks:
        return recording, ""
    late_s, sentence = robot.truth_lateness(configuration, recording.series, recording.tracks)
    late_ns = round(late_s * NANOSECONDS_PER_SECOND)
    tracks = {name: replace(one, stamps_ns=one.stamps_ns - late_ns) for name, one in recording.tracks.items()}
    return (replace(recording, tracks=tracks) if late_ns else recording), sentence


def _replay(
    robot: Robot,
    configuration: Any,
    estimator_name: str,
    recording: LoadedRecording,
    initial: Estimate | None,
    settings: JudgeSettings,
) -> Replayed:
    """What the filter, or the smoother, makes of the whole recording."""
    lag_s = settings.lag_s if settings.lag_s is not None else getattr(configuration, "lag_s", 0.2)
    return replay(robot, configuration, estimator_name, recording, initial, lag_s, settings.smooth, settings.bulk)


def _initial(
    robot: Robot, configuration: Any, estimator_name: str, recording: LoadedRecording, settings: JudgeSettings
) -> tuple[Estimate | None, str]:
    """Initial state from the truth at the first measurement that has one, and a sentence on it."""
    if not isinstance(robot, StartedFromTruth):
        return None, ""
    covariance = robot.initial_covariance(configuration)
    stamps = np.sort(np.concatenate([one.stamps_ns for one in recording.series]))
    for piece in np.array_split(stamps, max(len(stamps) // _LOOKED_AT_ONCE, 1)):
        parts, valid = truth_at(robot, configuration, recording, piece, settings)
        if valid.any():
            break
    else:
        return None, "Without ground truth the filter started from its configured initial state."
    first = int(np.argmax(valid))
    space = robot.estimator(configuration, estimator_name).space
    known = robot.known_before(configuration)
    told = {name: values[first] for name, values in parts.items() if name not in known}
    start = initial_state(space, told | known, covariance, int(piece[first]))
    late = _late_start(recording, int(piece[first]))
    if not told:
        return start, f"Initial state as configured: it is known before the run.{late}"
    if settings.initial == "exact":
        return start, f"Initial state from the ground truth, without an error.{late}"
    error = covariance_root(covariance) @ np.random.default_rng(settings.seed).normal(size=space.dimension)
    # What the truth does not tell starts at zero, or as it is known before, as on the robot: its error is what it is.
    for block in space.blocks:
        if block.name not in told:
            error[space.tangent(block.name)] = 0.0
    drawn = replace(start, mean=space.plus(start.mean, error))
    how = f"with an error drawn from the initial covariance (seed {settings.seed})"
    return drawn, f"Initial state from the ground truth, {how}.{late}"


def _late_start(recording: LoadedRecording, start_ns: int) -> str:
    """Sentence on the measurements from before the initial state."""
    # The median, because one sensor may have a clock of its own.
    first_ns = int(np.median([one.stamps_ns.min() for one in recording.series if len(one.stamps_ns)]))
    early = sum(np.count_nonzero((first_ns <= one.stamps_ns) & (one.stamps_ns < start_ns)) for one in recording.series)
    waited_s = (start_ns - first_ns) / NANOSECONDS_PER_SECOND
    return f" The truth starts after {waited_s:.1f} s: {early} messages before it are left out." if early else ""


def truth_at(
    robot: Robot,
    configuration: Any,
    recording: LoadedRecording,
    stamps_ns: NDArray[np.int64],
    settings: JudgeSettings,
) -> tuple[dict[str, Rows], NDArray[np.bool_]]:
    """Parts of the state that the truth tells at the stamps, none if it tells nothing, and where it is valid."""
    bodies = robot.truth_specification(configuration).bodies
    valid = np.zeros(len(stamps_ns), dtype=np.bool_)
    if not bodies or any(body not in recording.tracks for body in bodies):
        return {}, valid
    found = {body: recording.tracks[body].at(stamps_ns, settings.longest_truth_gap_s) for body in bodies}
    valid = np.all([good for _, good in found.values()], axis=0)
    if not valid.any():
        return {}, valid
    parts = {}
    seen = {body: one[valid] for body, (one, _) in found.items()}
    seen |= {name: one.at(stamps_ns[valid]) for name, one in recording.held.items()}
    known = robot.true_parts(configuration, seen)
    if isinstance(robot, WithTrueRates):
        tracks = {body: recording.tracks[body] for body in bodies}
        known |= robot.true_rates(configuration, tracks, stamps_ns[valid])
    for name, values in known.items():
        parts[name] = np.full((len(stamps_ns), values.shape[1]), np.nan)
        parts[name][valid] = values
    return parts, valid


@dataclass(frozen=True, eq=False)
class Truth:
    """A record of K estimates with what is known of the truth at their instants.

    Attributes
    ----------
    parts
        (K, .) by block of the state, NaN where there is none.
    known
        (K,) where there is a truth.
    """

    record: EstimateSeries
    parts: Mapping[str, Rows]
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class JudgedRecord:
    """What comes of it; `record` is in the truth's frame, notes are empty where there is nothing to say."""

    record: EstimateSeries
    parts: Mapping[str, PartResult]
    metrics: dict[str, Any]
    matched_ratio: float
    settle_s: float
    alignment_note: str
    settle_note: str


def judge_record(
    space: StateSpace, truth: Truth, alignment: Alignment, noise: Mapping[str, Matrix], settle_s: float
) -> JudgedRecord:
    """Take a record into the truth's frame and compare.

    Parameters
    ----------
    noise
        Covariance (d, d) of the truth, by block.
    settle_s
        Start that is left out of the figures, where enough is left.

    Raises
    ------
    UserError
        The path does not tell what the alignment is to fit.
    """
    time_s = (truth.record.stamps_ns - truth.record.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    matched_ratio = float(np.mean(truth.known))
    record, alignment_note = aligned(alignment, space, truth.record, truth.parts)
    # Without any truth all parts are shown, with what the filter says of itself.
    nothing = {block.name: np.full((len(time_s), block.coordinate_count), np.nan) for block in space.blocks}
    parts = {
        name: _part(space, name, record, values, noise.get(name)) for name, values in (truth.parts or nothing).items()
    }
    settle_s, settle_note = _settling(settle_s, time_s, truth.known)
    figures = metrics.all_metrics(parts, time_s, settle_s, matched_ratio)
    return JudgedRecord(record, parts, figures, matched_ratio, settle_s, alignment_note, settle_note)


def _settling(settle_s: float, time_s: Rows, known: NDArray[np.bool_]) -> tuple[float, str]:
    """How much at the start is left out of the figures, and a sentence where that is less than it should be."""
    if settle_s == 0.0 or not known.any():
        return settle_s, ""
    end_s = float(time_s[known][-1])
    # The few instants that would be left do not stand for the run.
    if end_s - settle_s >= _JUDGED_SHARE * end_s:
        return settle_s, ""
    what = "run" if known[-1] else "ground truth"
    settling = f"the filter settles for {settle_s:g} s"
    return (
        0.0,
        f"The {what} ends after {end_s:.1f} s and {settling}: too short to leave its start out, all of it is judged.",
    )


_CONVENTIONS = {
    SE2: "body frame of the estimate (x forward, y left)",
    SO3: "rotation vector in the body frame of the estimate",
}


def _part(space: StateSpace, name: str, record: EstimateSeries, true: Rows, noise: Rows | None) -> PartResult:
    block: Block = space.block(name)
    part_space = space.part(name)
    estimate = record.means[:, space.coordinates(name)]
    covariance = record.covariances[:, space.tangent(name), space.tangent(name)]
    if noise is not None:
        covariance = covariance + noise
    matched = np.asarray(np.isfinite(true).all(axis=1), dtype=np.bool_)
    # The covariance belongs to the tangent space at the estimate, so the error is taken there too.
    stddev = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    error = np.full((len(true), block.dimension), np.nan)
    error[matched] = -part_space.minus(true[matched], estimate[matched])
    return PartResult(
        name=name,
        names=block.names,
        units=block.units,
        estimate=estimate,
        truth=true,
        error=error,
        stddev=stddev,
        nees=scaled_nees(error, covariance, stddev),
        matched=matched,
        convention=_CONVENTIONS.get(block.kind, "world frame" if name in ("position", "velocity") else ""),
        covariance=covariance,
    )


def drawing_of(
    robot: Robot | None, configuration: Any, space: StateSpace, record: EstimateSeries, true_parts: Mapping[str, Rows]
) -> Drawing | None:
    """Robot and truth from above; from the side where a robot with a position moves mostly up and down."""
    true_means = record.means.copy()
    known = np.zeros(len(true_means), dtype=np.bool_)
    for name, values in true_parts.items():
        true_means[:, space.coordinates(name)] = values
        known |= np.isfinite(values).all(axis=1)
    if "position" in (block.name for block in space.blocks):
        extent = np.ptp(record.means[:, space.coordinates("position")], axis=0)
        if len(extent) == 3 and extent[2] > 1.5 * max(extent[:2]):
            start = space.coordinates("position").start
            columns = [start, start + 2]
            tangent = space.tangent("position").start
            ellipse = record.covariances[:, [[tangent], [tangent + 2]], [tangent, tangent + 2]]
            true = np.where(known[:, None], true_means[:, columns], np.nan)
            estimate = record.means[:, columns]
            return Drawing(estimate[:, None], true[:, None], ellipse, estimate, ("x (m)", "z (m)"))
    outline = _outline(robot, configuration, space, record.means)
    if outline is None:
        return None
    true = np.full_like(outline, np.nan)
    if known.any():
        true[known] = _outline(robot, configuration, space, true_means[known])
    where = planar_position(space)
    if where is None:  # drawn by a robot that turns on the spot: there is no position to be unsure of
        return Drawing(outline, true, np.zeros((len(outline), 2, 2)), outline[:, 0])
    return Drawing(outline, true, _planar_covariance(space, record, where), record.means[:, where])


def _planar_covariance(space: StateSpace, record: EstimateSeries, where: slice) -> Rows:
    """(K, 2, 2) covariance of x and y along the world's axes."""
    block = next(block for block in space.blocks if space.coordinates(block.name).start == where.start)
    tangent = space.tangent(block.name).start
    covariance = record.covariances[:, tangent : tangent + 2, tangent : tangent + 2]
    if block.kind != SE2:
        return covariance
    heading = record.means[:, where.start + 2]
    turn = np.stack([np.cos(heading), -np.sin(heading), np.sin(heading), np.cos(heading)], axis=-1).reshape(-1, 2, 2)
    out: Rows = turn @ covariance @ turn.transpose(0, 2, 1)
    return out


def _outline(robot: Robot | None, configuration: Any, space: StateSpace, means: Rows) -> Rows | None:
    """Of a robot that nobody knows, a point."""
    return point_outline(space, means) if robot is None else outline_of(robot, configuration, space, means)
