"""From a loaded recording to a judged result: replay through the robot's pipeline, comparison with the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Vector
from onboard_estimation.base.presentation import percent
from onboard_estimation.base.series import Series, run_start_ns
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reported import Reported, outline_of, planar_position, point_outline
from onboard_estimation.contract.result import FOREIGN, Drawing, EvaluationResult, PartResult
from onboard_estimation.contract.robot import Robot, TruthSpecification
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.contract.truth import StartedFromTruth, WithLateTruth, initial_state
from onboard_estimation.filtering.manifold_kernels import SE2, SO3
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging import metrics, verdict
from onboard_estimation.judging.alignment import aligned
from onboard_estimation.judging.handedness import Compared, evidence, refuse_mirrored
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.replay import EstimateSeries, replay
from onboard_estimation.judging.told import with_fault
from onboard_estimation.judging.truth import truth_at
from onboard_estimation.judging.verdict import scaled_nees
from onboard_estimation.judging.what_if import with_beacon

Rows = NDArray[np.float64]

_LOOKED_AT_ONCE = 5_000
_SMOOTHED = (
    "Smoothed: each estimate knows the measurements after it too, as no live filter can; "
    "counts and NIS of the sensors are the filter's."
)

_JUDGED_SHARE = 0.2
_FAULTS_TOLD = 2

_LONG_GAP_S = 1.0
_LOSSES = {
    "invalid": "not finite",
    "out_of_range": "beyond the sensor's range",
    "incomplete": "without a part that is needed",
    "duplicates": "repeated stamps",
    "too_late": "too late",
    "stray": "stray stamps",
    "breakdowns": "on which the filter broke down",
}


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
    recording, late_note = _in_time(robot, configuration, recording)
    initial, initial_note = _initial(robot, configuration, estimator_name, recording, settings)
    plain = recording
    recording = with_beacon(robot, configuration, plain, settings.beacon_s, settings.longest_truth_gap_s)
    lag_s = settings.lag_s if settings.lag_s is not None else getattr(configuration, "lag_s", 0.2)
    replayed = replay(robot, configuration, estimator_name, recording, initial, lag_s, settings.smooth, settings.bulk)
    space, record, sensors = replayed.space, replayed.record, replayed.sensors
    if len(record.stamps_ns) == 0:
        why = "; ".join([no_estimate(recording.series, sensors), *_faults(recording)])
        raise UserError(f"{robot.name} gave no estimate from this recording: {why}")
    true_parts, known = truth_at(robot, configuration, recording, record.stamps_ns, settings.longest_truth_gap_s)
    if recording.comparable:
        compared = Compared(record.stamps_ns, record.means, true_parts)
        if settings.beacon_s is not None and any(one.suspicious for one in evidence(space, compared).values()):
            # A beacon of a mirror image draws the path to it: what the sensors tell without one is compared.
            told = replay(robot, configuration, estimator_name, plain, initial, lag_s, bulk=settings.bulk).record
            parts, _ = truth_at(robot, configuration, plain, told.stamps_ns, settings.longest_truth_gap_s)
            compared = Compared(told.stamps_ns, told.means, parts)

        def image(axes: str) -> Mapping[str, Rows]:
            mirrored = plain.mirrored(axes)
            return truth_at(robot, configuration, mirrored, compared.stamps_ns, settings.longest_truth_gap_s)[0]

        refuse_mirrored(space, compared, image)
    # An error of what the estimator takes as known is that of a drawing, not of a filter.
    held = [name for name in robot.estimator(configuration, estimator_name).held if name in true_parts]
    judged_parts = {name: values for name, values in true_parts.items() if name not in held}
    held_note = f"{estimator_name} takes {' and '.join(held)} as known: it is not judged on them." if held else ""
    result = judged_record(
        space, record, judged_parts, known, settings, recording.tracks, robot, configuration,
        before=(*recording.notes, initial_note, held_note, _SMOOTHED if settings.smooth else ""),
        between=(late_note, *pipeline_notes(replayed.messages, sensors), gap_note(record.time_s), record.thinned),
        estimator=f"{estimator_name}, smoothed" if settings.smooth else estimator_name,
        source="simulated" if recording.simulated else "recorded",
        bag=bag,
        sensors=sensors,
        command=command,
        phase_events=replayed.events,
        learned=replayed.learned,
        start=initial,
    )  # fmt: skip
    result.metrics["run"] |= replayed.health
    result = with_fault(recording, replayed.told, result)
    result = replace(result, drawing=drawing_of(robot, configuration, space, result, true_parts))
    return _opined(robot, configuration, recording, result)


def _opined(robot: Robot, configuration: Any, recording: LoadedRecording, result: EvaluationResult) -> EvaluationResult:
    """The result with a verdict, and with what the robot itself says of the run."""
    stretches = robot.stretches(configuration, result) if isinstance(robot, Reported) else {}
    estimated_ratio = covered(recording, result.stamps_ns)
    result.metrics["run"]["estimated_ratio"] = estimated_ratio
    sentence = verdict.verdict(
        result.parts, result.time_s, result.settle_s, result.sensors, result.matched_ratio, stretches, estimated_ratio
    )
    # A filter is not to blame for readings that no filter can use, nor for a truth that contradicts them.
    faults = [f"but {fault}" for fault in _faults(recording)]
    if faults and not recording.comparable:
        sentence, faults = f"mend this first: {'; '.join(_faults(recording))}; as it is, {sentence}", []
    if not isinstance(robot, Reported):
        return replace(result, verdict="; ".join([sentence, *faults]))
    if figures := robot.metrics(configuration, recording.series, result):
        result = replace(result, metrics={**result.metrics, robot.name: figures})
    own = robot.notes(configuration, recording.series, result)
    return replace(
        result,
        notes=(*result.notes, *(note.sentence for note in own)),
        verdict="; ".join([sentence, *faults, *(note.verdict for note in own if note.verdict)]),
    )


def _faults(recording: LoadedRecording) -> list[str]:
    """The first of a recording's faults, as parts of a sentence."""
    return [fault.rstrip(".").replace("The ", "the ", 1) for fault in recording.faults[:_FAULTS_TOLD]]


