"""Agility against numerical integration of the flights, Table IV and limits; ground height; optical flow."""

from __future__ import annotations

import numpy as np
import pytest
from hop_samples import GRAVITY, STANDING_M, hop
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from benchmarks.hopper.paper_filters import AGILITY_COLUMNS, agility_columns, agility_of_constant_hops
from benchmarks.hopper.paper_tables import SET_HEIGHTS_M, TABLE_IV, TABLE_S1
from hopper_estimation.judging import report
from hopper_estimation.judging.hop_truth import true_hops
from hopper_estimation.judging.report import DIRECT, PAPER_DROP_WEIGHT, distance_error_ratio
from hopper_estimation.model import agility
from onboard_estimation.base.errors import UserError


def flight(height: float, velocity: float, thrust: float, drag, until) -> tuple[float, float, float]:
    """Integrate z'' = thrust - g - drag(v) until an event: time, height, velocity."""
    until.terminal = True
    solved = solve_ivp(
        lambda _, y: [y[1], thrust - GRAVITY - drag(y[1])],
        (0.0, 20.0),
        [height, velocity],
        "DOP853",
        events=until,
        rtol=1e-11,
        atol=1e-12,
        max_step=0.05,
    )
    return float(solved.t[-1]), *(float(x) for x in solved.y[:, -1])


def landed(_, y):
    return y[0]


def at_apex(_, y):
    return y[1]


at_apex.direction = -1


def cycle(
    previous: float, ratio: float, thrusts: tuple[float, float], drag
) -> tuple[float, float, float, float, float]:
    """Drop time, touchdown speed, rebound time, liftoff speed and hop height, from apex to apex."""
    drop_s, _, touchdown = flight(previous, 0.0, thrusts[0], drag, landed)
    rebound_s, height, _ = flight(0.0, -ratio * touchdown, thrusts[1], drag, at_apex)
    return drop_s, -touchdown, rebound_s, -ratio * touchdown, height


@given(
    st.floats(0.2, 5.0),
    st.floats(0.4, 1.3),
    st.floats(0.0, 3.0),
    st.floats(0.0, 8.0),
    st.floats(0.0, 1.5),
    st.floats(0.0, 1.5),
    st.floats(0.02, 0.1),
)
def test_constant_forces(previous, ratio, drop_thrust, rebound_thrust, drop_drag, rebound_drag, stance_s) -> None:
    # Constant drag against the motion: up in the drop, down in the rebound.
    def drag(velocity):
        return -drop_drag if velocity < 0.0 else rebound_drag

    drop_s, touchdown, rebound_s, _, height = cycle(previous, ratio, (drop_thrust, rebound_thrust), drag)
    falling = agility.drop_acceleration_m_s2(drop_thrust, drop_drag)
    rising = agility.rebound_acceleration_m_s2(rebound_thrust, rebound_drag)
    np.testing.assert_allclose(agility.flight_time_s(previous, falling), drop_s, rtol=1e-7)
    np.testing.assert_allclose(agility.flight_time_s(height, rising), rebound_s, rtol=1e-6)
    np.testing.assert_allclose(falling * drop_s, touchdown, rtol=1e-7)
    np.testing.assert_allclose(agility.next_height_m(previous, ratio, falling, rising), height, rtol=1e-7)
    np.testing.assert_allclose(agility.stance_velocity_ratio(previous, height, falling, rising), ratio, rtol=1e-7)
    for eta in (0.0, 0.3, 1.0):
        expected = (eta * previous + height) / (eta * drop_s + stance_s + rebound_s)
        found = agility.agility_from_accelerations(previous, ratio, stance_s, falling, rising, eta)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("height", [1.0, 4.0])
