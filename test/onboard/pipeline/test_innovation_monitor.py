"""What is said where innovations contradict a filter for seconds: what, when, how often, and never without reason."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.pipeline.guarded_filter import (
    ALARMED,
    CALM,
    FARTHEST,
    LEAST_READINGS,
    SPAN_S,
    InnovationAlarm,
    InnovationMonitor,
)

Array = NDArray[np.float64]


def innovations(normalised: Array, stddev: float = 0.3) -> list[Innovation]:
    """Of elements (K, m) that are given in their standard deviations, independent of each other."""
    root = stddev * np.eye(normalised.shape[1])
    return [Innovation(stddev * row, root, float(row @ row), True) for row in normalised]


def watched(
    given: Iterable[Innovation], rate_hz: float, agreement: InnovationMonitor | None = None
) -> list[InnovationAlarm]:
    agreement, found = agreement or InnovationMonitor(), []
    for count, innovation in enumerate(given):
        of = round(count / rate_hz * 1e9), innovation.nis, innovation.normalised
        agreement, contradiction = agreement.seen("gyro", *of)
        found += [] if contradiction is None else [contradiction]
    return found


@pytest.mark.parametrize(("size", "rate_hz"), [(1, 1.0), (1, 20.0), (3, 20.0), (6, 4.0)])
def test_a_consistent_filter_is_never_told_of_a_contradiction(size: int, rate_hz: float) -> None:
    """Over three hundred stretches; the rate that the module states is that of the shortest ones."""
    normalised = np.random.default_rng(size).normal(size=(round(300 * max(SPAN_S * rate_hz, LEAST_READINGS)), size))
    assert watched(innovations(normalised), rate_hz) == []
    false_alarms = chi2.sf(ALARMED * LEAST_READINGS, LEAST_READINGS)
    assert 1.0 / false_alarms == pytest.approx(3e8, rel=0.2)


def test_a_twentieth_of_wild_readings_is_the_business_of_the_gate() -> None:
    """A million standard deviations each. One reading in eight would have to be wild."""
    rng = np.random.default_rng(1)
    normalised = rng.normal(size=(50_000, 1))
    normalised[rng.uniform(size=50_000) < 0.05] = 1e6
    assert watched(innovations(normalised), 200.0) == []
    share = (ALARMED - 1.0) / (FARTHEST**2 - 1.0)
    assert share == pytest.approx(1 / 8)
    assert binom.sf(round(share * 1000), 1000, 0.05) < 1e-15


def test_a_contradiction_is_told_once_with_its_sensor_size_side_and_way_out() -> None:
    normalised = np.random.default_rng(2).normal(size=(4000, 1))
    normalised[1000:] -= 7.0
    (found,) = watched(innovations(normalised), 200.0)
    assert (found.sensor, found.span_s) == ("gyro", pytest.approx(SPAN_S))
    assert 5.0 < found.stamp_ns * 1e-9 <= 5.0 + 2 * SPAN_S + 0.1
    (found,) = watched(innovations(normalised[1000:]), 200.0)
    assert found.size == pytest.approx(7.0, abs=0.1)
    assert found.bias == pytest.approx(-7.0, abs=0.1)
    said = found.sentence("train a model")
    assert said.startswith("gyro contradicts the filter: in the 5 s up to 5.000 s its readings were ")
    assert "to one side (mean -7.0" in said
    assert said.endswith(": train a model")
    assert not found.sentence("").endswith(": ")


def test_an_episode_ends_where_readings_agree_and_the_next_is_told_again() -> None:
    rng = np.random.default_rng(4)
    scale = np.repeat([1.0, 3.0, 1.7, 3.0, 1.0, 3.0], 3000)[:, None]
    assert 1.0 < CALM < 1.7**2 < ALARMED
    found = watched(innovations(scale * rng.normal(size=(18_000, 1))), 200.0)
    assert len(found) == 2  # readings of 1.7 standard deviations neither begin an episode nor end one
    assert 15.0 < found[0].stamp_ns * 1e-9 <= 25.0
    assert 75.0 < found[1].stamp_ns * 1e-9 <= 85.0
