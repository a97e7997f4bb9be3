"""Recordings as ROS 2 bags: those of simulators, of other groups, and of devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.bags.message_types import new
from onboard_estimation.bags.writing import BagWriter, serialise_alike, write_configuration
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Fault, Recording, Series
from onboard_estimation.contract.converters import GROUP, Converted, Converter
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.robot import estimator_name, find_robot
from onboard_estimation.contract.simulated import Simulated, SimulatedLive, chosen_scenario
from onboard_estimation.judging.options import EvaluateOptions, from_typed
from onboard_estimation.judging.sources import Source, load_configuration
from onboard_estimation.judging.what_if import changed, spoiling
from onboard_estimation.ros.sensor_messages import to_message

EPOCH_NS = 1_767_225_600 * 1_000_000_000
"""Stamp of a simulation's start (2026-01-01 UTC): fixed, so that a seed gives one bag; zero is no time in ROS."""

_SERIALISED_AT_ONCE = 50_000


def simulate_to_bag(
    robot: Simulated[Any],
    configuration: Any,
    scenario: str,
    variant: str,
    duration_s: float,
    seed: int,
    path: Path,
    storage: str = "mcap",
    progress: Callable[[str], None] = lambda step: None,
    faults: Sequence[Fault] = (),
) -> dict[str, Any]:
    """Simulate and write a bag; what was written, for a summary.

    The bag says in its metadata that it is simulated, and how (`custom_data`). Where the scenario's robot is known to
    be another than the configured one, its configuration is written beside the messages.
    """
    progress("motion and sensors")
    recording = _simulated(robot, configuration, scenario, variant, duration_s, seed, faults)
    progress("writing")
    known = robot.known_in(configuration, scenario, variant)
    configurations = {robot.name: known} if known != configuration else {}
    description = {
        "robot": robot.name,
        "scenario": scenario,
        "variant": variant,
        "seed": str(seed),
        "onboard_estimation": version("onboard_estimation"),
        **({"fault": "; ".join(one.text for one in faults)} if faults else {}),
    }
    content = Converted(recording=recording, epoch_ns=EPOCH_NS, simulated=True, configurations=configurations)
    return _written(content, path, storage, f"/{robot.name}", description) | {"duration_s": duration_s}


def write_series(writer: BagWriter, series: Sequence[Series], namespace: str, epoch_ns: int = EPOCH_NS) -> None:
    """Write all messages in the order of their stamps, each topic under the namespace."""
    series = [one.rows(np.argsort(one.stamps_ns, kind="stable")) for one in series]
    stamps = np.concatenate([one.stamps_ns for one in series])
    numbers = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
    order = np.argsort(stamps, kind="stable")
    topics = [f"{namespace}/{one.channel.topic}" for one in series]
    written = np.zeros(len(series), dtype=np.int64)
    for start in range(0, len(order), _SERIALISED_AT_ONCE):
        piece = numbers[order[start : start + _SERIALISED_AT_ONCE]]
        rows = []
        for one, first, count in zip(series, written, np.bincount(piece, minlength=len(series)), strict=True):
            part = one.rows(slice(first, first + count))
            stamps_ns, make = part.stamps_ns + epoch_ns, partial(to_message, new, one.channel)
            data = serialise_alike(one.channel.message_type, make, stamps_ns, part.values)
            rows.append(zip(stamps_ns.tolist(), data, strict=True))
        written += np.bincount(piece, minlength=len(series))
        for number in piece.tolist():
            stamp_ns, message = next(rows[number])
            writer.write_serialized(topics[number], series[number].channel.message_type, stamp_ns, message.data)


def convert(form: str, file: Path, output: Path, storage: str = "mcap", as_recorded: bool = False) -> dict[str, Any]:
    """Write a file of an installed format as a bag; what was written, for a summary.

    Parameters
    ----------
    form
        Name of the format's converter.
    as_recorded
        Leave as it is what the converter would mend.

    Raises
    ------
    UserError
        No such format, the file is none of it, or the bag cannot be written.
    """
    read: Converter = load(GROUP, "format", form)
    content: Converted = read(Path(file), as_recorded)
    written = _written(content, output, storage, "", {"format": form, "file": Path(file).name})
    return {
        **written,
        "notes": list(content.notes),
        "counts": dict(content.counts),
        "next": "evaluate" if content.recording.sensors and content.recording.truth else "inspect",
    }


