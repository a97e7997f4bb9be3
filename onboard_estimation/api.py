"""Python in five lines: what `import onboard_estimation` offers, documented in docs/python.md and kept stable.

import onboard_estimation as oe
recording = oe.load("BAG")
run = oe.evaluate(recording, parameters={"gyro.noise_stddev_rad_s": 0.01})
print(run.verdict, run.metrics["joint_angles"]["rmse_deg"])
run.plot("errors_joint_angles")
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.atomic_file import check_output
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import (
    COMPONENTS,
    NANOSECONDS_PER_SECOND,
    Channel,
    Measurement,
    Vector,
    component_names,
    components,
    value_size,
)
from onboard_estimation.base.workers import open_workers, sharing
from onboard_estimation.contract.result import EvaluationResult, PartResult, key_figures
from onboard_estimation.contract.robot import all_robots, estimator_name, find_robot
from onboard_estimation.contract.trained import Learned
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings, TuningSettings, WhatIf, from_typed
from onboard_estimation.judging.simulated_bags import SimulatedRun, simulated_source
from onboard_estimation.judging.sources import Source, load_configuration, read_bag
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.report.evaluate import Evaluation, evaluated
from onboard_estimation.report.run_folder import content_hashes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from onboard_estimation.campaigns.campaign import Campaign
    from onboard_estimation.inspection.report import Inspection
    from onboard_estimation.report.comparison import Comparison

PathLike = str | os.PathLike[str]


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
    estimator: str | None = None,
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
    estimator
        What it listens to is read; None: the robot's first. For another one `evaluate` reads the bag again.
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
    options = _options(
        config, parameters, model, topics, namespace, mirror_truth, align_clock, robot=robot, estimator=estimator
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
    fault: Sequence[str] = (),
) -> Recording:
    """Simulate a recording; scenario and variant (gait, ...) are the robot's first where they are not given.

    Parameters
    ----------
    fault
        What goes wrong on the way, as on the command line: `["imu/link_2.gyro_z=+0.03@15", "wheel_2=*0.7@20..30"]`.

    Raises
    ------
    UserError
        No such robot, scenario, variant, parameter or sensor.
    """
    options = replace(_options(config, parameters), what_if=WhatIf(fault=tuple(fault)))
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
        None: that which the recording was read for, the robot's first if none was named.
    config, parameters, model
        In the place of those that the recording was read with. A bag is read again where they, or what-ifs, ask for it.
    what_if
        Changes to the recording before it is filtered, e.g. `WhatIf(bias={"imu/link_3.gyro_z": 0.01})`.
    settings
        How it is judged; None: as `onboard-estimation evaluate` does.

    Raises
    ------
    UserError
        The estimator or a parameter is none, or there is no estimate; the message says what to do.
    """
    asked = _options(config, parameters, model, estimator=estimator)
    before = recording.source.options if isinstance(recording, Recording) else asked
    options = replace(
        before,
        config=asked.config or before.config,
        model=asked.model or before.model,
        overrides={**before.overrides, **asked.overrides},
        what_if=what_if or before.what_if,
        settings=settings or before.settings,
    )
    if isinstance(recording, Recording):
        source = recording.source.asked(options, estimator)
    else:
        source = read_bag(Path(recording), options)
    return Run(source, evaluated(source, source.estimators[0]).result)


def inspect(bag: PathLike) -> Inspection:
    """What is in a bag and what is wrong with it: rates, gaps, stamps, and the truth against the IMUs.

    Raises
    ------
    UserError
        The bag cannot be read.
    """
    from onboard_estimation.inspection.inspect import inspect_with_robots

    return inspect_with_robots(Path(bag))


def compare(*runs: PathLike) -> Comparison:
    """Figures of several runs side by side, from the folders that `Run.save` and `onboard-estimation evaluate` write.

    Raises
    ------
    UserError
        There are fewer than two, or a folder is none of a run.
    """
    from onboard_estimation.report.comparison import compare_runs

    return compare_runs([Path(run) for run in runs])


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
    configuration = load_configuration(found, _options(config, parameters, model))
    name = estimator_name(found, estimator)
    channels = found.listened_channels(configuration, name)
    return Live(Pipeline(found.estimator(configuration, name), channels), channels)


