"""From logs of a calibration to the sensor's errors, and sentences on what the logs do not allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.calibration.ferraris import POSITIONS, fit_accelerometer, fit_gyro_matrix
from drivers.calibration.logs import (
    SHORTEST_REST_S,
    ImuLog,
    Section,
    Turn,
    find_rests,
    find_turns,
    given_turn,
    positions_of,
)
from drivers.calibration.parameter_file import AccelerometerErrors, GyroErrors
from onboard_estimation.errors import UserError
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

Array = NDArray[np.float64]

_NOISE_BLOCK_S = 0.5


@dataclass(frozen=True)
class Procedure:
    """What is known of how the calibration was done.

    Attributes
    ----------
    turn_rad, turn_stddev_rad
        Angle of each turn, and its standard deviation.
    tilt_rad
        Standard deviation of a position's and of a turn axis's tilt, about each of two axes.
    gravity_m_s2
        At the place.
    """

    turn_rad: float = 2.0 * np.pi
    turn_stddev_rad: float = float(np.deg2rad(2.0))
    tilt_rad: float = float(np.deg2rad(2.0))
    gravity_m_s2: float = STANDARD_GRAVITY_M_S2


@dataclass(frozen=True, eq=False)
class Rest:
    """A rest: its log, where, which position, mean reading (6,), and the standard deviation of the mean (6,)."""

    log: ImuLog
    section: Section
    position: str
    mean: Array
    noise: Array


@dataclass(frozen=True, eq=False)
class Found:
    """What the logs say.

    Attributes
    ----------
    rests, turns
        All that were found or given.
    positions
        The rest that each position was taken from.
    residual_before_m_s2, residual_after_m_s2
        RMS of | |f| - g | over all rests; the second is None where the accelerometer was not calibrated.
    sentences
        What the logs do not allow, and a way out.
    """

    accelerometer: AccelerometerErrors
    gyro: GyroErrors
    rests: tuple[Rest, ...]
    turns: tuple[Turn, ...]
    positions: Mapping[str, Rest]
    residual_before_m_s2: float
    residual_after_m_s2: float | None
    sentences: tuple[str, ...] = field(default=())


def calibrate(
    logs: Sequence[tuple[ImuLog, ImuLog]], procedure: Procedure, sections: Sequence[Section] | None = None
) -> Found:
    """Errors of a sensor from its logs.

    Parameters
    ----------
    logs
        (log of the sensor, log that rests are found in): the second is of another sensor on the same board where the
        first has no gyro, or is too noisy to show its rests.
    sections
        Given for the one log; None: found.

    Raises
    ------
    UserError
        There is no rest at all, a given section contradicts gravity, or the numbers are those of no working sensor.
    """
    rests: list[Rest] = []
    turns: list[Turn] = []
    sentences: list[str] = []
    resting: list[list[Section]] = []
    for log, reference in logs:
        found = [one for one in sections if not one.label.startswith("turn")] if sections else find_rests(reference)
        resting.append([one for one in found if _holds_readings(log, one)])
        rests += [_rest(log, one) for one in resting[-1]]
    rests = _labelled(rests, procedure.gravity_m_s2, [log for log, _ in logs])
    bias, bias_stddev = _gyro_bias(rests)
    for (log, _), places in zip(logs, resting, strict=True):
        if log.has_gyro and sections:
            turns += [given_turn(log, one, bias) for one in sections if one.label.startswith("turn")]
        elif log.has_gyro:
            some, said = find_turns(log, places, bias, procedure.turn_rad)
            turns += some
            sentences += said
    if not turns and (units := [one for one in sentences if "--gyro-unit" in one]):
        raise UserError(units[0])
    sentences += [one.fault for one in turns if one.fault]
    of_position = {name: [one for one in rests if one.position == name] for name in POSITIONS}
    used = {name: max(some, key=lambda one: one.section.duration_s) for name, some in of_position.items() if some}
    accelerometer, said = _accelerometer(used, procedure)
    sentences += said
    gyro, said = _gyro(logs[0][0].has_gyro, bias, bias_stddev, turns, procedure)
    sentences += said
    means = np.array([one.mean[3:] for one in rests])
    before, after = _residual(means, procedure.gravity_m_s2), None
    if accelerometer.measured != "nothing":
        matrix = np.reshape(accelerometer.matrix, (3, 3))
        after = _residual((means - np.array(accelerometer.bias_m_s2)) @ matrix.T, procedure.gravity_m_s2)
    return Found(accelerometer, gyro, tuple(rests), tuple(turns), used, before, after, tuple(sentences))


def _holds_readings(log: ImuLog, section: Section) -> bool:
    rows = section.rows(log)
    return rows.stop - rows.start >= 3


def _rest(log: ImuLog, section: Section) -> Rest:
    values = log.values[section.rows(log)]
    size = max(round(_NOISE_BLOCK_S / log.period_s), 1)
    count = len(values) // size
    spread = values.std(axis=0)
    noise = spread / np.sqrt(len(values))
    if count > 1:
        # Noise that is not white shows in the means of blocks.
        blocks = values[: count * size].reshape(count, size, 6).mean(axis=1)
        noise = np.maximum(noise, blocks.std(axis=0, ddof=1) / np.sqrt(count))
    # Where noise does not reach the next digit, a mean is no better than a digit.
    steps = np.abs(np.diff(log.values[:20_000], axis=0))
    digit = np.array([column[column > 0.0].min(initial=np.inf) for column in steps.T])
    coarse = np.isfinite(digit) & (spread < digit / 2.0)
    noise = np.where(coarse, np.maximum(noise, np.where(coarse, digit, 0.0) / np.sqrt(12.0)), noise)
    return Rest(log, section, section.label, values.mean(axis=0), noise)


def _labelled(rests: list[Rest], gravity_m_s2: float, logs: Sequence[ImuLog]) -> list[Rest]:
    """With the position that gravity tells; given ones have to agree with it."""
    if not rests:
        seconds = sum(log.time_s[-1] for log in logs)
        raise UserError(
            f"no rest of {SHORTEST_REST_S:g} s in {seconds:.4g} s of {logs[0].name}: put the sensor down for 5 s in "
            "each position, or name the sections in a file for --sections"
        )
    means = np.array([one.mean[3:] for one in rests])
    magnitude = float(np.median(np.linalg.norm(means, axis=1)))
    if 0.8 < magnitude < 1.25:
        raise UserError(
            f"{rests[0].log.name}: at rest the accelerometer reads {magnitude:.3f} m/s^2, which looks like g; for a "
            "table give --accelerometer-unit g"
        )
    labels = positions_of(means, gravity_m_s2)
    for one, label in zip(rests, labels, strict=True):
        if one.position and one.position != label:
            reading = ", ".join(f"{value:.2f}" for value in one.mean[3:])
            raise UserError(
                f"section {one.position} from {one.section.start_s:g} s reads ({reading}) m/s^2: gravity says "
                f"{label or 'none of the six positions'}"
            )
    return [replace(one, position=label) for one, label in zip(rests, labels, strict=True)]


def _gyro_bias(rests: Sequence[Rest]) -> tuple[Array, Array]:
    """(3,) mean over all rests, rad/s, and its standard deviation: that of the rests' spread, where it is larger."""
    weights = np.array([one.section.duration_s for one in rests])
    weights = weights / weights.sum()
    means, noise = np.array([one.mean[:3] for one in rests]), np.array([one.noise[:3] for one in rests])
    bias = weights @ means
    stddev = np.sqrt(weights**2 @ noise**2)
    if len(rests) > 1:
        spread = np.sqrt(weights @ (means - bias) ** 2 * len(rests) / (len(rests) - 1))
        stddev = np.maximum(stddev, spread * np.sqrt(weights @ weights))
    return bias, stddev


