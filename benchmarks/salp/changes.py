"""Salps that something happens to: a gyro falls silent, a wheel is weak, a link is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.salp.runs import SETTLE_S, loaded
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.recorded import LoadedRecording
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gait_design import gait_for
from salp_estimation.simulation.hardware_simulator import HardwareSimulation

Array = NDArray[np.float64]

DURATION_S, CHANGE_S, SILENCE_S = 60.0, 25.0, 10.0
WEAK = 0.7
"""A wheel turns at this share of what it is told."""
LOADED_FRICTION, LOADED_DRAG = 2.0, 1.5
"""A payload on a link: dry friction is proportional to the load; drag and thrust, both viscous, grow by half."""
ENDS = 0, 2


@dataclass(frozen=True)
class Change:
    """What changes at one of the links, from when on and until when, s since the start of the run."""

    kind: str
    links: Sequence[int] = (0, 1, 2)
    from_s: float = CHANGE_S
    until_s: float = np.inf

    @property
    def stretches_s(self) -> dict[str, tuple[float, float]]:
        """What is judged of a run: while it is changed, and after that."""
        found = {"": (max(self.from_s, SETTLE_S), self.until_s)}
        return found if self.until_s == np.inf else {**found, ", after that": (self.until_s, np.inf)}

    def recording(self, gait: str, seed: int, link: int) -> LoadedRecording:
        """Of a simulated robot that this happens to: the robot and the noise that the seed gives without it."""
        chain = SalpConfiguration().chain
        simulation = _Weakened(chain, gait_for(chain, gait).controls, np.random.default_rng(seed))
        pieces = []
        if self.kind == "weak":
            simulation.weak = link, self.from_s
        elif self.kind == "loaded":
            if self.from_s > 0.0:
                pieces.append(simulation.advance(round(self.from_s * NANOSECONDS_PER_SECOND)))
            simulation.robot.mechanics.friction[link] *= LOADED_FRICTION
            simulation.robot.mechanics.drag[link] *= LOADED_DRAG
            simulation.robot.mechanics.thrust[link] *= LOADED_DRAG
        pieces.append(simulation.advance(round(DURATION_S * NANOSECONDS_PER_SECOND) + 1))
        sensors = list(map(_joined, *(one.sensors for one in pieces)))
        if self.kind == "silent":
            silent = f"imu/{chain.link_names[link]}"
            sensors = [self._silenced(one) if one.channel.sensor == silent else one for one in sensors]
        truth = tuple(map(_joined, *(one.truth for one in pieces)))
        return loaded(Recording(tuple(sensors), truth))

    def _silenced(self, one: Series) -> Series:
        since_s = one.stamps_ns / NANOSECONDS_PER_SECOND
        heard = (since_s < self.from_s) | (since_s >= self.until_s)
        return replace(one, stamps_ns=one.stamps_ns[heard], values=one.values[heard])


class _Weakened(HardwareSimulation):
    """With a wheel that turns more slowly than it is told, from some time on."""

    weak: tuple[int, float] = (0, np.inf)

    def _actual_speeds(self, time_s: Array, step_s: float) -> Array:
        speeds = super()._actual_speeds(time_s, step_s)
        link, from_s = self.weak
        speeds[time_s >= from_s, link] *= WEAK
        return speeds


def _joined(*parts: Series) -> Series:
    stamps = np.concatenate([one.stamps_ns for one in parts])
    return replace(parts[0], stamps_ns=stamps, values=np.concatenate([one.values for one in parts]))


CHANGES = {
    "nothing": Change("none", from_s=0.0),
    "gyro silent for 10 s": Change("silent", until_s=CHANGE_S + SILENCE_S),
    "gyro silent for good": Change("silent"),
    "wheel at 70 %": Change("weak", from_s=0.0),
    "wheel at 70 % from 25 s on": Change("weak"),
    "payload": Change("loaded", ENDS, from_s=0.0),
    "payload from 25 s on": Change("loaded", ENDS),
}
