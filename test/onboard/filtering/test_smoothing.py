"""Smoothing of filters' records against the joint posterior, conditioned at once, and against turned worlds."""

from __future__ import annotations

import numpy as np
import pytest
from smoothing import FilterStep, sigma_cross_covariance, smooth

from onboard_estimation.filtering.moments import Moments, predict, update
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, so3, vector
from onboard_estimation.filtering.unscented import BatchModel, SigmaPoints, Unscented

STEPS = 15


def moved_on(
    filter_: Unscented, state: SigmaPoints, propagate: BatchModel, process_root: np.ndarray
) -> tuple[SigmaPoints, np.ndarray]:
    """The predicted state and the cross-covariance of the errors before and after."""
    cross = sigma_cross_covariance(filter_.space, state, propagate(state.points))
    return filter_.predict(state, propagate, process_root), cross


class LinearProblem:
    """Random linear system with its own matrices at every step; none to three measurements a step."""

    def __init__(self, seed: int, n: int = 4, exact: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.n = n
        self.mean = rng.normal(size=n)
        root = rng.normal(size=(n, n))
        self.covariance = root @ root.T
        self.transitions = np.eye(n) + 0.3 * rng.normal(size=(STEPS, n, n))
        self.process_roots = 0.3 * rng.normal(size=(STEPS, n, 2))
        if exact:
            # The last state is a constant known exactly; the one before it a constant that is not known.
            self.covariance[-1, :] = self.covariance[:, -1] = 0.0
            self.transitions[:, -2:, :] = np.eye(n)[-2:]
            self.process_roots[:, -2:, :] = 0.0
        self.measurements = [
            [(rng.normal(size=(m, n)), np.diag(rng.uniform(0.1, 0.5, size=m)), rng.normal(size=m)) for m in counts]
            for counts in [[1], [], [2, 1], [1, 1, 2], []] * (STEPS // 5)
        ]

    def joint_posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Means (K, n) and covariances (K, n, n): the prior of all states, then conditioned on all measurements."""
        n = self.n
        mean = np.zeros((STEPS, n))
        covariance = np.zeros((STEPS, n, STEPS, n))
        x, p = self.mean, self.covariance
        for k in range(STEPS):
            if k > 0:
                root = self.process_roots[k]
                x, p = self.transitions[k] @ x, self.transitions[k] @ p @ self.transitions[k].T + root @ root.T
                covariance[k, :, :k] = np.einsum("ij,jlm->ilm", self.transitions[k], covariance[k - 1, :, :k])
                covariance[:k, :, k] = np.moveaxis(covariance[k, :, :k], 0, -1)
            mean[k], covariance[k, :, k] = x, p
        rows, values, noises = [], [], []
        for k, measured in enumerate(self.measurements):
            for observation, noise_root, value in measured:
                row = np.zeros((len(value), STEPS, n))
                row[:, k] = observation
                rows.append(row.reshape(len(value), -1))
                values.append(value)
                noises.append(np.diag(noise_root) ** 2)
        observation, value = np.vstack(rows), np.hstack(values)
        m, p = mean.ravel(), covariance.reshape(STEPS * n, STEPS * n)
        gain = p @ observation.T @ np.linalg.inv(observation @ p @ observation.T + np.diag(np.hstack(noises)))
        m, p = m + gain @ (value - observation @ m), p - gain @ observation @ p
        posterior = p.reshape(STEPS, n, STEPS, n)
        return m.reshape(STEPS, n), np.array([posterior[k, :, k] for k in range(STEPS)])

    def space(self) -> StateSpace:
        return StateSpace(vector("x", tuple(map(str, range(self.n))), ""))

    def record_of_the_error_state_filter(self) -> list[FilterStep]:
        space, state, cross = self.space(), Moments(self.mean, self.covariance), self.covariance
        record = []
        for k in range(STEPS):
            if k > 0:
                transition, root = self.transitions[k], self.process_roots[k]
                cross = state.covariance @ transition.T
                state = predict(state, transition @ state.mean, transition, root @ root.T)
            predicted = state
            for observation, noise_root, value in self.measurements[k]:
                missing = value - observation @ state.mean
                state, _, _ = update(space, state, missing, observation, noise_root @ noise_root.T)
            record.append(FilterStep(*predicted, cross, *state))
        return record

    def record_of_the_unscented_filter(self) -> list[FilterStep]:
        filter_ = Unscented(self.space())
        state, cross = filter_.start(self.mean, self.covariance), self.covariance
        record = []
        for k in range(STEPS):
            if k > 0:
                transition, root = self.transitions[k], self.process_roots[k]
                state, cross = moved_on(filter_, state, lambda points, f=transition: points @ f.T, root)
            predicted = state.mean, filter_.covariance(state)
            for observation, noise_root, value in self.measurements[k]:
                state, _, _ = filter_.update(state, lambda points, h=observation: points @ h.T, value, noise_root)
            record.append(FilterStep(*predicted, cross, state.mean, filter_.covariance(state)))
        return record


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", ["error_state", "unscented"])
def test_smoothed_states_are_the_joint_posterior(kind: str, exact: bool) -> None:
    problem = LinearProblem(seed=1, exact=exact)
    record = (
        problem.record_of_the_error_state_filter()
        if kind == "error_state"
        else problem.record_of_the_unscented_filter()
    )
    means, covariances = smooth(problem.space(), record)
    expected_means, expected_covariances = problem.joint_posterior()
    np.testing.assert_allclose(means, expected_means, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(covariances, expected_covariances, rtol=0.0, atol=1e-8)
    np.testing.assert_array_equal(covariances, covariances.swapaxes(1, 2))
    assert np.trace(covariances[0]) < 0.9 * np.trace(record[0].covariance)  # the future did tell something
    if exact:
        assert np.ptp(means[:, -1]) < 1e-12
        np.testing.assert_allclose(covariances[:, -1, :], 0.0, atol=1e-12)


def test_smoothed_angles_are_the_joint_posterior_wrapped() -> None:
    """A turning angle and its rate are linear but for the wrapping: the joint posterior of the unrolled angle holds."""
    space = StateSpace(angles("angle", ("angle",)), vector("rate", ("rate",), "rad/s"))
    transition, process_root = np.array([[1.0, 0.5], [0.0, 1.0]]), np.diag([0.05, 0.02])
    rng = np.random.default_rng(2)
    measured = 2.0 + 0.2 * np.arange(STEPS) + 0.1 * rng.normal(size=STEPS)  # passes pi on the way

    problem = LinearProblem(seed=0, n=2)
    problem.mean, problem.covariance = np.array([2.1, 0.3]), np.diag([0.2, 0.1])
    problem.transitions = np.broadcast_to(transition, (STEPS, 2, 2))
    problem.process_roots = np.broadcast_to(process_root, (STEPS, 2, 2))
    problem.measurements = [[(np.array([[1.0, 0.0]]), np.array([[0.1]]), np.array([z]))] for z in measured]
    expected_means, expected_covariances = problem.joint_posterior()
    assert expected_means[0, 0] < np.pi < expected_means[-1, 0]

    bearing = StateSpace(angles("z", ("z",)))
    filter_ = Unscented(space)
    state, cross = filter_.start(problem.mean, problem.covariance), problem.covariance
    record = []
    for k, z in enumerate(measured):
        if k > 0:
            turned = lambda points: space.plus(np.zeros(2), points @ transition.T)  # noqa: E731
            state, cross = moved_on(filter_, state, turned, process_root)
        predicted, wrapped = (state.mean, filter_.covariance(state)), bearing.plus([0.0], [z])
        state, _, _ = filter_.update(
            state, lambda points: points[:, :1].copy(), wrapped, np.array([[0.1]]), space=bearing
        )
        record.append(FilterStep(*predicted, cross, state.mean, filter_.covariance(state)))
    means, covariances = smooth(space, record)
    assert (np.abs(means[:, 0]) <= np.pi).all()
    np.testing.assert_allclose(space.minus(means, space.plus(np.zeros(2), expected_means)), 0.0, atol=1e-9)
    np.testing.assert_allclose(covariances, expected_covariances, atol=1e-9)


def test_smoother_does_not_see_how_the_world_is_turned_and_gains_on_the_filter() -> None:
    """Planar motion with drifting heading, positions measured now and then."""
    space = StateSpace(se2("pose"))
    rng = np.random.default_rng(3)
    motions = np.column_stack([np.full(60, 0.2), np.zeros(60), np.full(60, 0.08)])
    process_root = np.diag([0.01, 0.01, 0.05])
    drift, noise = rng.normal(size=(60, 3)) @ process_root, 0.05 * rng.normal(size=(60, 2))
    runs = []
    for turn in (0.0, 0.5 * np.pi):
        world = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        truth = np.array([0.0, 0.0, turn])
        filter_ = Unscented(space)
        state = filter_.start(space.plus(truth, [0.1, 0.1, 0.2]), np.diag([0.01, 0.01, 0.04]))
        truths, record = [], []
        for k in range(60):
            truth = space.plus(truth, motions[k] + drift[k])
            driven = lambda points, k=k: space.plus(points, motions[k])  # noqa: E731
            state, cross = moved_on(filter_, state, driven, process_root)
            predicted = state.mean, filter_.covariance(state)
            if k % 5 == 4:
                position = truth[:2] + world @ noise[k]
                state, _, _ = filter_.update(state, lambda points: points[:, :2].copy(), position, 0.05 * np.eye(2))
            truths.append(truth)
            record.append(FilterStep(*predicted, cross, state.mean, filter_.covariance(state)))
        means, covariances = smooth(space, record)
        filtered = space.minus(np.array([step.mean for step in record]), truths)
        runs.append((space.minus(means, truths), covariances, filtered))
    np.testing.assert_allclose(runs[0][0], runs[1][0], atol=1e-9)
    np.testing.assert_allclose(runs[0][1], runs[1][1], atol=1e-11)
    errors, covariances, filtered = runs[0]
    assert np.sqrt(np.mean(errors**2)) < 0.7 * np.sqrt(np.mean(filtered**2))
    nees = np.einsum("ki,kij,kj->k", errors, np.linalg.inv(covariances), errors)
    assert 1.0 < nees.mean() < 6.0  # three dimensions, few independent stretches


def test_state_that_does_not_move_is_smoothed_to_the_last_estimate() -> None:
    """All is known of it at the end, also its covariance, in the tangent space there: far from the first estimate."""
    space = StateSpace(se2("pose"), so3("attitude"))
    start = space.plus(space.origin(), [1.0, -2.0, 3.0, 0.4, -0.2, 0.9])
    offset = np.array([0.8, -0.5, 0.9, 0.7, -0.6, 0.5])
    state = Moments(start, np.eye(6))
    record = [FilterStep(*state, np.eye(6), *state)]
    for scale in (1.0, 0.5):
        predicted = predict(state, state.mean, np.eye(6), np.zeros((6, 6)))
        noise = np.diag([0.01, 0.04, 0.02, 0.05, 0.01, 0.03])
        after, _, _ = update(space, predicted, scale * offset, np.eye(6), noise)
        record.append(FilterStep(*predicted, state.covariance, *after))
        state = after
    assert np.linalg.norm(space.minus(state.mean, start)) > 1.5
    means, covariances = smooth(space, record)
    for mean, covariance in zip(means, covariances, strict=True):
        np.testing.assert_allclose(space.minus(mean, state.mean), 0.0, atol=1e-12)
        np.testing.assert_allclose(covariance, state.covariance, atol=1e-12)


def test_single_step_is_left_as_it_is_and_none_is_an_error() -> None:
    space = StateSpace(vector("x", ("x",), ""))
    step = FilterStep(np.zeros(1), np.eye(1), np.eye(1), np.array([3.0]), np.array([[2.0]]))
    means, covariances = smooth(space, [step])
    np.testing.assert_array_equal(means, [[3.0]])
    np.testing.assert_array_equal(covariances, [[[2.0]]])
    with pytest.raises(ValueError, match="no steps"):
        smooth(space, [])
