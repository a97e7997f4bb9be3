"""Training data of residual models: what a chain did and what it was asked, from bags with motion capture.

One `TrainingRun` is one recording. Rates come from motion capture by groupwise differences and a low-pass (`motion`),
commands and gyros go through the same differences and the same low-pass, so that all belong to the same instants. They
are then taken at 5 Hz: the paper's rate (section V-B).

Of any other run it is told how much lies outside of the data that a model was trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import Note
from salp_estimation.estimators.chain_estimator import COMMAND, COMMAND_LAG_S, GYRO_AXES, STANDING_M_S
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.training.motion import DEFAULT_CUTOFF_HZ, motion_from_tracks

Rows = NDArray[np.float64]
Stamps = NDArray[np.int64]

TRAINING_RATE_HZ = 5.0
MARGIN = 0.05
"""The covered range of an input is widened by this share of it, on either side: so far a model carries."""
WORTH_SAYING = 0.05
"""A larger share of the run outside belongs into the verdict."""
_MOST_NAMED = 4


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
    controls, slopes
        (K, N) lagged rim speeds, m/s, and their time derivatives, m/s^2.
    gyro
        (K, N) rad/s, less its bias.
    gyro_noise
        (N, 2): standard deviation of one gyro sample at rest, rad/s, and its growth with the own wheel's rim speed,
        rad/s per m/s.
    gyro_bias
        (N,) rad/s, found against motion capture.
    left_out
        Frames with flipped markers, by link.
    """

    label: str
    time_s: Vector
    joint_angles: Rows
    rates: Rows
    controls: Rows
    slopes: Rows
    gyro: Rows
    gyro_noise: Rows
    gyro_bias: Vector
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
    axis, sign = GYRO_AXES[configuration.gyro.axis]
    imus = [series[f"imu/{name}"] for name in chain.link_names]
    raw = [(one.stamps_ns, sign * one.values[:, IMU.angular_velocity][:, axis]) for one in imus]
    gyro = np.hstack([motion.low_pass(motion.sampled(at, rate[:, None])) for at, rate in raw])
    time_s = (motion.stamps_ns - motion.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    columns = (motion.rates, controls, slopes, gyro)
    usable = motion.valid & np.all([np.isfinite(one).all(axis=1) for one in columns], axis=0)
    # From the first command on: before it the robot rests, and nothing is learned of how it moves.
    usable &= np.abs(lagged).max(axis=1) > STANDING_M_S
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
        controls[rows],
        slopes[rows],
        gyro[rows] - bias,
        np.array(noise),
        bias,
        dict(motion.left_out),
    )


def link_rates(rates: Rows) -> Rows:
    """Turning rates (K, N) of the links from rates (K, N + 2) of the base frame, which has the mean heading."""
    joint_rates = rates[:, 3:]
    count = joint_rates.shape[1] + 1
    relative = np.hstack([np.zeros((len(rates), 1)), np.cumsum(joint_rates, axis=1)])
    turning: Rows = rates[:, 2:3] + relative - relative.sum(axis=1, keepdims=True) / count
    return turning


def rim_speeds(chain: ChainConfiguration, command: Series) -> tuple[Stamps, Rows]:
    """Stamps (M,), in order, and rim speeds (M, N), m/s, of the commands that are numbers."""
    known = np.isfinite(command.values).all(axis=1)
    order = np.argsort(command.stamps_ns[known], kind="stable")
    return command.stamps_ns[known][order], command.values[known][order] * chain.signed_wheel_radii_m


def in_force(stamps_ns: Stamps, speeds: Rows, at_ns: Stamps) -> Rows:
    """(K, N) of the last command (M, N) until then, zero before the first one."""
    out: Rows = np.vstack([np.zeros(speeds.shape[1]), speeds])[np.searchsorted(stamps_ns, at_ns, side="right")]
    return out


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


def outside(model: ResidualModel, joint_angles: Rows, controls: Rows) -> tuple[float, dict[str, float]]:
    """Shares of a run, in [0, 1], at which the inputs of a model lie outside its training data.

    Parameters
    ----------
    joint_angles, controls
        (K, N - 1), rad, and lagged rim speeds (K, N), m/s; rows with NaN do not count.

    Returns
    -------
    At which at least one does; and of those inputs that do at all, by name, the largest first.
    """
    conditions = model.header.training
    lowest, highest = np.array(conditions.input_lowest), np.array(conditions.input_highest)
    margin = MARGIN * (highest - lowest)
    inputs = np.hstack([joint_angles, controls])
    inputs = inputs[np.isfinite(inputs).all(axis=1)]
    if not len(inputs):
        return 0.0, {}
    beyond = (inputs < lowest - margin) | (inputs > highest + margin)
    shares: Vector = beyond.mean(axis=0)
    names, order = model.header.input_names, np.argsort(-shares, kind="stable")
    return float(beyond.any(axis=1).mean()), {names[k]: float(shares[k]) for k in order if shares[k] > 0.0}


def model_notes(
    configuration: SalpConfiguration,
    model: ResidualModel,
    series: Sequence[Series],
    stamps_ns: NDArray[np.int64],
    joint_angles: Rows,
) -> tuple[Note, ...]:
    """With which model a run was estimated, and how much of it lies outside the training data.

    Parameters
    ----------
    stamps_ns, joint_angles
        (K,) and (K, N - 1), of the estimates.
    """
    training = model.header.training
    trained = (
        f"Residual model of the form {model.header.kind}, trained with {training.point_count} points of "
        f"{len(training.runs)} runs."
    )
    command = next((one for one in series if one.channel.sensor == COMMAND and len(one.stamps_ns)), None)
    chain = configuration.chain
    controls = np.zeros((len(stamps_ns), len(chain.link_names)))
    if command is not None:
        given_ns, speeds = rim_speeds(chain, command)
        if len(given_ns):
            controls = lagged_commands(given_ns, speeds, stamps_ns)
    any_input, by_input = outside(model, joint_angles, controls)
    if any_input == 0.0:
        return (Note(f"{trained} All of the run lies within its training data."),)
    names = [f"{name} {100.0 * share:.3g} %" for name, share in list(by_input.items())[:_MOST_NAMED]]
    more = len(by_input) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    share = f"{100.0 * any_input:.2g} % of the run"
    # The inputs that are outside for at least half as long as the worst one: those to be trained.
    worst = max(by_input.values())
    blamed = [name for name, one in by_input.items() if one >= 0.5 * worst][:_MOST_NAMED]
    verdict = f"{share} is outside the training data ({', '.join(blamed)})" if any_input > WORTH_SAYING else ""
    return (Note(f"{trained} {share} is outside its training data: {listed}.", verdict),)
