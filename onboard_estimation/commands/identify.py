"""`onboard-estimation identify`."""

from __future__ import annotations

import json as json_library
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.completion import RobotArgument
from onboard_estimation.commands.evaluate_options import taking

if TYPE_CHECKING:
    from onboard_estimation.capabilities.identified import IdentificationReport, Identified
    from onboard_estimation.evaluation.recording import LoadedRecording

EXAMPLES = output.examples(
    "identify salp forward left turning",
    "identify salp BAG --full --cutoff 1.5 --output drag",
    "identify salp BAG --config my_salp.yaml --topic actuators/command=/hebi/command",
    "identify softrobot run_1 run_3 --output mine",
)

_PASTED = 6
"""Parameters at most that are shown as options to paste; more are read from the file."""


@taking("config", "overrides", "topics", "namespace", "mirror_truth")
def identify(
    robot: RobotArgument,
    bags: Annotated[
        list[Path],
        typer.Argument(metavar="BAG...", help="Bags with what moves the robot, and motion capture of all bodies."),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Full symmetric drag matrices beside the diagonal ones (salp).")
    ] = False,
    cutoff: Annotated[
        float | None,
        typer.Option(metavar="HZ", help="Low-pass of motion and commands, Hz (salp; 2 otherwise)."),
    ] = None,
    options: Any = None,
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write; `runs/identify-<robot>` otherwise."),
    ] = None,
    json: output.JsonOption = False,
) -> None:
    """Identify a robot's physical coefficients from bags with commands, or pressures, and motion capture.

    Writes a parameter file for `--config`, a picture of measured against predicted motion, and all figures as JSON.
    Several motions determine more than one does.
    """
    from onboard_estimation.capabilities.identified import Identified
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.claim import claimed, claimed_free
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.evaluation.run_folder import check_free
    from onboard_estimation.robots import find_robot

    found = Identified[Any].of(find_robot(robot))
    configuration = load_configuration(found, options, bags[0])
    if folder is not None:
        check_free(folder)
    recordings: dict[str, LoadedRecording] = {}
    claim = claimed(folder) if folder is not None else nullcontext()
    with claim, output.steps(f"identifying {robot}", quiet=json) as progress:
        for bag in bags:
            progress(f"reading {bag}")
            if bag.resolve() in {other.resolve() for other in bags[: len(recordings)]}:
                raise UserError(f"{bag} is given twice")
            name = bag.resolve().name
            recordings[name if name not in recordings else str(bag)] = _read(bag, found, configuration, options)
        progress("fitting")
        result = found.identify(configuration, recordings, full, cutoff, progress)
        progress("writing")
        with claimed_free(Path("runs") / f"identify-{found.name}") as free:
            written = folder or free
            paths = result.write(written)
    if json:
        output.print_json({**result.summary(), "folder": str(written)})
    else:
        _show(result, paths)


def _read(
    path: Path,
    robot: Identified[Any],
    configuration: Any,
    options: Any,
) -> LoadedRecording:
    """A bag's recording: whatever there is of the robot's topics, and those that only the identification uses."""
    from dataclasses import replace

    from onboard_estimation.evaluation.bags import open_bag
    from onboard_estimation.evaluation.options import WhatIf
    from onboard_estimation.evaluation.recording import load_recording
    from onboard_estimation.evaluation.topics import match_topics

    renamed = options.topics
    extra = {one.topic: one for one in robot.identification_channels(configuration)}
    with open_bag(path) as bag:
        kinds = {name: topic.message_type for name, topic in bag.topics.items()}
        others = {name: topic for name, topic in renamed.items() if name not in extra}
        match = match_topics(robot, configuration, kinds, others, options.namespace)
        places = {renamed.get(name, f"{match.namespace}/{name}"): one for name, one in extra.items()}
        present = {place: one for place, one in places.items() if kinds.get(place) == one.message_type}
        match = replace(match, channels={**match.channels, **present})
        # What an estimator needs, an identification may do without; it says itself what it lacks.
        absent = tuple(one.sensor for one in match.missing if one.required) if match.channels else ()
        return load_recording(bag, robot, match, WhatIf(drop=absent), options.mirror_truth)


def _show(result: IdentificationReport, paths: list[Path]) -> None:
    output.print_tables(result.tables())
    for sentence in result.sentences():
        output.say(f"- {sentence}")
    output.say("\nwritten: " + ", ".join(str(path) for path in paths))
    output.say(f"use it:  {output.program()} evaluate BAG --config {shlex.quote(str(paths[0]))}")
    parameters = result.parameters()
    if len(parameters) <= _PASTED:
        settings = (f"{name}={json_library.dumps(values)}" for name, values in parameters.items())
        output.say("or:      " + " ".join(f"--set {shlex.quote(one)}" for one in settings))
