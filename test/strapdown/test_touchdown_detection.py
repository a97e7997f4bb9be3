"""Touchdowns: on simulated walks with known ones, on recorded walks against Vicon, and on what is none."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from benchmarks.strapdown.touchdowns import (
    Touchdown,
    TouchdownDetector,
    TouchdownParameters,
    begun_later,
    find_touchdowns,
    jerk,
    match_onsets,
    match_stances,
    onsets,
    speeds_before,
    stances_from_force,
    stances_from_position,
)
from benchmarks.strapdown.walks import GO1, TARGETS_CM, WALKS, Walk, label_rows, load_walk, times_of
from onboard_estimation.base.errors import UserError
from recorded_robots.quadruped import contact_threshold, read_quadruped
from strapdown_estimation.simulation import simulator

LIFTS = "2018-02-09-11-16-53"


@cache
def walk(folder: Path, name: str) -> Walk:
    return load_walk(folder / "pyshoe_vicon" / f"{name}.mat")


@cache
def touchdowns(folder: Path, name: str) -> list[Touchdown]:
    return walk(folder, name).touchdowns()


def resting(count: int, seed: int = 0, bias_rad_s: float = 0.0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Stamps at 200 Hz and readings of an IMU that lies still."""
    rng = np.random.default_rng(seed)
    readings = rng.normal(0.0, [0.002] * 3 + [0.05] * 3, (count, 6))
    readings[:, :3] += bias_rad_s
    readings[:, 3:] += [0.3, -9.5, 2.4]
    return 5_000_000 * np.arange(1, count + 1), readings


@pytest.mark.parametrize("gait", simulator.GAITS)
@pytest.mark.parametrize("stairs", [False, True], ids=["level", "stairs"])
def test_every_simulated_touchdown_is_found_once(gait: str, stairs: bool) -> None:
    """Nothing was chosen on these; the true instants are the simulator's own."""
    seed = 5
    recording = simulator.simulate(simulator.GAITS[gait], 30.0, np.random.default_rng(seed), stairs)
    motion = simulator.Walk(simulator.GAITS[gait], 30.0, np.random.default_rng(seed), simulator.Conditions(), stairs)
    imu = recording.sensors[0]
    found = find_touchdowns(imu.stamps_ns, imu.values)
    matches = match_onsets(motion.touchdown_s, times_of(found), 0.2)
    print(f"{gait}: {matches.recall:.3f} {matches.precision:.3f} {np.median(matches.errors_s):.3f}")
    assert matches.recall >= 0.97
    assert matches.precision >= 0.97
    # The foot rolls off its heel for a fifth of the stance before it is slow.
    assert 0.0 <= np.median(matches.errors_s) < 0.15


@pytest.mark.parametrize("name", WALKS)
def test_recorded_landings_are_found(shared_data: Path, name: str) -> None:
    """Against Vicon alone: slower than 0.2 m/s and low; the labels of the files are not used."""
    recording, found = walk(shared_data, name), touchdowns(shared_data, name)
    reference = onsets(stances_from_position(recording.position_m, recording.times_s), recording.times_s)
    matches = match_onsets(reference, times_of(found))
    assert matches.reference_count >= 15
    assert matches.recall >= 0.97
    assert matches.precision >= 0.97
    delays = np.array([one.seen_ns - one.happened_ns for one in found]) * 1e-9
    assert (delays > 0.0).all()
    assert np.median(delays) < 0.1
    assert delays.max() < 0.3


def test_lifts_by_hand_have_no_touchdown_in_the_air(shared_data: Path) -> None:
    recording, found = walk(shared_data, LIFTS), touchdowns(shared_data, LIFTS)
    stances = begun_later(stances_from_position(recording.position_m, recording.times_s), recording.times_s)
    matches = match_stances(stances, times_of(found))
    assert matches.reference_count == 14
    assert matches.precision == 1.0
    assert matches.recall >= 12 / 14
    height = recording.position_m[:, 2] - np.median(recording.position_m[:50, 2])
    assert (np.abs(np.interp(times_of(found), recording.times_s, height)) < 0.01).all()


