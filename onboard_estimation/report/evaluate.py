"""`evaluate`: a bag, or another filter's trajectory from a file or a topic, goes in; a judged run comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.topics import match_topics
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.parameter_file import file_and_node
from onboard_estimation.base.presentation import percent
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reported import Reported
from onboard_estimation.contract.result import EvaluationResult, PartResult, own_figures
from onboard_estimation.contract.robot import Alignment, Robot, find_robot
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging import verdict
from onboard_estimation.judging.handedness import Compared, refuse_mirrored
from onboard_estimation.judging.judge import drawing_of, judge, judged_record
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings, Keep, again, declared, recorded
from onboard_estimation.judging.sources import (
    Source,
    is_simulated,
    load_configuration,
    load_truth,
    model_file,
    read_bag,
)
from onboard_estimation.judging.truth import truth_at
from onboard_estimation.report.run_folder import claimed_run, content_hash, content_hashes, write_run
from onboard_estimation.trajectories.bag_poses import body_truth, topic_trajectory
from onboard_estimation.trajectories.exports import EXPORTS
from onboard_estimation.trajectories.files import read_trajectory, with_formats
from onboard_estimation.trajectories.trajectory import (
    SPACES,
    Kind,
    Trajectory,
    as_record,
    common_kind,
    is_trajectory_file,
    kind_of_parts,
    shifted,
    true_parts,
)
from onboard_estimation.trajectories.units import stamp_factor, unit_notes

Rows = NDArray[np.float64]
Parts = dict[str, Rows]
Progress = Callable[[str], None]

_TAKEN = frozenset(
    {
        "config", "overrides", "topics", "namespace", "mirror_truth", "trajectory", "truth", "body", "format", "times",
        "longest_truth_gap_s", "settle_s", "truth_format", "shift_s", "alignment", "estimates_rate_hz",
    }
)  # fmt: skip
"""Options that act on a trajectory; all others are of a filter that is replayed."""
_OF_A_ROBOT = frozenset({"config", "overrides", "namespace"})
_FAR_M = 0.5
_FAR_RAD = 0.2


@dataclass(frozen=True)
class Evaluation:
    """A result, and where it was written (None: nowhere)."""

    result: EvaluationResult
    folder: Path | None

    def summary(self) -> dict[str, Any]:
        """What `--json` prints."""
        result = self.result
        return {
            **result.facts,
            "metrics": result.metrics,
            "figures": {one.label: one.value for one in own_figures(result)},
            "sensors": result.sensors,
            "notes": list(result.notes),
            "folder": None if self.folder is None else str(self.folder),
        }


def evaluate_bag(
    bag_path: Path,
    options: EvaluateOptions,
    output: Path | None = None,
    progress: Progress = lambda step: None,
    keep: Keep | None = "everything",
) -> Evaluation:
    """Replay a bag through a robot's pipeline, judge it, and write a run folder.

    Parameters
    ----------
    output
        Run folder; None: `runs/<bag>-<robot>`, numbered where that exists.
    keep
        See `write_run`; None: there is no run folder.

    Raises
    ------
    UserError
        Whatever the user can mend; the message says how.
    """
    if keep is None:
        source = read_bag(bag_path, options, progress=progress)
        return evaluated(source, source.estimators[0], progress=progress)
    [only] = evaluate_estimators(bag_path, options, [options.estimator], output, progress, keep)
    return only


def evaluate_estimators(
    bag_path: Path,
    options: EvaluateOptions,
    estimators: Sequence[str | None],
    output: Path | None = None,
    progress: Progress = lambda step: None,
    keep: Keep = "everything",
) -> Iterator[Evaluation]:
    """The same with several estimators, one after the other; the bag is read once.

    Parameters
    ----------
    estimators
        Names, each once, None: the robot's first; `options.estimator` is not looked at.
    output
        Run folder, of several estimators with one of each in it, by its name; None: as for `evaluate_bag`.
    """
    several = len(estimators) > 1
    with _new_run(output) as claim:
        source = read_bag(bag_path, options, estimators, progress)
        hashes = content_hashes({"bag": bag_path, "config": options.config})
        folder = claim(f"{source.name}-{source.robot.name}")
        names, holders = source.estimators, [source] * len(source.estimators)
        del source  # the last of these holds the recording alone
        for name in names:
            told = partial(_named, progress, name) if several else progress
            yield evaluated(holders.pop(), name, folder / name if several else folder, hashes, told, keep)


def _named(progress: Progress, estimator: str, step: str) -> None:
    progress(f"{estimator}: {step}")


@contextmanager
def _new_run(output: Path | None) -> Iterator[Callable[[str], Path]]:
    """A way to a run's folder by a name; one asked for is claimed before the work."""
    with ExitStack() as stack:
        if output is not None:
            stack.enter_context(claimed_run(output, output))
        yield lambda name: output or stack.enter_context(claimed_run(None, Path("runs") / name))


