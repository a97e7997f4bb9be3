"""What is judged and with what: a recording, the robot that it is of, its configuration."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.bag import Bag, open_bag
from onboard_estimation.bags.bulk import Column
from onboard_estimation.bags.other_poses import unread_poses
from onboard_estimation.bags.topics import (
    TRUTH,
    FreeTopics,
    TopicMatch,
    fitting_robots,
    guess_robot,
    match_topics,
    missing_topics,
    names_in,
    refuse_absent,
    refuse_wrong_types,
    relative_names,
    suggested_options,
    truth_channels,
)
from onboard_estimation.bags.transform_trees import read_topics
from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError, first_of, printable
from onboard_estimation.base.installed import resource
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, value_size
from onboard_estimation.base.parameter_file import sections_of_others
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Robot, all_robots, estimator_name, find_robot
from onboard_estimation.contract.simulated import Simulated
from onboard_estimation.contract.tracks import BodyTrack, HeldValues, clock_parts, mirror
from onboard_estimation.contract.trained import Smoothed, Trained
from onboard_estimation.judging.memory import estimate_bytes, refuse_too_large
from onboard_estimation.judging.options import EvaluateOptions, WhatIf, parse_faults
from onboard_estimation.judging.what_if import changed
from onboard_estimation.pipeline.reading_limits import ABSENT, finite_readings, missing_parts
from onboard_estimation.ros.estimator_host import EstimatorHost
from onboard_estimation.soundness.at_rest import contradict_gravity, dead, is_imu
from onboard_estimation.soundness.clock_alignment import TrackedBody, delay_s
from onboard_estimation.soundness.motion import checked_truth
from onboard_estimation.soundness.stretches import (
    marked,
    stamps_of_another_age,
    unsound_poses,
    unsound_sentences,
)


@dataclass(frozen=True)
class Source:
    """A recording, read from a bag or simulated, and what it is judged with.

    Attributes
    ----------
    name
        Of the recording, in reports.
    again
        Words of the command line that makes an evaluation of it anew, but for estimator and options.
    estimators
        Names of those that it was read for.
    bag
        Its folder or file; None: it is simulated.
    scenario, variant
        That is simulated.
    """

    name: str
    again: tuple[str | Path, ...]
    options: EvaluateOptions
    robot: Robot
    configuration: Any
    estimators: tuple[str, ...]
    recording: LoadedRecording
    bag: Path | None = None
    scenario: str = ""
    variant: str = ""

    def asked(self, options: EvaluateOptions, estimator: str | None) -> Source:
        """The same recording with other options and another estimator: read again where these ask for other messages.

        Raises
        ------
        UserError
            As `read_bag`; what was simulated lacks a sensor that these need.
        """
        name = estimator_name(self.robot, estimator or self.estimators[0])
        configuration = self.configured(options)
        now, before = _heard(self.robot, configuration, [name]), _heard(self.robot, self.configuration, self.estimators)
        recording = self.recording
        if self.bag is None:
            recording = changed(recording, options.what_if, options.settings.seed)
            there = {(one.channel.sensor, one.channel.names) for one in self.recording.series}
            if lacking := sorted(one.topic for one in now if one.required and (one.sensor, one.names) not in there):
                topics = ", ".join(lacking)
                raise UserError(f"with these parameters {self.robot.name} listens to {topics}: simulate it with them")
        elif (now, *_changes(options)) != (before, *_changes(self.options)):
            return read_bag(self.bag, replace(options, robot=self.robot.name), [name])
        return replace(self, options=options, configuration=configuration, estimators=(name,), recording=recording)

    def configured(self, options: EvaluateOptions) -> Any:
        """The robot's configuration with other options; UserError where there is none such."""
        configuration = load_configuration(self.robot, options, self.bag)
        if self.scenario and isinstance(self.robot, Simulated):
            return self.robot.known_in(configuration, self.scenario, self.variant)
        return configuration


