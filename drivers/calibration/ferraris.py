"""Bias, gain and misalignment of an IMU from six resting positions and three turns.

The sensor reads r = A t + b, with t the true specific force or rate; what is looked for is b and M = inv(A), so that
t = M (r - b). The procedure is that of Ferraris, Grimaldi and Parvis (Procedure for effortless in-field calibration of
three-axis rate gyros and accelerometers, Sensors and Materials 7, 1995). There the axes point exactly up and down. By
hand they do not, and here two kinds of knowledge are weighed: at rest the specific force has the magnitude g, to within
the noise; and it lies along the axis to within the tilt of a position, some degrees. The first fixes biases and gains,
the second the misalignment, as well as the tilts allow.

Standard deviations come from repeating the estimate with drawn tilts and noise (GUM, supplement 1): the magnitude is
quadratic in the tilt, so that a linearisation at small tilts would tell too little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

POSITIONS = ("+x", "-x", "+y", "-y", "+z", "-z")
"""Which axis of the sensor points up, so that it reads + or - g there."""
UP: Array = np.kron(np.eye(3), np.array([[1.0], [-1.0]]))
"""(6, 3) direction of the specific force in these positions, sensor frame."""

_DRAWS = 400
_SEED = 20
_STEPS = 15
_LEAST_NOISE = 1e-5  # of the magnitude, relative: it keeps the equations regular where a log has no noise


class Fit(NamedTuple):
    """Errors of three axes; `corrected = matrix @ (reading - bias)`.

    Attributes
    ----------
    bias, bias_stddev
        (3,) in the readings' unit.
    matrix, matrix_stddev
        (3, 3).
    """

    bias: Array
    bias_stddev: Array
    matrix: Array
    matrix_stddev: Array


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
    return Fit(
        bias[0] * gravity_m_s2,
        _root_mean_square(biases - bias[0]) * gravity_m_s2,
        matrix[0],
        _root_mean_square(matrices - matrix[0]),
    )


def fit_gyro_matrix(
    turned_rad: Array, angles_rad: Array, angle_stddev_rad: float, tilt_rad: float
) -> tuple[Array, Array]:
    """Gain and misalignment of a gyro from turns, and their standard deviations.

    Parameters
    ----------
    turned_rad
        (3, 3) integral of the readings less their bias over a turn about x, y, z (rows), rad.
    angles_rad
        (3,) the true angle of each, with its sign.
    angle_stddev_rad
        Standard deviation of that angle.
    tilt_rad
        Standard deviation of the tilt of the turn's axis from the sensor's, about each of two axes.
    """
    gain = (turned_rad / angles_rad[:, None]).T
    random = np.random.default_rng(_SEED)
    size = (_DRAWS, 3, 1)
    drawn = _tilted(np.eye(3), tilt_rad, random) * (
        1.0 + angle_stddev_rad / angles_rad[:, None] * random.normal(size=size)
    )
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
    unknown = np.tile(np.eye(3, 4).ravel(), (count, 1))
    # The first step is Ferraris's: directions as they should be, no magnitudes.
    weights = np.full((6, 3), 1.0 / tilt_rad)
    for step in range(_STEPS):
        found = np.einsum("dpij,dj->dpi", jacobian, unknown)
        if step == 0:
            residual, slope = weights * (found - UP), weights[..., None] * jacobian
        else:
            norm = np.linalg.norm(found, axis=2, keepdims=True)
            magnitude = (norm - 1.0) / magnitude_noise[:, None]
            by_magnitude = (
                np.einsum("dpi,dpij->dpj", found / norm, jacobian)[:, :, None] / magnitude_noise[:, None, None]
            )
            residual = np.concatenate([across * (found - UP), magnitude], axis=2)
            slope = np.concatenate([across[..., None] * jacobian, by_magnitude], axis=2)
        slope, residual = slope.reshape(count, -1, 12), residual.reshape(count, -1)
        # By QR, not by normal equations: the two weights differ by a factor of a thousand.
        q, r = np.linalg.qr(slope)
        unknown = unknown - np.linalg.solve(r, np.einsum("dij,di->dj", q, residual)[..., None])[..., 0]
    solution = unknown.reshape(count, 3, 4)
    matrix: Array = solution[..., :3]
    return matrix, -np.linalg.solve(matrix, solution[..., 3:])[..., 0].astype(np.float64)


def _tilted(directions: Array, tilt_rad: float, random: np.random.Generator) -> Array:
    """(D, n, 3) unit vectors, each tilted from (n, 3) by two normal angles."""
    drawn = tilt_rad * random.normal(size=(_DRAWS, *directions.shape)) * (directions == 0.0) + directions
    return drawn / np.linalg.norm(drawn, axis=2, keepdims=True)


def _root_mean_square(errors: Array) -> Array:
    out: Array = np.sqrt(np.mean(errors**2, axis=0))
    return out
