"""Simulated thruster chains: what their commands, IMUs and the motion capture would record.

The motion is integrated in steps of a millisecond. Scenario `thrusters` has nothing but the paper's chain, white noise
on its IMUs and a motion capture without noise; `hardware` and `load` have what `hardware_scenario` lists. An IMU reads
what an accelerometer on its link reads (`physical`), or what the paper's equation (32) has: the forces on the link but
for those of its joints, along the room's axes (`paper`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.series import Recording, Series
from onboard_estimation.simulation import imu_channel, stamps_between, truth_channel
from salp_estimation.thruster_chain import simulation_kernels as kernels
from salp_estimation.thruster_chain.channels import command_channel, true_parameters_channel
from salp_estimation.thruster_chain.configuration import ThrusterChainConfiguration
from salp_estimation.thruster_chain.hardware_scenario import HardwareScenario
from salp_estimation.thruster_chain.robot_build import Build, loaded
from salp_estimation.thruster_chain.thrust_patterns import Pattern

Rows = NDArray[np.float64]
Stamps = NDArray[np.int64]
ImuModel = Literal["physical", "paper"]

STEP_NS = 1_000_000
_STEP_S = STEP_NS / NANOSECONDS_PER_SECOND
_AHEAD = 20  # steps that are known beyond what is recorded: stamps jitter
_BEHIND = 50


class IdealMagnitudes(NamedTuple):
    """What the scenario `thrusters` has beside the robot: rates, Hz, and white noise of a sample."""

    command_rate_hz: float
    imu_rate_hz: float
    truth_rate_hz: float
    gyro_stddev_rad_s: float
    accelerometer_stddev_m_s2: float


class ThrusterChainSimulation:
    """A chain that moves by its thrusters, from rest at stamp zero.

    Parameters
    ----------
    build
        The robot as it is; its links start in a row along x in `thrusters`, a little bent in `hardware`.
    pattern
        Commands over time.
    magnitudes
        Of noise and disturbances along the run: `IdealMagnitudes` or a `HardwareScenario`.
    load_on
        Link that takes up the scenario's load; None: none does.
    """

    def __init__(
        self,
        configuration: ThrusterChainConfiguration,
        build: Build,
        pattern: Pattern,
        rng: np.random.Generator,
        magnitudes: IdealMagnitudes | HardwareScenario,
        imu_model: ImuModel = "physical",
        load_on: int | None = None,
    ) -> None:
        self.build = build
        self._configuration, self._pattern, self._rng = configuration, pattern, rng
        self._magnitudes, self._imu_model, self._load_on = magnitudes, imu_model, load_on
        n = configuration.chain.count
        self._hardware = magnitudes if isinstance(magnitudes, HardwareScenario) else None
        state = np.zeros(3 * n + 4)
        if self._hardware is not None:
            # Laid down by hand, within what cable and end stops allow.
            state[:n] = rng.uniform(-np.pi, np.pi) + np.cumsum(rng.uniform(-0.6, 0.6, n))
        self._at_ns = 0
        self._next = 0  # number of the step that `state` is at
        self._state = state
        self._eddies = rng.normal(size=(n + 1, 2))  # one in common, one of each link
        self._filtered: Rows | None = None
        self._seen: _Seen | None = None

    def advance(self, stop_ns: int) -> Recording:
        """What is recorded from where it stands up to `stop_ns`, which is left out."""
        start_ns, self._at_ns = self._at_ns, max(self._at_ns, stop_ns)
        seen = self._drive(-(-stop_ns // STEP_NS) + _AHEAD)
        names = self._configuration.chain.link_names
        rate_hz = self._hardware.thruster.command_rate_hz if self._hardware else self._ideal.command_rate_hz
        command_ns = stamps_between(start_ns, stop_ns, rate_hz)
        commands = self._pattern(command_ns / NANOSECONDS_PER_SECOND)
        imus = [self._imu(link, start_ns, stop_ns, seen) for link in range(len(names))]
        sensors = [Series(command_channel(names), command_ns, commands)]
        sensors += [Series(imu_channel(name), *one) for name, one in zip(names, imus, strict=True)]
        truth = [Series(truth_channel(name), *self._pose(i, start_ns, stop_ns, seen)) for i, name in enumerate(names)]
        return Recording(tuple(sensors), (*truth, *self._parameters(start_ns, stop_ns)))

    @property
    def _ideal(self) -> IdealMagnitudes:
        assert isinstance(self._magnitudes, IdealMagnitudes)
        return self._magnitudes

    def _drive(self, last: int) -> _Seen:
        """All that is known around the piece that is to be recorded, up to a step."""
        first, hardware, n = self._next, self._hardware, self._configuration.chain.count
        pieces = [] if self._seen is None else [self._seen.tail()]
        if last > first:
            commands = self._commands(np.arange(first, last))
            load_at = last if self._load_on is None else self._load_step()
            rest = round(hardware.rest_s / _STEP_S) if hardware else 0
            draughts = self._draughts(last - first)
            for start, stop in ((first, min(load_at, last)), (max(load_at, first), last)):
                if stop <= start:
                    continue
                physics = self.build.physics if start < load_at else self._loaded()
                rows = slice(start - first, stop - first)
                held = min(max(rest - start, 0), stop - start)
                motion = kernels.drive(physics, self._state, commands[rows], draughts[rows], held, _STEP_S)
                self._state = motion.states[-1].copy()
                # The last instant is the first of the next piece, with its commands.
                pieces.append(self._sensed(start, motion, n))
            self._next = last
        self._seen = _joined(pieces)
        return self._seen

    def _load_step(self) -> int:
        assert self._hardware is not None
        return round(self._hardware.load.at_s / _STEP_S)

    def _loaded(self) -> kernels.Physics:
        assert self._hardware is not None
        assert self._load_on is not None
        return loaded(self.build.physics, self._configuration, self._hardware.load, self._load_on)

    def _commands(self, steps: Stamps) -> Rows:
        """(K, N) in force during each step, as they hold from their stamps on."""
        rate_hz = self._hardware.thruster.command_rate_hz if self._hardware else self._ideal.command_rate_hz
        command_ns = stamps_between(
            int(steps[0]) * STEP_NS - NANOSECONDS_PER_SECOND, int(steps[-1] + 1) * STEP_NS, rate_hz
        )
        number = np.searchsorted(command_ns, steps * STEP_NS, side="right") - 1
        return np.ascontiguousarray(self._pattern(command_ns[number] / NANOSECONDS_PER_SECOND))

    def _draughts(self, count: int) -> Rows:
        """(count, N, 2) forces, N: half in common, half of each link, both slow."""
        n = self._configuration.chain.count
        if self._hardware is None:
            return np.zeros((count, n, 2))
        table = self._hardware.table
        keep = np.exp(-_STEP_S / table.draught_time_s)
        drawn = np.sqrt(1.0 - keep**2) * self._rng.normal(size=(count, n + 1, 2))
        eddies = np.empty((count, n + 1, 2))
        now = self._eddies
        for k in range(count):
            now = keep * now + drawn[k]
            eddies[k] = now
        self._eddies = now
        return table.draught_n * np.sqrt(0.5) * (eddies[:, :1] + eddies[:, 1:])

    def _sensed(self, first: int, motion: kernels.Motion, n: int) -> _Seen:
        """What IMUs and markers are at, without errors, at the instants of a motion but its last."""
        states, build = motion.states[:-1], self.build
        heading, rate = states[:, :n], states[:, n : 2 * n]
        c, s = np.cos(heading), np.sin(heading)
        if self._imu_model == "paper":
            force = motion.own[:-1]
        else:
            # Acceleration of the IMU's place, less gravity, in the link's frame.
            own = motion.linear[:-1] - build.physics.slope
            alpha, square = motion.angular[:-1], rate**2
            x, y = build.imu.T
            force = np.stack(
                [
                    c * own[..., 0] + s * own[..., 1] - alpha * y - square * x,
                    -s * own[..., 0] + c * own[..., 1] + alpha * x - square * y,
                ],
                axis=-1,
            )
        x, y = build.middles.T
        middle = motion.place[:-1] + np.stack([c * x - s * y, s * x + c * y], axis=-1)
        thrust = np.abs(states[:, 2 * n + 4 :])
        reading = np.concatenate([force, rate[..., None], thrust[..., None]], axis=-1)
        return _Seen(first, self._low_passed(reading), np.concatenate([middle, heading[..., None]], axis=-1))

    def _low_passed(self, reading: Rows) -> Rows:
        """Behind the IMUs' first-order low-pass; force and rate only."""
        if self._hardware is None or self._hardware.imu.low_pass_s <= 0.0:
            return reading
        keep = np.exp(-_STEP_S / self._hardware.imu.low_pass_s)
        now = reading[0, :, :3] if self._filtered is None else self._filtered
        out = reading.copy()
        for k in range(len(reading)):
            now = keep * now + (1.0 - keep) * reading[k, :, :3]
            out[k, :, :3] = now
        self._filtered = now
        return out

    def _imu(self, link: int, start_ns: int, stop_ns: int, seen: _Seen) -> tuple[Stamps, Rows]:
        """Stamps and values (gyro, accelerometer) of what an IMU sends."""
        gravity = self._configuration.gravity_m_s2
        if self._hardware is None:
            at = stamps_between(start_ns, stop_ns, self._ideal.imu_rate_hz)
            values = np.zeros((len(at), 6))
            reading = seen.reading_at(at, link)
            noise = self._rng.normal(size=(len(at), 3))
            values[:, 2] = reading[:, 2] + self._ideal.gyro_stddev_rad_s * noise[:, 0]
            values[:, 3:5] = reading[:, :2] + self._ideal.accelerometer_stddev_m_s2 * noise[:, 1:]
            values[:, 5] = gravity
            return at, values
        imu, build, rng = self._hardware.imu, self.build, self._rng
        at = stamps_between(start_ns, stop_ns, imu.rate_hz)
        late_ns = np.round(1e9 * imu.jitter_stddev_s * np.clip(np.abs(rng.normal(size=len(at))), 0.0, 3.0))
        at = (at + late_ns.astype(np.int64))[rng.uniform(size=len(at)) >= imu.lost_share]
        reading, time_s = seen.reading_at(at, link), at / NANOSECONDS_PER_SECOND
        axes = np.zeros((len(at), 2, 3))
        axes[:, 0, 2] = reading[:, 2]
        axes[:, 1, :2], axes[:, 1, 2] = reading[:, :2], gravity
        axes = axes @ build.mounting[link].T
        warm = (1.0 - np.exp(-time_s / imu.warming_time_s))[:, None]
        bandwidth = np.sqrt(0.5 * imu.rate_hz)
        gyro = build.gyro_scale[link] * axes[:, 0] + build.gyro_bias[link] + warm * build.gyro_warming[link]
        gyro += imu.gyro_noise_rad_s_sqrt_hz * bandwidth * rng.normal(size=gyro.shape)
        force = build.accelerometer_scale[link] * axes[:, 1] + build.accelerometer_bias[link]
        force += warm * build.accelerometer_warming[link]
        shaken = self._hardware.thruster.vibration_m_s2 * reading[:, 3:]
        force += np.hypot(imu.accelerometer_noise_m_s2_sqrt_hz * bandwidth, shaken) * rng.normal(size=force.shape)
        stamps = at + np.round(1e9 * (build.clock_offset_s[link] + build.clock_drift[link] * time_s)).astype(np.int64)
        values = np.hstack(
            [
                _digits(gyro, imu.gyro_step_rad_s, imu.gyro_range_rad_s),
                _digits(force, imu.accelerometer_step_m_s2, imu.accelerometer_range_m_s2),
            ]
        )
        return stamps, values

    def _pose(self, link: int, start_ns: int, stop_ns: int, seen: _Seen) -> tuple[Stamps, Rows]:
        """Stamps and poses (K, 7) of a link by motion capture."""
        if self._hardware is None:
            at = stamps_between(start_ns, stop_ns, self._ideal.truth_rate_hz)
            return at, _pose_values(seen.pose_at(at, link))
        capture, rng = self._hardware.capture, self._rng
        at = stamps_between(start_ns, stop_ns, capture.rate_hz)
        blocks = at // round(1e9 * capture.covered_time_s)
        _, number = np.unique(blocks, return_inverse=True)
        covered = rng.uniform(size=number.max(initial=-1) + 1) < capture.covered_share
        at = at[~covered[number]]
        pose = seen.pose_at(at, link)
        pose[:, :2] += capture.position_stddev_m * rng.normal(size=(len(at), 2))
        pose[:, 2] += np.deg2rad(capture.heading_stddev_deg) * rng.normal(size=len(at))
        return at, _pose_values(pose)

    def _parameters(self, start_ns: int, stop_ns: int) -> list[Series]:
        """Masses and inertias, once a second and where a load changes them."""
        told, load_ns = stamps_between(start_ns, stop_ns, 1.0), None
        if self._load_on is not None:
            load_ns = self._load_step() * STEP_NS
            if start_ns <= load_ns < stop_ns:
                told = np.union1d(told, [load_ns])
        physics = [self.build.physics if load_ns is None or at < load_ns else self._loaded() for at in told.tolist()]
        values = np.array([np.concatenate([one.mass, one.inertia]) for one in physics])
        n = self._configuration.chain.count
        channel = true_parameters_channel(self._configuration.chain.link_names)
        return [Series(channel, told, values.reshape(-1, 2 * n))]


