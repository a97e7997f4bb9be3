"""The picture of a hop: which hop is cut out, and that its file repeats."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from benchmarks.hopper.pictures import Hop, hop_figure, simulated_hop
from hopper_estimation.model.phases import REBOUND, STANCE_DOWN, STANCE_UP


@pytest.fixture(scope="module")
def hop() -> Hop:
    return simulated_hop("1m", seed=2, number=2)


def test_the_hop_goes_from_apex_to_apex(hop: Hop) -> None:
    time_s, height_m, velocity_m_s, _ = hop.motion.T
    touchdown_s, squat_s, liftoff_s = (hop.begins_s(one) for one in (STANCE_DOWN, STANCE_UP, REBOUND))
    events = [time_s[0], touchdown_s, squat_s, liftoff_s, time_s[-1]]
    assert events == sorted(events)
    np.testing.assert_allclose(np.interp(events, time_s, velocity_m_s)[[0, 2, 4]], 0.0, atol=0.02)
    at_events = np.interp(events, time_s, height_m)
    np.testing.assert_allclose(at_events[[1, 3]], 0.0, atol=0.01)  # standing height, but for uneven boards
    assert at_events[2] == pytest.approx(height_m.min(), abs=1e-5)
    assert height_m.max() == pytest.approx(1.0, abs=0.15)
    np.testing.assert_allclose(np.gradient(height_m, time_s)[5:-5], velocity_m_s[5:-5], atol=0.1)
    assert len(hop.readings) == pytest.approx(840.0 * (time_s[-1] - time_s[0]), rel=0.01)
    reading_s, low, high = hop.readings.T
    assert abs(np.mean(low[reading_s < touchdown_s - 0.01])) < 3.0
    assert high[(reading_s > touchdown_s) & (reading_s < liftoff_s)].mean() > 80.0


def test_later_hops_follow(hop: Hop) -> None:
    later = simulated_hop("1m", seed=2, number=3)
    assert later.motion[0, 0] == pytest.approx(hop.motion[-1, 0])


def test_the_picture_repeats(hop: Hop) -> None:
    files = [io.BytesIO() for _ in range(2)]
    for file in files:
        FigureCanvasAgg(hop_figure(hop)).print_png(file, metadata={"Software": None})
    first, again = (file.getvalue() for file in files)
    assert first.startswith(b"\x89PNG")
    assert first == again
