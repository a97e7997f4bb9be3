"""Identification of the chain's drag: motion from motion capture, flips, coefficients, intervals, validation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.linalg import expm, logm

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.truth import BodyTrack
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.robots import Recording
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.gaits import FORWARD, Gait
from salp_estimation.marker_flips import flipped_frames
from salp_estimation.motion import Motion, motion_from_links, motion_from_tracks
from salp_estimation.simulator import IdealScenario, simulate

CHAIN = ChainConfiguration()
MODEL = CHAIN.build()
LATERAL = Gait((-0.005581, -0.006465, -0.004457), (0.025144, -0.014667, -0.011315), (0.01176, 0.0204, -0.001686))
"""The lateral solution of MODELS, section 1."""
QUIET = IdealScenario(
    gyro_noise_stddev_rad_s=0.0,
    wheel_speed_noise_stddev_m_s=0.0,
    truth_position_stddev_m=0.0,
    truth_heading_stddev_rad=0.0,
)


@cache
def recording(gait: Gait = FORWARD, duration_s: float = 18.0, seed: int = 1, quiet: bool = False) -> Recording:
    """A simulated run; not to be changed."""
    return simulate(CHAIN, gait, duration_s, np.random.default_rng(seed), QUIET if quiet else None)


def tracks(one: Recording) -> dict[str, BodyTrack]:
    return {
        name: BodyTrack.clean(name, series.stamps_ns, series.values)
        for name, series in zip(CHAIN.link_names, one.truth, strict=True)
    }


def links_at(time_s: np.ndarray) -> np.ndarray:
    """Link poses (K, 3, 3) of a smooth made-up motion whose velocities are known, see `velocity_at`."""
    return MODEL.link_poses(state_at(time_s))


def state_at(time_s: np.ndarray) -> np.ndarray:
    w = 2.0 * np.pi / 6.0
    shape = [0.3 * np.sin(w * time_s), 0.25 * np.cos(w * time_s) - 0.1]
    return np.column_stack([0.05 * np.sin(w * time_s), 0.01 * time_s, 2.9 + 0.1 * time_s, *shape])


def velocity_at(time_s: float) -> np.ndarray:
    """Body velocity by the matrix logarithm of a tiny motion, and joint rates by differences."""

    def matrix(state: np.ndarray) -> np.ndarray:
        cosine, sine = np.cos(state[2]), np.sin(state[2])
        return np.array([[cosine, -sine, state[0]], [sine, cosine, state[1]], [0.0, 0.0, 1.0]])

    step = 1e-4
    before, after = state_at(np.array([time_s - step, time_s + step]))
    twist = np.real(logm(np.linalg.inv(matrix(before)) @ matrix(after))) / (2.0 * step)
    assert np.allclose(expm(2.0 * step * twist), np.linalg.inv(matrix(before)) @ matrix(after))
    return np.array([twist[0, 2], twist[1, 2], twist[1, 0], *(after[3:] - before[3:]) / (2.0 * step)])


def stamps(duration_s: float, rate_hz: float) -> np.ndarray:
    return np.round(np.arange(int(duration_s * rate_hz)) * NANOSECONDS_PER_SECOND / rate_hz).astype(np.int64)


def motion_of(at_ns: np.ndarray, poses: np.ndarray, **options: float) -> Motion:
    count = poses.shape[1]
    return motion_from_links(MODEL, [at_ns] * count, [poses[:, i] for i in range(count)], CHAIN.link_names, **options)


@pytest.mark.parametrize("rate_hz", [120.0, 240.0])
def test_motion_without_noise_is_the_derivative(rate_hz: float) -> None:
    """Against matrix logarithms; the stamps are those of a motion capture with jitter, each link with its own."""
    rng = np.random.default_rng(3)
    at_ns, poses = [], []
    for link in range(3):
        at = stamps(14.0, rate_hz) + rng.integers(-500_000, 500_000, int(14.0 * rate_hz))
        at_ns.append(at)
        poses.append(links_at(at / NANOSECONDS_PER_SECOND)[:, link])
    motion = motion_from_links(MODEL, at_ns, poses, CHAIN.link_names)
    assert motion.rate_hz == pytest.approx(rate_hz, rel=0.01)
    assert motion.duration_s == pytest.approx(13.0, abs=0.1)  # half a second at both ends is no good
    for k in np.flatnonzero(motion.valid)[::101]:
        time_s = motion.stamps_ns[k] / NANOSECONDS_PER_SECOND
        np.testing.assert_allclose(motion.rates[k], velocity_at(time_s), atol=2e-4)
        expected = state_at(np.array([time_s]))[0]
        np.testing.assert_allclose(np.delete(motion.states[k], 2), np.delete(expected, 2), atol=1e-4)
        assert np.cos(motion.states[k, 2] - expected[2]) == pytest.approx(1.0, abs=1e-9)


def test_gaps_are_left_out_and_never_made_up() -> None:
    at_ns = stamps(14.0, 120.0)
    poses = links_at(at_ns / NANOSECONDS_PER_SECOND)
    keep = np.ones(len(at_ns), dtype=bool)
    keep[600:606] = False  # 58 ms: bridged, but not valid
    keep[900:1000] = False  # 0.84 s: splits the motion
    motion = motion_of(at_ns[keep], poses[keep])
    assert len(motion.stretches) == 2
    time_s = motion.stamps_ns / NANOSECONDS_PER_SECOND
    assert not motion.valid[(time_s > 4.999) & (time_s < 5.041)].any()
    assert motion.valid[(time_s > 4.0) & (time_s < 4.99)].all()
    assert motion.valid[(time_s > 5.06) & (time_s < 6.9)].all()
    assert not motion.valid[(time_s > 7.02) & (time_s < 8.8)].any()
    for k in np.flatnonzero(motion.valid)[::53]:
        np.testing.assert_allclose(motion.rates[k], velocity_at(time_s[k]), atol=5e-4)


def flip(poses: np.ndarray, start: int, stop: int, link: int, kind: str) -> None:
    if kind == "half turn":
        poses[start:stop, link, 2] += np.pi
    elif kind == "swapped":
        poses[start:stop, [link, (link + 1) % 3]] = poses[start:stop, [(link + 1) % 3, link]]
    elif kind == "marker":
        poses[start:stop, link, :2] += [0.02, -0.015]
    else:
        poses[start:stop, link, 2] += np.deg2rad(12.0)


@pytest.mark.parametrize("kind", ["half turn", "swapped", "marker", "12 deg"])
def test_flips_are_found_left_out_and_counted(kind: str) -> None:
    """Short ones, a long one, one in the beginning: every frame of them, and hardly another; the rates stay right."""
    at_ns = stamps(24.0, 120.0)
    rng = np.random.default_rng(5)
    poses = links_at(at_ns / NANOSECONDS_PER_SECOND)
    poses[..., :2] += rng.normal(0.0, 1e-4, poses[..., :2].shape)
    poses[..., 2] += rng.normal(0.0, np.deg2rad(0.02), poses.shape[:2])
    wrong = np.zeros(poses.shape[:2], dtype=bool)
    for start, stop, link in ((0, 4, 0), (300, 301, 1), (700, 730, 2), (1200, 1560, 0), (2000, 2003, 1)):
        flip(poses, start, stop, link, kind)
        wrong[start:stop, link] = True
        if kind == "swapped":
            wrong[start:stop, (link + 1) % 3] = True
    for link in range(3):
        found = flipped_frames(at_ns, poses[:, link])
        assert found[wrong[:, link]].all()
        assert found[~wrong[:, link]].sum() <= 1
    motion = motion_of(at_ns, poses)
    assert sum(motion.left_out.values()) >= wrong.sum()
    for k in np.flatnonzero(motion.valid)[::67]:
        expected = velocity_at(motion.stamps_ns[k] / NANOSECONDS_PER_SECOND)
        np.testing.assert_allclose(motion.rates[k], expected, atol=5e-3)


def test_clean_motion_has_no_flips() -> None:
    motion = motion_from_tracks(CHAIN, tracks(recording()))
    assert set(motion.left_out.values()) == {0}
    assert motion.open_joints == 0


def test_links_that_do_not_meet_are_refused() -> None:
    at_ns = stamps(8.0, 120.0)
    poses = links_at(at_ns / NANOSECONDS_PER_SECOND)[:, [1, 0, 2]]
    with pytest.raises(UserError, match=r"ends of link_1 and link_2 are .* cm apart"):
        motion_of(at_ns, poses)
    shorter = replace(CHAIN, link_lengths_m=(0.2, 0.2, 0.2)).build()
    poses = links_at(at_ns / NANOSECONDS_PER_SECOND)
    with pytest.raises(UserError, match="link_lengths_m"):
        motion_from_links(shorter, [at_ns] * 3, [poses[:, i] for i in range(3)], CHAIN.link_names)


def test_held_commands_and_sampled_signals_are_means_around_the_instant() -> None:
    at_ns = stamps(8.0, 120.0)
    motion = motion_of(at_ns, links_at(at_ns / NANOSECONDS_PER_SECOND))
    rng = np.random.default_rng(2)
    own_ns = np.sort(rng.integers(0, 8 * NANOSECONDS_PER_SECOND, 150))
    values = rng.normal(size=(150, 2))
    held, sampled = motion.held(own_ns, values), motion.sampled(own_ns, values)
    step_s = 1.0 / motion.rate_hz
    for k in range(60, 900, 97):
        middle = motion.stamps_ns[k] / NANOSECONDS_PER_SECOND
        fine_s = middle + np.linspace(-step_s, step_s, 20001)
        number = np.searchsorted(own_ns, fine_s * NANOSECONDS_PER_SECOND, side="right") - 1
        np.testing.assert_allclose(held[k], values[number].mean(axis=0), atol=1e-3)
        linear = [np.interp(fine_s, own_ns / NANOSECONDS_PER_SECOND, column).mean() for column in values.T]
        np.testing.assert_allclose(sampled[k], linear, atol=1e-3)
    first = own_ns[0] / NANOSECONDS_PER_SECOND + step_s
    assert np.isnan(held[motion.stamps_ns / NANOSECONDS_PER_SECOND < first - 1e-6]).all()


def test_unfit_cutoffs_and_short_recordings_are_refused() -> None:
    at_ns = stamps(8.0, 120.0)
    poses = links_at(at_ns / NANOSECONDS_PER_SECOND)
    for cutoff in (0.0, -1.0, 60.0, float("nan")):
        with pytest.raises(UserError, match="does not fit motion capture at 120 Hz"):
            motion_of(at_ns, poses, cutoff_hz=cutoff)
    with pytest.raises(UserError, match="at least 2 s are needed"):
        motion_of(at_ns[:120], poses[:120])
    with pytest.raises(UserError, match="no motion capture of link_2"):
        motion_from_tracks(CHAIN, {name: one for name, one in tracks(recording()).items() if name != "link_2"})