def _accelerometer(used: Mapping[str, Rest], procedure: Procedure) -> tuple[AccelerometerErrors, list[str]]:
    if missing := [name for name in POSITIONS if name not in used]:
        axes = ", ".join(dict.fromkeys(name[1] for name in missing))
        return AccelerometerErrors(), [
            f"accelerometer not calibrated: {len(used)} of 6 positions, {', '.join(missing)} missing; bias and "
            f"gain of {axes} cannot be told apart. Rest 5 s in each position, within 30 degrees"
        ]
    means, noise = (np.array([getattr(used[name], what)[3:] for name in POSITIONS]) for what in ("mean", "noise"))
    fit = fit_accelerometer(means, noise, procedure.gravity_m_s2, procedure.tilt_rad)
    errors = AccelerometerErrors("bias and matrix", *map(_rounded, fit))
    if faults := list(errors.faults()):
        raise UserError("accelerometer", faults)
    cross = float(np.rad2deg(np.max(fit.matrix_stddev)))
    said = [f"misalignment of the accelerometer is known to {cross:.1f} deg, as well as the positions are (--tilt-deg)"]
    short = [name for name, one in used.items() if one.section.duration_s < 2.0 * SHORTEST_REST_S]
    if short:
        said.append(f"the rests {', '.join(short)} are shorter than {2.0 * SHORTEST_REST_S:g} s; 5 s tell more")
    return errors, said


def _gyro(
    has_gyro: bool, bias: Array, bias_stddev: Array, turns: Sequence[Turn], procedure: Procedure
) -> tuple[GyroErrors, list[str]]:
    if not has_gyro:
        return GyroErrors(), ["gyro not calibrated: the sensor has none"]
    of_axis = {axis: [one for one in turns if one.axis == axis and not one.fault] for axis in "xyz"}
    only_bias = GyroErrors("bias", _rounded(bias), _rounded(bias_stddev))
    if missing := [axis for axis, some in of_axis.items() if not some]:
        return only_bias, [
            f"gyro's gains not measured: no turn of {np.rad2deg(procedure.turn_rad):g} deg about {', '.join(missing)}; "
            "turn by hand once about each axis, with a rest of 2 s before and after, or give --turn-deg"
        ]
    along = {axis: [one.turned_rad * np.sign(one.angle_rad) for one in some] for axis, some in of_axis.items()}
    turned = np.array([np.mean(along[axis], axis=0) for axis in "xyz"])
    longest_s = max(one.section.duration_s for one in turns)
    angle_stddev = float(np.hypot(procedure.turn_stddev_rad, bias_stddev.max() * longest_s))
    angles = np.full(3, procedure.turn_rad)
    matrix, matrix_stddev = fit_gyro_matrix(turned, angles, angle_stddev, procedure.tilt_rad)
    errors = replace(
        only_bias, measured="bias and matrix", matrix=_rounded(matrix), matrix_stddev=_rounded(matrix_stddev)
    )
    if faults := list(errors.faults()):
        raise UserError("gyro, with the turns found", faults)
    return errors, []


def _residual(means_m_s2: Array, gravity_m_s2: float) -> float:
    return float(np.sqrt(np.mean((np.linalg.norm(means_m_s2, axis=1) - gravity_m_s2) ** 2)))


def _rounded(values: Array) -> Any:
    """As the file has them: one behind the other."""
    return tuple(float(f"{value:.7g}") for value in values.ravel())