def identify(
    robot: str,
    bags: PathLike | Sequence[PathLike],
    output: PathLike | None = None,
    *,
    full: bool = False,
    cutoff_hz: float | None = None,
    **loaded: Any,
) -> Learned:
    """Identify a robot's physical coefficients from bags with ground truth.

    Parameters
    ----------
    output
        Folder to write parameter file, picture and figures into; None: `runs/identify-<robot>`.
    full, cutoff_hz
        Full drag matrices as well; low-pass of motion and commands: of a salp.
    loaded
        `config`, `parameters`, `topics`, `namespace`, `mirror_truth`, as for `load`.

    Raises
    ------
    UserError
        The robot cannot be identified, the folder cannot be written, or a bag does not do.
    """
    from onboard_estimation.campaigns.training import identify_from_bags

    folder = None if output is None else Path(output)
    return identify_from_bags(robot, _paths(bags), folder, _as_loaded(**loaded), full, cutoff_hz)


def train(
    robot: str,
    bags: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    form: str | None = None,
    workers: int = 0,
    scheduler: str | None = None,
    **loaded: Any,
) -> Learned:
    """Train a model of what a robot's equations leave out, from bags with ground truth.

    Parameters
    ----------
    output
        File to write; a model there is replaced.
    form
        Of the model; None: the robot's choice.
    workers, scheduler
        See `open_workers`.
    loaded
        `config`, `parameters`, `topics`, `namespace`, `mirror_truth`, as for `load`.

    Raises
    ------
    UserError
        The robot or the form cannot be trained, the file cannot be written, or a bag does not do.
    """
    from onboard_estimation.campaigns.training import train_from_bags

    with open_workers(workers, scheduler) as team, sharing(team):
        return train_from_bags(robot, _paths(bags), Path(output), _as_loaded(**loaded), form)


def tune(
    robot: str,
    bags: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    ranges: Mapping[str, tuple[float, float] | None] | None = None,
    search: TuningSettings | None = None,
    settings: JudgeSettings | None = None,
    workers: int = 0,
    scheduler: str | None = None,
    **loaded: Any,
) -> Learned:
    """Find noise and other parameters with which the filter foretells recordings best.

    Parameters
    ----------
    output
        Parameter file to write, a new one.
    ranges
        Parameters to tune, by their dotted names, and between which bounds; None as bounds: a factor of 30 either way.
        Those of noise if none is named.
    search
        How it is searched, and what is foretold.
    settings
        How runs are judged.
    workers, scheduler
        See `open_workers`.
    loaded
        `estimator`, `config`, `parameters`, `model`, `topics`, `namespace`, `mirror_truth`, `align_clock`, as for
        `load`.

    Raises
    ------
    UserError
        A parameter or an option is none, the file cannot be written, or a bag cannot be scored.
    """
    from onboard_estimation.campaigns.tuned_file import tune_with_bags

    @contextmanager
    def working(about: str) -> Iterator[Any]:
        with open_workers(workers, scheduler) as team:
            yield team, lambda share, step: None

    options = _options(**loaded, settings=settings)
    search = search or TuningSettings()
    return tune_with_bags(robot, _paths(bags), Path(output), options, ranges or {}, search, working)


def campaign(
    table: PathLike, output: PathLike, *, workers: int | None = None, scheduler: str | None = None
) -> Campaign:
    """Do the runs of a table, see docs/evaluation.md; one that was interrupted goes on. Writes its report as well.

    Parameters
    ----------
    workers, scheduler
        See `open_workers`.

    Returns
    -------
    Rows of the runs; `pandas.read_parquet(output / "results.parquet")` has the same as a table.
    """
    from onboard_estimation.campaigns.campaign import run_campaign
    from onboard_estimation.campaigns.report import write_campaign_report
    from onboard_estimation.campaigns.table import cases_of, read_table

    check_output(Path(output), folder=True, replaced=True)
    cases = cases_of(read_table(Path(table)))
    with open_workers(workers, scheduler) as team:
        done = run_campaign(cases, Path(output), team, {"asked": str(table), "runs": len(cases)})
    write_campaign_report(done, Path(table).stem)
    return done


