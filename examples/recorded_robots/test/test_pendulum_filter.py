"""The pendulum's filter on swings by MuJoCo: what it finds, how sure it is, and what it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest
from pendulums import ANGLE_NOISE_RAD, Links, filtered, recording

from onboard_estimation.base.configuration import ConfigurationError, load
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.base.series import Recording, truth_channel
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.judging.judge import judge
from onboard_estimation.testing import Check, checks
from recorded_robots.pendulum import dynamics, figures
from recorded_robots.pendulum.configuration import Pendulum
from recorded_robots.pendulum.estimator import ANGLES, PendulumEstimator
from recorded_robots.pendulum.forecast import Motion, forecast
from recorded_robots.pendulum.robot import ROBOT

pytest.importorskip("mujoco")


def found(links: Links, driven: bool, seeds: range, off: float) -> dict[str, tuple[float, float]]:
    """By figure: logarithm of it over its true value, and standard deviation, after recordings one after the other."""
    estimator = PendulumEstimator(links.configuration(off))
    pieces = [recording(links, 3.0, seed, driven, start_s=5.0 * number) for number, seed in enumerate(seeds)]
    last = filtered(estimator, *pieces)[-1].estimate
    assert last is not None
    names = estimator.configuration.links.joint_names
    rows = {"mass": links.mass, "inertia": links.inertia, "viscous_friction": links.friction}
    true = {f"{row}.{name}": value for row, values in rows.items() for name, value in zip(names, values, strict=True)}
    true |= figures.figures(links.parameters, links.length, names)
    estimated = figures.estimated(estimator, last.mean, last.covariance)
    return {name: (float(np.log(one.value / true[name])), one.stddev_ratio) for name, one in estimated.items()}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_driven_links_are_known_with_their_scale(count: int) -> None:
    """Masses started a fifth off; torques are known, so all is found, and surely."""
    for name, (error, stddev) in found(Links.drawn(count, 5), True, range(3), off=0.2).items():
        assert abs(error) < 4.0 * stddev, name
        if name.startswith(("first_moment", "second_moment", "reduced_length")):
            assert stddev < 0.02, name


def test_free_swings_give_ratios_only() -> None:
    """Masses a fifth off stay so, and the filter says so; their ratios and the lengths are known to a hundredth."""
    names = found(Links.drawn(3, 6), False, range(4), off=0.2)
    for name, (error, stddev) in names.items():
        assert abs(error) < 4.0 * stddev, name
    for name, (error, stddev) in names.items():
        if name.startswith(("mass_ratio", "reduced_length", "first_moment_ratio")):
            assert stddev < 0.01, name
        elif name.startswith(("mass", "first_moment", "second_moment")):
            assert stddev > 0.1, name
            assert error > 0.1, name


def test_deviations_are_those_of_the_errors() -> None:
    """Over twenty pendulums with a motor: their errors, normalised, have a variance of one."""
    normalised = []
    for seed in range(20):
        links = Links.drawn(1, 100 + seed)
        off = float(np.random.default_rng(seed).normal(0.0, 0.2))
        errors = found(links, True, range(seed, seed + 1), off)
        normalised.append(
            [errors[name][0] / errors[name][1] for name in ("first_moment.joint_1", "second_moment.joint_1")]
        )
    assert 0.4 < np.mean(np.square(normalised)) < 1.7
    assert np.abs(normalised).max() < 3.5


def test_forecasts_are_as_good_as_stated() -> None:
    links = Links.drawn(2, 7)
    estimator = PendulumEstimator(links.configuration(0.1))
    pieces = [recording(links, 3.0, seed, True, start_s=5.0 * seed) for seed in range(4)]
    steps = filtered(estimator, *pieces)
    both = [type(one)(one.channel, *map(np.concatenate, zip(*rows, strict=True))) for one, rows in _joined(pieces)]
    motion = Motion.of(both, 2)
    estimates = [step.estimate for step in steps if step.estimate is not None]
    assert len(motion.pieces(0.1)) == 4
    means = np.array([one.mean for one in estimates])
    covariances = np.array([one.covariance for one in estimates])
    for one in forecast(estimator, motion, means, covariances, [0.0, 0.1, 0.5], settle_s=0.5):
        assert len(one.errors) > 30
        assert one.rms_rad < 0.02
        # The angles that came have their own noise.
        normalised = one.errors**2 / (one.stddevs**2 + 1e-6)
        assert 0.6 < normalised.mean() < 1.4, one.horizon_s


def _joined(pieces):
    for series in zip(*pieces, strict=True):
        yield series[0], [(one.stamps_ns, one.values) for one in series]


def test_after_a_gap_the_motion_starts_anew_and_the_links_go_on() -> None:
    links = Links.drawn(2, 8)
    estimator = PendulumEstimator(links.configuration(0.1))
    before, after = recording(links, 3.0, 1, True), recording(links, 1.0, 2, True, start_s=10.0)
    steps = filtered(estimator, before, after)
    last, first = steps[len(before[1].stamps_ns) - 1].estimate, steps[len(before[1].stamps_ns)]
    assert [event.sentence for event in first.events] == [
        "no angles for 7.00 s, at 10.000 s: the motion starts anew, the links go on"
    ]
    np.testing.assert_allclose(first.estimate.mean[4:], last.mean[4:])
    np.testing.assert_allclose(first.estimate.covariance[4:, 4:], last.covariance[4:, 4:], rtol=1e-9)
    np.testing.assert_allclose(first.estimate.mean[:2], after[1].values[0])
    assert first.estimate.covariance[2, 2] == pytest.approx(25.0)


def test_a_disturbed_motion_does_not_disturb_what_is_known_of_the_links() -> None:
    """Somebody takes hold of the pendulum: twenty refused angles, and the motion starts anew."""
    links = Links.drawn(1, 9)
    estimator = PendulumEstimator(links.configuration(0.1))
    before, after = recording(links, 2.0, 1, True), recording(links, 2.0, 3, True, start_s=2.005)
    assert abs(before[1].values[-1, 0] - after[1].values[0, 0]) > 0.3
    steps, count = filtered(estimator, before, after), len(before[1].stamps_ns)
    (anew,) = [number for number, step in enumerate(steps) if step.events]
    assert anew == count + 19
    assert "20 angles in a row contradict the motion" in steps[anew].events[0].sentence
    np.testing.assert_allclose(steps[anew].estimate.mean[2:], steps[count - 1].estimate.mean[2:], rtol=1e-6)


def test_information_leaves_open_what_theory_says() -> None:
    """Of m, a and j of each of N links motors leave N, free swings one more: the scale; a known a leaves the scale."""
    links, known = Links.drawn(2, 10), Links.drawn(2, 10).configuration()
    unknown = links.configuration(**{"unknown.centre_of_mass": [0.1, 0.1]})
    for configuration, driven, expected in (
        (unknown, True, 2),
        (unknown, False, 3),
        (known, True, 0),
        (known, False, 1),
    ):
        estimator, series = PendulumEstimator(configuration), recording(links, 3.0, 1, driven)
        motion = Motion.of(series, 2)
        means = np.array([step.estimate.mean for step in filtered(estimator, series)])
        matrix = figures.information(estimator, motion, means, means[-1][4:])
        left_open = figures.left_open(matrix)
        assert left_open.shape[1] == expected
        found = figures.estimated(estimator, means[-1], np.eye(means.shape[1]))
        seen = {name.partition(".")[0] for name, one in found.items() if figures.is_seen(one, left_open)}
        assert "reduced_length" in seen
        assert ("first_moment" in seen) == driven
        assert ("mass_ratio" in seen) == (configuration is known)
        sentence = figures.statement(estimator, left_open)
        assert ("common scale" in sentence) == (not driven)
        assert ("centre_of_mass" in sentence) == (configuration is unknown)
        assert "friction.joint" not in sentence
        if not expected:
            assert sentence == "The angles tell all 6 unknowns."


def test_information_is_what_an_unknown_start_leaves_of_it() -> None:
    """Of one window: the inverse of the unknowns' block of the inverse, by finite differences."""
    links = Links.drawn(2, 10)
    estimator, series = PendulumEstimator(links.configuration()), recording(links, 2.0, 1, True)
    motion = Motion.of(series, 2)
    means = np.array([step.estimate.mean for step in filtered(estimator, series)])
    matrix = figures.information(estimator, motion, means, means[-1][4:])
    first = int(np.searchsorted(motion.stamps_ns, 200_000_000))
    start, steps_s = np.concatenate([means[first, :4], means[-1][4:]]), np.diff(motion.stamps_ns[first:]) * 1e-9

    def angles_from(state: np.ndarray) -> np.ndarray:
        parameters, longest_s = estimator.parameters(state[4:]), estimator.configuration.longest_step_s
        torques = motion.torques[first:-1]
        moved = dynamics.simulate(state[:4], parameters, torques, estimator.setting, steps_s, longest_s)
        return moved[:, :2].ravel() / ANGLE_NOISE_RAD

    steps = 1e-5 * np.eye(len(start))
    derivatives = np.column_stack([(angles_from(start + one) - angles_from(start - one)) / 2e-5 for one in steps])
    expected = np.linalg.inv(np.linalg.inv(derivatives.T @ derivatives)[4:, 4:])
    np.testing.assert_allclose(matrix, expected, rtol=0.0, atol=1e-4 * np.abs(expected).max())


