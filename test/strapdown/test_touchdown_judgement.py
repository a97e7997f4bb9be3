"""Matching of onsets against SciPy's matching, cleaning of runs by hand, references, and the simplest height filter."""

from __future__ import annotations

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from benchmarks.strapdown.touchdowns import (
    cleaned_runs,
    label_onsets,
    match_onsets,
    match_stances,
    stances_from_force,
    stances_from_position,
)
from benchmarks.strapdown.walks import TouchdownHeight, filter_height
from onboard_estimation.base.errors import UserError

MILLISECONDS = st.lists(st.integers(0, 1000), unique=True, max_size=25)


@given(MILLISECONDS, MILLISECONDS)
def test_as_many_are_matched_as_can_be(reference: list[int], found: list[int]) -> None:
    matches = match_onsets(np.array(reference) * 1e-3, np.array(found) * 1e-3)
    near = np.abs(np.array(reference, dtype=int)[:, None] - np.array(found, dtype=int)[None, :]) <= 50
    most = np.sum(maximum_bipartite_matching(csr_matrix(near), perm_type="column") >= 0) if near.size else 0
    assert len(matches.errors_s) == most
    assert (np.abs(matches.errors_s) < 0.0501).all()


def test_shares() -> None:
    matches = match_onsets(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.04, 2.06, 3.98]))
    np.testing.assert_allclose(matches.errors_s, [0.04, -0.02])
    assert (matches.recall, matches.precision) == (0.5, 2 / 3)
    nothing = match_onsets(np.array([]), np.array([]))
    assert np.isnan(nothing.recall)
    assert np.isnan(nothing.precision)


def test_two_in_one_stance_are_one_and_one_false() -> None:
    stances = np.array([[1.0, 2.0], [3.0, 4.0]])
    matches = match_stances(stances, np.array([0.96, 1.5, 2.5]))
    assert (len(matches.errors_s), matches.reference_count, matches.found_count) == (1, 2, 3)


def test_gaps_are_merged_before_short_runs_are_dropped() -> None:
    times = 0.01 * np.arange(100)
    flags = np.zeros(100, dtype=bool)
    flags[0:20] = flags[40:46] = flags[52:58] = flags[80:85] = True
    runs = cleaned_runs(flags, times, 0.1, 0.1)
    np.testing.assert_allclose(runs, [[0.0, 0.19], [0.40, 0.57]])
    np.testing.assert_allclose(label_onsets(flags, times), [0.40])
    assert cleaned_runs(flags, times, 0.0, 0.3).shape == (0, 2)
    with pytest.raises(UserError, match="100 flags for 99 times"):
        cleaned_runs(flags, times[1:], 0.1, 0.1)


def test_stances_from_position_need_both_slow_and_low() -> None:
    times = 0.005 * np.arange(800)
    height = np.interp(times, [0.0, 1.0, 1.2, 2.0, 2.2, 4.0], [0.0, 0.0, 0.3, 0.3, 0.0, 0.0])
    position = np.column_stack([np.zeros((800, 2)), height])
    position[50] += 5.0  # a single outlier
    stances = stances_from_position(position, times)
    np.testing.assert_allclose(stances, [[0.0, 1.0], [2.2, 3.995]], atol=0.02)


def test_stances_from_force() -> None:
    times = 0.002 * np.arange(1000)
    force = np.where((times > 0.5) & (times < 1.0), 300.0, 50.0)
    force[300] = 10.0  # a drop-out within the stance
    force[100:110] = 300.0  # a knock
    np.testing.assert_allclose(stances_from_force(force, times, 120.0), [[0.502, 0.998]])


@pytest.mark.parametrize("speed_stddev", [None, 0.05])
def test_height_filter_against_filterpy(speed_stddev: float | None) -> None:
    rng = np.random.default_rng(3)
    stamps = np.cumsum(rng.integers(3_000_000, 7_000_000, 400))
    acceleration = rng.normal(0.0, 2.0, 400)
    touchdowns = stamps[[80, 81, 200, 399]] - 1
    p = TouchdownHeight(0.1, 0.02, speed_stddev)
    ours = filter_height(stamps, acceleration, touchdowns, p)
    theirs = KalmanFilter(dim_x=2, dim_z=1)
    theirs.x, theirs.P = np.zeros(2), np.zeros((2, 2))
    expected = [(0.0, 0.0)]
    for k in range(1, 400):
        dt = (stamps[k] - stamps[k - 1]) * 1e-9
        theirs.F = np.array([[1.0, dt], [0.0, 1.0]])
        theirs.Q = 0.01 * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
        theirs.predict(u=np.array([(acceleration[k - 1] + acceleration[k]) / 2]), B=np.array([[dt**2 / 2], [dt]]))
        if k in (80, 81, 200, 399):
            theirs.update(0.0, R=0.02**2, H=np.array([[1.0, 0.0]]))
            if speed_stddev is not None:
                theirs.update(0.0, R=speed_stddev**2, H=np.array([[0.0, 1.0]]))
        expected.append((theirs.x[0], np.sqrt(theirs.P[0, 0])))
    np.testing.assert_allclose(ours, expected, atol=1e-10)


def test_height_filter_refuses_disordered_stamps() -> None:
    with pytest.raises(UserError, match="1 of 2 steps"):
        filter_height(np.array([0, 2, 1]), np.zeros(3), np.array([], dtype=np.int64))
    with pytest.raises(UserError, match="2 accelerations for 3"):
        filter_height(np.array([0, 1, 2]), np.zeros(2), np.array([], dtype=np.int64))