class Signal(NamedTuple):
    """Messages of a sensor, or poses of a body, over time.

    Attributes
    ----------
    names, units
        Of the d elements; a unit is empty where the message has none.
    stamps_ns
        (K,) int64, `header.stamp`.
    values
        (K, d) float64, NaN where a message lacks a part.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    stamps_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def time_s(self) -> Vector:
        """(K,) seconds since its first message."""
        return (self.stamps_ns - self.stamps_ns[:1]) / NANOSECONDS_PER_SECOND


@dataclass(frozen=True, eq=False)
class Recording:
    """A recording of a robot, read from a bag or simulated."""

    source: Source

    @property
    def robot(self) -> str:
        """Name of the robot that it is of."""
        return self.source.robot.name

    @property
    def name(self) -> str:
        """Of the bag, or what is simulated."""
        return self.source.name

    @property
    def simulated(self) -> bool:
        """Whether it comes from a simulator."""
        return self.source.recording.simulated

    @property
    def notes(self) -> tuple[str, ...]:
        """What was lost or left out, one sentence each."""
        return self.source.recording.notes

    @cached_property
    def sensors(self) -> dict[str, Signal]:
        """What was measured and commanded, by sensor, e.g. `imu/link_1`."""
        return {
            one.channel.sensor: Signal(*_described(one.channel, one.values.shape[1]), one.stamps_ns, one.values)
            for one in self.source.recording.series
        }

    @cached_property
    def truth(self) -> dict[str, Signal]:
        """Poses (7) or positions (3) of the ground truth, by body."""
        return {
            body: Signal(*_of_pose(track.values.shape[1]), track.stamps_ns, track.values)
            for body, track in self.source.recording.tracks.items()
        }

    def __repr__(self) -> str:
        what = "simulated" if self.simulated else "recorded"
        return f"<{what} recording {self.name!r} of {self.robot}: {', '.join(self.sensors)}>"


@dataclass(frozen=True, eq=False)
class Run:
    """A recording that was filtered, and judged against its ground truth."""

    source: Source
    result: EvaluationResult

    @property
    def verdict(self) -> str:
        """One sentence: how accurate it is, and whether it is as sure as it should be."""
        return self.result.verdict

    @property
    def metrics(self) -> dict[str, Any]:
        """What `metrics.json` holds: figures by part of the state, units in their names."""
        return self.result.metrics

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know, one sentence each."""
        return self.result.notes

    @property
    def time_s(self) -> Vector:
        """(K,) seconds since the first estimate."""
        return self.result.time_s

    @property
    def stamps_ns(self) -> NDArray[np.int64]:
        """(K,) of the estimates."""
        return self.result.stamps_ns

    @property
    def parts(self) -> Mapping[str, PartResult]:
        """Parts of the state by name: `names`, `units`, (K, ...) `estimate`, `stddev`, `truth`, `error`, `nees`."""
        return self.result.parts

    def __getitem__(self, part: str) -> PartResult:
        if part not in self.parts:
            raise UserError(f"no part {part!r} in the state of {self.result.robot}; there are {', '.join(self.parts)}")
        return self.parts[part]

    def columns(self) -> dict[str, Vector]:
        """Everything as columns (K,) with their units, for `pandas.DataFrame(run.columns())`."""
        out: dict[str, Vector] = {"time (s)": self.time_s}
        for part in self.parts.values():
            # Of a rotation the coordinates are a quaternion, and errors a rotation vector.
            plain = part.estimate.shape[1] == len(part.names)
            for column, (name, unit) in enumerate(zip(part.names, part.units, strict=True)):
                label, suffix = f"{part.name}.{name}", f" ({unit})" if unit else ""
                if plain:
                    out[label + suffix] = part.estimate[:, column]
                    out[f"{label}.truth{suffix}"] = part.truth[:, column]
                out[f"{label}.error{suffix}"] = part.error[:, column]
                out[f"{label}.stddev{suffix}"] = part.stddev[:, column]
            out[f"{part.name}.nees"] = part.nees
        return out

    def plot(self, name: str = "path") -> Figure:
        """One of the plots of a run folder: `path`, `errors_<part>`, `nees`, `coverage`, ...; UserError: which ones."""
        from onboard_estimation.report.plots import figures

        drawn = figures(self.result)
        if name not in drawn:
            raise UserError(f"no plot {name!r} of this run; there are {', '.join(drawn)}")
        return drawn[name]

    def save(self, folder: PathLike) -> Path:
        """Write the run folder, with report, plots and estimates, as `evaluate` does; UserError where it cannot be."""
        check_output(Path(folder), folder=True)
        hashes = content_hashes({"bag": self.source.bag, "config": self.source.options.config})
        evaluated(self.source, self.source.estimators[0], Path(folder), hashes)
        return Path(folder)

    def summary(self) -> dict[str, Any]:
        """What `evaluate --json` prints, but for the folder, which `save` writes."""
        return Evaluation(self.result, None).summary()

    def _repr_html_(self) -> str:
        figures = "".join(
            f"<tr><th>{escape(one.label)}</th><td>{escape(one.value)}</td><td>{escape(one.note)}</td></tr>"
            for one in key_figures(self.result)
        )
        heading = escape(f"{self.result.robot} ({self.result.estimator}) on {self.result.bag}, {self.result.source}")
        return f"<p><b>{heading}</b>: {escape(self.verdict)}.</p><table>{figures}</table>"

    def __repr__(self) -> str:
        return f"<{self.result.robot} ({self.result.estimator}) on {self.result.bag}: {self.verdict}>"