def read_bag(
    bag_path: Path,
    options: EvaluateOptions,
    estimators: Sequence[str | None] = (),
    progress: Callable[[str], None] = lambda step: None,
) -> Source:
    """Read what some estimators listen to; what does not fit the bag or the robot is refused before all the work.

    Parameters
    ----------
    estimators
        Names; none: that of the options.
    """
    progress("reading the bag")
    with open_bag(bag_path) as bag:
        robot, configuration, match = choose_robot(options, bag.types, bag_path)
        _refuse_other_build(robot, configuration, match.namespace, bag.types, options.what_if)
        refuse_rivals(bag_path, robot, match, options)
        names = tuple(estimator_name(robot, asked) for asked in estimators or [options.estimator])
        for name in names:
            if model_file(robot, configuration) is not None:
                robot.estimator(configuration, name)  # a model that does not fit
            if options.settings.smooth:
                Smoothed[Any].of(robot).smoother(configuration, name)  # a robot without a smoother
        read = _listened(match, robot, configuration, names, options.what_if)
        largest = max(estimate_bytes(robot.estimator(configuration, name).space) for name in names)
        recording = load_recording(bag, robot, read, options, largest)
        notes = list(recording.notes)
    if options.config is None and (own := configuration_in(bag_path, robot.name)) is not None:
        notes.append(f"Parameters are those that came with the bag, {own.name} (another file: --config).")
    if options.config and (unused := sections_of_others(options.config, [_node(robot, options)])):
        notes.append(f"{options.config} has parameters for {', '.join(unused)} too, which are left out.")
    recording = replace(recording, notes=tuple(notes))
    again = ("evaluate", bag_path, "--robot", robot.name)
    return Source(bag_path.resolve().name, again, options, robot, configuration, names, recording, bag_path)


def _changes(options: EvaluateOptions) -> tuple[Any, ...]:
    """What a bag is read with."""
    is_random = options.what_if.noise or options.what_if.fault
    return options.config, options.what_if, options.settings.seed if is_random else 0


def refuse_rivals(bag: Path, robot: Robot, match: TopicMatch, options: EvaluateOptions) -> None:
    """Raise UserError where a bag holds several robots of a kind and none of them was named."""
    if match.rivals and options.namespace is None:
        spaces = " or ".join(f"--namespace {space or '/'}" for space in (match.namespace, *match.rivals))
        raise UserError(f"{bag} holds several robots of the kind {robot.name}; choose: {spaces}")


def _listened(
    match: TopicMatch, robot: Robot, configuration: Any, estimators: Sequence[str], what_if: WhatIf
) -> TopicMatch:
    """Without the topics that none of the estimators makes use of; with all where something is to be changed."""
    if what_if != WhatIf():
        return match
    used = {one.sensor for one in _heard(robot, configuration, estimators)}
    heard = {topic: one for topic, one in match.channels.items() if one.sensor in used}
    # Dead messages are said also where these estimators do not listen: another one does.
    unheard = {topic: one for topic, one in match.channels.items() if topic not in heard}
    return replace(match, channels=heard, unheard=unheard)


def _heard(robot: Robot, configuration: Any, estimators: Sequence[str]) -> set[Channel]:
    """What these estimators listen to."""
    return {one for name in estimators for one in robot.listened_channels(configuration, name)}


def choose_robot(
    options: EvaluateOptions, kinds: Mapping[str, str], bag: Path | None = None
) -> tuple[Robot, Any, TopicMatch]:
    """The robot asked for or guessed from the topics, its configuration, and its topics in the bag.

    Parameters
    ----------
    kinds
        Types of the bag's topics.
    bag
        Its folder, which may hold the robot's configuration.
    """
    if options.robot is not None:
        robot = find_robot(options.robot)
        configuration = load_configuration(robot, options, bag)
        return robot, configuration, match_topics(robot, configuration, kinds, options.topics, options.namespace)
    # Once for all robots, not by each of them.
    refuse_absent(options.topics, list(kinds))
    robots = list(all_robots())
    _refuse_unknown_names(options, robots)
    found: dict[str, tuple[Robot, Any, UserError | None]] = {}
    matches: dict[str, TopicMatch] = {}
    reasons = []
    for robot in robots:
        try:
            configuration, fault = _configured(robot, options, bag)
            matches[robot.name] = match_topics(robot, configuration, kinds, options.topics, options.namespace)
            found[robot.name] = robot, configuration, fault
        except UserError as error:
            reasons.append(f"{robot.name}: {error}")
    if not found:
        raise UserError(f"no installed robot fits; name one with --robot ({'; '.join(reasons) or 'none is installed'})")
    drops = options.what_if.drops
    wanted = {
        name: replace(one, missing=tuple(channel for channel in one.missing if not drops(channel.sensor)))
        for name, one in matches.items()
    }
    try:
        name = guess_robot(wanted, kinds)
    except UserError:
        # Of the robot that comes nearest, a configuration of another build says more than a list of missing topics.
        nearest = max(matches, key=lambda name: len(matches[name].channels))
        if matches[nearest].channels:
            _refuse_other_build(*found[nearest][:2], matches[nearest].namespace, kinds, options.what_if)
        raise
    robot, configuration, fault = found[name]
    if fault is not None:
        raise fault
    others = [f"--robot {other}" for other in fitting_robots(wanted) if other != name]
    notes = (f"The bag also holds another robot's topics: {', '.join(others)}.",) if others else ()
    return robot, configuration, replace(matches[name], notes=notes)