@pytest.mark.parametrize("change", [0.5, 2.0])
@pytest.mark.parametrize("parameter", ["impact_jerk_m_s3", "look_back_s", "soft_s"])
def test_no_parameter_is_on_a_knifes_edge(shared_data: Path, parameter: str, change: float) -> None:
    """Halved and doubled, on the fastest walk; `landed_speed_m_s` moves the instant by definition and is left out."""
    recording = walk(shared_data, WALKS[-1])
    parameters = TouchdownParameters(**{parameter: change * getattr(TouchdownParameters(), parameter)})
    found = find_touchdowns(recording.stamps_ns, recording.readings, parameters)
    reference = onsets(stances_from_position(recording.position_m, recording.times_s), recording.times_s)
    matches = match_onsets(reference, times_of(found))
    assert min(matches.recall, matches.precision) >= 0.9


def test_the_labels_are_no_touchdowns(shared_data: Path) -> None:
    """What the documents say of them: Vicon's own speed, which they were made of, does not give them back."""
    rows = {row["case"]: row for row in label_rows({name: walk(shared_data, name) for name in TARGETS_CM})}
    best = next(row for case, row in rows.items() if "the best of" in case)
    own = next(row for case, row in rows.items() if "own threshold" in case)
    assert best["recall"] < 0.8
    assert best["precision"] < 0.7
    assert max(own["recall"], own["precision"]) < 0.97
    ours = rows["all, label against touchdown seen"]
    print(f"labels: recall {ours['recall']}, precision {ours['precision']}")
    assert ours["recall"] >= 0.65
    assert ours["precision"] >= 0.4


def test_it_looks_at_nothing_to_come(shared_data: Path) -> None:
    recording = walk(shared_data, WALKS[2])
    whole = touchdowns(shared_data, WALKS[2])
    for count in (700, 1503, 2600):
        part = find_touchdowns(recording.stamps_ns[:count], recording.readings[:count])
        assert part == [one for one in whole if one.seen_ns <= recording.stamps_ns[count - 1]]
        assert part


def test_a_clipping_accelerometer_hides_hardly_a_touchdown(shared_data: Path) -> None:
    """Clipped at 2 g, which every stride of the fast walk exceeds."""
    recording = walk(shared_data, WALKS[2])
    readings = recording.readings.copy()
    readings[:, 3:] = np.clip(readings[:, 3:], -19.6, 19.6)
    found = find_touchdowns(recording.stamps_ns, readings, TouchdownParameters(accelerometer_range_m_s2=19.6))
    reference = onsets(stances_from_position(recording.position_m, recording.times_s), recording.times_s)
    matches = match_onsets(reference, times_of(found), 0.15)
    assert sum(one.saturated for one in found) > 10
    assert matches.recall >= 0.95
    assert matches.precision == 1.0


def test_a_bias_of_the_gyro_is_learnt_at_rest(shared_data: Path) -> None:
    recording = walk(shared_data, WALKS[1])
    readings = recording.readings + np.array([0.2, -0.15, 0.1, 0.0, 0.0, 0.0])
    found = times_of(find_touchdowns(recording.stamps_ns, readings))
    np.testing.assert_allclose(found, times_of(touchdowns(shared_data, WALKS[1])), atol=0.03)


def test_a_start_in_the_middle_of_a_walk(shared_data: Path) -> None:
    """Without a rest before, whatever the phase of the stride at the start."""
    recording = walk(shared_data, WALKS[1])
    reference = onsets(stances_from_position(recording.position_m, recording.times_s), recording.times_s)
    for first in range(1000, 1240, 40):
        found = times_of(find_touchdowns(recording.stamps_ns[first:], recording.readings[first:]))
        begin_s = recording.times_s[first] + 0.5
        matches = match_onsets(reference[reference > begin_s], found[found > begin_s])
        assert min(matches.recall, matches.precision) >= 0.9


@pytest.mark.parametrize("bias_rad_s", [0.0, 0.3])
def test_lying_still_is_no_touchdown(bias_rad_s: float) -> None:
    assert find_touchdowns(*resting(4000, bias_rad_s=bias_rad_s)) == []


