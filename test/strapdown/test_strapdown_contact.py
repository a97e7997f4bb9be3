"""Contact detector, alignment at rest, and levels of ground."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from onboard_estimation.filtering.moments import Moments
from strapdown_estimation.estimators.alignment import align_at_rest, level
from strapdown_estimation.estimators.contact import (
    ORIGIN,
    UNSEEN,
    Claim,
    ContactState,
    GroundState,
    Level,
    Levels,
    detected,
    height_noise,
    match,
    stand_on,
    window_energy,
)
from strapdown_estimation.model.configuration import Contact, Ground, Strapdown
from strapdown_estimation.model.state import SPACE

STEP_NS = 5_000_000


def still(rng: np.random.Generator, count: int) -> np.ndarray:
    """(count, 6) readings of a level IMU at rest, noise as in the recorded walks."""
    return np.hstack([rng.normal(0.0, 0.008, (count, 3)), rng.normal([0.0, 0.0, 9.81], 0.02, (count, 3))])


def offset(gyro: object = (0, 0, 0), force: object = (0, 0, 0)) -> np.ndarray:
    return np.concatenate([np.asarray(gyro, dtype=float), np.asarray(force, dtype=float)])


def run(readings: np.ndarray, state: ContactState = UNSEEN, start: int = 0) -> tuple[list[Claim], ContactState]:
    claims = []
    for k, one in enumerate(readings):
        state = detected(Contact(), state, (start + k) * STEP_NS, one)
        claims.append(state.claim)
    return claims, state


def test_energy_is_the_likelihood_ratio_statistic() -> None:
    """Skog et al., eq. (13), written out."""
    rng = np.random.default_rng(0)
    window = rng.normal(0.0, [1, 1, 1, 5, 5, 5], (11, 6)) + offset(force=[3, 4, 8])
    mean = window[:, 3:].mean(axis=0)
    deviation = window[:, 3:] - 9.81 * mean / np.linalg.norm(mean)
    rate, force = window_energy(window, np.array([0.1, 0.0, -0.1, 9.81]))
    assert rate == pytest.approx(np.sqrt(np.mean(np.sum((window[:, :3] - [0.1, 0.0, -0.1]) ** 2, axis=1))))
    assert force == pytest.approx(np.sqrt(np.mean(np.sum(deviation**2, axis=1))))


def test_unknown_bias_does_not_count() -> None:
    """Before alignment only what changes counts: a constant offset on any axis leaves the energy as it is."""
    window = still(np.random.default_rng(1), 11)
    unknown = np.full(4, np.nan)
    shifted = window + offset(gyro=[0.3, -0.2, 0.1], force=[0, 0, 0.8])
    np.testing.assert_allclose(window_energy(window, unknown), window_energy(shifted, unknown), rtol=0.05)


def test_rest_needs_its_duration() -> None:
    claims, _ = run(still(np.random.default_rng(2), 100))
    first = next(k for k, claim in enumerate(claims) if claim.at_rest)
    assert 0.3 - 0.055 - 1e-9 <= first * 0.005 <= 0.3
    assert all(claim.at_rest for claim in claims[first:])
    assert not any(claim.in_contact for claim in claims[:2])
    assert all(claim.in_contact for claim in claims[2:])


def test_threshold_follows_the_motion() -> None:
    """What is no contact after a slow motion is one after a quick one, until that is forgotten."""
    parameters = Contact()
    rng = np.random.default_rng(3)
    for swing, contact in ((1.0, False), (8.0, True)):
        moving = still(rng, 40) + offset(gyro=[0, swing, 0])
        rolling = still(rng, 30) + offset(gyro=[0, 0.3, 0])
        claims, _ = run(np.vstack([moving, rolling]), UNSEEN.calibrated(np.zeros(3), 9.81))
        assert not claims[39].in_contact
        assert claims[-1].in_contact is contact
        assert claims[-1].threshold == pytest.approx(
            max(parameters.rest_energy_rad_s, 0.2 * (swing * np.exp(-30 * 0.005) - 0.5)), rel=0.03
        )


def test_a_slow_lift_is_no_contact() -> None:
    """A steady lift that trembles as a hand does: a fixed threshold that finds fast stances would take it."""
    rng = np.random.default_rng(4)
    tremble = rng.normal(0.0, [0.25, 0.25, 0.25, 0.5, 0.5, 0.5], (200, 6))
    readings = np.vstack([still(rng, 100), still(rng, 200) + tremble, still(rng, 100)])
    claims, _ = run(readings, UNSEEN.calibrated(np.zeros(3), 9.81))
    assert all(claim.in_contact for claim in claims[2:100])
    assert not any(claim.in_contact for claim in claims[115:300])
    assert all(claim.in_contact for claim in claims[312:])


def test_detector_goes_on_from_a_state_that_was_kept() -> None:
    readings = still(np.random.default_rng(5), 60) * np.linspace(1.0, 1.2, 60)[:, None]
    _, kept = run(readings[:30])
    first, _ = run(readings[30:], kept, 30)
    assert run(readings[30:], kept, 30)[0] == first
    assert first == run(readings)[0][30:]


def test_a_forgotten_peak_makes_contact_rest() -> None:
    rng = np.random.default_rng(7)
    swing, roll = still(rng, 40) + offset(gyro=[0, 8.0, 0]), still(rng, 40) + offset(gyro=[0, 0.3, 0])
    claims, rolling = run(np.vstack([swing, roll[:20]]), UNSEEN.calibrated(np.zeros(3), 9.81))
    assert claims[-1].in_contact
    assert run(roll[20:], rolling, 60)[0][-1].in_contact
    assert not run(roll[20:], rolling._replace(peak=0.0), 60)[0][-1].in_contact


@given(st.integers(0, 2**32 - 1))
def test_level_is_level_with_heading_zero(seed: int) -> None:
    force = np.random.default_rng(seed).normal(size=3)
    attitude = level(force)
    np.testing.assert_allclose(attitude.apply(force), [0, 0, np.linalg.norm(force)], atol=1e-12)
    assert np.linalg.det(attitude.as_matrix()) == pytest.approx(1.0)
    forward, left = attitude.apply([1.0, 0, 0]), attitude.apply([0, 1.0, 0])
    if abs(forward[2]) < np.cos(np.deg2rad(15.0)):
        assert forward[0] > 0.0
        assert abs(forward[1]) < 1e-12
    else:
        assert left[1] > 0.0
        assert abs(left[0]) < 1e-12


@pytest.mark.parametrize("up", [[0, 0, 1.0], [0, 0, -1.0], [1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0]])
def test_level_on_every_side(up: list[float]) -> None:
    np.testing.assert_allclose(level(9.81 * np.array(up)).apply(up), [0, 0, 1.0], atol=1e-15)


def test_alignment_is_as_sure_as_it_should_be() -> None:
    """Errors of many drawn starts against the stated covariance: tilt, biases, and how they hang together."""
    configuration = Strapdown()
    rng = np.random.default_rng(6)
    errors, covariances = [], []
    for _ in range(400):
        true = Rotation.random(random_state=rng)
        bias_a = rng.normal(0.0, configuration.imu.accelerometer_bias_stddev_m_s2, 3)
        bias_g = rng.normal(0.0, configuration.imu.gyro_bias_stddev_rad_s, 3)
        gravity = rng.normal(configuration.start.gravity_m_s2, configuration.start.gravity_stddev_m_s2)
        gyro = bias_g + rng.normal(0.0, 0.008, (60, 3))
        force = true.inv().apply([0, 0, gravity]) + bias_a + rng.normal(0.0, 0.02, (60, 3))
        mean, covariance = align_at_rest(gyro, force, 0.3, configuration)
        # Heading is zero by definition: turn the truth about the vertical until it has the estimate's.
        estimate = Rotation.from_quat(mean[SPACE.coordinates("attitude")])
        heading = (estimate * true.inv()).as_rotvec()[2]
        truth = SPACE.origin()
        truth[SPACE.coordinates("attitude")] = (Rotation.from_euler("Z", heading) * true).as_quat()
        truth[SPACE.coordinates("accelerometer_bias")] = bias_a
        truth[SPACE.coordinates("gyro_bias")] = bias_g
        errors.append(SPACE.minus(truth, mean)[6:15])
        covariances.append(covariance[6:15, 6:15])
    nees = [e @ np.linalg.pinv(p, rcond=1e-7) @ e for e, p in zip(errors, covariances, strict=True)]
    # Nine dimensions less the heading; swaying is allowed for and not drawn, so the gyro bias is better than stated.
    assert 4.0 < np.mean(nees) < 8.5
    tilt_and_bias = [
        e[:6] @ np.linalg.pinv(p[:6, :6], rcond=1e-7) @ e[:6] for e, p in zip(errors, covariances, strict=True)
    ]
    assert np.mean(tilt_and_bias) == pytest.approx(5.0, abs=0.6)


def stood(levels: Levels, on: Level, largest_count: int = 32) -> Levels:
    """Levels after a settled contact there."""
    mean, covariance = SPACE.origin(), np.zeros((SPACE.dimension, SPACE.dimension))
    mean[2], covariance[2, 2] = on
    ground = Ground(largest_count=largest_count)
    return stand_on(ground, 0.1, GroundState(levels), Moments(mean, covariance), 0, 0.0)[0].levels


def test_levels_are_found_again_and_new_ground_is_new() -> None:
    assert match(ORIGIN, 0.02, 0.01**2, 0.01, 0.95) == 0
    assert match(ORIGIN, 0.17, 0.02**2, 0.01, 0.95) is None
    levels = stood(ORIGIN, Level(0.17, 0.02**2))
    assert match(levels, 0.16, 0.02**2, 0.01, 0.95) == 1
    assert stood(levels, Level(0.01, 0.0)) == (Level(0.17, 0.02**2), Level(0.0, 0.0))


def test_stairs_stay_apart_however_many() -> None:
    """Variance grows from stair to stair, what tells two neighbours apart does not."""
    levels, height, variance = ORIGIN, 0.0, 0.0
    for _ in range(20):
        height, variance = height + 0.17, variance + 0.02**2
        assert match(levels, height, variance, 0.01, 0.95) is None
        levels = stood(levels, Level(height, variance))


@pytest.mark.parametrize("largest_count", [1, 3])
def test_oldest_level_is_forgotten(largest_count: int) -> None:
    levels = ORIGIN
    for k in range(1, 5):
        levels = stood(levels, Level(float(k), 0.0), largest_count)
    assert [one.height for one in levels] == [2.0, 3.0, 4.0][-largest_count:]


@given(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
def test_height_update_stops_at_its_bound(variance: float, bound: float) -> None:
    noise = height_noise(variance, bound)
    if noise is None:
        assert variance <= bound
    else:
        assert variance * noise / (variance + noise) == pytest.approx(bound, rel=1e-6)
