"""What is found of the high-g sensor's offset: its size, how sure it is, and where there is none to be found."""

from __future__ import annotations

import numpy as np
import pytest

from drivers.at_rest import high_g_offset
from onboard_estimation.base.errors import UserError

G = 9.80665
OFFSET = np.array([4.0, -3.0, 2.0])
DIGIT = 0.098 * G


def low_g(rng: np.random.Generator, count: int = 840) -> np.ndarray:
    """Standing, along the body's axes."""
    return rng.normal([0.02, -0.01, 0.005, 0.1, -0.1, 9.8], [0.001] * 3 + [0.06] * 3, (count, 6))


def high_g(rng: np.random.Generator, count: int = 840, offset: np.ndarray = OFFSET, noise: float = 4.6) -> np.ndarray:
    """The same in digits of 98 mg, with the noise of the simulated hopper's sensor."""
    force = np.add([0.1, -0.1, 9.8], offset) + rng.normal(0.0, noise, (count, 3))
    return np.hstack([np.full((count, 3), np.nan), DIGIT * np.round(force / DIGIT)])


def test_the_offset_is_found_within_the_uncertainty_that_is_told() -> None:
    scaled, twice = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        offset, stddev, _ = high_g_offset(low_g(rng), high_g(rng), np.zeros(3))
        np.testing.assert_allclose(stddev, 4.6 / np.sqrt(840), rtol=0.6)
        scaled.append((offset - OFFSET) / stddev)
        twice.append(high_g_offset(low_g(rng), np.repeat(high_g(rng, 420), 2, axis=0), np.zeros(3))[1])
    # By the number of batches Student's t of 24 degrees of freedom: standard deviation 1.04.
    assert np.std(scaled) == pytest.approx(1.04, abs=0.12)
    assert np.abs(scaled).max() < 5.0
    assert np.mean(twice) == pytest.approx(4.6 / np.sqrt(420), rel=0.1)  # what comes twice makes it no surer


def test_what_is_no_offset_is_refused_with_numbers() -> None:
    rng = np.random.default_rng(3)
    low, high = low_g(rng), high_g(rng)
    turning, shaken, hanging = low.copy(), high.copy(), high.copy()
    turning[:, 1] += np.linspace(-1.0, 1.0, len(low))
    shaken[:, 5] += 18.0 * np.sin(np.arange(len(high)))
    hanging[:, 4] = DIGIT
    fallen = high_g(rng, offset=np.array([0.0, 0.0, -2.0 * G]))
    for first, second, words in (
        (low[:0], high, "imu/low_g: 0 readings in the last second, 100 are needed"),
        (low, high[:99], "imu/high_g: 99 readings"),
        (turning, high, r"imu/low_g moves: its readings vary by 0.5\d rad/s, at rest by less than 0.05; let the robot"),
        (low, shaken, r"imu/high_g moves: its readings vary by 1[2-5]\.\d\d m/s\^2, at rest by less than 10; let the"),
        (low, hanging, "imu/high_g reads the same all the time along y: its chip hangs"),
        (low, fallen, r"z -19.\d+ \+- 0\.\d\d m/s\^2: 19.\d is no offset, .*set mounting.high_g_axes"),
    ):
        with pytest.raises(UserError, match=words):
            high_g_offset(first, second, np.zeros(3))
