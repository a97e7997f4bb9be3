"""From a recording to what the identification compares: motion, commands, gyros and wheel forces at the same instants.

All of them pass the same low-pass, so that none lags behind another and none keeps what another lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from salp_estimation.estimators.chain_estimator import COMMAND, GYRO_AXES
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.training.identification import Samples
from salp_estimation.training.motion import Mask, Motion, Stamps, motion_from_tracks
from salp_estimation.training.runs import in_force, rim_speeds

Array = NDArray[np.float64]

EFFORT = "actuators/state"

_SAMPLES_PER_PERIOD = 5.0  # of the cut-off: instants used; closer ones tell nothing new after the low-pass
_LIMIT_MARGIN_RAD = float(np.deg2rad(1.0))
_HARMONICS = 6.0  # the cut-off should be so many times the frequency of the commands


class GyroSamples(NamedTuple):
    """A gyro's own samples: stamps (M,), turning rates (M,) in rad/s, and the rim speeds (M, N) in force at them."""

    stamps_ns: Stamps
    rates: Vector
    controls: Array


@dataclass(frozen=True, eq=False)
class Run:
    """One recording, low-passed, at the K instants of its motion.

    Attributes
    ----------
    controls
        (K, N) commanded rim speeds, m/s.
    gyros
        One of each link, not low-passed; None where there is no gyro.
    forces
        (K, N) forces at the rims by the wheels' measured effort, N; None without.
    usable
        (K,): motion valid, commands known, no joint at its limit.
    frequency_hz
        Strongest frequency of the commands; 0 where they are constant.
    """

    name: str
    motion: Motion
    controls: Array
    gyros: tuple[GyroSamples | None, ...]
    forces: Array | None
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


def effort_channel(configuration: ChainConfiguration) -> Channel:
    """Measured torques of the wheels, named after the links that they sit on; may be absent."""
    names = configuration.link_names
    return Channel(EFFORT, "sensor_msgs/msg/JointState", EFFORT, "effort", names, required=False)


def run_from_recording(
    configuration: SalpConfiguration, recording: LoadedRecording, name: str, cutoff_hz: float
) -> Run:
    """What the identification needs of a recording.

    Raises
    ------
    UserError
        No commands, or what `motion_from_tracks` refuses; the message starts with the recording's name.
    """
    series = {one.channel.sensor: one for one in recording.series if len(one.stamps_ns)}
    chain_configuration = configuration.chain
    try:
        if COMMAND not in series:
            raise UserError(f"no commands on {COMMAND}: the drag is seen in what the wheels do to the chain")
        motion = motion_from_tracks(chain_configuration, recording.tracks, cutoff_hz)
        return _run(configuration, series, motion, name, recording.notes)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error


def _run(
    configuration: SalpConfiguration, series: dict[str, Series], motion: Motion, name: str, notes: tuple[str, ...]
) -> Run:
    chain = configuration.chain
    rim = chain.signed_wheel_radii_m  # m/s by rad/s, and N m by N
    command = series[COMMAND]
    raw = command.values * rim
    controls = motion.low_pass(motion.held(command.stamps_ns, raw))
    forces = None
    if EFFORT in series:
        effort = series[EFFORT]
        forces = motion.low_pass(motion.sampled(effort.stamps_ns, effort.values / rim))
    free, touching = _free_of_limits(chain.build(), motion)
    usable: Mask = np.asarray(motion.valid & np.isfinite(controls).all(axis=1) & free, dtype=np.bool_)
    frequency_hz = _strongest_frequency(command, raw)
    said = [*notes, *_notes(motion, touching, frequency_hz)]
    if not usable.any():
        raise UserError(
            "no instant has commands, motion capture of all links and no joint at its limit "
            f"({motion.duration_s:.3g} s of motion, {touching / motion.rate_hz:.3g} s of it at a limit); commands and "
            "motion capture must overlap in time"
        )
    gyros = _gyros(configuration, series)
    return Run(name, motion, controls, gyros, forces, usable, frequency_hz, tuple(said))


def _gyros(configuration: SalpConfiguration, series: dict[str, Series]) -> tuple[GyroSamples | None, ...]:
    axis, sign = GYRO_AXES[configuration.gyro.axis]
    commands = rim_speeds(configuration.chain, series[COMMAND])
    out: list[GyroSamples | None] = []
    for name in configuration.chain.link_names:
        if (imu := series.get(f"imu/{name}")) is None:
            out.append(None)
            continue
        usable: Mask = np.asarray(np.isfinite(imu.values).all(axis=1), dtype=np.bool_)
        stamps_ns, first = np.unique(imu.stamps_ns[usable], return_index=True)
        rates = sign * imu.values[usable][first, axis]
        out.append(GyroSamples(stamps_ns, rates, in_force(*commands, stamps_ns)))
    return tuple(out)


def _free_of_limits(chain: Chain, motion: Motion) -> tuple[Mask, int]:
    """Where no joint is held by its limit, nor was within the low-pass's reach; and how many instants it was."""
    lower, upper = chain.links[:-1, kernels.LOWER], chain.links[:-1, kernels.UPPER]
    angles = motion.states[:, 3:]
    held = ((angles < lower + _LIMIT_MARGIN_RAD) | (angles > upper - _LIMIT_MARGIN_RAD)).any(axis=1)
    reach = round(motion.rate_hz / motion.cutoff_hz)
    near = np.convolve(held.astype(np.float64), np.ones(2 * reach + 1), mode="same") > 0.5
    return np.asarray(~near, dtype=np.bool_), int(held.sum())


def _strongest_frequency(command: Series, speeds: Array) -> float:
    """Of the commands, from their spectrum; 0 where they are constant or too few."""
    at_s = (command.stamps_ns - command.stamps_ns.min()) * 1e-9
    if len(at_s) < 8 or np.ptp(speeds, axis=0).max() < 1e-6:
        return 0.0
    order = np.argsort(at_s, kind="stable")
    grid_s = np.linspace(0.0, at_s.max(), 4096)
    held = speeds[order][np.clip(np.searchsorted(at_s[order], grid_s, side="right") - 1, 0, None)]
    power = np.square(np.abs(np.fft.rfft(held - held.mean(axis=0), n=8 * len(grid_s), axis=0))).sum(axis=1)
    return float(np.argmax(power) / (8.0 * at_s.max() * len(grid_s) / (len(grid_s) - 1)))


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