def test_a_knock_while_it_stands_is_no_touchdown() -> None:
    """An impact alone: the stance is left for less than a swing takes."""
    stamps, readings = resting(2000)
    for begin in (500, 900, 1400):
        readings[begin : begin + 4, 3:] += [[20.0, 5.0, -30.0]]
    assert find_touchdowns(stamps, readings) == []


def test_shifting_the_weight_is_no_touchdown() -> None:
    """It leans over by 6 degrees and back within half a second, without an impact and without moving."""
    stamps, readings = resting(2000)
    times = (stamps - stamps[800]) * 1e-9
    lean = np.where((times > 0.0) & (times < 0.5), 0.1 * np.sin(2.0 * np.pi * times) ** 2, 0.0)
    readings[:, 0] += np.gradient(lean, times)
    readings[:, 3:] = Rotation.from_rotvec(lean[:, None] * [1.0, 0.0, 0.0]).inv().apply(readings[:, 3:])
    detector = TouchdownDetector()
    claims = []
    for stamp, reading in zip(stamps.tolist(), readings, strict=True):
        assert detector.add(stamp, reading) is None
        claims.append(detector.in_contact)
    assert not all(claims[800:900])


@pytest.mark.parametrize(
    ("stamp", "value", "message"),
    [(5_000_000, 0.0, "stamps must increase"), (10_000_000, np.nan, "not finite"), (10_000_000, np.inf, "not finite")],
)
def test_faulty_readings_are_refused(stamp: int, value: float, message: str) -> None:
    detector = TouchdownDetector()
    detector.add(5_000_000, np.full(6, 1.0))
    with pytest.raises(UserError, match=message):
        detector.add(stamp, np.full(6, value))


def test_speeds_against_an_ode_solver() -> None:
    """A body that turns and accelerates: speeds against the last instant, by SciPy's integrator in the world frame."""
    axis, turn = np.array([0.6, 0.0, 0.8]), 3.0
    gravity = np.array([0.0, 0.0, -9.8])
    times = np.linspace(0.0, 0.4, 401)

    def acceleration(t: float) -> NDArray[np.float64]:
        return np.array([8.0 * np.cos(9.0 * t), 5.0 * t, 6.0 * np.sin(7.0 * t)])

    last = Rotation.from_rotvec(axis * turn * times[-1])
    velocity = solve_ivp(lambda t, _: acceleration(t), (0.0, times[-1]), np.zeros(3), t_eval=times, rtol=1e-10).y.T
    readings = np.array(
        [[*(axis * turn), *Rotation.from_rotvec(axis * turn * t).inv().apply(acceleration(t) - gravity)] for t in times]
    )
    speeds = speeds_before(np.round(times * 1e9).astype(np.int64), readings, last.inv().apply(-gravity))
    np.testing.assert_allclose(speeds, np.linalg.norm(velocity - velocity[-1], axis=1), atol=1e-3)
    assert speeds[0] > 1.0


def test_jerk_is_the_slope_of_a_fitted_line() -> None:
    rng = np.random.default_rng(1)
    stamps = np.cumsum(rng.integers(1_000_000, 9_000_000, 5))
    readings = rng.normal(0.0, 10.0, (5, 6))
    slope = np.polyfit(stamps * 1e-9, np.linalg.norm(readings[:, 3:], axis=1), 1)[0]
    found = jerk(list(zip(stamps.tolist(), readings, strict=True)))
    assert found == pytest.approx(slope, rel=1e-9)


def test_quadruped(shared_data: Path) -> None:
    """Another animal, another sensor, nothing chosen on it: most touchdowns, and none that the force does not show."""
    content = read_quadruped(shared_data / "quadruped_foot" / "go1_slippery_surface.csv")
    imu, force = content.recording.sensors
    counts, times = force.values[:, 0], force.stamps_ns * 1e-9
    reference = onsets(stances_from_force(counts, times, contact_threshold(counts)), times)
    found = times_of(find_touchdowns(imu.stamps_ns, imu.values, GO1))
    assert len(reference) == 12
    matches = match_onsets(reference, found, 0.1)
    assert matches.recall >= 0.75
    assert matches.precision >= 0.9
