"""From a loaded recording to a judged result: replay through the robot's pipeline, comparison with the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation import metrics, truth, verdict
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, PartResult
from onboard_estimation.filtering.consistency import nees
from onboard_estimation.filtering.manifold_kernels import SE2, SO3, VECTOR
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.filtering.state_space import Block, StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.robots import Robot, TruthSpecification, initial_state, planar_position

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class JudgeSettings:
    """How a run is judged.

    Attributes
    ----------
    initial
        Where the robot's initial state is taken from the truth: `drawn` adds an error drawn from the initial
        covariance, so that the filter starts as unsure as it says; `exact` does not.
    seed
        Of that error.
    longest_truth_gap_s
        Truth is interpolated between messages at most this far apart.
    settle_s
        Start left out of the metrics; None: the robot's own.
    lag_s
        How late a measurement may arrive; None: the configuration's `lag_s`, else 0.2 s.
    """

    initial: Literal["drawn", "exact"] = "drawn"
    seed: int = 0
    longest_truth_gap_s: float = 0.1
    settle_s: float | None = None
    lag_s: float | None = None


@dataclass(frozen=True, eq=False)
class Record:
    """Settled estimates, one per stamp: stamps (K,), means (K, a), covariances (K, n, n)."""

    stamps_ns: NDArray[np.int64]
    means: Rows
    covariances: Rows

    @classmethod
    def of(cls, estimates: list[Estimate]) -> Record:
        """Of several estimates with one stamp (sensors sampled together) the last, which has seen them all."""
        last = [e for e, following in zip(estimates, [*estimates[1:], None], strict=True) if _ends(e, following)]
        return cls(
            np.array([estimate.stamp_ns for estimate in last], dtype=np.int64),
            np.array([estimate.mean for estimate in last]),
            np.array([estimate.covariance for estimate in last]),
        )


def _ends(estimate: Estimate, following: Estimate | None) -> bool:
    return following is None or following.stamp_ns != estimate.stamp_ns


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
        The filter gave no estimate, or the ground truth is left-handed.
    """
    settings = settings or JudgeSettings()
    specification = robot.truth_specification(configuration)
    initial, initial_note = _initial(robot, configuration, estimator_name, recording, specification, settings)
    lag_s = settings.lag_s if settings.lag_s is not None else getattr(configuration, "lag_s", 0.2)
    pipeline = Pipeline(robot.estimator(configuration, estimator_name, initial), lag_s=lag_s)
    record = Record.of(pipeline.run(recording.measurements()))
    if len(record.stamps_ns) == 0:
        received = ", ".join(f"{name} {row['received']:.0f}" for name, row in pipeline.statistics().items())
        raise UserError(f"{robot.name} gave no estimate from this recording (messages: {received})")
    space = pipeline.space
    time_s = (record.stamps_ns - record.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    true_parts, matched_ratio = _true_parts(robot, configuration, recording, record, settings)
    record, alignment_note = _align(specification, space, record, true_parts)
    parts = {
        name: _part(space, name, record, values, specification.covariances.get(name))
        for name, values in true_parts.items()
    }
    settle_s = robot.settle_s if settings.settle_s is None else settings.settle_s
    if time_s[-1] <= settle_s:
        settle_s = 0.0
    sensors = pipeline.statistics()
    notes = [
        *recording.notes,
        initial_note,
        alignment_note,
        *_pipeline_notes(pipeline),
        _truth_note(matched_ratio, settings),
    ]
    return EvaluationResult(
        robot=robot.name,
        estimator=estimator_name,
        source="simulated" if recording.simulated else "recorded",
        bag=bag,
        time_s=time_s,
        stamps_ns=record.stamps_ns,
        mean=record.means,
        covariance=record.covariances,
        parts=parts,
        drawing=_drawing(robot, configuration, space, record, true_parts),
        matched_ratio=matched_ratio,
        sensors=sensors,
        metrics=metrics.all_metrics(parts, time_s, settle_s, matched_ratio),
        verdict=verdict.verdict(parts, time_s, settle_s, sensors, matched_ratio),
        command=command,
        notes=tuple(note for note in notes if note),
    )


def _initial(
    robot: Robot,
    configuration: Any,
    estimator_name: str,
    recording: LoadedRecording,
    specification: TruthSpecification,
    settings: JudgeSettings,
) -> tuple[Estimate | None, str]:
    """Initial state from the truth at the first measurement that has one, and a sentence on it."""
    covariance = robot.initial_covariance(configuration)
    if covariance is None:
        return None, ""
    stamps = np.unique(np.concatenate([one.stamps_ns for one in recording.series]))
    parts, valid = _truth_at(robot, configuration, recording, stamps, settings)
    if not valid.any():
        return None, "No ground truth at the start: the filter started from its configured initial state."
    first = int(np.argmax(valid))
    space = robot.estimator(configuration, estimator_name, None).space
    start = initial_state(
        space, {name: values[first] for name, values in parts.items()}, covariance, int(stamps[first])
    )
    if settings.initial == "exact":
        return start, "Initial state from the ground truth, without an error."
    error = covariance_root(covariance) @ np.random.default_rng(settings.seed).normal(size=space.dimension)
    drawn = replace(start, mean=space.plus(start.mean, error))
    return (
        drawn,
        f"Initial state from the ground truth, with an error drawn from the initial covariance (seed {settings.seed}).",
    )


def _truth_at(
    robot: Robot,
    configuration: Any,
    recording: LoadedRecording,
    stamps_ns: NDArray[np.int64],
    settings: JudgeSettings,
) -> tuple[dict[str, Rows], NDArray[np.bool_]]:
    """Parts of the state that the truth tells at the stamps, and where all of its bodies are valid."""
    bodies = robot.truth_specification(configuration).bodies
    if not bodies or any(body not in recording.tracks for body in bodies):
        return {}, np.zeros(len(stamps_ns), dtype=np.bool_)
    found = {body: recording.tracks[body].at(stamps_ns, settings.longest_truth_gap_s) for body in bodies}
    valid = np.all([good for _, good in found.values()], axis=0)
    parts = robot.true_parts(configuration, {body: values for body, (values, _) in found.items()})
    return {name: np.where(valid[:, None], values, np.nan) for name, values in parts.items()}, valid


def _true_parts(
    robot: Robot, configuration: Any, recording: LoadedRecording, record: Record, settings: JudgeSettings
) -> tuple[dict[str, Rows], float]:
    parts, valid = _truth_at(robot, configuration, recording, record.stamps_ns, settings)
    return parts, float(np.mean(valid))


def _align(
    specification: TruthSpecification, space: StateSpace, record: Record, true_parts: Mapping[str, Rows]
) -> tuple[Record, str]:
    """The record in the truth's frame, and a sentence on how it got there.

    Raises UserError where only a mirror image of the truth fits.
    """
    position = next((name for name in ("position", "pose") if name in true_parts), None)
    if position is None or not np.isfinite(true_parts[position]).any():
        return record, ""
    where = planar_position(space)
    truth.refuse_left_handed(record.means[:, where], true_parts[position][:, :2])
    if specification.alignment == "none" or position != "position":
        return record, ""
    coordinates = space.coordinates("position")
    found = truth.align_heading(record.means[:, coordinates], true_parts["position"])
    means, covariances = record.means.copy(), record.covariances.copy()
    means[:, coordinates] = found.positions(means[:, coordinates])
    turn = np.eye(space.dimension)
    for block in space.blocks:
        # Vectors of the world turn with it; body-frame quantities and rotations' body-frame errors do not.
        if block.name in ("position", "velocity") and block.kind == VECTOR:
            turn[space.tangent(block.name), space.tangent(block.name)] = found.rotation
            if block.name == "velocity":
                means[:, space.coordinates("velocity")] = means[:, space.coordinates("velocity")] @ found.rotation.T
        elif block.kind == SO3:
            means[:, space.coordinates(block.name)] = _turned(
                means[:, space.coordinates(block.name)], found.heading_rad
            )
    covariances = turn @ covariances @ turn.T
    note = (
        f"Estimate turned by {np.rad2deg(found.heading_rad):.2f} deg about the vertical (least squares over the run) "
        "and shifted so that it starts on the truth; no scaling."
    )
    return Record(record.stamps_ns, means, covariances), note


def _turned(quaternions: Rows, heading_rad: float) -> Rows:
    """Quaternions (K, 4) turned about the world's vertical."""
    z, w = np.sin(0.5 * heading_rad), np.cos(0.5 * heading_rad)
    qx, qy, qz, qw = quaternions.T
    return np.column_stack([w * qx - z * qy, w * qy + z * qx, w * qz + z * qw, w * qw - z * qz])


_CONVENTIONS = {
    SE2: "body frame of the estimate (x forward, y left)",
    SO3: "rotation vector in the body frame of the estimate",
}


def _part(space: StateSpace, name: str, record: Record, true: Rows, noise: Rows | None) -> PartResult:
    block: Block = space.block(name)
    part_space = space.part(name)
    estimate = record.means[:, space.coordinates(name)]
    covariance = record.covariances[:, space.tangent(name), space.tangent(name)]
    if noise is not None:
        covariance = covariance + noise
    matched = np.asarray(np.isfinite(true).all(axis=1), dtype=np.bool_)
    # The covariance belongs to the tangent space at the estimate, so the error is taken there too.
    error = np.full((len(true), block.dimension), np.nan)
    error[matched] = -part_space.minus(true[matched], estimate[matched])
    return PartResult(
        name=name,
        names=block.names,
        units=block.units,
        estimate=estimate,
        truth=true,
        error=error,
        stddev=np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)),
        nees=nees(error, covariance),
        matched=matched,
        convention=_CONVENTIONS.get(block.kind, "world frame" if name in ("position", "velocity") else ""),
    )


