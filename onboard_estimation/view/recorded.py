"""Records of robots from a run folder of `evaluate`, from a recorded live graph, or from a bag of sensors, replayed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.bag import Bag, open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.bags.message_types import new
from onboard_estimation.bags.topics import match_topics
from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Robot, all_robots, estimator_name, find_robot
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.sources import load_configuration, load_truth, read_bag
from onboard_estimation.live.followed import COVARIANCE, STATE, Rows, ShownRun, Subject
from onboard_estimation.report.comparison import read_mapping
from onboard_estimation.report.evaluate import evaluated
from onboard_estimation.ros.estimates import EstimateMessages

_LONGEST_GAP_S = 0.1


def load_records(
    path: Path,
    options: EvaluateOptions,
    bag_path: Path | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> list[ShownRun]:
    """All robots that a run folder or a bag holds.

    Parameters
    ----------
    bag_path
        The bag that a run was made of, for its ground truth; None: where the run's own command found it.

    Raises
    ------
    UserError
        There is nothing to show; the message says why.
    """
    if (path / "run.json").is_file():
        return [_from_run(path, bag_path)]
    if not path.exists():
        raise UserError(f"{path} does not exist; give a run folder of `evaluate`, a bag, or nothing for the live graph")
    with open_bag(path) as bag:
        records = _from_live_graph(bag, options)
    if records:
        return records
    progress("no estimates in the bag: replaying it")
    return [_replayed(path, options, progress)]


def namespaces_with_estimates(topics: Mapping[str, str]) -> list[str]:
    """Namespaces in which an estimator publishes its whole state, of topics with their types."""
    suffix, kind = f"/{COVARIANCE}", "sensor_msgs/msg/JointState"
    spaces = [topic[: -len(suffix)] for topic in topics if topic.endswith(suffix) and topics[topic] == kind]
    return sorted(space for space in spaces if topics.get(f"{space}/{STATE}") == kind)


def subjects(
    topics: Mapping[str, str], options: EvaluateOptions, known: Container[str] = ()
) -> Iterator[tuple[str, Subject]]:
    """Robots by their namespaces, of topics with their types; not those that are known already."""
    for namespace in namespaces_with_estimates(topics):
        wanted = options.namespace is None or options.namespace.strip("/") == namespace.strip("/")
        if not wanted or namespace in known or (robot := _robot_of(namespace, topics, options)) is None:
            continue
        configuration = load_configuration(robot, options)
        estimator = robot.estimator(configuration, estimator_name(robot, options.estimator))
        yield namespace, Subject(namespace or "/", robot, configuration, estimator.space)


def _robot_of(namespace: str, topics: Mapping[str, str], options: EvaluateOptions) -> Robot | None:
    """The robot of a namespace: the one asked for, else that of the namespace's name, else the one whose topics fit."""
    if options.robot is not None:
        return find_robot(options.robot)
    robots = list(all_robots())
    last = namespace.rpartition("/")[2]
    for robot in robots:
        if robot.name == last:
            return robot
    there = []
    for robot in robots:
        channels = robot.channels(load_configuration(robot, EvaluateOptions()))
        there.append(sum(topics.get(f"{namespace}/{one.topic}") == one.message_type for one in channels))
    return robots[int(np.argmax(there))] if any(there) else None


def _from_run(folder: Path, bag_path: Path | None) -> ShownRun:
    description = read_mapping(folder / "run.json")
    robot = find_robot(str(description.get("robot")))
    configuration: Any = load(robot.configuration_type, folder / "config.yaml", {})
    # Of a smoothed run the estimator's name says so, after a comma.
    name = str(description.get("estimator") or "").partition(",")[0]
    estimator = robot.estimator(configuration, estimator_name(robot, name))
    subject = Subject(f"/{robot.name}", robot, configuration, estimator.space)
    with open_bag(folder / "estimates") as bag:
        stamps_ns, means, covariances = _estimates(bag, f"/{robot.name}", subject)
    verdict = str(description.get("verdict", ""))
    notes = [f"**{verdict[:1].upper()}{verdict[1:]}.**"] if verdict else []
    found = bag_path or _bag_of(folder, description)
    bodies: dict[str, Rows] = {}
    truth: dict[str, Rows] = {}
    if found is None:
        notes.append(f"No truth: the bag {description.get('bag')} is not where it was; name it with `--bag`.")
    else:
        settings = description.get("settings") or {}
        with open_bag(found) as bag:
            bodies, truth = _recorded_truth(bag, subject, stamps_ns, settings)
    notes += [f"- {note}" for note in description.get("notes", [])]
    return ShownRun(subject, stamps_ns, means, covariances, bodies, truth, tuple(notes))


