"""How many stamps pass where only so many a second are wanted."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.ros.thinning import Thinning

EPOCH_NS = 1_700_000_000_000_000_000


@pytest.mark.parametrize(
    ("rate_hz", "given_hz"), [(1.0, 840.0), (50.0, 30.0), (50.0, 125.0), (100.0, 125.0), (100.0, 600.0)]
)
def test_so_many_pass_as_are_wanted_evenly(rate_hz: float, given_hz: float) -> None:
    thinning = Thinning(rate_hz)
    stamps = EPOCH_NS + np.round(1e9 * np.arange(0.0, 20.0, 1.0 / given_hz)).astype(np.int64)
    passed = np.array([stamp for stamp in stamps.tolist() if thinning.passes(stamp)])
    assert len(passed) == pytest.approx(20.0 * min(rate_hz, given_hz), abs=2)
    for start in passed[::7]:
        assert np.count_nonzero((passed >= start) & (passed < start + 10**9)) <= rate_hz + 1
    gaps_s = np.diff(passed) * 1e-9
    assert gaps_s.max() <= 1.0 / rate_hz + 1.001 / given_hz


def test_stamps_that_fall_back_begin_anew_and_a_gap_is_no_debt() -> None:
    thinning = Thinning(100.0)
    assert thinning.passes(EPOCH_NS)
    assert not thinning.passes(EPOCH_NS)
    assert thinning.time_left_ns(EPOCH_NS + 4_000_000) == 6_000_000
    assert thinning.passes(EPOCH_NS - 10**9)
    assert thinning.passes(EPOCH_NS + 5 * 10**9)
    assert not thinning.passes(EPOCH_NS + 5 * 10**9 + 1_000_000)
    assert thinning.time_left_ns(EPOCH_NS) == 10_000_000  # not five seconds: the clock may have been set back
    thinning.clear()
    assert thinning.passes(EPOCH_NS + 5 * 10**9 + 2_000_000)
    assert thinning.time_left_ns(EPOCH_NS + 6 * 10**9) == 0


def test_what_repeats_a_stamp_passes_where_it_is_to_replace_the_last_and_all_where_no_rate_is_wanted() -> None:
    thinning = Thinning(100.0, repeats=True)
    assert [thinning.passes(EPOCH_NS + ms * 1_000_000) for ms in (0, 0, 5, 5, 10)] == [True, True, False, False, True]
    assert all(map(Thinning(0.0).passes, (0, 0, 1, 5, 3)))
