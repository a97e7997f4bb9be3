"""Simulated thruster chains: what their commands, IMUs and the motion capture would record.

The motion is integrated in steps of a millisecond. Scenario `thrusters` has nothing but the paper's chain, white noise
on its IMUs and a motion capture without noise; `hardware` and `load` have what `robot_build` lists. An IMU reads
what an accelerometer on its link reads (`physical`), or what the paper's equation (32) has: the forces on the link but
for those of its joints, along the room's axes (`paper`). Thrusters follow the paper's square waves, or a
laboratory's mixture that excites everything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import Recording, Series, imu_channel, stamps_between, truth_channel
from onboard_estimation.contract.laboratory_files import read_table
from onboard_estimation.contract.signals import digits, first_order, sampled, wandered
from onboard_estimation.contract.simulated import Changing
from onboard_estimation.contract.tracks import HeldValues
from onboard_estimation.filtering.planar import planar_poses
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import command_channel, true_parameters_channel
from thruster_chain_estimation.simulation import simulation_kernels as kernels
from thruster_chain_estimation.simulation.robot_build import Build, HardwareScenario, changeable, load_of

Stamps = NDArray[np.int64]
Pattern = Callable[[Vector], Matrix]
"""Commanded thrusts (K, N), N, at times (K,), s, from the start of the recording."""
ImuModel = Literal["physical", "paper"]

STEP_NS = 1_000_000
_STEP_S = STEP_NS / NANOSECONDS_PER_SECOND
_AHEAD = 20  # steps that are known beyond what is recorded: stamps jitter
_BEHIND = 50
_IDEAL_RATE_HZ = 100.0  # of commands and truth, in `thrusters`
_FORCE, _RATE, _THRUST, _POSE = slice(0, 2), 2, slice(3, 4), slice(4, 7)  # of what there is to be sensed of a link
_FIRST_S, _ON_S, _PERIOD_S, _PULSES = 0.2, 0.1, 0.3, 3
_LATER = 0.2
_STRETCH_S = 4.0
_KINDS = ("square", "pulses", "chirp", "steps", "pause")


class ThrusterChainSimulation(Changing):
    """A chain that moves by its thrusters, from rest at stamp zero.

    Parameters
    ----------
    build
        The robot as it is; its links start in a row along x in `thrusters`, a little bent in `hardware`.
    pattern
        Commands over time.
    hardware
        Magnitudes of noise and disturbances along the run; None: the paper's white noise is all.
    imu_rate_hz
        Zero: the paper's, or the scenario's.
    load_on
        Link that takes up the scenario's load; None: none does.
    """

    def __init__(
        self,
        configuration: ThrusterChainConfiguration,
        build: Build,
        pattern: Pattern,
        rng: np.random.Generator,
        hardware: HardwareScenario | None = None,
        imu_rate_hz: float = 0.0,
        imu_model: ImuModel = "physical",
        load_on: int | None = None,
    ) -> None:
        self.build = build
        self._configuration, self._pattern, self._rng = configuration, pattern, rng
        self._hardware, self._imu_model = hardware, imu_model
        self.changeable = changeable(configuration.chain.count)
        if hardware is not None and load_on is not None:
            self.changes = load_of(configuration, hardware.load, load_on)
        self._imu_rate_hz = imu_rate_hz or (hardware.imu.rate_hz if hardware else configuration.paper.rate_hz)
        self._command_rate_hz = hardware.thruster.command_rate_hz if hardware else _IDEAL_RATE_HZ
        n = configuration.chain.count
        state = np.zeros(3 * n + 4)
        if hardware is not None:
            # Laid down by hand, within what cable and end stops allow.
            state[:n] = rng.uniform(-np.pi, np.pi) + np.cumsum(rng.uniform(-0.6, 0.6, n))
        self._at_ns = 0
        self._next = 0  # number of the step that `state` is at
        self._state = state
        self._eddies = rng.normal(size=(n + 1, 2))  # one in common, one of each link
        self._low_passed: Matrix | None = None
        # From that step on: (K, N, 7) specific force x, y (m/s^2), rate (rad/s) and thrust (N) at each IMU; x, y (m)
        # and heading (rad) of the links' middles.
        self._first, self._seen = 0, np.empty((0, n, 7))

    def advance(self, stop_ns: int) -> Recording:
        """What is recorded from where it stands up to `stop_ns`, which is left out."""
        start_ns, self._at_ns = self._at_ns, max(self._at_ns, stop_ns)
        self._drive(-(-stop_ns // STEP_NS) + _AHEAD)
        names = self._configuration.chain.link_names
        command_ns = stamps_between(start_ns, stop_ns, self._command_rate_hz)
        commands = self._pattern(command_ns / NANOSECONDS_PER_SECOND)
        imus = [self._imu(link, start_ns, stop_ns) for link in range(len(names))]
        sensors = [Series(command_channel(names), command_ns, commands)]
        sensors += [Series(imu_channel(name), *one) for name, one in zip(names, imus, strict=True)]
        truth = [Series(truth_channel(name), *self._pose(i, start_ns, stop_ns)) for i, name in enumerate(names)]
        return Recording(tuple(sensors), (*truth, *self._parameters(start_ns, stop_ns)))

    def _drive(self, last: int) -> None:
        """Move on up to a step; what is too old to be asked for again is forgotten."""
        first, hardware, n = self._next, self._hardware, self._configuration.chain.count
        if last <= first:
            return
        kept = self._seen[-(_AHEAD + _BEHIND) :]
        pieces, self._first = [kept], first - len(kept)
        commands, draughts = self._commands(np.arange(first, last)), self._draughts(last - first)
        rest = round(hardware.rest_s / _STEP_S) if hardware else 0
        for start, stop in self.pieces(first * _STEP_S, _STEP_S, last - first):
            rows, time_s = slice(start, stop), (first + start + 0.5) * _STEP_S
            held = min(max(rest - first - start, 0), stop - start)
            draught = draughts[rows]
            draught[..., 0] = self.in_force(time_s, "draught", draught[..., 0])
            physics = self.changed(self.build.physics, time_s)
            motion = kernels.drive(physics, self._state, commands[rows], draught, held, _STEP_S)
            self._state = motion.states[-1].copy()
            # The last instant is the first of the next piece, with its commands.
            pieces.append(self._sensed(motion, n))
        self._next, self._seen = last, np.concatenate(pieces)

    def _commands(self, steps: Stamps) -> Matrix:
        """(K, N) in force during each step, as they hold from their stamps on."""
        before_ns, after_ns = int(steps[0]) * STEP_NS - NANOSECONDS_PER_SECOND, int(steps[-1] + 1) * STEP_NS
        command_ns = stamps_between(before_ns, after_ns, self._command_rate_hz)
        number = np.searchsorted(command_ns, steps * STEP_NS, side="right") - 1
        return np.ascontiguousarray(self._pattern(command_ns[number] / NANOSECONDS_PER_SECOND))

    def _draughts(self, count: int) -> Matrix:
        """(count, N, 2) forces, N: half in common, half of each link, both slow."""
        n = self._configuration.chain.count
        if self._hardware is None:
            return np.zeros((count, n, 2))
        table = self._hardware.table
        keep = np.exp(-_STEP_S / table.draught_time_s)
        eddies = wandered(self._rng, keep, count, self._eddies)
        self._eddies = eddies[-1]
        return table.draught_n * np.sqrt(0.5) * (eddies[:, :1] + eddies[:, 1:])

    def _sensed(self, motion: kernels.Motion, n: int) -> Matrix:
        """What IMUs and markers are at, without errors, at the instants of a motion but its last; see `_seen`."""
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
            along = c * own[..., 0] + s * own[..., 1] - alpha * y - square * x
            across = -s * own[..., 0] + c * own[..., 1] + alpha * x - square * y
            force = np.stack([along, across], axis=-1)
        x, y = build.middles.T
        middle = motion.place[:-1] + np.stack([c * x - s * y, s * x + c * y], axis=-1)
        thrust = np.abs(states[:, 2 * n + 4 :])
        seen = np.concatenate([force, rate[..., None], thrust[..., None], middle, heading[..., None]], axis=-1)
        if self._hardware is not None and self._hardware.imu.low_pass_s > 0.0:
            keep = np.exp(-_STEP_S / self._hardware.imu.low_pass_s)
            read = seen[..., : _RATE + 1]
            read[:] = first_order(1.0 - keep, keep, read, read[0] if self._low_passed is None else self._low_passed)
            self._low_passed = read[-1].copy()
        return seen

    def _at(self, stamps_ns: Stamps, link: int) -> Matrix:
        """(K, 7) what there is to be sensed of a link at the stamps, between two steps on the line through both."""
        return sampled(self._seen[:, link], stamps_ns - self._first * STEP_NS, STEP_NS)

    def _imu(self, link: int, start_ns: int, stop_ns: int) -> tuple[Stamps, Matrix]:
        """Stamps and values (gyro, accelerometer) of what an IMU sends."""
        gravity, at = self._configuration.gravity_m_s2, stamps_between(start_ns, stop_ns, self._imu_rate_hz)
        if self._hardware is None:
            paper, values, seen = self._configuration.paper, np.zeros((len(at), 6)), self._at(at, link)
            noise = self._rng.normal(size=(len(at), 3))
            values[:, 2] = seen[:, _RATE] + paper.gyro_stddev_rad_s * noise[:, 0]
            values[:, 3:5] = seen[:, _FORCE] + paper.accelerometer_stddev_m_s2 * noise[:, 1:]
            values[:, 5] = gravity
            return at, values
        imu, build, rng = self._hardware.imu, self.build, self._rng
        late_ns = np.round(1e9 * imu.jitter_stddev_s * np.clip(np.abs(rng.normal(size=len(at))), 0.0, 3.0))
        at = (at + late_ns.astype(np.int64))[rng.uniform(size=len(at)) >= imu.lost_share]
        seen, time_s = self._at(at, link), at / NANOSECONDS_PER_SECOND
        axes = np.zeros((len(at), 2, 3))
        axes[:, 0, 2] = seen[:, _RATE]
        axes[:, 1, :2], axes[:, 1, 2] = seen[:, _FORCE], gravity
        axes = axes @ build.mounting[link].T
        warm = (1.0 - np.exp(-time_s / imu.warming_time_s))[:, None]
        bandwidth = np.sqrt(0.5 * self._imu_rate_hz)
        gyro = build.gyro_scale[link] * axes[:, 0] + build.gyro_bias[link] + warm * build.gyro_warming[link]
        gyro += imu.gyro_noise_rad_s_sqrt_hz * bandwidth * rng.normal(size=gyro.shape)
        force = build.accelerometer_scale[link] * axes[:, 1] + build.accelerometer_bias[link]
        force += warm * build.accelerometer_warming[link]
        shaken = self._hardware.thruster.vibration_m_s2 * seen[:, _THRUST]
        force += np.hypot(imu.accelerometer_noise_m_s2_sqrt_hz * bandwidth, shaken) * rng.normal(size=force.shape)
        stamps = at + np.round(1e9 * (build.clock_offset_s[link] + build.clock_drift[link] * time_s)).astype(np.int64)
        read = digits(np.hstack([gyro, force]), np.repeat([imu.gyro_step_rad_s, imu.accelerometer_step_m_s2], 3))
        largest = np.repeat([imu.gyro_range_rad_s, imu.accelerometer_range_m_s2], 3)
        return stamps, np.clip(read, -largest, largest)

    def _pose(self, link: int, start_ns: int, stop_ns: int) -> tuple[Stamps, Matrix]:
        """Stamps and poses (K, 7) of a link by motion capture."""
        if self._hardware is None:
            at = stamps_between(start_ns, stop_ns, _IDEAL_RATE_HZ)
            pose = self._at(at, link)[:, _POSE]
            return at, planar_poses(pose[:, :2], pose[:, 2])
        capture, rng = self._hardware.capture, self._rng
        at = stamps_between(start_ns, stop_ns, capture.rate_hz)
        blocks = at // round(1e9 * capture.covered_time_s)
        _, number = np.unique(blocks, return_inverse=True)
        covered = rng.uniform(size=number.max(initial=-1) + 1) < capture.covered_share
        at = at[~covered[number]]
        pose = self._at(at, link)[:, _POSE]
        pose[:, :2] += capture.position_stddev_m * rng.normal(size=(len(at), 2))
        pose[:, 2] += np.deg2rad(capture.heading_stddev_deg) * rng.normal(size=len(at))
        return at, planar_poses(pose[:, :2], pose[:, 2])

    def _parameters(self, start_ns: int, stop_ns: int) -> list[Series]:
        """Masses and inertias, once a second and where they change."""
        pieces = self.pieces(start_ns / NANOSECONDS_PER_SECOND, _STEP_S, (stop_ns - start_ns) // STEP_NS)
        changed_ns = [start_ns + first * STEP_NS for first, _ in pieces[1:]]
        told = np.union1d(stamps_between(start_ns, stop_ns, 1.0), changed_ns).astype(np.int64)
        times_s = told / NANOSECONDS_PER_SECOND + 0.5 * _STEP_S
        physics = [self.changed(self.build.physics, at_s) for at_s in times_s.tolist()]
        channel = true_parameters_channel(self._configuration.chain.link_names)
        values = np.array([np.concatenate([one.mass, one.inertia]) for one in physics])
        return [Series(channel, told, values.reshape(len(told), 2 * self._configuration.chain.count))]


def square_waves(count: int, amplitude_n: float = 1.0, without: int | None = None) -> Pattern:
    """The paper's: from 0.2 s on, 0.1 s on and 0.2 s off, all together.

    The paper's run ends after a second, with three pulses forward. From then on pulses are weak, backward, forward,
    forward, backward: nothing slows the paper's chain down, and it is not to turn ever faster.
    """
    use = np.full(count, amplitude_n)
    if without is not None:
        use[without] = 0.0

    def pattern(time_s: Vector) -> Matrix:
        # Edges are on whole microseconds, whatever the rounding of times in seconds.
        since_us = np.round(1e6 * (np.asarray(time_s) - _FIRST_S)).astype(np.int64)
        number, within_us = np.divmod(since_us, round(1e6 * _PERIOD_S))
        later = np.where(np.isin((number - _PULSES) % 4, (1, 2)), _LATER, -_LATER)
        sign = np.where(number < _PULSES, 1.0, later)
        pulse = np.where((since_us >= 0) & (within_us < round(1e6 * _ON_S)), sign, 0.0)
        return pulse[:, None] * use

    return pattern


def recorded_commands(file: str, count: int) -> Pattern:
    """Those of a table `stamp_ns, u1, ...` from the start of the recording on, each until the next; UserError."""
    path = Path(file)
    columns = tuple(f"u{link}" for link in range(1, count + 1))
    table = read_table(path.parent, path.name.removesuffix(".gz").removesuffix(".csv"), columns)
    if table is None:
        raise UserError(f"thruster.commands: there is no table {file} (.csv or .csv.gz)")
    held = HeldValues(table.stamps_ns, table.values)
    return lambda time_s: np.nan_to_num(held.at(np.round(NANOSECONDS_PER_SECOND * np.asarray(time_s)).astype(np.int64)))


def laboratory_mixture(
    count: int, limit_n: float, rest_s: float, rng: np.random.Generator, without: int | None = None
) -> Pattern:
    """After the rest, four seconds each of square waves, pulses, chirps, random steps, and a pause; again and again.

    Every thruster has amplitudes, periods and phases of its own, in each stretch drawn anew. The second half of a
    stretch is the first in reverse: the robot has to stay on its table.
    """
    seed = int(rng.integers(2**62))
    begin_s = rest_s + 0.3

    def stretch(number: int, link: int, since_s: Vector) -> Vector:
        own = np.random.default_rng([seed, number, link])
        kind = _KINDS[number % len(_KINDS)]
        largest_n, period_s = limit_n * own.uniform(0.3, 0.9), own.uniform(0.3, 0.9)
        phase, sign = own.uniform(0.0, 1.0), own.choice((-1.0, 1.0))
        size, since_s = np.where(since_s < 0.5 * _STRETCH_S, largest_n, -largest_n), since_s % (0.5 * _STRETCH_S)
        turn = (since_s / period_s + phase) % 1.0
        if kind == "square":
            return sign * size * np.where(turn < 0.5, 1.0, -1.0)
        if kind == "pulses":
            back = np.where(np.floor(since_s / period_s + phase) % 2 == 0, 1.0, -1.0)
            return sign * size * back * (turn < 0.25)
        if kind == "chirp":
            return sign * size * np.sin(2.0 * np.pi * (0.5 * since_s + 0.7 * since_s**2) + 2.0 * np.pi * phase)
        if kind == "steps":
            steps = own.uniform(-1.0, 1.0, round(0.5 * _STRETCH_S / 0.2) + 1)
            return size * steps[np.floor(since_s / 0.2).astype(np.int64)]
        return np.zeros(len(since_s))

    def pattern(time_s: Vector) -> Matrix:
        out = np.zeros((len(time_s), count))
        since_s = np.asarray(time_s) - begin_s
        numbers = np.floor(since_s / _STRETCH_S).astype(np.int64)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            rows = numbers == number
            for link in range(count):
                if link != without:
                    out[rows, link] = stretch(number, link, since_s[rows] - number * _STRETCH_S)
        return np.round(out, 3)

    return pattern