def contract() -> list[Check]:
    links = Links.drawn(2, 11)
    return checks(ROBOT, links.configuration(), sensors=recording(links, 3.0, 1, True))


@pytest.mark.parametrize("check", contract(), ids=str)
def test_contract(check: Check) -> None:
    check()


def test_a_run_is_judged_by_rates_and_forecasts() -> None:
    links = Links.drawn(2, 12)
    configuration = links.configuration(0.1, truth_window_s=0.03)
    torques, angles = recording(links, 5.0, 1, True)
    half, truth = 0.5 * np.cumsum(angles.values, axis=1), []
    for number, body in enumerate(ROBOT.truth_specification(configuration).bodies):
        poses = np.zeros((len(half), 7))
        poses[:, 5], poses[:, 6] = np.sin(half[:, number]), np.cos(half[:, number])
        truth.append(type(angles)(truth_channel(body), angles.stamps_ns, poses))
    bodies = ROBOT.truth_specification(configuration).bodies
    result = judge(ROBOT, configuration, "ukf", from_simulator(Recording((torques, angles), tuple(truth)), bodies))
    assert set(result.parts) == {"joint_rates"}
    for joint in ("joint_1", "joint_2"):
        assert result.metrics["joint_rates"][f"{joint}_rmse_rad_per_s"] < 0.5
    found = result.metrics["pendulum"]
    assert found["combinations_left_open"] == {"count": 0, "of": 6}
    assert found["forecast_next"]["rms_rad"] < 2e-3
    assert "foresees angles 1 s ahead" in result.verdict
    assert any("Angles are not judged" in note for note in result.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"links.mass_kg": [0.2, 0.2]}, "mass_kg: 2 numbers for 3 joints"),
        ({"links.mass_kg": [0.2, 0.0, 0.2]}, "links.mass_kg"),
        ({"links.inertia_kg_m2": [1e-4, -1e-4, 1e-4]}, "links.inertia_kg_m2"),
        ({"links.lengths_m": [0.1, 0.0, 0.1]}, "links.lengths_m"),
        ({"unknown.mass": [0.1]}, "unknown.mass: 1 numbers for 3 joints"),
        ({"links.dry_friction_n_m": [0.0, 1e-3, 1e-3]}, "0 at joint_1 has no logarithm"),
    ],
)
def test_impossible_links_are_refused(changes: dict[str, list[float]], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(Pendulum, None, changes)


def test_without_unknowns_it_is_a_filter_of_the_motion() -> None:
    links = Links.drawn(2, 13)
    zero = [0.0, 0.0]
    held = {f"unknown.{name}": zero for name in ("mass", "inertia", "viscous_friction")}
    estimator = PendulumEstimator(links.configuration(**held))
    steps = filtered(estimator, recording(links, 2.0, 1, True))
    assert estimator.space.dimension == 4
    assert np.mean([step.innovation.nis for step in steps[20:]]) == pytest.approx(2.0, rel=0.2)


def test_stale_angles_do_not_move_the_state() -> None:
    """Angles with one stamp twice: the second corrects once more, and nothing moves in between."""
    links = Links.drawn(1, 14)
    estimator = PendulumEstimator(links.configuration())
    state = estimator.start(None)
    for _ in range(2):
        state = estimator.step(state, Measurement(10_000_000, ANGLES, np.array([0.1]))).state
    assert state.points.mean[0] == pytest.approx(0.1)