def _initial(
    robot: Robot, configuration: Any, estimator_name: str, recording: LoadedRecording, settings: JudgeSettings
) -> tuple[Estimate | None, str]:
    """Initial state from the truth at the first measurement that has one, and a sentence on it."""
    if not isinstance(robot, StartedFromTruth):
        return None, ""
    covariance = robot.initial_covariance(configuration)
    stamps = np.sort(np.concatenate([one.stamps_ns for one in recording.series]), kind="stable")  # made of sorted runs
    for piece in np.array_split(stamps, max(len(stamps) // _LOOKED_AT_ONCE, 1)):
        parts, valid = truth_at(robot, configuration, recording, piece, settings.longest_truth_gap_s)
        if valid.any():
            break
    else:
        return None, "Without ground truth the filter started from its configured initial state."
    first = int(np.argmax(valid))
    space = robot.estimator(configuration, estimator_name).space
    known = robot.known_before(configuration)
    told = {name: values[first] for name, values in parts.items() if name not in known}
    told = {name: value for name, value in told.items() if np.isfinite(value).all()}  # too slow for a velocity
    start = initial_state(space, told | known, covariance, int(piece[first]))
    late = _late_start(recording, int(piece[first]))
    if not told:
        return start, f"Initial state as configured: it is known before the run.{late}"
    if settings.initial == "exact":
        return start, f"Initial state from the ground truth, without an error.{late}"
    error = covariance_root(covariance) @ np.random.default_rng(settings.seed).normal(size=space.dimension)
    # What the truth does not tell starts at zero, or as it is known before, as on the robot: its error is its own.
    for block in space.blocks:
        if block.name not in told:
            error[space.tangent(block.name)] = 0.0
    drawn = replace(start, mean=space.plus(start.mean, error))
    how = f"with an error drawn from the initial covariance (seed {settings.seed})"
    return drawn, f"Initial state from the ground truth, {how}.{late}"


def _in_time(robot: Robot, configuration: Any, recording: LoadedRecording) -> tuple[LoadedRecording, str]:
    """With the truth as early as the robot's sensors say that it was, and a sentence on it."""
    if not isinstance(robot, WithLateTruth) or not recording.tracks:
        return recording, ""
    late_s, sentence = robot.truth_lateness(configuration, recording.series, recording.tracks)
    late_ns = round(late_s * NANOSECONDS_PER_SECOND)
    tracks = {name: replace(one, stamps_ns=one.stamps_ns - late_ns) for name, one in recording.tracks.items()}
    return (replace(recording, tracks=tracks) if late_ns else recording), sentence


def _late_start(recording: LoadedRecording, start_ns: int) -> str:
    """Sentence on the measurements from before the initial state."""
    first_ns = run_start_ns(recording.series)
    early = sum(np.count_nonzero((first_ns <= one.stamps_ns) & (one.stamps_ns < start_ns)) for one in recording.series)
    waited_s = (start_ns - first_ns) / NANOSECONDS_PER_SECOND
    return f" The truth starts after {waited_s:.1f} s: {early} messages before it are left out." if early else ""


def judged_record(
    space: StateSpace,
    record: EstimateSeries,
    true_parts: Mapping[str, Rows],
    known: NDArray[np.bool_],
    settings: JudgeSettings,
    tracks: Mapping[str, BodyTrack],
    robot: Robot | None,
    configuration: Any,
    unaligned: Callable[[Mapping[str, PartResult]], str] = lambda parts: "",
    before: Sequence[str] = (),
    between: Sequence[str] = (),
    **others: Any,
) -> EvaluationResult:
    """Take K estimates into the truth's frame and compare; the result, without a verdict.

    Parameters
    ----------
    true_parts, known
        What is known of the truth at their instants: (K, .) by block of the state, NaN where there is none; (K,) where
        there is one.
    robot, configuration
        Say how to align, how noisy the truth is and how long the filter settles; None: nobody knows whose they are.
    unaligned
        A note for when nothing was aligned, from the parts.
    before, between, others
        Notes before that on the alignment and after it; all else of the result.

    Raises
    ------
    UserError
        The path does not tell what the alignment is to fit.
    """
    stated = TruthSpecification(()) if robot is None else robot.truth_specification(configuration)
    time_s, matched_ratio = record.time_s, float(np.mean(known))
    alignment = stated.alignment if settings.alignment is None else settings.alignment
    record, alignment_note = aligned(alignment, space, record, true_parts)
    if not true_parts:  # all parts are shown, with what the filter says of itself
        true_parts = {block.name: np.full((len(time_s), block.coordinate_count), np.nan) for block in space.blocks}
    parts = {
        name: _part(space, name, record, values, stated.covariances.get(name)) for name, values in true_parts.items()
    }
    own_settle_s = 0.0 if robot is None else robot.settle_s
    settle_s, settle_note = _settling(own_settle_s if settings.settle_s is None else settings.settle_s, time_s, known)
    notes = (
        *before,
        alignment_note or unaligned(parts),
        *between,
        *truth_notes(tracks, record.stamps_ns, matched_ratio, settings.longest_truth_gap_s),
        *nees_notes(parts),
        settle_note,
    )
    return EvaluationResult(
        robot=FOREIGN if robot is None else robot.name,
        time_s=time_s,
        stamps_ns=record.stamps_ns,
        mean=record.means,
        covariance=record.covariances,
        parts=parts,
        drawing=None,
        matched_ratio=matched_ratio,
        metrics=metrics.all_metrics(parts, time_s, settle_s, matched_ratio),
        verdict="",
        notes=tuple(note for note in notes if note),
        **others,
    )


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
    block = space.block(name)
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
    robot: Robot | None, configuration: Any, space: StateSpace, result: EvaluationResult, true_parts: Mapping[str, Rows]
) -> Drawing | None:
    """Robot and truth from above; from the side where a robot with a position moves mostly up and down.

    Of a robot that nobody knows, a point.
    """
    means, covariances, true_means = result.mean, result.covariance, result.mean.copy()
    known = np.zeros(len(true_means), dtype=np.bool_)
    for name, values in true_parts.items():
        true_means[:, space.coordinates(name)] = values
        known |= np.isfinite(values).all(axis=1)
    if "position" in (block.name for block in space.blocks):
        extent = np.ptp(means[:, space.coordinates("position")], axis=0)
        if len(extent) == 3 and extent[2] > 1.5 * max(extent[:2]):
            start, tangent = space.coordinates("position").start, space.tangent("position").start
            estimate, true = means[:, [start, start + 2]], true_means[:, [start, start + 2]]
            true = np.where(known[:, None], true, np.nan)
            ellipse = covariances[:, [[tangent], [tangent + 2]], [tangent, tangent + 2]]
            return Drawing(estimate[:, None], true[:, None], ellipse, estimate, ("x (m)", "z (m)"))

    def outline(states: Rows) -> Rows | None:
        return point_outline(space, states) if robot is None else outline_of(robot, configuration, space, states)

    drawn = outline(means)
    if drawn is None:
        return None
    true = np.full_like(drawn, np.nan)
    if known.any():
        true[known] = outline(true_means[known])
    where = planar_position(space)
    if where is None:  # drawn by a robot that turns on the spot: there is no position to be unsure of
        return Drawing(drawn, true, np.zeros((len(drawn), 2, 2)), drawn[:, 0])
    return Drawing(drawn, true, _planar_covariance(space, means, covariances, where), means[:, where])


def _planar_covariance(space: StateSpace, means: Rows, covariances: Rows, where: slice) -> Rows:
    """(K, 2, 2) covariance of x and y along the world's axes."""
    block = next(block for block in space.blocks if space.coordinates(block.name).start == where.start)
    tangent = space.tangent(block.name).start
    covariance = covariances[:, tangent : tangent + 2, tangent : tangent + 2]
    if block.kind != SE2:
        return covariance
    heading = means[:, where.start + 2]
    turn = np.stack([np.cos(heading), -np.sin(heading), np.sin(heading), np.cos(heading)], axis=-1).reshape(-1, 2, 2)
    return turn @ covariance @ turn.transpose(0, 2, 1)


def pipeline_notes(messages: Sequence[str], sensors: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What the pipeline told, and what it lost of each sensor."""
    notes = list(dict.fromkeys(_begun(sentence, sensors) + "." for sentence in messages[:5]))
    if len(messages) > 5:
        notes.append(f"{len(messages) - 5} further messages of the filter are left out here.")
    for sensor, row in sensors.items():
        if lost := _lost(row):
            notes.append(f"{sensor}: of {row['received']:.0f} messages {', '.join(lost)} were left out.")
    return notes


def _begun(sentence: str, names: Iterable[str]) -> str:
    """With a capital, but for a name."""
    return sentence if sentence.partition(" ")[0] in names else sentence[:1].upper() + sentence[1:]


def _lost(row: Mapping[str, float]) -> list[str]:
    return [f"{row[key]:.0f} {meaning}" for key, meaning in _LOSSES.items() if row.get(key)]


def covered(recording: LoadedRecording, stamps_ns: NDArray[np.int64]) -> float:
    """Share of the time from the first to the last reading of the sensors that are needed that has estimates (K,)."""
    spans = [
        (int(one.stamps_ns.min()), int(one.stamps_ns.max()))
        for one in recording.series
        if len(one.stamps_ns) and one.channel.required
    ]
    # A sensor with a clock of its own says nothing of the recording's length.
    spans = [(first, last) for first, last in spans if first <= stamps_ns[-1] and last >= stamps_ns[0]]
    first_ns, last_ns = min((first for first, _ in spans), default=0), max((last for _, last in spans), default=0)
    if last_ns <= first_ns:
        return 1.0
    steps = np.diff(np.concatenate([[first_ns], np.clip(stamps_ns, first_ns, last_ns), [last_ns]]))
    longest_ns = max(_LONG_GAP_S * NANOSECONDS_PER_SECOND, 10.0 * float(np.median(steps)))
    return 1.0 - float(steps[steps > longest_ns].sum()) / (last_ns - first_ns)


def gap_note(time_s: Vector) -> str:
    """Sentence on the longest time without measurements, where it is long."""
    if len(time_s) < 2:
        return ""
    steps = np.diff(time_s)
    longest = int(np.argmax(steps))
    if steps[longest] < max(_LONG_GAP_S, 10.0 * float(np.median(steps))):
        return ""
    return f"No measurements for {steps[longest]:.1f} s after {time_s[longest]:.1f} s: bridged by prediction."


def truth_notes(
    tracks: Mapping[str, BodyTrack], stamps_ns: NDArray[np.int64], matched_ratio: float, longest_gap_s: float
) -> list[str]:
    """How much of the run has a truth; where it lies in time, if that is not most of it."""
    notes = [
        f"Truth matched by interpolation at {percent(matched_ratio)} of the estimates (gaps up to {longest_gap_s:g} s)."
        if matched_ratio > 0.0
        else "No estimate has a ground truth: nothing is judged."
    ]
    if matched_ratio > 0.5:
        return notes
    end_s = (stamps_ns[-1] - stamps_ns[0]) / NANOSECONDS_PER_SECOND
    bodies: dict[str, list[str]] = {}
    for body, track in tracks.items():
        span = "has no message that can be used"
        if len(track.stamps_ns):
            first_s, last_s = (track.stamps_ns[[0, -1]] - stamps_ns[0]) / NANOSECONDS_PER_SECOND
            gap_s = np.diff(track.stamps_ns).max(initial=0) / NANOSECONDS_PER_SECOND
            span = f"runs from {first_s:.1f} to {last_s:.1f} s with gaps up to {gap_s:.2g} s"
        bodies.setdefault(span, []).append(body)
    for span, names in bodies.items():
        notes.append(
            f"By the stamps, the estimates run from 0 to {end_s:.1f} s; the truth of {', '.join(names)} {span}."
        )
    return notes


def nees_notes(parts: Mapping[str, PartResult]) -> list[str]:
    """Sentences on instants whose covariance has no inverse."""
    notes = []
    for name, part in parts.items():
        stated = np.isfinite(part.stddev).all(axis=1)
        lost = int(np.count_nonzero(part.matched & stated & ~np.isfinite(part.nees)))
        if lost:
            words = name.replace("_", " ")
            notes.append(f"NEES of {words}: left out at {lost} of {part.matched.sum()} instants, covariance singular.")
    return notes


def no_estimate(series: Sequence[Series], sensors: Mapping[str, Mapping[str, float]]) -> str:
    """Why there may be no estimate: of each sensor how many messages, from when to when, and what became of them."""
    filled = [one for one in series if len(one.stamps_ns)]
    start_ns = min(int(one.stamps_ns.min()) for one in filled)
    words = []
    for one in filled:
        name, count = one.channel.sensor, len(one.stamps_ns)
        first, last = (
            (int(stamp) - start_ns) / NANOSECONDS_PER_SECOND for stamp in (one.stamps_ns.min(), one.stamps_ns.max())
        )
        lost = "".join(f", {one}" for one in _lost(sensors.get(name, {})))
        words.append(f"{name} {count} messages from {first:.1f} to {last:.1f} s{lost}")
    return f"{'; '.join(words)} (seconds after the earliest stamp; see `inspect`)"