def test_quadratic_drag(height: float) -> None:
    """Effective accelerations give the times exactly; the velocity ratio is then off by a few percent."""

    def drag(velocity):
        return 0.068 * velocity * abs(velocity)

    drop_s, _, rebound_s, _, found_height = cycle(height, 0.8, (0.2, 4.0), drag)
    falling = agility.effective_acceleration_m_s2(height, drop_s)
    rising = agility.effective_acceleration_m_s2(found_height, rebound_s)
    np.testing.assert_allclose(agility.flight_time_s(height, falling), drop_s)
    np.testing.assert_allclose(agility.flight_time_s(found_height, rising), rebound_s)
    ratio = float(agility.stance_velocity_ratio(height, found_height, falling, rising))
    assert ratio != pytest.approx(0.8, rel=1e-3)
    assert ratio == pytest.approx(0.8, rel=0.15)
    # With means over the height, from the speeds, it is exact.
    _, touchdown, _, liftoff, _ = cycle(height, 0.8, (0.2, 4.0), drag)
    by_height = touchdown**2 / (2.0 * height), liftoff**2 / (2.0 * found_height)
    assert float(agility.stance_velocity_ratio(height, found_height, *by_height)) == pytest.approx(0.8, rel=1e-9)


def test_table_iv() -> None:
    for row in TABLE_IV:
        jumping = agility.unified_hopping_agility(row.hop_height_m, np.nan, 0.0, row.stance_and_rebound_s, np.nan, 0.0)
        hopping = agility.unified_hopping_agility(
            row.hop_height_m,
            row.hop_height_m,
            0.0,
            row.stance_and_rebound_s,
            row.cycle_s - row.stance_and_rebound_s,
            1.0,
        )
        assert float(jumping) == pytest.approx(row.vertical_jumping_agility_m_s, abs=0.015), row.platform
        assert float(hopping) == pytest.approx(row.hopping_agility_m_s, abs=0.015), row.platform


def test_table_s1_follows_from_its_means() -> None:
    for row in TABLE_S1:
        height, rising, whole = row.hop_height_m[0], row.stance_and_rebound_s[0], row.cycle_s[0]
        jumping = agility.vertical_jumping_agility(height, 0.0, rising)
        assert float(jumping) == pytest.approx(row.vertical_jumping_agility_m_s, abs=0.015)
        assert float(agility.hopping_agility(height, height, whole)) == pytest.approx(
            row.hopping_agility_m_s, abs=0.015
        )


@given(st.floats(0.05, 10.0), st.floats(1.0, 20.0))
def test_ballistic_limit(height: float, gravity: float) -> None:
    """Without forces, losses and stance both metrics are sqrt(g h / 2) (the paper's appendix)."""
    falling = agility.drop_acceleration_m_s2(gravity_m_s2=gravity)
    rising = agility.rebound_acceleration_m_s2(gravity_m_s2=gravity)
    for eta in (0.0, 1.0):
        found = agility.agility_from_accelerations(height, 1.0, 0.0, falling, rising, eta)
        assert float(found) == pytest.approx(np.sqrt(0.5 * gravity * height))


@pytest.mark.parametrize(("speed", "preload"), [(0.0, 50.0), (1.0, 50.0), (4.4, 50.0), (8.8, 50.0), (3.0, 0.0)])
def test_stance_of_a_spring(speed: float, preload: float) -> None:
    def back(_, y):
        return -y[0]

    back.terminal, back.direction = True, 1.0
    mass, stiffness = 0.5619, 704.0
    solved = solve_ivp(
        lambda _, y: [y[1], GRAVITY - (preload + stiffness * y[0]) / mass],
        (0.0, 1.0),
        [1e-12, speed],
        "DOP853",
        events=back,
        rtol=1e-11,
        atol=1e-13,
        max_step=1e-3,
    )
    expected = solved.t[-1] if speed else 0.0
    found = float(agility.spring_stance_s(speed, mass, stiffness, preload))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"rebound is -0\.193"):
        agility.rebound_acceleration_m_s2(10.0)
    with pytest.raises(UserError, match=r"-0\.1 m"):
        agility.vertical_jumping_agility([-0.1, 1.0], 0.1, 0.5)
    with pytest.raises(UserError, match="eta is 2"):
        agility.unified_hopping_agility(1.0, 1.0, 0.1, 0.5, 0.4, 2.0)
    with pytest.raises(UserError, match="takes no time"):
        agility.vertical_jumping_agility(1.0, 0.0, 0.0)
    with pytest.raises(UserError, match="0 s has no acceleration"):
        agility.effective_acceleration_m_s2(1.0, 0.0)


