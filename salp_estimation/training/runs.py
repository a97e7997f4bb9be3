"""What a chain did and what it was asked, from recordings with motion capture: for trainings and identifications.

Rates come from motion capture by groupwise differences and a low-pass (`motion`). Commands, gyros and wheel efforts go
through the same differences and the same low-pass, so that all belong to the same instants, none lags behind another
and none keeps what another lost. Trainings take them at 5 Hz: the paper's rate (section V-B).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter1d

from onboard_estimation.base.errors import UserError, said_of
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Channel, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.tracks import HeldValues
from salp_estimation.estimators.chain_estimator import COMMAND, COMMAND_LAG_S, GYRO_AXES, STANDING_M_S
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.training.identification import Samples
from salp_estimation.training.motion import DEFAULT_CUTOFF_HZ, Mask, Motion, Rows, Stamps, motion_from_tracks

EFFORT = "actuators/state"
TRAINING_RATE_HZ = 5.0

_SAMPLES_PER_PERIOD = 5.0  # of the cut-off: instants used; closer ones tell nothing new after the low-pass
_LIMIT_MARGIN_RAD = float(np.deg2rad(1.0))
_HARMONICS = 6.0  # the cut-off should be so many times the frequency of the commands


# Commands and gyros.


def link_rates(rates: Rows) -> Rows:
    """Turning rates (K, N) of the links from rates (K, N + 2) of the base frame, which has the mean heading."""
    joint_rates = rates[:, 3:]
    count = joint_rates.shape[1] + 1
    relative = np.hstack([np.zeros((len(rates), 1)), np.cumsum(joint_rates, axis=1)])
    return rates[:, 2:3] + relative - relative.sum(axis=1, keepdims=True) / count


def rim_speeds(chain: ChainConfiguration, command: Series) -> tuple[Stamps, Rows]:
    """Stamps (M,), in order, and rim speeds (M, N), m/s, of the commands that are numbers."""
    given = HeldValues.clean(command.stamps_ns, command.values)
    return given.stamps_ns, given.values * chain.signed_wheel_radii_m


def in_force(stamps_ns: Stamps, speeds: Rows, at_ns: Stamps) -> Rows:
    """(K, N) of the last command (M, N) until then, zero before the first one."""
    return np.nan_to_num(HeldValues(stamps_ns, speeds).at(at_ns))


def lagged_commands(stamps_ns: Stamps, speeds: Rows, at_ns: Stamps) -> Rows:
    """First-order lag (K, N), of COMMAND_LAG_S, of commands (M, N) that hold from their stamps (M,), from rest."""
    times_s = (stamps_ns - stamps_ns[0]) / NANOSECONDS_PER_SECOND
    level = np.zeros((len(speeds), speeds.shape[1]))
    for k in range(1, len(speeds)):
        keep = np.exp(-(times_s[k] - times_s[k - 1]) / COMMAND_LAG_S)
        level[k] = speeds[k - 1] + keep * (level[k - 1] - speeds[k - 1])
    number = np.maximum(np.searchsorted(stamps_ns, at_ns, side="right") - 1, 0)
    past_s = np.maximum(at_ns - stamps_ns[number], 0) / NANOSECONDS_PER_SECOND
    keep = np.exp(-past_s / COMMAND_LAG_S)[:, None]
    out: Rows = speeds[number] + keep * (level[number] - speeds[number])
    out[at_ns < stamps_ns[0]] = 0.0
    return out


def gyro_rates(configuration: SalpConfiguration, imu: Series) -> tuple[Stamps, Vector]:
    """Stamps (M,), each once, and what the gyro of a link reads, rad/s, where it is a number."""
    axis, sign = GYRO_AXES[configuration.gyro.axis]
    rates = sign * imu.values[:, IMU.angular_velocity][:, axis]
    known = np.isfinite(rates)
    stamps_ns, first = np.unique(imu.stamps_ns[known], return_index=True)
    return stamps_ns, rates[known][first]


# Runs for trainings.


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A recording at K instants, of a chain of N links; the robot moves at all of them.

    Attributes
    ----------
    label
        Name of the recording.
    time_s
        (K,) since the recording's start.
    joint_angles, rates
        (K, N - 1) rad and (K, N + 2): rates of the base frame (m/s, m/s, rad/s) and joints (rad/s), measured.
    headings
        (K,) of the base frame in the room, rad.
    controls, slopes
        (K, N) lagged rim speeds, m/s, and their time derivatives, m/s^2.
    gyro
        (K, N) rad/s, less its bias, which is found against motion capture.
    rest_rates
        (R, N + 2) rates while the wheels stand.
    gyro_noise
        (N, 2): standard deviation of one gyro sample at rest, rad/s, and its growth with the own wheel's rim speed,
        rad/s per m/s.
    left_out
        Frames with flipped markers, by link.
    """

    label: str
    time_s: Vector
    joint_angles: Rows
    rates: Rows
    headings: Vector
    controls: Rows
    slopes: Rows
    gyro: Rows
    rest_rates: Rows
    gyro_noise: Rows
    left_out: dict[str, int]


