"""`train`, `identify`, `reproduce`: bags with truth go in; a robot's model, its coefficients, or a paper come out.

A model tells what the robot's equations leave out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.topics import TRUTH, TopicMatch, match_topics, names_in
from onboard_estimation.base.atomic_file import check_output
from onboard_estimation.base.configuration import to_parameter_file
from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.kept_results import keeping
from onboard_estimation.base.workers import sharers, sharing
from onboard_estimation.campaigns.identification import identify_recordings
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Reproduced, find_paper
from onboard_estimation.contract.robot import Robot, all_robots, find_robot
from onboard_estimation.contract.trained import Identified, Learned, Trained
from onboard_estimation.judging.options import EvaluateOptions, WhatIf, path_word, words
from onboard_estimation.judging.sources import load_configuration, load_recording, refuse_rivals
from onboard_estimation.report.reproduction import as_json, write_reproduction
from onboard_estimation.report.run_folder import claimed_run, content_hash
from onboard_estimation.report.training import write_training_page

Progress = Callable[[float, str], None]

_READING = 0.2  # share of the progress that reading takes
_IMU = "imu"


def train_from_bags(
    robot: str,
    bags: Sequence[Path],
    output: Path,
    options: EvaluateOptions,
    form: str | None = None,
    progress: Progress = lambda share, step: None,
) -> Learned:
    """Train a model with the recordings of bags, and write it to a file.

    Parameters
    ----------
    options
        Of which configuration, topics, namespace and mirrored truth are looked at.
    form
        Of the model; None: the robot's choice.

    Raises
    ------
    UserError
        The robot or the form cannot be trained, the file cannot be written, a bag is given twice, or a bag does not do;
        the message names the bag.
    """
    found = Trained[Any].of(find_robot(robot))
    if form is not None and form not in found.training_forms:
        raise UserError(f"--form {form}: {found.name} has {', '.join(found.training_forms)}")
    check_place(output, found)
    configuration = load_configuration(found, options, bags[0])
    read = partial(read_training_bag, found, configuration, options=options)
    recordings = recordings_of(bags, read, lambda share, step: progress(_READING * share, step))
    hashes = [content_hash(bag) for bag in bags]
    asked = "train", robot, form, to_parameter_file(configuration), list(recordings), hashes, options
    with keeping(sharers(), *asked) as team, sharing(team):
        report = found.train(configuration, recordings, hashes, form, partial(_after_reading, progress))
        pictures = report.save(output)
    simulated = any(one.simulated for one in recordings.values())
    by_name = dict(zip(recordings, hashes, strict=True))
    page = write_training_page(robot, report, output, pictures, by_name, simulated)
    return Learned(report, {"model": output, "page": page})


def recordings_of(
    bags: Sequence[Path], read: Callable[[Path], LoadedRecording], progress: Progress
) -> dict[str, LoadedRecording]:
    """Recordings by the names of their bags.

    Raises
    ------
    UserError
        A bag is given twice, cannot be read, or its truth contradicts a gyro; the message names the bag.
    """
    recordings: dict[str, LoadedRecording] = {}
    for number, bag in enumerate(bags):
        progress(number / len(bags), f"reading {bag}")
        if bag.resolve() in {other.resolve() for other in bags[:number]}:
            raise UserError(f"{bag} is given twice")
        try:
            name, recording = bag.resolve().name, read(bag)
        except UserError as error:
            raise UserError(str(error) if str(bag) in str(error) else f"{bag}: {error}") from error
        if not all(track.oriented for track in recording.tracks.values()):
            raise UserError(f"{bag}: {next(one for one in recording.faults if 'orientation' in one).removesuffix('.')}")
        recordings[name if name not in recordings else str(bag)] = recording
    return recordings


def _after_reading(progress: Progress, share: float, step: str) -> None:
    progress(_READING + (1.0 - _READING) * share, step)


def check_place(path: Path, robot: Trained[Any]) -> None:
    """Raise UserError where a model cannot be written to that place, or something else than a model would be lost."""
    check_output(path, replaced=True)
    if path.exists():
        try:
            robot.check_model(path)
        except UserError as error:
            raise UserError(
                f"--output {path} exists and is no model that may be replaced; name another file"
            ) from error


def read_training_bag(robot: Robot, configuration: Any, path: Path, options: EvaluateOptions) -> LoadedRecording:
    """A bag's recording, with ground truth of all bodies.

    Raises
    ------
    UserError
        As `load_recording`; several robots of the kind; no ground truth of a body; more bodies than are configured.
    """
    with open_bag(path) as bag:
        match = match_topics(robot, configuration, bag.types, options.topics, options.namespace)
        refuse_rivals(path, robot, match, options)
        _refuse_incomplete(path, match, bag.topics)
        _refuse_others(robot, configuration, match, bag.topics)
        robot.refuse_topics(configuration, names_in(match.namespace, bag.topics))
        recording = load_recording(bag, robot, match, options)
    missing = [body for body in robot.truth_specification(configuration).bodies if body not in recording.tracks]
    if missing and not (isinstance(robot, Trained) and robot.learns_without_truth):
        topics = ", ".join(f"{TRUTH}/{body}/pose" for body in missing)
        raise UserError(
            f"{path}: no ground truth of {', '.join(missing)}, and nothing can be learned without it ({topics}; "
            "--topic NAME=TOPIC where the bag calls them otherwise)"
        )
    return recording


def _refuse_incomplete(path: Path, match: TopicMatch, topics: Iterable[str]) -> None:
    """Raise UserError where sensors or commands are missing: an estimator may do without one, training does not."""
    missing = [channel.topic for channel in match.missing if channel.required]
    if missing:
        there = ", ".join(printable(topic) for topic in sorted(topics))
        raise UserError(
            f"{path}: {', '.join(missing)} missing, and training needs all of them (a robot with other links: "
            f"--config; --topic NAME=TOPIC where the bag calls them otherwise). Topics in the bag: {there or 'none'}"
        )


def _refuse_others(robot: Robot, configuration: Any, match: TopicMatch, topics: Iterable[str]) -> None:
    """Raise UserError where the bag has bodies with IMU and truth beside those configured: it is of a longer robot."""
    bodies = robot.truth_specification(configuration).bodies
    with_truth, with_imu = (
        {topic.removeprefix(prefix).partition("/")[0] for topic in topics if topic.startswith(prefix)}
        for prefix in (f"{match.namespace}/{TRUTH}/", f"{match.namespace}/{_IMU}/")
    )
    others = sorted((with_truth & with_imu) - set(bodies))
    if others and not match.missing_bodies:
        raise UserError(
            f"the bag also holds IMU and ground truth of {printable(', '.join(others))}, the configuration has "
            f"{', '.join(bodies)} only: name the configuration of that robot with --config"
        )


# Papers.


def reproduced(
    paper: str,
    bags: Sequence[Path],
    options: EvaluateOptions,
    quick: bool,
    output: Path | None,
    program: str,
    progress: Callable[[str], None] = lambda step: None,
) -> tuple[list[Item], dict[str, Any], Path]:
    """A paper's tables and figures made again, all that is told of them for JSON, and the page that was written.

    Parameters
    ----------
    output
        Folder to write; None: `runs/reproduce-<paper>`, numbered where that exists.
    program
        As users call it.

    Raises
    ------
    UserError
        There is no such paper, no robot comes with it, the folder cannot be written, or a bag does not do.
    """
    found = find_paper(paper)
    robot = next((one for one in all_robots() if isinstance(one, Reproduced) and one.paper == paper), None)
    if robot is None:
        raise UserError(f"no robot that is installed comes with the paper {paper}")
    configuration = load_configuration(robot, options, bags[0] if bags else None)
    with claimed_run(output, Path("runs") / f"reproduce-{paper}") as folder:
        read = partial(read_training_bag, robot, configuration, options=options)
        recordings = recordings_of(bags, read, lambda share, step: progress(step))
        items = []
        for one in robot.reproduce(configuration, recordings, quick):
            items.append(one)
            progress(f"{one.place} is done")
        typed = ["reproduce", paper, *map(path_word, bags), *(["--quick"] if quick else []), *words(options)]
        simulated = not bags or any(one.simulated for one in recordings.values())
        page = write_reproduction(found, items, simulated, f"{program} {shlex.join(typed)}", folder)
    return items, as_json(found, items, simulated), page


# Physical coefficients.


def identify_from_bags(
    robot: str,
    bags: Sequence[Path],
    output: Path | None,
    options: EvaluateOptions,
    full: bool = False,
    cutoff_hz: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Learned:
    """Identify a robot's coefficients, and write parameter file, picture and figures into a folder.

    Parameters
    ----------
    output
        Folder to write; None: `runs/identify-<robot>`, numbered where that exists.
    options
        Of which configuration, topics, namespace and mirrored truth are looked at.
    full, cutoff_hz
        See `Identified.identify`.

    Raises
    ------
    UserError
        The robot cannot be identified, the folder cannot be written, or a bag does not do; the message names the bag.
    """
    found = Identified[Any].of(find_robot(robot))
    configuration = load_configuration(found, options, bags[0])
    with claimed_run(output, Path("runs") / f"identify-{found.name}") as folder:
        read = partial(_read, found, configuration, options=options)
        recordings = recordings_of(bags, read, lambda share, step: progress(step))
        progress("fitting")
        result = identify_recordings(found, configuration, recordings, full, cutoff_hz, progress)
        progress("writing")
        config, picture, figures = result.write(folder)
    return Learned(result, {"folder": folder, "config": config, "picture": picture, "figures": figures})


def _read(robot: Identified[Any], configuration: Any, path: Path, options: EvaluateOptions) -> LoadedRecording:
    """A bag's recording: whatever there is of the robot's topics, and those that only the identification uses."""
    renamed = options.topics
    extra = {one.topic: one for one in robot.identification_channels(configuration)}
    with open_bag(path) as bag:
        others = {name: topic for name, topic in renamed.items() if name not in extra}
        match = match_topics(robot, configuration, bag.topics, others, options.namespace)
        places = {renamed.get(name, f"{match.namespace}/{name}"): one for name, one in extra.items()}
        present = {place: one for place, one in places.items() if bag.types.get(place) == one.message_type}
        match = replace(match, channels={**match.channels, **present})
        # What an estimator needs, an identification may do without; it says itself what it lacks.
        absent = tuple(one.sensor for one in match.missing if one.required) if match.channels else ()
        return load_recording(bag, robot, match, replace(options, what_if=WhatIf(drop=absent)))