def _refuse_other_build(
    robot: Robot, configuration: Any, namespace: str, kinds: Mapping[str, str], what_if: WhatIf
) -> None:
    """Raise UserError where the bag is of a robot of another build than the configuration."""
    left_out = [channel.topic for channel in robot.channels(configuration) if what_if.drops(channel.sensor)]
    robot.refuse_topics(configuration, [*names_in(namespace, kinds), *left_out])


def _refuse_unknown_names(options: EvaluateOptions, robots: Sequence[Robot]) -> None:
    """Raise UserError where `--topic` names what none of the robots listens to."""
    known: dict[str, str] = {}
    for robot in robots if options.topics else ():
        with suppress(UserError):  # a robot without a sound default: it is refused later
            known |= dict.fromkeys(relative_names(robot, _configured(robot, options)[0]), robot.name)
    for relative in options.topics:
        if known and relative not in known:
            near = [f"{name} ({known[name]})" for name in difflib.get_close_matches(relative, known, 3, 0.0)]
            raise UserError(
                f"--topic {relative}=...: no installed robot has such a topic; the nearest are {', '.join(near)}"
            )


def suggested_lines(topics: Mapping[str, str]) -> list[str]:
    """Options for `evaluate` that take a bag's topics for those of a robot; none where names alone tell the robot.

    Parameters
    ----------
    topics
        Types of the bag's topics.
    """
    matches = {}
    for robot, configuration in _as_shipped():
        with suppress(UserError):
            matches[robot.name] = match_topics(robot, configuration, topics)
    return [] if fitting_robots(matches) else suggested_options(matches, topics)


def _configured(robot: Robot, options: EvaluateOptions, bag: Path | None = None) -> tuple[Any, UserError | None]:
    """The robot's configuration as asked for; where that has a fault, the default and the fault."""
    try:
        return load_configuration(robot, options, bag), None
    except UserError as error:
        # Which robot it is does not depend on a fault in a file that was meant for it, or for another one.
        return load_configuration(robot, EvaluateOptions()), error


def known_channels() -> dict[str, tuple[Channel, ...]]:
    """Channels of all installed robots in their default configuration, by robot."""
    known = {}
    for robot, configuration in _as_shipped():
        with suppress(UserError):
            known[robot.name] = robot.channels(configuration)
    return known


def _as_shipped() -> Iterator[tuple[Robot, Any]]:
    """All installed robots in their default configuration, but for those that have no sound one."""
    for robot in all_robots():
        with suppress(UserError):
            configuration = load_configuration(robot, EvaluateOptions())
            yield robot, configuration


def load_configuration(robot: Robot, options: EvaluateOptions, bag: Path | None = None) -> Any:
    """The robot's configuration from the file asked for, else the bag's, else its default file, and the overrides.

    Parameters
    ----------
    bag
        Folder of a bag, which may hold the configuration of the robot that it is of.
    """
    source = options.config or (bag and configuration_in(bag, robot.name))
    if source is None and robot.configuration_file is not None:
        source = resource(robot.configuration_file)
    overrides = dict(options.overrides)
    if options.model is not None:
        if not isinstance(robot, Trained):
            raise UserError(f"--model {options.model}: {robot.name} takes no trained model")
        name = robot.model_parameter
        if name in overrides:
            raise UserError(f"--model {options.model} and --set {name}={overrides[name]}: give one of them")
        overrides[name] = str(options.model.absolute())
    return load(robot.configuration_type, source, overrides, _node(robot, options), EstimatorHost)


def _node(robot: Robot, options: EvaluateOptions) -> str:
    """Name of the robot's node in parameter files, with its namespace where that is known."""
    name = f"{robot.name}_estimator"
    return name if options.namespace is None else f"/{options.namespace}/{name}".replace("//", "/")