def evaluated(
    source: Source,
    estimator: str,
    folder: Path | None = None,
    hashes: Mapping[str, str] | None = None,
    progress: Progress = lambda step: None,
    keep: Keep = "everything",
) -> Evaluation:
    """Judge one estimator, and write its run folder where one is given, see `write_run`."""
    robot, configuration, options = source.robot, source.configuration, source.options
    command = again([*source.again, "--estimator", estimator], options)
    progress("filtering")
    result = judge(
        robot, configuration, estimator, source.recording, options.settings, bag=source.name, command=command
    )
    if folder is None:
        return Evaluation(result, None)
    if isinstance(robot, Reported):
        result = robot.presented(configuration, source.recording.series, result)
        result = replace(result, sections=robot.report_sections(configuration, source.recording.series, result))
    del source  # where nobody else holds it, what is written takes the recording's place in memory
    space = robot.estimator(configuration, estimator).space
    known = dict(hashes or {})
    if (model := model_file(robot, configuration)) is not None:
        known["model"] = content_hash(model)
    kept = recorded(options), options.estimates_rate_hz
    return Evaluation(write_run(result, space, configuration, known, folder, *kept, progress, keep), folder)


@dataclass(frozen=True, eq=False)
class _Reference:
    """What a trajectory is compared with: a body alone, or all bodies of a robot."""

    kind: Kind
    recording: LoadedRecording
    source: str
    settings: JudgeSettings
    robot: Robot | None = None
    configuration: Any = None

    def parts(self, stamps_ns: NDArray[np.int64], axes: str) -> tuple[Parts, NDArray[np.bool_]]:
        """Parts of the state at instants (K,) with the truth's axes turned round, and where it is known (K,)."""
        turned, longest_gap_s = self.recording.mirrored(axes), self.settings.longest_truth_gap_s
        if self.robot is None:
            (track,) = turned.tracks.values()
            values, valid = track.at(stamps_ns, longest_gap_s)
            return (true_parts(self.kind, values) if valid.any() else {}), valid
        parts, valid = truth_at(self.robot, self.configuration, turned, stamps_ns, longest_gap_s)
        return {block.name: parts[block.name] for block in SPACES[self.kind].blocks if block.name in parts}, valid


def is_foreign(path: Path, options: EvaluateOptions) -> bool:
    """Whether another filter's trajectory is to be judged, not a robot's filter on a bag."""
    asked = options.trajectory, options.truth, options.body, options.format, options.truth_format, options.times
    return any(one is not None for one in asked) or is_trajectory_file(path)


def evaluate_trajectory(
    path: Path,
    options: EvaluateOptions,
    output: Path | None = None,
    progress: Progress = lambda step: None,
    keep: Keep = "everything",
) -> Evaluation:
    """Judge a trajectory file, or a topic of a bag, against a truth, and write a run folder, see `write_run`.

    Raises
    ------
    UserError
        Whatever the user can mend; the message says how.
    """
    _refuse_others(path, options)
    inputs = {"trajectory": path, "truth": options.truth, "times": options.times, "config": options.config}
    if absent := [str(one) for one in inputs.values() if one and not file_and_node(one)[0].exists()]:
        raise UserError(f"{absent[0]} does not exist")
    with _new_run(output) as claim:
        progress("reading")
        options, told = with_formats(path, options)
        trajectory, reference = _read(path, options)
        progress("comparing")
        result, space = _judged(path, options, shifted(trajectory, options.shift_s), reference, told)
        name = (options.trajectory or path.name).strip("/").replace("/", "-")
        folder = claim(f"{result.bag}-{name}")
        kept = recorded(options), options.estimates_rate_hz
        hashes = content_hashes(inputs)
        result = write_run(result, space, reference.configuration, hashes, folder, *kept, progress, keep)
        return Evaluation(result, folder)


def _refuse_others(path: Path, options: EvaluateOptions) -> None:
    """UserError where an option says nothing of a trajectory, or where one is missing."""
    for (name, it, value), (_, _, default) in zip(declared(options), declared(), strict=True):
        if value == default:
            continue
        if name not in _TAKEN:
            raise UserError(f"{it.flag} acts on a filter that is replayed; a trajectory is judged as it is")
        if name in _OF_A_ROBOT and options.robot is None:
            raise UserError(f"{it.flag} is of a robot: name it with --robot, or leave it out")
    if options.estimator is not None:
        raise UserError(f"--estimator {options.estimator} is a filter of ours; a trajectory is judged as it is")
    if options.robot is not None and options.body is not None:
        raise UserError(f"--robot {options.robot} has its own truth: leave out --body {options.body}")
    if is_trajectory_file(path):
        if options.trajectory is not None:
            raise UserError(f"--trajectory {options.trajectory} is a topic of a bag; {path} is a file")
        if options.truth is None:
            raise UserError(f"{path} is a trajectory: name what it is judged against with --truth BAG or --truth FILE")
    elif path.exists() and options.trajectory is None:
        with open_bag(path) as bag:
            topic_trajectory(bag, "TOPIC")  # refuses it with those that there are
    elif options.times is not None:
        raise UserError("--times is of a trajectory file")


