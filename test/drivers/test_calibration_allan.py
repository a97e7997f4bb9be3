"""Noise by the Allan deviation: against its definition, against known noise, and what a log is too short for."""

from __future__ import annotations

import numpy as np
import pytest
from calibration_logs import resting

from drivers.calibration.noise import allan_deviation, axis_noise


def test_definition() -> None:
    """IEEE Std 952, annex C: the mean square of differences of neighbouring means, over all starts."""
    readings = np.random.default_rng(1).normal(size=200).cumsum()
    tau, deviation, _ = allan_deviation(readings, 10.0)
    for time, found in zip(tau, deviation, strict=True):
        m = round(time * 10.0)
        means = [readings[k : k + m].mean() for k in range(len(readings) - m + 1)]
        squares = [(means[k + m] - means[k]) ** 2 for k in range(len(means) - m)]
        assert found == pytest.approx(np.sqrt(np.mean(squares) / 2.0), rel=1e-9)
    assert tau[-1] <= 200 / 10.0 / 9.0


def test_white_noise_and_that_a_constant_tells_nothing() -> None:
    """Ten minutes: the density to 3 %, and nothing else."""
    found = axis_noise(resting(600.0, 0.01, 0.0, 200), 20.0)
    assert found.density == pytest.approx(0.01, rel=0.03)
    assert found.instability is None
    assert found.random_walk is None
    assert len(found.why) == 2
    assert all("rest longer" in one for one in found.why.values())
    found = axis_noise(np.full(5000, 3.0), 20.0)
    assert (found.density, found.instability, found.random_walk) == (None, None, None)
    assert found.why


def test_random_walk() -> None:
    """Two hours: its rise is seen."""
    found = axis_noise(resting(7200.0, 0.01, 1e-3, 201), 20.0)
    assert found.density == pytest.approx(0.01, rel=0.03)
    assert found.random_walk == pytest.approx(1e-3, rel=0.25)
    assert found.instability is None  # there is none: white noise and the walk explain the floor


def test_bias_instability() -> None:
    """Noise of 1 / f with B = 2e-3, two-sided density B^2 / (2 pi f): a floor, to 30 %."""
    random = np.random.default_rng(210)
    count, rate = 144_000, 20.0
    frequency = np.fft.rfftfreq(count, 1.0 / rate)[1:]
    spectrum = (random.normal(size=len(frequency)) + 1j * random.normal(size=len(frequency))) / np.sqrt(2.0)
    spectrum *= np.sqrt(count * rate * 2e-3**2 / (2.0 * np.pi * frequency))
    flicker = np.fft.irfft(np.concatenate([[0.0], spectrum]), count)
    found = axis_noise(flicker + resting(count / rate, 1e-3, 0.0, 211), rate)
    assert found.instability == pytest.approx(2e-3, rel=0.3)
