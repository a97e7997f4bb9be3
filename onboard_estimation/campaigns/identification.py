"""`identify`: bags with ground truth go in, a robot's physical coefficients come out as a parameter file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.topics import match_topics
from onboard_estimation.campaigns.training import recordings_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.contract.trained import Identified, Learned
from onboard_estimation.judging.options import EvaluateOptions, WhatIf
from onboard_estimation.judging.sources import load_configuration, load_recording
from onboard_estimation.report.run_folder import claimed_run


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
        recordings = recordings_of(bags, lambda bag: _read(bag, found, configuration, options), progress)
        progress("fitting")
        result = found.identify(configuration, recordings, full, cutoff_hz, progress)
        progress("writing")
        config, picture, figures = result.write(folder)
    return Learned(result, {"folder": folder, "config": config, "picture": picture, "figures": figures})


def _read(path: Path, robot: Identified[Any], configuration: Any, options: Any) -> LoadedRecording:
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
        return load_recording(bag, robot, match, WhatIf(drop=absent), options.mirror_truth)