def _read(path: Path, options: EvaluateOptions) -> tuple[Trajectory, _Reference]:
    place = options.truth or path
    formats = {one: name for one, name in ((place, options.truth_format), (path, options.format)) if name}
    if options.times is not None and "kitti" not in formats.values():
        raise UserError(f"--times {options.times}: none of the files is of the format kitti, stamps are their own")

    def read_file(file: Path, stamps_ns: NDArray[np.int64] | None = None) -> Trajectory:
        times = options.times if formats[file] == "kitti" else None
        return read_trajectory(file, formats[file], times, stamps_ns, options.body)

    stated: list[bool] = []
    trajectory: Trajectory | None = None
    if path not in formats:
        with open_bag(path) as bag:
            stated.append(is_simulated(bag))
            trajectory = topic_trajectory(bag, options.trajectory or "")
    if place in formats:
        of_others = options.body and EXPORTS.keys().isdisjoint(formats.values())
        if options.robot is not None or options.topics or of_others:
            raise UserError(f"{place} is a file with one truth: leave out --robot, --body and --topic")
        truth = read_file(place)
    else:
        with open_bag(place) as bag:
            stated.append(is_simulated(bag))
            source = "simulated" if any(stated) else "recorded"
            if options.robot is not None:
                robot = find_robot(options.robot)
                configuration = load_configuration(robot, options, place)
                match = match_topics(robot, configuration, bag.types, options.topics, options.namespace)
                recording = load_truth(bag, robot, match)
                trajectory = trajectory or read_file(path)
                return trajectory, _of_robot(robot, configuration, recording, trajectory, options, source)
            truth = body_truth(bag, options.body, options.topics, None if options.truth else options.trajectory)
            if bag.damage:
                truth = replace(truth, notes=(bag.damage, *truth.notes))
    if trajectory is None:  # of the format kitti, it may take its stamps from the truth
        trajectory = read_file(path, truth.stamps_ns)
    source = "simulated" if any(stated) else "recorded" if stated else "unknown"
    tracks = {truth.name: truth.track}
    recording = LoadedRecording((), np.zeros(0, dtype=np.int64), tracks, source == "simulated", truth.notes)
    return trajectory, _Reference(common_kind(trajectory, truth), recording, source, options.settings)


def _of_robot(
    robot: Robot,
    configuration: Any,
    recording: LoadedRecording,
    trajectory: Trajectory,
    options: EvaluateOptions,
    source: str,
) -> _Reference:
    bodies = robot.truth_specification(configuration).bodies
    if any(body not in recording.tracks or not len(recording.tracks[body].stamps_ns) for body in bodies):
        reason = " ".join(recording.notes).rstrip(".")
        raise UserError(f"the truth of --robot {robot.name} needs all of its bodies: {reason or 'one has no message'}")
    found, _ = truth_at(robot, configuration, recording, trajectory.stamps_ns, options.settings.longest_truth_gap_s)
    known = found or robot.true_parts(configuration, {name: one.values[:1] for name, one in recording.tracks.items()})
    dimensions = known["position"].shape[1] if "position" in known else 0
    kind = kind_of_parts(robot.name, known, dimensions, trajectory)
    return _Reference(kind, recording, source, options.settings, robot, configuration)