def test_agility_of_recorded_hops() -> None:
    run = hop(2.0, 5, rebound_thrust=6.5)
    time, height, _ = run.track()
    cycles = true_hops(time, height, STANDING_M).cycles
    found = agility.summary(cycles.hop_height_m, cycles.drop_height_m, cycles.stance_s, cycles.rebound_s, cycles.drop_s)
    tops = np.array(run.apex_m) - STANDING_M
    # The robot was dropped, so its first hop has no apex before it.
    count = len(cycles) - 1
    assert found["hops"] == count
    whole = np.diff(run.apex_s)[:count]
    rising = (np.array(run.apex_s) - run.touchdown_s)[1 : count + 1]
    # Thrust that ends at the apex shifts what is told of it by 2 ms of some 0.9 s.
    assert found["hopping_agility_m_s"] == pytest.approx(np.mean((tops[:-1] + tops[1:])[:count] / whole), rel=2e-3)
    assert found["vertical_jumping_agility_m_s"] == pytest.approx(np.mean(tops[1 : count + 1] / rising), rel=4e-3)
    columns = agility_columns(cycles)
    assert columns.shape == (len(cycles), len(AGILITY_COLUMNS))
    assert np.nanmean(columns[:, 5]) == pytest.approx(found["hopping_agility_m_s"])
    np.testing.assert_array_equal(columns[:, 0], cycles.hop_height_m)


def test_published_tables() -> None:
    for one in TABLE_IV:
        found = agility_of_constant_hops(one.hop_height_m, one.stance_and_rebound_s, one.cycle_s)
        assert found == pytest.approx((one.vertical_jumping_agility_m_s, one.hopping_agility_m_s), abs=0.015)
    assert len(SET_HEIGHTS_M) * 2 == len(TABLE_S1)


# Ground height, eqs. (11) to (13).

HEIGHTS = st.lists(st.tuples(st.floats(0.5, 4.5), st.floats(0.0, 0.6), st.booleans()), min_size=1, max_size=20)


@given(HEIGHTS, st.sampled_from([DIRECT, PAPER_DROP_WEIGHT, 1.0]))
def test_incremental_is_batch(hops, weight: float) -> None:
    apex = np.array([one[0] if one[2] else np.nan for one in hops])
    touchdown = np.array([one[1] for one in hops])
    found, direct_m, from_drops_m, last_drop = [], 0.0, 0.0, np.nan
    for one, other in zip(apex, touchdown, strict=True):
        direct = other - STANDING_M
        drop = one - other if np.isfinite(one) else last_drop
        from_drops_m += direct if np.isnan(last_drop) else last_drop - drop
        direct_m, last_drop = direct_m + direct, drop
        found.append(weight * from_drops_m + (1.0 - weight) * direct_m)
    batch = report.ground_heights(apex, touchdown, STANDING_M, weight)
    np.testing.assert_allclose(found, batch, atol=1e-12)


def test_equations_by_hand() -> None:
    apex, touchdown = [2.0, 2.1, 1.9], [0.30, 0.25, 0.28]
    from_drops, direct = report.ground_changes(apex, touchdown, 0.268)
    np.testing.assert_allclose(direct, [0.032, -0.018, 0.012])
    # drops 1.70, 1.85, 1.62; the first has none before it and counts with eq. (12)
    np.testing.assert_allclose(from_drops, [0.032, -0.15, 0.23])
    mean = np.cumsum(0.5 * (from_drops + direct))
    np.testing.assert_allclose(report.ground_heights(apex, touchdown, 0.268, PAPER_DROP_WEIGHT), mean)