def _bag_of(folder: Path, description: Mapping[str, Any]) -> Path | None:
    """Where the run's bag is: as its command says, from here or from a folder above the run; None if nowhere."""
    try:
        words = shlex.split(str(description.get("command", "")))
        named = Path(words[words.index("evaluate") + 1])
    except (ValueError, IndexError):
        return None
    places = [Path.cwd(), *folder.resolve().parents]
    return next((place / named for place in places if (place / named).exists()), None)


def _from_live_graph(bag: Bag, options: EvaluateOptions) -> list[ShownRun]:
    """Robots whose estimates were recorded along with everything else."""
    records = []
    for namespace, subject in subjects(bag.types, options):
        stamps_ns, means, covariances = _estimates(bag, namespace, subject)
        bodies, truth = _recorded_truth(bag, subject, stamps_ns, {"namespace": namespace})
        note = f"As recorded in {bag.path}: {len(stamps_ns)} estimates."
        records.append(ShownRun(subject, stamps_ns, means, covariances, bodies, truth, (note,)))
    return records


def _replayed(path: Path, options: EvaluateOptions, progress: Callable[[str], None]) -> ShownRun:
    source = read_bag(path, options, progress=progress)
    result = evaluated(source, source.estimators[0], progress=progress).result
    space = source.robot.estimator(source.configuration, source.estimators[0]).space
    subject = Subject(f"/{source.robot.name}", source.robot, source.configuration, space)
    bodies, truth = _truth(source.recording, subject, result.stamps_ns)
    verdict = f"**{result.verdict[:1].upper()}{result.verdict[1:]}.**"
    notes = (verdict, *(f"- {note}" for note in result.notes))
    return ShownRun(subject, result.stamps_ns, result.mean, result.covariance, bodies, truth, notes)


def _estimates(bag: Bag, namespace: str, subject: Subject) -> tuple[NDArray[np.int64], Rows, Rows]:
    """Stamps, means and covariances of a recorded estimator; of several with one stamp the last."""
    space = subject.space
    messages = EstimateMessages(space, new)
    sizes = {STATE: space.coordinate_count, COVARIANCE: space.dimension * (space.dimension + 1) // 2}
    kind = "sensor_msgs/msg/JointState"
    channels = {}
    for topic, size in sizes.items():
        names = tuple(messages.message(topic, 0, np.zeros(size)).name)
        channels[f"{namespace}/{topic}"] = Channel(topic, kind, topic, "position", names)
    columns = read_channels(bag, channels)
    state, covariance = (columns[f"{namespace}/{topic}"] for topic in sizes)
    rows = []
    for column in (state, covariance):
        finite = np.isfinite(column.values).all(axis=1)
        # unique() names the first of equal stamps: from behind it is the last, which has seen all measurements.
        usable = np.flatnonzero(finite)[::-1]
        stamps_ns, first = np.unique(column.stamps_ns[usable], return_index=True)
        rows.append((stamps_ns, column.values[usable][first]))
    stamps_ns, of_state, of_covariance = np.intersect1d(rows[0][0], rows[1][0], True, return_indices=True)
    if not len(stamps_ns):
        raise UserError(f"{bag.path}: no estimates of {subject.robot.name} in {namespace or '/'}")
    covariances = np.zeros((len(stamps_ns), space.dimension, space.dimension))
    first_index, second_index = np.triu_indices(space.dimension)
    upper = rows[1][1][of_covariance]
    covariances[:, first_index, second_index] = covariances[:, second_index, first_index] = upper
    return stamps_ns, rows[0][1][of_state], covariances


def _recorded_truth(
    bag: Bag, subject: Subject, stamps_ns: NDArray[np.int64], settings: Mapping[str, Any]
) -> tuple[dict[str, Rows], dict[str, Rows]]:
    names, namespace = list(bag.types), settings.get("namespace")
    match = match_topics(subject.robot, subject.configuration, names, settings.get("topics"), namespace)
    recording = load_truth(bag, subject.robot, match).mirrored(settings.get("mirror_truth") or "")
    return _truth(recording, subject, stamps_ns)


def _truth(
    recording: LoadedRecording, subject: Subject, stamps_ns: NDArray[np.int64]
) -> tuple[dict[str, Rows], dict[str, Rows]]:
    """Poses of the bodies and parts of the true state at the stamps, as far as they were recorded."""
    bodies = {body: track.at(stamps_ns, _LONGEST_GAP_S)[0] for body, track in recording.tracks.items()}
    return bodies, subject.true_parts(bodies)