def configuration_in(bag: Path, robot: str) -> Path | None:
    """The robot's parameter file in the folder of a bag; None where there is none.

    A converter writes `<robot>.yaml` there; all that read bags take it in the place of the robot's default file. A
    parameter file that the user names goes before it.
    """
    file = bag / f"{robot}.yaml"
    return file if file.is_file() else None


def model_file(robot: Robot, configuration: Any) -> Path | None:
    """The trained model that a configuration names; None where it names none."""
    if not isinstance(robot, Trained):
        return None
    name = attrgetter(robot.model_parameter)(configuration)
    return Path(name) if name else None


def load_recording(
    bag: Bag, robot: Robot, match: TopicMatch, options: EvaluateOptions, bytes_of_estimate: int = 0
) -> LoadedRecording:
    """Read a robot's sensors and ground truth from a bag, with the changes of a what-if.

    What is dropped is not read at all: it may be missing, or be of another type. The truth's clock is aligned with the
    sensors as they were recorded, before any other change.

    Parameters
    ----------
    bytes_of_estimate
        What each estimate takes that will be made of it, of which there is one for each reading of a sensor at least.

    Raises
    ------
    UserError
        A required topic is missing, has another type or holds nothing usable, and is not dropped; no stamps are set; it
        does not fit into the memory.
    """
    match, dropped = _without_dropped(match, options.what_if)
    if any(channel.required for channel in match.missing) or not match.channels:
        raise missing_topics(robot.name, match, bag.types)
    asked = {**match.truth, **match.channels}  # some of them frames in trees of transforms
    counts = {one: bag.topics[topic].count for topic, one in asked.items() if topic in bag.topics}
    of_columns = sum(8 * count * (3 + (value_size(one) or 1)) for one, count in counts.items())
    estimates = max((counts.get(one, 0) for one in match.channels.values() if one.required), default=0)
    refuse_too_large(str(bag.path), sum(counts.values()), of_columns + estimates * bytes_of_estimate)
    columns, notes = _read(bag, robot, match)
    _refuse_useless(bag, match, columns)
    columns, aged = _of_one_clock(bag, columns)
    columns, jumps = _longest_part(columns, match)
    notes += jumps
    sensors = {topic: columns[topic] for topic in match.channels}
    series = tuple(Series(match.channels[topic], column.stamps_ns, column.values) for topic, column in sensors.items())
    tracks, held, lost = _known(bag, match, columns, options.mirror_truth)
    faults = aged + [said for one in series for said in dead(one.channel, one.stamps_ns, one.values, bag.start_ns)]
    wrong = contradict_gravity(series)
    imus = {one.topic: columns[topic] for topic, one in match.channels.items() if is_imu(one)}
    bodies = {one.topic: TrackedBody(tracks[one.sensor], delay_s(columns[topic])) for topic, one in match.truth.items()}
    checked = checked_truth(imus, bodies, wrong, options.align_clock)
    faults += [*wrong.values(), *checked.contradictions]
    notes += [*faults, *lost, *checked.clock]
    if options.mirror_truth:
        notes.append(f"Ground truth mirrored in {options.mirror_truth}.")
    notes += _missing_truth(match, bag)
    if dropped:
        notes.append(f"What if: left out {', '.join(dropped)}.")
    is_ours = "onboard_estimation" in bag.custom_data
    injected = parse_faults(bag.custom_data.get("fault", "")) if is_ours else []
    notes += [f"The bag says that it was simulated with the fault {one.text}." for one in injected]
    arrival = _by_arrival(list(sensors.values()))[0]
    loaded = LoadedRecording(
        series,
        arrival,
        {one.sensor: checked.tracks[one.topic] for one in match.truth.values()},
        is_simulated(bag),
        tuple(notes),
        held,
        tuple(faults),
        checked.comparable and not wrong,
        tuple(injected),
    )
    return changed(loaded, replace(options.what_if, drop=()), options.settings.seed)


def load_truth(bag: Bag, robot: Robot, match: TopicMatch) -> LoadedRecording:
    """Read a robot's ground truth alone, for estimates that others made.

    Raises
    ------
    UserError
        A topic has another type.
    """
    match = replace(match, channels={})
    columns, notes = _read(bag, robot, match)
    tracks, held, lost = _known(bag, match, columns, None)
    notes += [*lost, *_missing_truth(match, bag)]
    return LoadedRecording((), np.zeros(0, dtype=np.int64), tracks, is_simulated(bag), tuple(notes), held)