@pytest.mark.parametrize("absolute_apex", [False, True])
def test_staircase(absolute_apex: bool) -> None:
    """Eq. (12) finds it always; eq. (13) where the apex stays at one absolute height, else half of it."""
    true = 0.1 * np.arange(1, 11)
    left = true - 0.1
    apex = STANDING_M + 3.0 - (left if absolute_apex else 0.0)  # above the ground last left
    touchdown = np.full(10, STANDING_M + 0.1)
    direct = report.ground_heights(np.broadcast_to(apex, 10), touchdown, STANDING_M, DIRECT)
    paper = report.ground_heights(np.broadcast_to(apex, 10), touchdown, STANDING_M, PAPER_DROP_WEIGHT)
    np.testing.assert_allclose(direct, true)
    np.testing.assert_allclose(paper, true if absolute_apex else 0.1 + 0.5 * (true - 0.1))


def test_drift_on_level_ground() -> None:
    """Independent errors at touchdown add up as a random walk by eq. (12), to half of that by eq. (13)."""
    rng = np.random.default_rng(5)
    ends = []
    for _ in range(400):
        touchdown = STANDING_M + 0.005 * rng.normal(size=30)
        apex = np.full(30, STANDING_M + 2.0)
        ends.append([report.ground_heights(apex, touchdown, STANDING_M, w)[-1] for w in (DIRECT, 0.5)])
    direct, paper = np.std(ends, axis=0)
    assert direct == pytest.approx(0.005 * np.sqrt(30), rel=0.12)
    assert paper == pytest.approx(0.5 * direct, rel=0.12)


def test_drift_over_stretches() -> None:
    estimated, true = np.array([0.1, 0.3, 0.2, 0.5]), np.array([0.1, 0.1, 0.1, 0.1])
    # errors after each touchdown 0, 0.2, 0.1, 0.4, and 0 at the start
    np.testing.assert_allclose(report.drift_m(estimated, true, 2), [0.2, 0.1, 0.2])
    assert report.drift_m(estimated, true, 5).size == 0
    told = report.summary(np.full(4, 2.0), STANDING_M + np.array([0.0, 0.02, 0, 0]), np.zeros(4), STANDING_M, 4)
    assert told["ground_height_direct_final_error_m"] == pytest.approx(0.02)
    assert told["ground_height_direct_drift_mean_abs_m"] == pytest.approx(0.02)


# Optical flow, S17 and S18.


def test_distance_by_a_pinhole_camera() -> None:
    """Points on the ground seen by a camera that flies over them: what it moves is what the formula says."""
    rng = np.random.default_rng(2)
    focal, time = 0.004, np.linspace(0.0, 2.0, 2001)
    height = 0.3 + 2.0 * np.abs(np.sin(2.0 * time))
    position = 0.5 * time
    estimated = height * (1.0 + 0.1 * np.sin(7.0 * time)) + 0.02 * rng.normal(size=len(time))
    moved = 0.0
    for k in range(len(time) - 1):
        point = position[k] + 0.05
        # The same point in two frames, both at the height of the first: flow without the change in scale.
        shift = focal * ((point - position[k]) - (point - position[k + 1])) / height[k]
        moved += shift / focal * estimated[k]
    travelled = position[-1] - position[0]
    ratio = distance_error_ratio(time, height, estimated)
    assert moved / travelled - 1.0 == pytest.approx(ratio, abs=2e-3)


def test_constant_relative_error_is_the_distance_error() -> None:
    time, height = np.linspace(0.0, 1.0, 50), np.linspace(0.3, 2.0, 50)
    assert distance_error_ratio(time, height, 1.19 * height) == pytest.approx(0.19)