class _Seen(NamedTuple):
    """What there is to be sensed from a step on.

    Attributes
    ----------
    first
        Number of the first step.
    reading
        (K, N, 4): specific force x, y (m/s^2), rate (rad/s) and thrust (N) at each IMU.
    pose
        (K, N, 3) of the links' middles: x, y (m), heading (rad).
    """

    first: int
    reading: Rows
    pose: Rows

    def tail(self) -> _Seen:
        """Without what is too old to be asked for again."""
        kept = min(_AHEAD + _BEHIND, len(self.reading))
        return _Seen(self.first + len(self.reading) - kept, self.reading[-kept:], self.pose[-kept:])

    def reading_at(self, stamps_ns: Stamps, link: int) -> Rows:
        """(K, 4) at the stamps, between two steps on the line through both."""
        return self._between(self.reading[:, link], stamps_ns)

    def pose_at(self, stamps_ns: Stamps, link: int) -> Rows:
        """(K, 3) at the stamps, likewise."""
        return self._between(self.pose[:, link], stamps_ns)

    def _between(self, values: Rows, stamps_ns: Stamps) -> Rows:
        step, within_ns = np.divmod(stamps_ns, STEP_NS)
        row, share = step - self.first, (within_ns / STEP_NS)[:, None]
        after = np.minimum(row + 1, len(values) - 1)
        between: Rows = (1.0 - share) * values[row] + share * values[after]
        return between


def _joined(pieces: Sequence[_Seen]) -> _Seen:
    """The pieces, one after the other, as one."""
    return _Seen(
        pieces[0].first,
        np.concatenate([piece.reading for piece in pieces]),
        np.concatenate([piece.pose for piece in pieces]),
    )


def _digits(values: Rows, step: float, largest: float) -> Rows:
    return np.clip(np.round(values / step) * step, -largest, largest)


def _pose_values(pose: Rows) -> Rows:
    """Planar poses (K, 3) as positions and quaternions (K, 7)."""
    values = np.zeros((len(pose), 7))
    values[:, :2] = pose[:, :2]
    values[:, 5], values[:, 6] = np.sin(0.5 * pose[:, 2]), np.cos(0.5 * pose[:, 2])
    return values
