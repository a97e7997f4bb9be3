"""Python in five lines: what `import onboard_estimation` offers, documented in docs/python.md and kept stable.

import onboard_estimation as oe
recording = oe.load("BAG")
run = oe.evaluate(recording, parameters={"gyro.noise_stddev_rad_s": 0.01})
print(run.verdict, run.metrics["joint_angles"]["rmse_deg"])
run.plot("errors_joint_angles")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onboard_estimation.api_live import Live
from onboard_estimation.api_records import PathLike, Recording, Run
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.evaluate import Evaluation, Source, evaluated, load_configuration, read_bag
from onboard_estimation.evaluation.options import EvaluateOptions, JudgeSettings, WhatIf
from onboard_estimation.evaluation.simulated import SimulatedRun, simulated_source
from onboard_estimation.measurement import Channel
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.robots import all_robots, estimator_name, find_robot

if TYPE_CHECKING:
    from onboard_estimation.evaluation.campaign import Campaign


def available_robots() -> dict[str, str]:
    """The robots that installed packages bring, each with a line on it."""
    return {robot.name: robot.summary for robot in all_robots()}


def load(
    bag: PathLike,
    *,
    robot: str | None = None,
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: PathLike | None = None,
    topics: Mapping[str, str] | None = None,
    namespace: str | None = None,
    mirror_truth: str | None = None,
    align_clock: bool = False,
) -> Recording:
    """Read a bag: a rosbag2 folder, an .mcap, .db3 or ROS 1 .bag file.

    Parameters
    ----------
    robot
        None: guessed from the topics.
    config, parameters, model
        Parameter file, single parameters by their dotted names, trained model; the robot's own otherwise.
    topics
        Topic of the bag by the name that the robot has for it, e.g. `{"imu/link_1/data_raw": "/my/imu"}`.
    namespace
        Of the robot's topics; None: the one that holds most of them.
    mirror_truth, align_clock
        As `--mirror-truth` and `--align-clock` of `evaluate`.

    Raises
    ------
    UserError
        The bag cannot be read, or is of none or several robots; the message says what to do.
    """
    options = EvaluateOptions(
        robot=robot,
        config=_path(config),
        model=_path(model),
        overrides=dict(parameters or {}),
        topics=dict(topics or {}),
        namespace=namespace,
        mirror_truth=mirror_truth,
        align_clock=align_clock,
    )
    return Recording(read_bag(Path(bag), options))


def simulate(
    robot: str,
    *,
    scenario: str | None = None,
    variant: str | None = None,
    duration_s: float = 60.0,
    seed: int = 0,
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Recording:
    """Simulate a recording; scenario and variant (gait, ...) are the robot's first where they are not given.

    Raises
    ------
    UserError
        No such robot, scenario, variant or parameter.
    """
    options = EvaluateOptions(config=_path(config), overrides=dict(parameters or {}))
    return Recording(simulated_source(SimulatedRun(robot, scenario, variant, duration_s, seed), options))


def evaluate(
    recording: Recording | PathLike,
    *,
    estimator: str | None = None,
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: PathLike | None = None,
    what_if: WhatIf | None = None,
    settings: JudgeSettings | None = None,
) -> Run:
    """Filter a recording, or a bag, and judge the estimates against the ground truth.

    Parameters
    ----------
    estimator
        None: the robot's first.
    config, parameters, model
        In the place of those that the recording was read with.
    what_if
        Changes to the recording before it is filtered, e.g. `WhatIf(bias=("imu/link_3.gyro_z=0.01",))`.
    settings
        How it is judged; None: as `onboard-estimation evaluate` does.

    Raises
    ------
    UserError
        The estimator or a parameter is none, or there is no estimate; the message says what to do.
    """
    if not isinstance(recording, Recording):
        recording = load(recording)
    source = recording.source
    name = estimator_name(source.robot, estimator)
    options = source.options
    if config is not None or parameters is not None or model is not None:
        options = replace(
            options,
            config=_path(config) or options.config,
            model=_path(model) or options.model,
            overrides={**options.overrides, **(parameters or {})},
        )
        source = replace(source, configuration=_checked(source, source.configured(options)))
    if settings is not None:
        options = replace(options, settings=settings)
    if what_if is not None:
        options = replace(options, what_if=what_if)
        source = replace(source, recording=source.recording.changed(what_if))
    source = replace(source, options=options, estimators=(name,))
    done: Evaluation = evaluated(source, name)
    return Run(source, done.result)


def live_estimator(
    robot: str,
    *,
    estimator: str | None = None,
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: PathLike | None = None,
) -> Live:
    """A robot's estimator to be fed with measurements as they come, without ROS.

    Raises
    ------
    UserError
        No such robot, estimator or parameter.
    """
    found = find_robot(robot)
    options = EvaluateOptions(config=_path(config), overrides=dict(parameters or {}), model=_path(model))
    configuration = load_configuration(found, options)
    name = estimator_name(found, estimator)
    channels = found.listened_channels(configuration, name)
    return Live(Pipeline(found.estimator(configuration, name), channels), channels)


def campaign(
    table: PathLike, output: PathLike, *, workers: int | None = None, scheduler: str | None = None
) -> Campaign:
    """Do the runs of a table, see docs/campaigns.md; one that was interrupted goes on. Writes its report as well.

    Parameters
    ----------
    workers, scheduler
        See `open_workers`.

    Returns
    -------
    Rows of the runs; `pandas.read_parquet(output / "results.parquet")` has the same as a table.
    """
    from onboard_estimation.evaluation.campaign import run_campaign
    from onboard_estimation.evaluation.campaign_report import write_campaign_report
    from onboard_estimation.evaluation.campaign_table import cases_of, read_table
    from onboard_estimation.workers import open_workers

    cases = cases_of(read_table(Path(table)))
    with open_workers(workers, scheduler) as team:
        done = run_campaign(cases, Path(output), team, {"asked": str(table), "runs": len(cases)})
    write_campaign_report(done, Path(table).stem)
    return done


def _checked(source: Source, configuration: Any) -> Any:
    """The configuration; UserError where it needs topics that were not read."""

    def read_as(channel: Channel) -> tuple[Any, ...]:
        return channel.sensor, channel.message_type, channel.field, channel.names

    there = {read_as(one.channel) for one in source.recording.series}
    needed = [one for one in source.robot.channels(configuration) if one.required and read_as(one) not in there]
    if needed:
        topics = ", ".join(one.topic for one in needed)
        raise UserError(f"with these parameters {source.robot.name} listens to {topics}: load the recording with them")
    return configuration


def _path(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path)