def _judged(
    path: Path, options: EvaluateOptions, trajectory: Trajectory, reference: _Reference, told: Sequence[str]
) -> tuple[EvaluationResult, StateSpace]:
    space, record, covariance_notes = as_record(trajectory, reference.kind)
    axes = options.mirror_truth or ""
    parts, known = reference.parts(record.stamps_ns, axes)
    if not known.any():
        raise UserError(_no_truth(trajectory, reference, options))

    def mirrored(more: str) -> Parts:
        # Turned round twice, an axis is as it was.
        both = "".join(axis for axis in "xyz" if (axis in axes) != (axis in more))
        return reference.parts(record.stamps_ns, both)[0]

    refuse_mirrored(space, Compared(record.stamps_ns, record.means, parts), mirrored)
    recording, robot = reference.recording, ["--robot", options.robot] if options.robot else []
    turned = f"Ground truth mirrored in {axes}." if axes else ""
    track = next(iter(recording.tracks.values()))
    doubts = unit_notes(trajectory.name, record, parts, known, track.stamps_ns)
    result = judged_record(
        space, record, parts, known, options.settings, recording.tracks, reference.robot, reference.configuration,
        unaligned=partial(_unaligned, options.settings.alignment or ("none" if doubts else None)),
        before=(*told, *trajectory.notes, *recording.notes, turned, _what(trajectory, reference.kind)),
        between=(*covariance_notes, *doubts),
        estimator=trajectory.name,
        source=reference.source,
        bag=(options.truth or path).resolve().name,
        sensors={},
        command=again(["evaluate", path, *robot], options),
    )  # fmt: skip
    kept = trajectory.kept_ratio
    result.metrics["run"]["estimated_ratio"] = kept
    sentence = verdict.verdict(
        result.parts, result.time_s, result.settle_s, {}, result.matched_ratio, estimated_ratio=kept
    )
    # No doubt in what is judged: a truth often begins before a filter does, and ends after it.
    share = _share(track.stamps_ns, record.stamps_ns)
    part = f"; from its first to its last pose {percent(share)} of the truth's time" if share < 0.99 else ""
    return replace(result, drawing=drawing_of(None, None, space, result, parts), verdict=sentence + part), space


def _share(true_ns: NDArray[np.int64], stamps_ns: NDArray[np.int64]) -> float:
    """Share of the time of a truth (M,) that lies between the first and the last of the estimates (K,)."""
    first_ns, last_ns = np.clip(stamps_ns[[0, -1]], true_ns[0], true_ns[-1])
    return float((last_ns - first_ns) / (true_ns[-1] - true_ns[0])) if len(true_ns) > 1 else 1.0


def _what(trajectory: Trajectory, kind: Kind) -> str:
    told = {
        "planar": "as a planar pose, x, y and heading",
        "pose": "as a pose in space",
        "position": "by its position alone",
        "planar position": "by its position in the plane alone",
    }[kind]
    return f"{trajectory.name} is judged {told}, of a filter that is not ours: nothing is known of its sensors."


def _unaligned(asked: Alignment | None, parts: Mapping[str, PartResult]) -> str:
    """Where nothing is fitted, a hint that something should be."""
    if asked is not None:
        return ""
    part = next(iter(parts.values()))
    first = part.error[np.flatnonzero(part.matched)[0]]
    lengths = [i for i, unit in enumerate(part.units) if unit == "m"]
    off_m = float(np.linalg.norm(first[lengths]))
    angles = [one.error[one.matched][0][[unit == "rad" for unit in one.units]] for one in parts.values()]
    off_rad = float(np.linalg.norm(np.concatenate(angles)))
    if off_m < _FAR_M and off_rad < _FAR_RAD:
        return "Compared as it is, without an alignment."
    turned = f" and {np.rad2deg(off_rad):.1f} deg" if off_rad > 0.0 else ""
    return (
        f"Compared as it is, without an alignment, and it starts {off_m:.2f} m{turned} off the truth: "
        "of a filter that starts at its own origin ask for --alignment heading or start."
    )


def _no_truth(trajectory: Trajectory, reference: _Reference, options: EvaluateOptions) -> str:
    def span(stamps_ns: NDArray[np.int64]) -> str:
        return f"{stamps_ns[0] / NANOSECONDS_PER_SECOND:.3f} to {stamps_ns[-1] / NANOSECONDS_PER_SECOND:.3f} s"

    own = trajectory.stamps_ns
    tracks = {name: one for name, one in reference.recording.tracks.items() if len(one.stamps_ns)}
    if not tracks:
        return f"there is no ground truth: {' '.join(reference.recording.notes)}"
    told = [f"the truth of {name} from {span(one.stamps_ns)}" for name, one in tracks.items()]
    first = next(iter(tracks.values())).stamps_ns
    offset_s = (int(first[0]) - int(own[0])) / NANOSECONDS_PER_SECOND
    overlap = min(own[-1], first[-1]) >= max(own[0], first[0])
    way = (
        "they overlap, but no two messages of the truth around a pose are within "
        f"{options.settings.longest_truth_gap_s:g} s (--truth-gap allows more)"
        if overlap
        else stamp_factor(own, first)
        or f"the truth starts {offset_s:+.3f} s after it: bring both to one clock (--shift "
        f"{options.shift_s + offset_s:.3f} where both start at once)"
    )
    return (
        f"none of the {len(own)} poses of {trajectory.name} has a truth: by their stamps it runs from {span(own)}, "
        f"{', '.join(told[:3])}; {way}"
    )