def _drawing(
    robot: Robot, configuration: Any, space: StateSpace, record: Record, true_parts: Mapping[str, Rows]
) -> Drawing:
    """Robot and truth from above; from the side where a robot with a position moves mostly up and down."""
    true_means = record.means.copy()
    known = np.zeros(len(true_means), dtype=np.bool_)
    for name, values in true_parts.items():
        true_means[:, space.coordinates(name)] = values
        known |= np.isfinite(values).all(axis=1)
    where = planar_position(space)
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
    estimate = robot.outline(configuration, space, record.means)
    true = np.full_like(estimate, np.nan)
    if known.any():
        true[known] = robot.outline(configuration, space, true_means[known])
    return Drawing(estimate, true, _planar_covariance(space, record, where), record.means[:, where])


def _planar_covariance(space: StateSpace, record: Record, where: slice) -> Rows:
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


def _pipeline_notes(pipeline: Pipeline) -> list[str]:
    notes = list(dict.fromkeys(sentence[:1].upper() + sentence[1:] + "." for sentence in pipeline.messages[:5]))
    if len(pipeline.messages) > 5:
        notes.append(f"{len(pipeline.messages) - 5} further messages of the filter are left out here.")
    words = {"invalid": "not finite", "duplicates": "repeated stamps", "too_late": "too late", "stray": "stray stamps"}
    for sensor, row in pipeline.statistics().items():
        lost = [f"{row[key]:.0f} {meaning}" for key, meaning in words.items() if row[key]]
        if lost:
            notes.append(f"{sensor}: of {row['received']:.0f} messages {', '.join(lost)} were left out.")
    return notes


def _truth_note(matched_ratio: float, settings: JudgeSettings) -> str:
    if matched_ratio == 0.0:
        return "No estimate has a ground truth: nothing is judged."
    return (
        f"Truth matched by interpolation at {100.0 * matched_ratio:.1f} % of the estimates "
        f"(gaps up to {settings.longest_truth_gap_s:g} s)."
    )
