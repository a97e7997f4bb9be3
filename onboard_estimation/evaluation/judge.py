"""From a loaded recording to a judged result: replay through the robot's pipeline, comparison with the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.reported import Reported
from onboard_estimation.capabilities.truth import StartedFromTruth, WithLateTruth, WithTrueRates, initial_state
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation import truth, verdict
from onboard_estimation.evaluation.beacon import with_beacon
from onboard_estimation.evaluation.drawn_record import drawing_of
from onboard_estimation.evaluation.handedness import Compared, refuse_mirrored
from onboard_estimation.evaluation.judged_record import Truth, judge_record
from onboard_estimation.evaluation.options import JudgeSettings
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.replay import EstimateSeries, Replayed, replay
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.evaluation.run_notes import gap_note, nees_notes, no_estimate, pipeline_notes, truth_notes
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate
from onboard_estimation.robots import Robot

__all__ = ["EstimateSeries", "judge"]

Rows = NDArray[np.float64]

_LOOKED_AT_ONCE = 100_000
_SMOOTHED = (
    "Smoothed: each estimate knows the measurements after it too, as no live filter can; "
    "counts and NIS of the sensors are the filter's."
)


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