def _read(bag: Bag, robot: Robot, match: TopicMatch) -> tuple[dict[str, Column], list[str]]:
    """The topics that were found, and what must be said of the bag and of them; UserError where types are others."""
    refuse_wrong_types(robot.name, match, bag.types)
    unheard = {topic: one for topic, one in match.unheard.items() if bag.types[topic] == one.message_type}
    read = read_topics(bag, {**match.channels, **match.truth, **match.held}, unheard)
    columns = {topic: column for topic, column in read.items() if topic not in unheard}
    lost = losses(columns) + losses({topic: read[topic] for topic in unheard})
    return columns, [*match.notes, *([bag.damage] if bag.damage else []), *lost]


def _known(
    bag: Bag, match: TopicMatch, columns: Mapping[str, Column], mirror_truth: str | None
) -> tuple[dict[str, BodyTrack], dict[str, HeldValues], list[str]]:
    """Tracks, what else is known, and a sentence on each body of which messages are left out."""
    tracks, notes = {}, []
    for topic, one in match.truth.items():
        stamps_ns, values = columns[topic].stamps_ns, mirror(columns[topic].values, mirror_truth or "")
        track = tracks[one.sensor] = BodyTrack.clean(one.sensor, stamps_ns, values)
        if track.left_out:
            notes.append(
                f"Ground truth of {one.sensor}: {track.left_out} of {track.left_out + len(track.stamps_ns)} messages "
                "left out (not finite, no rotation, a repeated stamp, or the clock jumped back)."
            )
        if made_up := unsound_poses(track.stamps_ns, track.values):
            tracks[one.sensor] = track.without(marked(made_up, len(track.stamps_ns)))
            notes += unsound_sentences(
                f"Ground truth of {one.sensor}", made_up, bag.start_ns, ", left out of what is judged"
            )
    found = {one.sensor: columns[topic] for topic, one in match.held.items()}
    held = {name: HeldValues.clean(column.stamps_ns, column.values) for name, column in found.items()}
    return tracks, held, notes


def _without_dropped(match: TopicMatch, what_if: WhatIf) -> tuple[TopicMatch, list[str]]:
    """The match without the sensors and bodies that are left out, and their names."""
    sensors = [channel.sensor for channel in (*match.channels.values(), *match.missing)]
    bodies = [f"{TRUTH}/{body}" for body in (*(one.sensor for one in match.truth.values()), *match.missing_bodies)]
    what_if.check_drops([*sensors, *bodies])
    kept = replace(
        match,
        channels={topic: one for topic, one in match.channels.items() if not what_if.drops(one.sensor)},
        truth={topic: one for topic, one in match.truth.items() if not what_if.drops(f"{TRUTH}/{one.sensor}")},
        missing=tuple(one for one in match.missing if not what_if.drops(one.sensor)),
        missing_bodies=tuple(one for one in match.missing_bodies if not what_if.drops(f"{TRUTH}/{one}")),
    )
    if not any(channel.required for channel in (*kept.channels.values(), *kept.missing)):
        raise UserError("--drop leaves no sensor")
    return kept, [name for name in (*sensors, *bodies) if what_if.drops(name)]


def _refuse_useless(bag: Bag, match: TopicMatch, columns: Mapping[str, Column]) -> None:
    """Raise UserError where a required topic holds nothing to go on with."""
    for topic, channel in match.channels.items():
        column = columns[topic]
        usable = finite_readings(channel, column.values)
        if not usable.any() and channel.required:
            reasons = [f"{count} {reason}" for reason, count in column.faults.items()]
            missing = missing_parts(channel, column.values)
            reasons += [f"{count} without {part.replace('_', ' ')} ({ABSENT})" for part, count in missing.items()]
            others = len(usable) - max(missing.values(), default=0)
            reasons += [f"{others} not finite"] if others else []
            raise UserError(
                f"none of the {bag.topics[topic].count} messages on {printable(topic)} can be used"
                f"{': ' if reasons else ''}{', '.join(reasons)} (--drop {channel.sensor} does without)"
            )
        if len(column.stamps_ns) > 1 and np.ptp(column.stamps_ns) == 0:
            raise UserError(
                f"all {len(column.stamps_ns)} messages on {printable(topic)} have the same header.stamp, "
                f"{column.stamps_ns[0] / NANOSECONDS_PER_SECOND:.9f} s: estimates need to know when each was measured "
                f"(--drop {channel.sensor} does without)"
            )
        if len(column.stamps_ns) and column.stamps_ns.max() < 0:
            raise UserError(f"{printable(topic)} has stamps before 1970, up to {column.stamps_ns.max()} ns")
    if not any(len(columns[topic].values) for topic in match.channels):
        raise UserError(f"{bag.path}: none of the messages on {', '.join(match.channels)} can be used")


