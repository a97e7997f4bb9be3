"""What Python gets of a recording and of a run: arrays with names and units. See `api`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.evaluate import Source, evaluated
from onboard_estimation.evaluation.result import EvaluationResult, PartResult, key_figures
from onboard_estimation.evaluation.run_folder import check_free
from onboard_estimation.measurement import (
    COMPONENTS,
    NANOSECONDS_PER_SECOND,
    Channel,
    Vector,
    component_names,
    component_units,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PathLike = str | os.PathLike[str]


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
        from onboard_estimation.evaluation.plots import figures

        drawn = figures(self.result)
        if name not in drawn:
            raise UserError(f"no plot {name!r} of this run; there are {', '.join(drawn)}")
        return drawn[name]

    def save(self, folder: PathLike) -> Path:
        """Write the run folder, with report, plots and estimates, as `evaluate` does; UserError where it cannot be."""
        check_free(Path(folder))
        evaluated(self.source, self.source.estimators[0], Path(folder))
        return Path(folder)

    def _repr_html_(self) -> str:
        figures = "".join(
            f"<tr><th>{escape(one.label)}</th><td>{escape(one.value)}</td><td>{escape(one.note)}</td></tr>"
            for one in key_figures(self.result)
        )
        heading = escape(f"{self.result.robot} ({self.result.estimator}) on {self.result.bag}, {self.result.source}")
        return f"<p><b>{heading}</b>: {escape(self.verdict)}.</p><table>{figures}</table>"

    def __repr__(self) -> str:
        return f"<{self.result.robot} ({self.result.estimator}) on {self.result.bag}: {self.verdict}>"


def _described(channel: Channel, size: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of the elements of a channel's values."""
    names, units = component_names(channel), component_units(channel)
    if len(names) != size:
        return tuple(str(number) for number in range(size)), size * ("",)
    return names, units


def _of_pose(size: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of a pose (7), or of a position (3)."""
    names, units = zip(*COMPONENTS["geometry_msgs/msg/PoseStamped"][:size], strict=True)
    return names, units
