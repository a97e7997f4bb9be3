"""An estimator fed from Python as measurements come, without ROS: the pipeline of the live node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.api.arguments import PathLike, options_of
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Measurement, Vector, component_names, value_size
from onboard_estimation.contract.robot import estimator_name, find_robot
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.pipeline.pipeline import Pipeline


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
    configuration = load_configuration(found, options_of(config, parameters, model))
    name = estimator_name(found, estimator)
    channels = found.listened_channels(configuration, name)
    return Live(Pipeline(found.estimator(configuration, name), channels), channels)


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