def _of_one_clock(bag: Bag, columns: Mapping[str, Column]) -> tuple[dict[str, Column], list[str]]:
    """The columns without stamps of another clock, and a sentence on each fault, with the topics that have it."""
    kept, topics, notes = dict(columns), dict[str, list[str]](), dict[str, str]()
    for topic, column in columns.items():
        if aged := stamps_of_another_age(column.stamps_ns, column.log_times_ns):
            kept[topic] = column.at(~marked(aged, len(column.stamps_ns)))
            topics.setdefault(aged[0].why, []).append(printable(topic))
            notes.setdefault(
                aged[0].why, " ".join(unsound_sentences(printable(topic), aged, bag.start_ns, " left out"))
            )
    others = {why: first_of(names[1:], 3, ", ", " and {} more") for why, names in topics.items()}
    ends = {why: f"; so it is with {names}." if names else "." for why, names in others.items()}
    return kept, [note.removesuffix(".") + ends[why] for why, note in notes.items()]


def _longest_part(columns: Mapping[str, Column], match: TopicMatch) -> tuple[dict[str, Column], list[str]]:
    """The columns between two jumps of the sensors' clock, where there are any, and what is lost by that."""
    sensors = [columns[topic] for topic in match.channels]
    sources, order = _by_arrival(sensors)
    stamps = np.empty(len(sources), dtype=np.int64)
    for number, column in enumerate(sensors):
        stamps[sources == number] = column.stamps_ns
    parts = clock_parts(stamps, sources)
    if not parts.jumps:
        return dict(columns), []
    start, stop = parts.longest()
    first = int(order[start]) if start else 0
    last = int(order[stop]) if stop < parts.count else np.iinfo(np.int64).max
    kept = {topic: column.at((column.order >= first) & (column.order < last)) for topic, column in columns.items()}
    sentence = "; ".join(jump.partition(":")[0] for jump in parts.jumps[:3]) + ("; ..." if len(parts.jumps) > 3 else "")
    note = (
        f"{sentence[:1].upper()}{sentence[1:]}. Only the longest of {len(parts.starts)} parts is evaluated: "
        f"{stop - start} of {parts.count} measurements."
    )
    return kept, [note]


def _by_arrival(columns: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of its column for each message (M,) in the order of the bag, and its place in the bag's log order (M,).

    Places are whole numbers below the number of the bag's messages, each taken once: they need no sorting.
    """
    count = max((int(column.order[-1]) + 1 for column in columns if len(column.order)), default=0)
    sources = np.full(count, -1, dtype=np.int16)
    for number, column in enumerate(columns):
        sources[column.order] = number
    order = np.flatnonzero(sources >= 0)
    return sources[order].astype(np.int64), order


def _missing_truth(match: TopicMatch, bag: Bag) -> list[str]:
    """Sentences on the bodies without ground truth, with the option to paste where a topic may hold it."""
    if not match.missing_bodies:
        return []
    free = FreeTopics(match, bag.types)
    found = (map(free.option, truth_channels(body)) for body in match.missing_bodies)
    options = [option for body in found if (option := next(filter(None, body), None))]
    doubt = ", where no estimator sent it" if any(":" in option for option in options) else ""
    hint = f" ({' '.join(options)}?{doubt})" if options else ""
    all_needed = ", and all bodies are needed" if match.truth else ""
    unread = unread_poses(bag)
    said = f"No ground truth of {', '.join(match.missing_bodies)} in the bag{all_needed}{hint}."
    return [said, unread] if unread else [said]


def losses(columns: Mapping[str, Column]) -> list[str]:
    """What became of messages that are not as they should be, by topic, a sentence each."""
    return [note for topic, column in columns.items() for note in column.notes(printable(topic))]


def is_simulated(bag: Any) -> bool:
    """Whether the bag says that it comes from a simulator."""
    return bag.custom_data.get("source") == "simulated"
