"""Simulated soft robot in a laboratory: what its transducers, force-torque sensor and motion capture would record.

Set points go through regulators, hoses and chambers into a fine chain (`fine_chain_kernels`), whose load on its base
goes through hoses, sensor and host into the recording. Whatever the pieces in which one advances, the recording is the
same to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import Fault, Recording, Series, stamps_between, truth_channel
from onboard_estimation.contract.signals import digits, first_order, sampled
from onboard_estimation.contract.simulated import Changing, Place
from softrobot_estimation.model.configuration import (
    TRUE_STIFFNESS,
    WRENCH,
    SoftRobotConfiguration,
    pressure_channel,
    pressure_command_channel,
)
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.simulation import fine_chain_kernels as kernels
from softrobot_estimation.simulation.laboratory import Magnitudes, draw, with_payload
from softrobot_estimation.simulation.simulated_signals import (
    Gaps,
    Stamps,
    Stream,
    Way,
    mixture,
    of_chambers,
    pneumatics,
)

_PLACE, _TURN, _STIFFNESS = slice(6, 9), slice(9, 13), slice(13, 14)
_LOAD, _OUTLETS = slice(kernels.OUTPUTS, kernels.OUTPUTS + 6), slice(kernels.OUTPUTS + 6, None)
"""Of the rows of a motion."""


class LaboratorySimulation(Changing):
    """A robot that follows set points, at rest and without pressure at stamp zero.

    Parameters
    ----------
    rng
        The robot, its laboratory and all noise are drawn from it.
    payload
        Something is hung on its tip while it runs.
    """

    changeable: Mapping[str, Place] = {"stiffness": (("bending", "stretching"), None), "payload": ((), None)}

    def __init__(
        self,
        configuration: SoftRobotConfiguration,
        rng: np.random.Generator,
        payload: bool = False,
        magnitudes: Magnitudes | None = None,
    ) -> None:
        m = magnitudes or Magnitudes()
        self._configuration, self._magnitudes = configuration, m
        self.build = draw(configuration, m, payload, rng)
        if payload:
            hung_at = int(self.build.payload_at_s * NANOSECONDS_PER_SECOND / m.step_ns)
            at_s = hung_at * m.step_ns / NANOSECONDS_PER_SECOND
            self.changes = (Fault("payload", "offset", self.build.payload_kg, at_s),)
        chambers = configuration.chambers
        self._pattern = mixture(chambers.angles_rad, chambers.pressure_max_pa, rng)
        self._pneumatics = np.zeros((3, chambers.count))
        self._chain_state = kernels.hanging(self.build.chain)
        self._resting: Vector | None = None
        self._low_passed: Vector | None = None
        self._next_step = 0
        self._kept: _Motion | None = None
        host = Way(
            self.build.read_out_s, m.jitter_stddev_s, m.rare_share, m.rare_jitter_s, m.largest_jitter_s, m.lost_share
        )
        arrival = Way(self.build.capture_delay_s, m.jitter_stddev_s, 0.0, 0.0, m.largest_jitter_s)
        generators = rng.spawn(7)
        self._commands = Stream(configuration.pressure.rate_hz, generators[0])
        self._pressures = Stream(configuration.pressure.rate_hz, generators[1], chambers.count, host)
        self._wrenches = Stream(configuration.wrench.rate_hz, generators[2], 6, host)
        self._stiffness = Stream(configuration.truth.rate_hz, generators[3])
        self._captured = {
            body: (Stream(configuration.truth.rate_hz, generator, 6, arrival), Gaps(period_s, m.gap_s, gaps))
            for body, period_s, generator, gaps in zip(
                (TIP, BASE), m.gap_period_s, generators[4:6], generators[6].spawn(2), strict=True
            )
        }

    def advance(self, stop_ns: int) -> Recording:
        """What is recorded from where it stands up to `stop_ns`, which is left out."""
        motion, names = self._drive(stop_ns), self._configuration.chambers.names
        at_ns, noise = self._commands.samples(stop_ns)
        set_points = self._pattern(at_ns / NANOSECONDS_PER_SECOND)
        absolute_pa = self._configuration.pressure.ambient_pa + set_points
        commands = self._commands.messages(at_ns, noise, absolute_pa, stop_ns)
        sensors = (
            *of_chambers(pressure_command_channel, names, commands),
            *of_chambers(pressure_channel, names, self._read_pressures(motion, stop_ns)),
            Series(WRENCH, *self._read_wrench(motion, stop_ns)),
        )
        at_ns, noise = self._stiffness.samples(stop_ns)
        stiffness = self._stiffness.messages(at_ns, noise, motion.at(at_ns, _STIFFNESS), stop_ns)
        poses = (Series(truth_channel(body), *self._capture(body, motion, stop_ns)) for body in (TIP, BASE))
        return Recording(sensors, (*poses, Series(TRUE_STIFFNESS, *stiffness)))

    def _drive(self, stop_ns: int) -> _Motion:
        """The motion around all samples that are to be taken before `stop_ns`."""
        m, build, first = self._magnitudes, self.build, self._next_step
        last = max(-(-stop_ns // m.step_ns) + 2, first)
        steps = np.arange(first, last)
        outlets, chambers = (np.empty((len(steps), len(build.lags_s))) for _ in range(2))
        step_s = m.step_ns / NANOSECONDS_PER_SECOND
        goals = self._goals(steps)
        pneumatics(build.regulators, build.lags_s, goals, step_s, self._pneumatics, outlets, chambers)
        outputs = np.empty((len(steps), kernels.OUTPUTS))
        for start, stop in self.pieces(first * step_s, step_s, len(steps)):
            rows, time_s = slice(start, stop), (first + start + 0.5) * step_s
            chain = self.changed(build.chain, time_s)
            if payload_kg := self.in_force(time_s, "payload", 0.0):
                chain = with_payload(chain, payload_kg, m)
            kernels.drive(chain, self._chain_state, chambers[rows], step_s, outputs[rows])
        keep = np.exp(-step_s / build.low_pass_s)
        if self._low_passed is None:
            self._resting = outputs[0, :6].copy()
            self._low_passed = self._resting
        loads = outputs[:, :6]
        if len(steps):  # first order, as the sensor's electronics
            loads = first_order(1.0 - keep, keep, loads, self._low_passed)
            self._low_passed = loads[-1]
        sensed = np.hstack([outputs, loads, outlets])
        if self._kept is not None:
            sensed = np.vstack([self._kept.rows, sensed])
        # Samples of the next piece lie between the last steps of this one.
        kept = sensed[-4:]
        self._next_step, self._kept = last, _Motion(last - len(kept), m.step_ns, kept)
        return _Motion(last - len(sensed), m.step_ns, sensed)

    def _goals(self, steps: NDArray[np.int64]) -> Matrix:
        """(K, C) set points that hold during each step, by the regulators' own scale."""
        at_ns = steps * self._magnitudes.step_ns
        if len(at_ns) == 0:
            return np.zeros((0, self._configuration.chambers.count))
        rate_hz = self._configuration.pressure.rate_hz
        period_ns = int(np.ceil(NANOSECONDS_PER_SECOND / rate_hz))
        commanded_ns = stamps_between(max(int(at_ns[0]) - period_ns, 0), int(at_ns[-1]) + 1, rate_hz)
        newest = np.searchsorted(commanded_ns, at_ns, side="right") - 1
        goals: Matrix = self._pattern(commanded_ns / NANOSECONDS_PER_SECOND)[newest] * self.build.regulators[:, 3]
        return goals

    def _read_pressures(self, motion: _Motion, stop_ns: int) -> tuple[Stamps, Matrix]:
        """Absolute pressures at the outlets of the regulators, as the transducers have them."""
        known, step_pa = self._configuration.pressure, self._magnitudes.pressure_step_pa
        at_ns, noise = self._pressures.samples(stop_ns)
        values = motion.at(at_ns, _OUTLETS) + self.build.offsets_pa + known.noise_pa * noise[:, :-1]
        return self._pressures.messages(at_ns, noise, known.ambient_pa + digits(values, step_pa), stop_ns)

    def _read_wrench(self, motion: _Motion, stop_ns: int) -> tuple[Stamps, Matrix]:
        """Load of robot and hoses, in the sensor's axes, with all that its electronics add."""
        known, build = self._configuration.wrench, self.build
        at_ns, noise = self._wrenches.samples(stop_ns)
        time_s = (at_ns / NANOSECONDS_PER_SECOND)[:, None]
        size, period_s, phase = build.hoses.T
        mean_pa = motion.at(at_ns, _OUTLETS).mean(axis=1, keepdims=True)
        load = motion.at(at_ns, _LOAD) + mean_pa * build.hoses_per_pa
        load += size * np.sin(2.0 * np.pi * time_s / period_s + phase)
        if known.tare == "with_robot" and self._resting is not None:
            load -= self._resting
        measured = np.einsum("kj,ij->ki", load @ known.into_base, build.sensor) + build.zero
        measured += build.warming * (1.0 - np.exp(-time_s / build.warming_s))
        measured += np.repeat([known.force_stddev_n, known.torque_stddev_n_m], 3) * noise[:, :-1]
        steps = np.repeat([known.force_resolution_n, known.torque_resolution_n_m], 3)
        return self._wrenches.messages(at_ns, noise, digits(measured, steps), stop_ns)

    def _capture(self, body: str, motion: _Motion, stop_ns: int) -> tuple[Stamps, Matrix]:
        """Poses (K, 7) of a body with its marker body's misfit, where cameras see it."""
        truth, (orientation, place) = self._configuration.truth, self.build.mounted
        stream, gaps = self._captured[body]
        at_ns, noise = stream.samples(stop_ns)
        if len(at_ns) == 0:
            return stream.messages(at_ns, noise, np.zeros((0, 7)), stop_ns)
        turned, places = orientation, np.tile(place, (len(at_ns), 1))
        if body == TIP:
            turned = orientation * Rotation.from_quat(motion.at(at_ns, _TURN))
            places = place + orientation.apply(motion.at(at_ns, _PLACE))
        offset = self.build.markers[(TIP, BASE).index(body)]
        places = places + turned.apply(offset[:3]) + truth.position_stddev_m * noise[:, :3]
        seen = turned * Rotation.from_quat(offset[3:])
        seen = seen * Rotation.from_rotvec(np.radians(truth.orientation_stddev_deg) * noise[:, 3:6])
        visible = gaps.visible(at_ns / NANOSECONDS_PER_SECOND)
        return stream.messages(at_ns, noise, np.hstack([places, seen.as_quat()]), stop_ns, visible)


class _Motion(NamedTuple):
    """What there is to be sensed, from a step on.

    Attributes
    ----------
    first, step_ns
        Number of the first step, and length of all.
    rows
        (K, OUTPUTS + 6 + C) outputs of the chain, load on the base, low-passed, gauge pressures at the outlets.
    """

    first: int
    step_ns: int
    rows: Matrix

    def at(self, stamps_ns: Stamps, columns: slice) -> Matrix:
        """Columns of the rows at the stamps, between two steps on the line through both."""
        return sampled(self.rows[:, columns], stamps_ns - self.first * self.step_ns, self.step_ns)
