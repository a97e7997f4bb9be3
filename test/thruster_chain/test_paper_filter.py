"""The paper's compiled step against FilterPy on the same sigma points, and its iterations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.thruster_chain.steps import PrintedModel, filterpy_filter
from thruster_chain_estimation.estimators import paper_filter as paper
from thruster_chain_estimation.model.dynamics import read_imus, rods

PERIOD = 0.01
VARIANCES = np.array([1e-4, 1e-4, 1e-6])


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
        parameters = np.log(rng.uniform(0.3, 1.0, count)), np.log(rng.uniform(2e-3, 5e-3, count))
        mean = np.concatenate([*parameters, rng.normal(size=2 * count)])
        stddev = np.repeat([0.02, 0.02, 0.01, 0.005], count)
        noise = np.repeat([0.01, 0.003, 0.002, 0.001], count)
        return cls(rods(2.0 * half, psi), PrintedModel(half, psi), mean, np.diag(stddev**2), noise**2)

    def packed(self, spread: float, bent: float = np.inf) -> tuple:
        """Settings, with numbers in their room that would show in the results if anything read them."""
        links, size = len(self.links), len(self.mean)
        room = (np.full((rows, 2 * size + 1), np.nan) for rows in (3 * links, size - 2 * links, 3 * links))
        return self.links, False, self.step_noise / PERIOD, np.full(size, np.inf), VARIANCES, spread, bent, *room

    def predict(self, thrust: np.ndarray, spread: float, mean: np.ndarray, covariance: np.ndarray) -> tuple:
        free = np.ones(len(mean), dtype=bool)
        return paper.predict(self.packed(spread), mean, covariance, free, thrust, PERIOD)

    def update(
        self,
        mean: np.ndarray,
        covariance: np.ndarray,
        thrust: np.ndarray,
        measured: np.ndarray,
        spread: float,
        bent: float = np.inf,
    ) -> tuple:
        """Mean and covariance, by the first links' readings."""
        count = len(measured)
        seen = np.empty((count, 3)), np.empty((count, 3, 3)), np.empty((count, 2))
        packed, open_ = self.packed(spread, bent), np.full(2, 1e30)
        return paper.update(packed, mean, covariance, thrust, np.arange(count), measured, open_, seen)


@pytest.mark.parametrize(("count", "alpha", "kappa"), [(10, 0.2, 1.0), (30, 1.0, 0.0)])
def test_steps_are_filterpy_s(count: int, alpha: float, kappa: float) -> None:
    """Of thirty links too, whose 120 states are more than a block of the algebra."""
    case, rng = Case.drawn(count, count), np.random.default_rng(1)
    spread, noise = alpha * np.sqrt(4 * count + kappa), np.diag(np.tile(VARIANCES, count))
    theirs = filterpy_filter(
        case.printed, PERIOD, case.mean, case.covariance, np.diag(case.step_noise), noise, alpha, alpha**2, kappa
    )
    truth = case.mean + 0.01 * rng.normal(size=4 * count)
    mean, covariance, scale = case.mean, case.covariance, np.sqrt(np.diag(case.covariance))
    for _ in range(10 if count < 30 else 2):
        case.printed.thrust = thrust = rng.normal(size=count)
        truth = case.printed.move(truth, PERIOD)
        measured = case.printed.read(truth) + np.sqrt(np.diag(noise)) * rng.normal(size=3 * count)
        theirs.predict()
        theirs.update(measured)
        mean, covariance = case.predict(thrust, spread, mean, covariance)
        mean, covariance = case.update(mean, covariance, thrust, measured.reshape(-1, 3), spread)
        np.testing.assert_allclose((mean - theirs.x) / scale, 0.0, atol=1e-9)
        np.testing.assert_allclose((covariance - theirs.P) / np.outer(scale, scale), 0.0, atol=1e-9)


def test_an_iterated_correction_is_near_the_exact_posterior() -> None:
    """The first push on a link whose mass (20 %) and heading (0.1 rad) are hardly known: by a grid of 400 by 400."""
    thrust, truth = np.array([1.0, 0.0]), np.array([np.log(0.6), np.log(0.5), *np.log([2e-3, 2e-3]), 0.1, 0, 0, 0])
    case = Case.drawn(2, 0)
    half, psi = np.full(2, 0.125), np.array([0.8, 1.0])
    case = case._replace(links=rods(2.0 * half, psi))
    # All but one mass and one heading are known.
    prior, covariance = truth.copy(), np.diag([0.2**2, 1e-18, 1e-18, 1e-18, 0.1**2, 1e-14, 1e-14, 1e-14])
    prior[[0, 4]] = np.log(0.5), -0.1
    given, readings = np.concatenate([np.exp(-truth[:4]), thrust])[:, None], np.empty((6, 1))
    read_imus(False, case.links, given, truth[4:, None].copy(), readings)
    measured = readings.reshape(2, 3)
    (mean, found), (plain, sure) = (
        case.update(prior, covariance, thrust, measured[:1], np.sqrt(2.0), bent) for bent in (paper.BENT, np.inf)
    )
    mean, found, plain, sure = mean[[0, 4]], found[np.ix_([0, 4], [0, 4])], plain[[0, 4]], sure[np.ix_([0, 4], [0, 4])]

    near = np.linspace(-0.06, 0.06, 400)
    log_mass, heading = np.meshgrid(np.log(0.6) + near, 0.1 + near, indexing="ij")
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


def test_correction_is_kalman_s_also_by_points_from_elsewhere_where_a_model_is_linear() -> None:
    n, rng = 4, np.random.default_rng(2)
    mean, root, slope = rng.normal(size=n), np.tril(rng.normal(size=(n, n))) + 2.0 * np.eye(n), rng.normal(size=(2, n))
    covariance, noise, value = root @ root.T, np.diag([0.3, 0.2, 0.1]), rng.normal(size=3)
    whole = np.vstack([slope, np.eye(n)[1]])
    gain = covariance @ whole.T @ np.linalg.inv(whole @ covariance @ whole.T + noise)
    for at, of, elsewhere in ((mean, root, False), (mean + 1.0, 0.5 * np.eye(n), True)):
        points = np.column_stack([at, at[:, None] + 1.7 * of, at[:, None] - 1.7 * of])
        given = slope @ points, np.array([1]), 1.7, of, at, elsewhere
        expected, total, cross, _ = paper._expected(mean, covariance, *given)
        after, left = paper._corrected(mean, covariance, value - expected, total + noise, cross)
        np.testing.assert_allclose(after, mean + gain @ (value - whole @ mean), rtol=1e-10)
        np.testing.assert_allclose(left, covariance - gain @ whole @ covariance, rtol=1e-9, atol=1e-10)