class PartEstimate(NamedTuple):
    """A part of the state at one instant: `mean` (a,), of a rotation a quaternion, and `stddev` (d,) of its error."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    mean: Vector
    stddev: Vector


@dataclass(frozen=True, eq=False)
class LiveEstimate:
    """The state at one instant."""

    stamp_ns: int
    mean: Vector
    covariance: NDArray[np.float64]
    space: StateSpace

    def __getitem__(self, part: str) -> PartEstimate:
        if part not in [block.name for block in self.space.blocks]:
            raise UserError(f"no part {part!r} in the state; there are {', '.join(b.name for b in self.space.blocks)}")
        block, tangent = self.space.block(part), self.space.tangent(part)
        stddev = np.sqrt(np.diagonal(self.covariance[tangent, tangent]))
        return PartEstimate(block.names, block.units, self.mean[self.space.coordinates(part)], stddev)


class Live:
    """An estimator that is fed as measurements come, without ROS: the pipeline of the live node.

    Late measurements are put in their order, doubled and impossible ones left out and counted, see `statistics`.
    """

    def __init__(self, pipeline: Pipeline, channels: Sequence[Channel]) -> None:
        self.pipeline = pipeline
        self._channels = {one.sensor: one for one in channels}

    @property
    def sensors(self) -> dict[str, tuple[str, ...]]:
        """Names of the elements that each sensor is fed with."""
        return {name: component_names(one) for name, one in self._channels.items()}

    def feed(self, sensor: str, stamp_ns: int, values: ArrayLike) -> LiveEstimate | None:
        """Take a measurement as it arrives; the newest estimate if there is a new one.

        Raises
        ------
        UserError
            No such sensor, or another number of values; or these sensors cannot be right at all.
        """
        if sensor not in self._channels:
            raise UserError(f"no sensor {sensor!r}; there are {', '.join(self._channels)}")
        value = np.array(values, dtype=np.float64).reshape(-1)
        size = value_size(self._channels[sensor])
        if size is not None and len(value) != size:
            names = ", ".join(component_names(self._channels[sensor]))
            raise UserError(f"{sensor} takes {size} values ({names}), got {len(value)}")
        found = self.pipeline.process(Measurement(int(stamp_ns), sensor, value))
        if self.pipeline.refusal is not None:
            raise UserError(self.pipeline.refusal)
        if found is None:
            return None
        return LiveEstimate(found.stamp_ns, found.mean, found.covariance, self.pipeline.space)

    @property
    def messages(self) -> list[str]:
        """What the pipeline told: clock jumps, refused readings, breakdowns."""
        return self.pipeline.messages

    def statistics(self) -> dict[str, dict[str, float]]:
        """Of each sensor how many measurements were received, used, late, gated, ..., rate and mean NIS."""
        return self.pipeline.statistics()


def _options(
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: PathLike | None = None,
    topics: Mapping[str, str] | None = None,
    namespace: str | None = None,
    mirror_truth: str | None = None,
    align_clock: bool = False,
    robot: str | None = None,
    estimator: str | None = None,
    settings: JudgeSettings | None = None,
) -> EvaluateOptions:
    """Options of `evaluate`; UserError where a value is none."""
    plain = {"namespace": namespace, "mirror_truth": mirror_truth, "align_clock": align_clock}
    files = {name: None if path is None else Path(path) for name, path in {"config": config, "model": model}.items()}
    options = replace(from_typed({**files, **plain}), robot=robot, estimator=estimator)
    mappings = {"overrides": dict(parameters or {}), "topics": dict(topics or {})}
    return replace(options, settings=settings or options.settings, **mappings)


def _as_loaded(
    *,
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    topics: Mapping[str, str] | None = None,
    namespace: str | None = None,
    mirror_truth: str | None = None,
) -> EvaluateOptions:
    """Of those, what `train` and `identify` heed; TypeError where another one is given."""
    return _options(config, parameters, None, topics, namespace, mirror_truth)


def _paths(bags: PathLike | Sequence[PathLike]) -> list[Path]:
    """One bag, or several; UserError where there is none."""
    found = [Path(bags)] if isinstance(bags, (str, os.PathLike)) else [Path(bag) for bag in bags]
    if not found:
        raise UserError("no bag is given")
    return found


def _described(channel: Channel, size: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of the elements of a channel's values."""
    names = component_names(channel)
    if len(names) != size:
        return tuple(str(number) for number in range(size)), size * ("",)
    return names, tuple(unit for _, unit in components(channel))


def _of_pose(size: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of a pose (7), or of a position (3)."""
    names, units = zip(*COMPONENTS["geometry_msgs/msg/PoseStamped"][:size], strict=True)
    return names, units
