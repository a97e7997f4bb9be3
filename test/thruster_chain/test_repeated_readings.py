"""Readings of an IMU that repeat themselves: beyond chance it is stuck, and by chance it is not."""

from __future__ import annotations

import numpy as np
import pytest

from thruster_chain_estimation.estimators.repeated_readings import Repetitions


@pytest.mark.parametrize(
    ("digit_of_noise", "stuck", "most"),
    [(0.3, "all", 12), (0.3, "gyro", 30), (0.3, "accelerometer", 12), (3.0, "all", 100), (0.3, "", 0), (4.0, "", 0)],
)
def test_repetitions_beyond_chance_are_told_and_those_by_chance_are_not(
    digit_of_noise: float, stuck: str, most: int
) -> None:
    """Digits of a share of the noise; coarse ones repeat themselves at rest."""
    rng = np.random.default_rng(3)
    values = np.round(rng.normal(size=(4000, 3)) / digit_of_noise)
    used = 0
    if stuck:
        columns = {"all": [0, 1, 2], "gyro": [0], "accelerometer": [1, 2]}[stuck]
        values[-200:, columns] = values[-200, columns]
    state, told = Repetitions(), list[int]()
    for k, value in enumerate(values):
        state, passed = state.heard(np.append(0.005 * k, value))
        used += len(passed)
        if state.stuck:
            told.append(k - (len(values) - 200))
    if stuck:
        assert told
        assert 0 < told[0] <= most
        assert used <= len(values) - 200 + (most if stuck != "all" or digit_of_noise > 1.0 else 1)
    else:
        assert not told
        assert used >= len(values) - 10