def training_run(configuration: SalpConfiguration, recording: LoadedRecording, label: str) -> TrainingRun:
    """The run of a recording.

    Raises
    ------
    UserError
        No commands, no gyro of a link, no motion capture of a link, or a robot that never moves.
    """
    chain = configuration.chain
    series = {one.channel.sensor: one for one in recording.series}
    wanted = [COMMAND, *(f"imu/{name}" for name in chain.link_names)]
    missing = [name for name in wanted if name not in series or len(series[name].stamps_ns) < 2]
    if missing:
        raise UserError(f"{label}: training needs {', '.join(missing)}, which it does not hold")
    motion = motion_from_tracks(chain, recording.tracks, DEFAULT_CUTOFF_HZ)
    stamps, speeds = rim_speeds(chain, series[COMMAND])
    lagged = lagged_commands(stamps, speeds, motion.stamps_ns)
    asked = in_force(stamps, speeds, motion.stamps_ns)
    controls = motion.low_pass(motion.sampled(motion.stamps_ns, lagged))
    slopes = motion.low_pass(motion.sampled(motion.stamps_ns, (asked - lagged) / COMMAND_LAG_S))
    raw = [gyro_rates(configuration, series[f"imu/{name}"]) for name in chain.link_names]
    gyro = np.hstack([motion.low_pass(motion.sampled(at, rate[:, None])) for at, rate in raw])
    time_s = (motion.stamps_ns - motion.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    columns = (motion.rates, controls, slopes, gyro)
    usable = motion.valid & np.all([np.isfinite(one).all(axis=1) for one in columns], axis=0)
    moves = np.abs(lagged).max(axis=1) > STANDING_M_S
    # What is low-passed has a part of what comes within a period of the cut-off, and the wheels stop late.
    reach = 2 * round(motion.rate_hz / DEFAULT_CUTOFF_HZ) + 1
    rests = usable & ~maximum_filter1d(moves, reach)
    usable &= moves
    step = max(1, round(motion.rate_hz / TRAINING_RATE_HZ))
    rows = np.arange(0, len(time_s), step)
    rows = rows[usable[rows]]
    if len(rows) < 10:
        seconds = len(rows) / TRAINING_RATE_HZ
        raise UserError(f"{label}: the robot moves within sight of the motion capture for {seconds:.1f} s only")
    rates = motion.rates[rows]
    bias = np.median(gyro[rows] - link_rates(rates), axis=0)
    turning = np.where(motion.valid[:, None], link_rates(motion.rates), np.nan)
    noise = [
        _noise(at, rate - bias[link], motion.stamps_ns, turning[:, link], lagged[:, link])
        for link, (at, rate) in enumerate(raw)
    ]
    return TrainingRun(
        label,
        time_s[rows],
        motion.states[rows, 3:],
        rates,
        motion.states[rows, 2],
        controls[rows],
        slopes[rows],
        gyro[rows] - bias,
        motion.rates[rests],
        np.array(noise),
        dict(motion.left_out),
    )


def _noise(stamps_ns: Stamps, rate: Vector, at_ns: Stamps, smooth: Vector, speed: Vector) -> Vector:
    """(2,) noise of a sample at rest and its growth with the rim speed, from how far it is from motion capture."""
    nearest = np.minimum(np.searchsorted(at_ns, stamps_ns), len(at_ns) - 1)
    inside = np.isfinite(smooth[nearest]) & (stamps_ns >= at_ns[0]) & (stamps_ns <= at_ns[-1])
    fast = rate[inside] - smooth[nearest[inside]]
    moving = np.abs(speed[nearest[inside]])
    # Least squares of the squares, robust against the few samples of a jerk at the start.
    keep = np.abs(fast) < 6.0 * np.median(np.abs(fast)) / 0.6745
    design = np.column_stack([np.ones(keep.sum()), moving[keep] ** 2])
    (constant, growth), *_ = np.linalg.lstsq(design, fast[keep] ** 2, rcond=None)
    least = 0.05 * np.mean(fast[keep] ** 2)
    return np.sqrt([max(constant, least), max(growth, 0.0)])


# Runs for identifications.


class GyroSamples(NamedTuple):
    """A gyro's own samples: stamps (M,), turning rates (M,) in rad/s, and the rim speeds (M, N) in force at them."""

    stamps_ns: Stamps
    rates: Vector
    controls: Rows


@dataclass(frozen=True, eq=False)
class Run:
    """A recording for an identification, low-passed, at the K instants of its motion.

    Attributes
    ----------
    controls
        (K, N) commanded rim speeds, m/s.
    gyros
        Of the links that have one, not low-passed.
    forces
        (K, N) forces at the rims by the wheels' measured effort, N; None without.
    usable
        (K,): motion valid, commands known, no joint at its limit.
    frequency_hz
        Strongest frequency of the commands; 0 where they are constant.
    """

    name: str
    motion: Motion
    controls: Rows
    gyros: Mapping[int, GyroSamples]
    forces: Rows | None
    usable: Mask
    frequency_hz: float
    notes: tuple[str, ...] = ()

    def samples(self) -> Samples:
        """Usable instants, as many as the low-pass leaves independent."""
        motion = self.motion
        step = max(1, round(motion.rate_hz / (_SAMPLES_PER_PERIOD * motion.cutoff_hz)))
        chosen = np.arange(0, len(motion.stamps_ns), step)
        chosen = chosen[self.usable[chosen]]
        return Samples(
            motion.states[chosen, 3:],
            motion.rates[chosen],
            self.controls[chosen],
            chosen // step,
            step / motion.rate_hz,
            None if self.forces is None else self.forces[chosen],
        )


def identification_channels(configuration: SalpConfiguration) -> tuple[Channel, ...]:
    """Measured torques of the wheels, named after the links that they sit on; may be absent."""
    names = configuration.chain.link_names
    return (Channel(EFFORT, "sensor_msgs/msg/JointState", EFFORT, "effort", names, required=False),)


def run_from_recording(
    configuration: SalpConfiguration, recording: LoadedRecording, name: str, cutoff_hz: float
) -> Run:
    """What the identification needs of a recording.

    Raises
    ------
    UserError
        No commands, or what `motion_from_tracks` refuses; the message starts with the recording's name.
    """
    with said_of(name):
        chain = configuration.chain
        series = {one.channel.sensor: one for one in recording.series if len(one.stamps_ns)}
        if COMMAND not in series:
            raise UserError(f"no commands on {COMMAND}: the drag is seen in what the wheels do to the chain")
        motion = motion_from_tracks(chain, recording.tracks, cutoff_hz)
        commands = rim_speeds(chain, series[COMMAND])
        controls = motion.low_pass(motion.held(*commands))
        forces = None
        if EFFORT in series:
            effort = series[EFFORT]  # N m, by the radius N
            forces = motion.low_pass(motion.sampled(effort.stamps_ns, effort.values / chain.signed_wheel_radii_m))
        free, touching = _free_of_limits(chain.build(), motion)
        usable: Mask = np.asarray(motion.valid & np.isfinite(controls).all(axis=1) & free, dtype=np.bool_)
        if not usable.any():
            raise UserError(
                "no instant has commands, motion capture of all links and no joint at its limit "
                f"({motion.duration_s:.3g} s of motion, {touching / motion.rate_hz:.3g} s of it at a limit); commands "
                "and motion capture must overlap in time"
            )
        frequency_hz = _strongest_frequency(*commands)
        gyros = {}
        for link, link_name in enumerate(chain.link_names):
            if (imu := series.get(f"imu/{link_name}")) is not None:
                stamps_ns, rates = gyro_rates(configuration, imu)
                gyros[link] = GyroSamples(stamps_ns, rates, in_force(*commands, stamps_ns))
        notes = (*recording.notes, *_notes(motion, touching, frequency_hz))
        return Run(name, motion, controls, gyros, forces, usable, frequency_hz, notes)


def _free_of_limits(chain: Chain, motion: Motion) -> tuple[Mask, int]:
    """Where no joint is held by its limit, nor was within the low-pass's reach; and how many instants it was."""
    lower, upper = chain.links[:-1, kernels.LOWER], chain.links[:-1, kernels.UPPER]
    angles = motion.states[:, 3:]
    held = ((angles < lower + _LIMIT_MARGIN_RAD) | (angles > upper - _LIMIT_MARGIN_RAD)).any(axis=1)
    reach = round(motion.rate_hz / motion.cutoff_hz)
    near = np.convolve(held.astype(np.float64), np.ones(2 * reach + 1), mode="same") > 0.5
    return np.asarray(~near, dtype=np.bool_), int(held.sum())


def _strongest_frequency(stamps_ns: Stamps, speeds: Rows) -> float:
    """Of the commands, from their spectrum; 0 where they are constant or too few."""
    at_s = (stamps_ns - stamps_ns[:1]) * 1e-9
    if len(at_s) < 8 or np.ptp(speeds, axis=0).max() < 1e-6:
        return 0.0
    grid_s = np.linspace(0.0, at_s[-1], 4096)
    held = speeds[np.searchsorted(at_s, grid_s, side="right") - 1]
    power = np.square(np.abs(np.fft.rfft(held - held.mean(axis=0), n=8 * len(grid_s), axis=0))).sum(axis=1)
    return float(np.argmax(power) / (8.0 * at_s[-1] * len(grid_s) / (len(grid_s) - 1)))


def _notes(motion: Motion, touching: int, frequency_hz: float) -> list[str]:
    said = []
    if flips := {link: count for link, count in motion.left_out.items() if count}:
        counted = ", ".join(f"{count} of {link}" for link, count in flips.items())
        said.append(f"Motion capture: frames left out because the pose jumped (flipped or swapped markers): {counted}.")
    if motion.open_joints:
        said.append(f"Motion capture: {motion.open_joints} instants left out where links did not meet at their joint.")
    if touching:
        said.append(
            f"{touching / motion.rate_hz:.3g} s left out with a joint at its limit (chain.joint_lower_deg, "
            "chain.joint_upper_deg): the limit's torque is not known."
        )
    if 0.0 < motion.cutoff_hz < _HARMONICS * frequency_hz:
        said.append(
            f"The low-pass at {motion.cutoff_hz:g} Hz is near the commands' frequency, {frequency_hz:.2g} Hz: it takes "
            f"away part of the motion's harmonics; {_HARMONICS * frequency_hz:.2g} Hz or more is better."
        )
    return said
