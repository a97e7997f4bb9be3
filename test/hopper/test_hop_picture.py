"""The picture of a hop: which hop is cut out, that its file repeats, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.hopper.hop_picture import Trajectory, main, simulated_hop, write_hop_picture
from hopper_estimation.configuration import HopperConfiguration
from onboard_estimation.errors import UserError


@pytest.fixture(scope="module")
def hop():
    return simulated_hop(HopperConfiguration(), "1m", seed=2, number=2)


def test_the_hop_goes_from_apex_to_apex(hop):
    events = [hop.start_apex_s, hop.touchdown_s, hop.max_squat_s, hop.liftoff_s, hop.apex_s]
    assert events == sorted(events)
    np.testing.assert_allclose(np.interp(events, hop.time_s, hop.velocity_m_s)[[0, 2, 4]], 0.0, atol=0.02)
    at_events = np.interp(events, hop.time_s, hop.height_m)
    np.testing.assert_allclose(at_events[[1, 3]], 0.0, atol=0.01)  # standing height, but for uneven boards
    assert at_events[2] == pytest.approx(hop.height_m.min(), abs=1e-5)
    assert hop.height_m.max() == pytest.approx(1.0, abs=0.15)
    np.testing.assert_allclose(np.gradient(hop.height_m, hop.time_s)[5:-5], hop.velocity_m_s[5:-5], atol=0.1)
    duration_s = hop.apex_s - hop.start_apex_s
    assert len(hop.reading_s) == pytest.approx(840.0 * duration_s, rel=0.01)
    in_flight = hop.reading_s < hop.touchdown_s - 0.01
    assert abs(np.mean(hop.low_m_s2[in_flight])) < 3.0
    assert hop.high_m_s2[(hop.reading_s > hop.touchdown_s) & (hop.reading_s < hop.liftoff_s)].mean() > 80.0


def test_later_hops_follow(hop):
    later = simulated_hop(HopperConfiguration(), "1m", seed=2, number=3)
    assert later.start_apex_s == pytest.approx(hop.apex_s)


def test_the_file_repeats_and_shows_the_other_line(hop, tmp_path):
    files = [tmp_path / f"{number}.png" for number in range(3)]
    other = Trajectory(hop.time_s, hop.height_m + hop.standing_height_m + 0.1, hop.velocity_m_s, "KF1")
    write_hop_picture(hop, files[0])
    write_hop_picture(hop, files[1])
    write_hop_picture(hop, files[2], other)
    first, again, with_other = (file.read_bytes() for file in files)
    assert first.startswith(b"\x89PNG")
    assert first == again
    assert with_other != first


def test_what_cannot_be_drawn_is_refused(hop, tmp_path, capsys):
    elsewhere = Trajectory(hop.time_s + 100.0, hop.height_m, hop.velocity_m_s)
    with pytest.raises(UserError, match="no sample of 'estimate' between"):
        write_hop_picture(hop, tmp_path / "x.png", elsewhere)
    with pytest.raises(UserError, match="cannot write"):
        write_hop_picture(hop, tmp_path / "none" / "x.png")
    with pytest.raises(UserError, match="unknown variant '9m'; there are mixed, varied, "):
        simulated_hop(HopperConfiguration(), "9m")
    with pytest.raises(UserError, match="hops count from 1"):
        simulated_hop(HopperConfiguration(), "1m", number=0)
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
    assert main([str(tmp_path / "none" / "x.png")]) == 1
