"""From logs of a calibration to the sensor's errors, and sentences on what the logs do not allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.calibration.logs import (
    POSITIONS,
    SHORTEST_REST_S,
    UP,
    ImuLog,
    Section,
    Turn,
    find_rests,
    find_turns,
    given_turn,
    positions_of,
)
from drivers.calibration.parameter_file import AccelerometerErrors, GyroErrors
from drivers.calibration.procedure import Procedure
from onboard_estimation.base.errors import UserError

# Bias, gain and misalignment of an IMU from six resting positions and three turns.
#
# The sensor reads r = A t + b, with t the true specific force or rate; what is looked for is b and M = inv(A), so that
# t = M (r - b). The procedure is that of Ferraris, Grimaldi and Parvis (Procedure for effortless in-field calibration
# of three-axis rate gyros and accelerometers, Sensors and Materials 7, 1995). There the axes point exactly up and down.
# By hand they do not, and here two kinds of knowledge are weighed: at rest the specific force has the magnitude g, to
# within the noise; and it lies along the axis to within the tilt of a position, some degrees. The first fixes biases
# and gains, the second the misalignment, as well as the tilts allow.
#
# Standard deviations come from repeating the estimate with drawn tilts and noise (GUM, supplement 1): the magnitude is
# quadratic in the tilt, so that a linearisation at small tilts would tell too little.

Array = NDArray[np.float64]

_DRAWS = 400
_SEED = 20
_STEPS = 14
_LEAST_NOISE = 1e-5  # of the magnitude, relative: it keeps the equations regular where a log has no noise


class Fit(NamedTuple):
    """Errors of three axes; `corrected = matrix @ (reading - bias)`.

    Attributes
    ----------
    matrix, matrix_stddev
        (3, 3).
    bias, bias_stddev
        (3,) in the readings' unit.
    """

    matrix: Array
    matrix_stddev: Array
    bias: Array
    bias_stddev: Array


def fit_accelerometer(means_m_s2: Array, noise_m_s2: Array, gravity_m_s2: float, tilt_rad: float) -> Fit:
    """Errors of an accelerometer from its means in the six `POSITIONS`.

    Parameters
    ----------
    means_m_s2, noise_m_s2
        (6, 3) means and their standard deviations, m/s^2, in the sensor's frame.
    gravity_m_s2
        Magnitude of gravity at the place.
    tilt_rad
        Standard deviation of a position's tilt about each of two axes.
    """
    noise = np.maximum(noise_m_s2 / gravity_m_s2, _LEAST_NOISE)
    magnitude_noise = noise.max(axis=1)
    means = means_m_s2 / gravity_m_s2
    matrix, bias = _solved(means[None], magnitude_noise, tilt_rad)
    gain = np.linalg.inv(matrix[0])
    random = np.random.default_rng(_SEED)
    directions = _tilted(UP, tilt_rad, random)
    drawn = directions @ gain.T + bias[0] + noise * random.normal(size=directions.shape)
    matrices, biases = _solved(drawn, magnitude_noise, tilt_rad)
    spreads = _root_mean_square(matrices - matrix[0]), _root_mean_square(biases - bias[0]) * gravity_m_s2
    return Fit(matrix[0], spreads[0], bias[0] * gravity_m_s2, spreads[1])


def fit_gyro_matrix(
    turned_rad: Array, angle_rad: float, angle_stddev_rad: float, tilt_rad: float
) -> tuple[Array, Array]:
    """Gain and misalignment of a gyro from turns, and their standard deviations.

    Parameters
    ----------
    turned_rad
        (3, 3) integral of the readings less their bias over a turn about x, y, z (rows), rad.
    angle_rad, angle_stddev_rad
        The true angle of each, and its standard deviation.
    tilt_rad
        Standard deviation of the tilt of the turn's axis from the sensor's, about each of two axes.
    """
    gain = (turned_rad / angle_rad).T
    random = np.random.default_rng(_SEED)
    drawn = _tilted(np.eye(3), tilt_rad, random)
    drawn *= 1.0 + angle_stddev_rad / angle_rad * random.normal(size=(_DRAWS, 3, 1))
    matrix = np.linalg.inv(gain).astype(np.float64)
    matrices = np.linalg.inv(np.swapaxes(drawn @ gain.T, 1, 2))
    return matrix, _root_mean_square(matrices - matrix)


def _solved(means: Array, magnitude_noise: Array, tilt_rad: float) -> tuple[Array, Array]:
    """(D, 3, 3) matrices and (D, 3) biases from (D, 6, 3) means in units of g: Gauss-Newton, all D at once.

    The unknowns are M and c of y = M r + c, in which the directions' part is linear.
    """
    count = len(means)
    extended = np.concatenate([means, np.ones((count, 6, 1))], axis=2)  # (D, 6, 4)
    # d y_i / d (M, c), row by row: (D, 6, 3, 12).
    jacobian = np.einsum("ij,dpk->dpijk", np.eye(3), extended).reshape(count, 6, 3, 12)
    across = np.where(UP == 0.0, 1.0, 0.0) / tilt_rad  # (6, 3) weights of what a tilt changes to first order
    # The start is Ferraris's: directions as they should be, no magnitudes.
    unknown = np.swapaxes(np.linalg.pinv(extended) @ UP, 1, 2).reshape(count, 12)
    for _ in range(_STEPS):
        found = np.einsum("dpij,dj->dpi", jacobian, unknown)
        norm = np.linalg.norm(found, axis=2, keepdims=True)
        by_magnitude = np.einsum("dpi,dpij->dpj", found / norm, jacobian) / magnitude_noise[:, None]
        residual = np.concatenate([across * (found - UP), (norm - 1.0) / magnitude_noise[:, None]], axis=2)
        slope = np.concatenate([across[..., None] * jacobian, by_magnitude[:, :, None]], axis=2).reshape(count, -1, 12)
        # By QR, not by normal equations: the two weights differ by a factor of a thousand.
        q, r = np.linalg.qr(slope)
        step = np.einsum("dij,di->dj", q, residual.reshape(count, -1))
        unknown = unknown - np.linalg.solve(r, step[..., None])[..., 0]
    solution = unknown.reshape(count, 3, 4)
    matrix: Array = solution[..., :3]
    return matrix, -np.linalg.solve(matrix, solution[..., 3:])[..., 0].astype(np.float64)


def _tilted(directions: Array, tilt_rad: float, random: np.random.Generator) -> Array:
    """(D, n, 3) unit vectors, each tilted from (n, 3) by two normal angles."""
    drawn = tilt_rad * random.normal(size=(_DRAWS, *directions.shape)) * (directions == 0.0) + directions
    return drawn / np.linalg.norm(drawn, axis=2, keepdims=True)


def _root_mean_square(errors: Array) -> Array:
    return np.sqrt(np.mean(errors**2, axis=0))


_NOISE_BLOCK_S = 0.5


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
    sentences: tuple[str, ...] = ()


def calibrate(logs: Sequence[ImuLog], procedure: Procedure, sections: Sequence[Section] | None = None) -> Found:
    """Errors of a sensor from its logs.

    Parameters
    ----------
    sections
        Given for the one log; None: found.

    Raises
    ------
    UserError
        There is no rest at all, a given section contradicts gravity, or the numbers are those of no working sensor.
    """
    resting = [(log, _resting(log, sections)) for log in logs]
    found = [_rest(log, one) for log, places in resting for one in places]
    rests = _labelled(found, procedure.gravity, logs)
    bias, bias_stddev = _gyro_bias(rests)
    turns: list[Turn] = []
    for log, places in resting:
        if log.has_gyro:
            given = [given_turn(log, one, bias) for one in sections or () if one.label.startswith("turn")]
            turns += given if sections else find_turns(log, places, bias, math.radians(procedure.turn_deg))
    sentences = [one.fault for one in turns if one.fault]
    usable = [one for one in turns if not one.fault]
    if not usable and (units := [one for one in sentences if "--gyro-unit" in one]):
        raise UserError(units[0])
    used = {
        name: max(some, key=lambda one: one.section.duration_s)
        for name in POSITIONS
        if (some := [one for one in rests if one.position == name])
    }
    accelerometer = _accelerometer(used, procedure, sentences)
    gyro = _gyro(logs[0].has_gyro, bias, bias_stddev, usable, procedure, sentences)
    means = np.array([one.mean[3:] for one in rests])
    before, after = _residual(means, procedure.gravity), None
    if accelerometer.measured != "nothing":
        matrix = np.reshape(accelerometer.matrix, (3, 3))
        after = _residual((means - np.array(accelerometer.bias_m_s2)) @ matrix.T, procedure.gravity)
    return Found(accelerometer, gyro, tuple(rests), tuple(turns), used, before, after, tuple(sentences))


def _resting(log: ImuLog, sections: Sequence[Section] | None) -> list[Section]:
    """Rests that are given, or found, of which the log has readings."""
    found = [one for one in sections if not one.label.startswith("turn")] if sections else find_rests(log)
    return [one for one in found if len(log.time_s[one.rows(log)]) >= 3]


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
    digit = np.where(steps > 0.0, steps, np.inf).min(axis=0)
    coarse = np.isfinite(digit) & (spread < digit / 2.0)
    noise = np.maximum(noise, np.where(coarse, digit, 0.0) / np.sqrt(12.0))
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


def _accelerometer(used: Mapping[str, Rest], procedure: Procedure, said: list[str]) -> AccelerometerErrors:
    if missing := [name for name in POSITIONS if name not in used]:
        axes = ", ".join(dict.fromkeys(name[1] for name in missing))
        said.append(
            f"accelerometer not calibrated: {len(used)} of 6 positions, {', '.join(missing)} missing; bias and "
            f"gain of {axes} cannot be told apart. Rest 5 s in each position, within 30 degrees"
        )
        return AccelerometerErrors()
    means, noise = (np.array([getattr(used[name], what)[3:] for name in POSITIONS]) for what in ("mean", "noise"))
    fit = fit_accelerometer(means, noise, procedure.gravity, math.radians(procedure.tilt_deg))
    errors = AccelerometerErrors("bias and matrix", *map(_rounded, fit))
    if faults := list(errors.faults()):
        raise UserError("accelerometer", faults)
    cross = float(np.rad2deg(np.max(fit.matrix_stddev)))
    said.append(
        f"misalignment of the accelerometer is known to {cross:.1f} deg, as well as the positions are (--tilt-deg)"
    )
    if short := [name for name, one in used.items() if one.section.duration_s < 2.0 * SHORTEST_REST_S]:
        said.append(f"the rests {', '.join(short)} are shorter than {2.0 * SHORTEST_REST_S:g} s; 5 s tell more")
    return errors


def _gyro(
    has_gyro: bool, bias: Array, bias_stddev: Array, turns: Sequence[Turn], procedure: Procedure, said: list[str]
) -> GyroErrors:
    if not has_gyro:
        said.append("gyro not calibrated: the sensor has none")
        return GyroErrors()
    only_bias = GyroErrors("bias", bias_rad_s=_rounded(bias), bias_stddev_rad_s=_rounded(bias_stddev))
    if missing := sorted(set("xyz").difference(one.axis for one in turns)):
        said.append(
            f"gyro's gains not measured: no turn of {procedure.turn_deg:g} deg about {', '.join(missing)}; "
            "turn by hand once about each axis, with a rest of 2 s before and after, or give --turn-deg"
        )
        return only_bias
    along = [[one.turned_rad * np.sign(one.angle_rad) for one in turns if one.axis == axis] for axis in "xyz"]
    turned = np.array([np.mean(some, axis=0) for some in along])
    longest_s = max(one.section.duration_s for one in turns)
    angle_stddev = float(np.hypot(math.radians(procedure.turn_stddev_deg), bias_stddev.max() * longest_s))
    angle, tilt = math.radians(procedure.turn_deg), math.radians(procedure.tilt_deg)
    matrix, stddev = map(_rounded, fit_gyro_matrix(turned, angle, angle_stddev, tilt))
    errors = replace(only_bias, measured="bias and matrix", matrix=matrix, matrix_stddev=stddev)
    if faults := list(errors.faults()):
        raise UserError("gyro, with the turns found", faults)
    return errors


def _residual(means_m_s2: Array, gravity_m_s2: float) -> float:
    return float(np.sqrt(np.mean((np.linalg.norm(means_m_s2, axis=1) - gravity_m_s2) ** 2)))


def _rounded(values: Array) -> Any:
    """As the file has them: one behind the other."""
    return tuple(float(f"{value:.7g}") for value in values.ravel())
