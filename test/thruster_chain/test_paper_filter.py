"""The paper's compiled step against FilterPy on the same sigma points; held parameters, gates and iterations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.thruster_chain.peers import PrintedModel, filterpy_filter
from thruster_chain_estimation.estimators import paper_filter as paper
from thruster_chain_estimation.model.dynamics import propagate, read_imus, rods

PERIOD = 0.01
VARIANCES = np.array([1e-4, 1e-4, 1e-6])
OPEN = 1e30


class Case(NamedTuple):
    """A chain of rods, what is thought of it, and the noise of a step."""

    links: np.ndarray
    printed: PrintedModel
    mean: np.ndarray
    covariance: np.ndarray
    step_noise: np.ndarray

    @classmethod
    def drawn(cls, count: int, seed: int) -> Case:
        """Well enough known that nothing bends much."""
        rng = np.random.default_rng(seed)
        half, psi = rng.uniform(0.1, 0.2, count), rng.uniform(0.5, 2.5, count)
        mean = np.concatenate(
            [
                np.log(rng.uniform(0.3, 1.0, count)),
                np.log(rng.uniform(2e-3, 5e-3, count)),
                rng.normal(size=2 * count),
            ]
        )
        stddev = np.repeat([0.02, 0.02, 0.01, 0.005], count)
        noise = np.repeat([0.01, 0.003, 0.002, 0.001], count)
        return cls(rods(2.0 * half, psi), PrintedModel(half, psi), mean, np.diag(stddev**2), noise**2)

    def packed(self, spread: float, size: int, physical: bool = False, bent: float = np.inf) -> tuple:
        """Settings, with numbers in their room that would show in the results if anything read them."""
        links, noise = len(self.links), np.zeros(size)
        noise[: 4 * links] = self.step_noise / PERIOD
        room = (np.full((rows, 2 * size + 1), np.nan) for rows in (3 * links, size - 2 * links, 3 * links))
        return self.links, physical, noise, np.full(size, np.inf), VARIANCES, spread, bent, *room

    def predict(
        self,
        thrust: np.ndarray,
        spread: float,
        mean: np.ndarray | None = None,
        covariance: np.ndarray | None = None,
        free: np.ndarray | None = None,
    ) -> tuple:
        """From other moments where they are given."""
        mean = self.mean if mean is None else mean
        covariance = self.covariance if covariance is None else covariance
        free = np.ones(len(mean), dtype=bool) if free is None else free
        return paper.predict(self.packed(spread, len(mean)), mean, covariance, free, thrust, PERIOD)

    def update(
        self,
        mean: np.ndarray,
        covariance: np.ndarray,
        thrust: np.ndarray,
        measured: np.ndarray,
        spread: float = 1.0,
        physical: bool = False,
        threshold: float = OPEN,
        bent: float = np.inf,
        heard: np.ndarray | None = None,
    ) -> tuple:
        """Mean, covariance, innovations, roots and NIS."""
        heard = np.arange(len(self.links)) if heard is None else heard
        count = len(heard)
        seen = np.empty((count, 3)), np.empty((count, 3, 3)), np.empty((count, 2))
        thresholds = np.array([threshold, 0.0 if threshold < OPEN else threshold])
        packed = self.packed(spread, len(mean), physical, bent)
        return *paper.update(packed, mean, covariance, thrust, heard, measured, thresholds, seen), *seen

    def readings(self, state: np.ndarray, thrust: np.ndarray, physical: bool = False) -> np.ndarray:
        """(N, 3) without noise."""
        twice, out = 2 * len(self.links), np.empty((3 * len(self.links), 1))
        given, motion = np.concatenate([np.exp(-state[:twice]), thrust])[:, None], state[twice:, None].copy()
        read_imus(physical, self.links, given, motion, out)
        return out.reshape(-1, 3)


@pytest.mark.parametrize(("alpha", "kappa"), [(1.0, 0.0), (0.2, 1.0)])
@pytest.mark.parametrize("count", [2, 3, 10])
def test_ten_steps_are_filterpy_s(count: int, alpha: float, kappa: float) -> None:
    case, rng = Case.drawn(count, count), np.random.default_rng(1)
    spread, noise = alpha * np.sqrt(4 * count + kappa), np.diag(np.tile(VARIANCES, count))
    theirs = filterpy_filter(
        case.printed, PERIOD, case.mean, case.covariance, np.diag(case.step_noise), noise, alpha, alpha**2, kappa
    )
    truth = case.mean + 0.01 * rng.normal(size=4 * count)
    mean, covariance, scale = case.mean, case.covariance, np.sqrt(np.diag(case.covariance))
    for _ in range(10):
        case.printed.thrust = thrust = rng.normal(size=count)
        truth = case.printed.move(truth, PERIOD)
        measured = case.printed.read(truth) + np.sqrt(np.diag(noise)) * rng.normal(size=3 * count)
        theirs.predict()
        theirs.update(measured)
        mean, covariance = case.predict(thrust, spread, mean, covariance)
        mean, covariance, *_ = case.update(mean, covariance, thrust, measured.reshape(-1, 3), spread)
        np.testing.assert_allclose((mean - theirs.x) / scale, 0.0, atol=1e-9)
        np.testing.assert_allclose((covariance - theirs.P) / np.outer(scale, scale), 0.0, atol=1e-9)


def test_held_parameters_and_a_place_beside_change_nothing_for_the_rest() -> None:
    """Masses known but for one; the place of the centre of mass rides along, and moves as its velocity says."""
    case, thrust, spread = Case.drawn(3, 4), np.array([1.0, -0.5, 0.8]), np.sqrt(3.0)
    nominal = np.concatenate([case.mean, [1.0, 2.0, 0.3, -0.2]])
    variance = np.concatenate([np.diag(case.covariance), [1e-4, 1e-4, 1e-6, 1e-6]])
    variance[[0, 2]] = 1e-18
    measured, free = case.readings(case.mean, thrust) + 0.01, variance > 1e-18
    found = []
    for size in (12, 16):
        mean, covariance = case.predict(thrust, spread, nominal[:size], np.diag(variance[:size]), free[:size])
        mean, covariance, *_ = case.update(mean, covariance, thrust, measured, spread)
        found.append((mean, covariance))
        np.testing.assert_allclose(mean[[0, 2]], nominal[[0, 2]], rtol=1e-14)
        assert np.diag(covariance)[[0, 2]].max() < 1.001e-18
    np.testing.assert_allclose(found[1][0][:12], found[0][0], rtol=1e-12)
    np.testing.assert_allclose(found[1][1][:12, :12], found[0][1], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found[1][0][12:14], [1.003, 1.998], atol=1e-3)
    assert np.sqrt(found[1][1][14, 14]) > 1e-3  # the thrust's direction is not known for sure


def test_an_imu_that_lies_is_left_out_and_the_others_are_used() -> None:
    case, thrust, spread = Case.drawn(4, 6), np.array([1.0, -0.5, 0.8, 0.6]), 1.0
    mean, covariance = case.predict(thrust, spread)
    measured = case.readings(mean, thrust)
    measured[2] += (5.0, 0.0, 1.0)
    found = case.update(mean, covariance, thrust, measured, spread, threshold=14.0)
    without = np.array([0, 1, 3])
    alone = case.update(mean, covariance, thrust, measured[without], spread, heard=without)
    np.testing.assert_array_equal(found[0], alone[0])
    np.testing.assert_array_equal(found[1], alone[1])
    assert found[4][2, 0] > 1e3
    assert (found[4][without, 0] < 1.0).all()
    # All of them lie: nothing is used.
    nothing = case.update(mean, covariance, thrust, measured + np.array([5.0, 0.0, 1.0]), spread, threshold=14.0)
    np.testing.assert_array_equal(nothing[0], mean)


def test_innovations_of_links_are_those_of_each_alone() -> None:
    case, thrust, spread = Case.drawn(3, 7), np.array([1.0, -0.5, 0.8]), 1.0
    mean, covariance = case.predict(thrust, spread)
    measured = case.readings(mean, thrust, physical=True) + 0.02
    together = case.update(mean, covariance, thrust, measured, spread, physical=True)[2:]
    for link in range(3):
        alone = case.update(
            mean, covariance, thrust, measured[link : link + 1], spread, physical=True, heard=np.array([link])
        )[2:]
        for ours, theirs in zip(together, alone, strict=True):
            np.testing.assert_allclose(ours[link], theirs[0], rtol=1e-9, atol=1e-12)


def test_an_iterated_correction_is_near_the_exact_posterior() -> None:
    """The first push on a link whose mass (20 %) and heading (0.1 rad) are hardly known: by a grid of 400 by 400."""
    thrust, truth = np.array([1.0, 0.0]), np.array([np.log(0.6), np.log(0.5), *np.log([2e-3, 2e-3]), 0.1, 0, 0, 0])
    case = Case.drawn(2, 0)
    half, psi = np.full(2, 0.125), np.array([0.8, 1.0])
    case = case._replace(links=rods(2.0 * half, psi))
    # All but one mass and one heading are known.
    prior, covariance = truth.copy(), np.diag([0.2**2, 1e-18, 1e-18, 1e-18, 0.1**2, 1e-14, 1e-14, 1e-14])
    prior[[0, 4]] = np.log(0.5), -0.1
    measured = case.readings(truth, thrust)
    (mean, found, *_), (plain, sure, *_) = (
        case.update(
            prior,
            covariance,
            thrust,
            measured[:1],
            np.sqrt(2.0),
            bent=bent,
            heard=np.array([0]),
        )
        for bent in (paper.BENT, np.inf)
    )
    mean, found, plain, sure = mean[[0, 4]], found[np.ix_([0, 4], [0, 4])], plain[[0, 4]], sure[np.ix_([0, 4], [0, 4])]

    log_mass, heading = np.meshgrid(
        np.log(0.6) + np.linspace(-0.06, 0.06, 400), 0.1 + np.linspace(-0.06, 0.06, 400), indexing="ij"
    )
    pushed = np.exp(-log_mass)[..., None] * np.stack([np.cos(heading + 0.8), np.sin(heading + 0.8)], axis=-1)
    cost = ((log_mass - prior[0]) / 0.2) ** 2 + ((heading - prior[4]) / 0.1) ** 2
    cost += ((pushed - measured[0, :2]) ** 2).sum(axis=-1) / VARIANCES[0]
    weight = np.exp(-0.5 * (cost - cost.min()))
    weight /= weight.sum()
    grid = np.stack([log_mass, heading], axis=-1)
    exact = np.einsum("ij,ijk->k", weight, grid)
    spread = np.einsum("ij,ijk,ijl->kl", weight, grid - exact, grid - exact)
    np.testing.assert_allclose((mean - exact) / np.sqrt(np.diag(spread)), 0.0, atol=0.05)
    np.testing.assert_allclose(np.diag(found) / np.diag(spread), 1.0, atol=0.05)
    # Corrected once, it is off by several of the standard deviations that it states.
    assert np.abs((plain - exact) / np.sqrt(np.diag(sure))).max() > 3.0


def test_a_floating_chain_of_a_hundred_links_is_filtered() -> None:
    """400 states: larger than every block of the algebra; the covariance stays positive."""
    case = Case.drawn(100, 9)
    thrust, spread = np.random.default_rng(3).normal(size=100), np.sqrt(3.0)
    truth = case.mean.copy()
    moved = truth[200:, None].copy()
    propagate(case.links, np.concatenate([np.exp(-truth[:200]), thrust])[:, None], moved, PERIOD, PERIOD)
    truth[200:] = moved[:, 0]
    mean, covariance = case.predict(thrust, spread)
    after, corrected, *_ = case.update(mean, covariance, thrust, case.readings(truth, thrust), spread)
    assert np.linalg.eigvalsh(corrected)[0] > 0.0
    assert np.trace(corrected) < np.trace(covariance)
    deviation = (after - truth) / np.sqrt(np.diag(corrected))
    assert np.abs(deviation).max() < 1.0


# The algebra, against the textbook's weighted sums and NumPy.


def drawn(mean: np.ndarray, root: np.ndarray, spread: float) -> np.ndarray:
    """Sigma points as columns."""
    return np.column_stack([mean, mean[:, None] + spread * root, mean[:, None] - spread * root])


@pytest.mark.parametrize(("alpha", "kappa"), [(1.0, 0.0), (0.3, 1.0), (1e-2, 0.0)])
def test_moments_of_moved_points_are_van_der_merwe_s_weighted_sums(alpha: float, kappa: float) -> None:
    """Two states of five move; then three outputs are read, of which the last is a state as it is."""
    n, rng = 5, np.random.default_rng(0)
    mean, root = rng.normal(size=n), np.tril(rng.normal(size=(n, n))) + 2.0 * np.eye(n)
    spread, scaling = alpha * np.sqrt(n + kappa), alpha**2 * (n + kappa)
    points = drawn(mean, root, spread)
    weights = np.full(2 * n + 1, 0.5 / scaling)
    weights[0] = 1.0 - n / scaling
    squares, tolerance = weights.copy(), 1e-11 / alpha**2  # the textbook's weights are that large
    squares[0] += 1.0  # 1 - alpha^2 + beta, with beta = alpha^2

    def textbook(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = values @ weights
        return found, ((values - found[:, None]) * squares) @ (values - found[:, None]).T

    moved = np.vstack([points[:3], np.sin(points[3]) * points[0], points[4] ** 2 + points[1]])
    after, covariance = paper._predicted(mean, root @ root.T, root, moved[3:].copy(), spread)
    expected = textbook(moved)
    np.testing.assert_allclose(after, expected[0], rtol=tolerance)
    np.testing.assert_allclose(np.tril(covariance), np.tril(expected[1]), rtol=tolerance, atol=tolerance)

    outputs, place = np.vstack([points[0] * points[1], 2.0 * points[2] - points[4]]), np.array([3])
    found = paper._expected(mean, root @ root.T, outputs, place, spread, root, mean, False)
    joint = textbook(np.vstack([points, outputs, points[3]]))
    np.testing.assert_allclose(found[0], joint[0][n:], rtol=tolerance)
    np.testing.assert_allclose(np.tril(found[1]), np.tril(joint[1][n:, n:]), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[2], joint[1][n:, :n], rtol=tolerance, atol=tolerance)
    # What is linear in the state does not bend.
    assert np.abs(found[3][1]).max() < 1e-13 / alpha < found[3][0, 0]


def test_correction_is_kalman_s_also_by_points_from_elsewhere_where_a_model_is_linear() -> None:
    n, rng = 4, np.random.default_rng(2)
    mean, root, slope = rng.normal(size=n), np.tril(rng.normal(size=(n, n))) + 2.0 * np.eye(n), rng.normal(size=(2, n))
    covariance, noise, value = root @ root.T, np.diag([0.3, 0.2, 0.1]), rng.normal(size=3)
    whole = np.vstack([slope, np.eye(n)[1]])
    gain = covariance @ whole.T @ np.linalg.inv(whole @ covariance @ whole.T + noise)
    for at, of, elsewhere in ((mean, root, False), (mean + 1.0, 0.5 * np.eye(n), True)):
        given = slope @ drawn(at, of, 1.7), np.array([1]), 1.7, of, at, elsewhere
        expected, total, cross, _ = paper._expected(mean, covariance, *given)
        after, left = paper._corrected(mean, covariance, value - expected, total + noise, cross)
        np.testing.assert_allclose(after, mean + gain @ (value - whole @ mean), rtol=1e-10)
        np.testing.assert_allclose(left, covariance - gain @ whole @ covariance, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("size", [1, 7, 95, 200])
def test_triangular_algebra_is_numpy_s(size: int) -> None:
    """Sizes below, at the edge of and above the blocks."""
    rng = np.random.default_rng(size)
    factor, start = rng.normal(size=(size, 30)), rng.normal(size=(size, size))
    found = start.copy()
    paper._add_square(-1.0, factor, found)
    np.testing.assert_allclose(np.tril(found), np.tril(start - factor @ factor.T), atol=1e-12)
    paper._mirror(found)
    np.testing.assert_array_equal(found, found.T)
    root, right = np.tril(start) + 20.0 * np.eye(size), rng.normal(size=(size, 11))
    solved = right.copy()
    paper._solve_lower(root, solved)
    np.testing.assert_allclose(root @ solved, right, atol=1e-11)