def _written(
    content: Converted, path: Path, storage: str, namespace: str, description: Mapping[str, str]
) -> dict[str, Any]:
    """Write a bag, with a description in its metadata and the configurations beside it; what was written."""
    series = [*content.recording.sensors, *content.recording.truth]
    description = {"source": "simulated" if content.simulated else "recorded", **description}
    with BagWriter(path, storage, custom_data=description) as writer:
        write_series(writer, series, namespace, content.epoch_ns)
    for robot, configuration in content.configurations.items():
        write_configuration(path, robot, configuration)
    filled = [one.stamps_ns for one in series if len(one.stamps_ns)]
    duration_ns = max(stamps[-1] for stamps in filled) - min(stamps[0] for stamps in filled)
    return {
        **description,
        "path": str(path),
        "messages": writer.message_count,
        "topics": len(filled),
        "duration_s": float(duration_ns) / NANOSECONDS_PER_SECOND,
    }


# A simulated recording to be judged, without the way through a bag.

LONGEST_S = 36_000.0


def check_duration(duration_s: float) -> None:
    """Raise UserError where nothing can be simulated for so long."""
    if not 0.0 < duration_s <= LONGEST_S:
        raise UserError(f"--duration {duration_s:g}: must be above 0 s and at most {LONGEST_S:g} s")


@dataclass(frozen=True)
class SimulatedRun:
    """What is simulated; `scenario` and `variant` may be left out (None, the robot's first) until `checked`.

    Attributes
    ----------
    seed
        Of all noise and disturbances, and of the initial error of what is estimated.
    """

    robot: str
    scenario: str | None = None
    variant: str | None = None
    duration_s: float = 60.0
    seed: int = 0

    def checked(self) -> SimulatedRun:
        """With the scenario and variant that it comes to; UserError where there is no such robot or scenario."""
        _, scenario, variant = self.chosen()
        return replace(self, scenario=scenario, variant=variant)

    def chosen(self) -> tuple[Simulated[Any], str, str]:
        """Robot, scenario and variant; raises as `checked`."""
        check_duration(self.duration_s)
        robot = Simulated[Any].of(find_robot(self.robot))
        return robot, *chosen_scenario(robot, self.scenario, self.variant)


def simulated_source(run: SimulatedRun, options: EvaluateOptions) -> Source:
    """Simulate a recording; of the options those of a bag's topics are not looked at.

    Raises
    ------
    UserError
        No such robot, scenario, variant or estimator, or options that do not fit.
    """
    robot, scenario, variant = run.chosen()
    configuration = load_configuration(robot, options)
    names = (estimator_name(robot, options.estimator),)
    faults = [one for one in options.what_if.faults() if one.flag == "--fault"]
    recording = simulated_recording(robot, configuration, scenario, variant, run.duration_s, run.seed, faults)
    options = from_typed({"seed": run.seed}, options)
    recording = changed(recording, options.what_if, options.settings.seed)
    again = ["campaign", run.robot, "--scenario", scenario, *(["--gait", variant] if variant else [])]
    again += ["--duration", str(run.duration_s), "--seeds", "1", "--first-seed", str(run.seed)]
    known = robot.known_in(configuration, scenario, variant)
    name = ", ".join(word for word in (scenario, variant, f"seed {run.seed}") if word)
    return Source(name, tuple(again), options, robot, known, names, recording, None, scenario, variant)


def simulated_recording(
    robot: Simulated[Any],
    configuration: Any,
    scenario: str,
    variant: str,
    duration_s: float,
    seed: int,
    faults: Sequence[Fault] = (),
) -> LoadedRecording:
    """A simulated recording as a bag of it would be read."""
    recording = _simulated(robot, configuration, scenario, variant, duration_s, seed, faults)
    specification = robot.truth_specification(configuration)
    loaded = from_simulator(recording, specification.bodies, specification.held)
    return replace(loaded, injected=tuple(faults))


def _simulated(
    robot: Simulated[Any],
    configuration: Any,
    scenario: str,
    variant: str,
    duration_s: float,
    seed: int,
    faults: Sequence[Fault],
) -> Recording:
    """What a robot would record, with faults of its sensors and of itself."""
    rng = np.random.default_rng(seed)
    if not faults:
        return robot.simulate(configuration, scenario, variant, duration_s, rng)
    if late := [one.text for one in faults if one.from_s >= duration_s]:
        raise UserError(f"--fault {late[0]}: begins after the end of the run, {duration_s:g} s")
    live = robot.simulation(configuration, scenario, variant, rng) if isinstance(robot, SimulatedLive) else None
    spoil = spoiling(live, faults, seed, robot.channels(configuration))
    if live is None:
        recording = robot.simulate(configuration, scenario, variant, duration_s, rng)
    else:
        recording = live.advance(round(duration_s * NANOSECONDS_PER_SECOND) + 1)
    return replace(recording, sensors=tuple(spoil(recording.sensors)))
