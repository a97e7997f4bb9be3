"""The paper's compiled step against FilterPy on the same sigma points; held parameters, gates and iterations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.thruster_chain.peers import PrintedModel, filterpy_filter
from salp_estimation.thruster_chain import paper_filter as paper
from salp_estimation.thruster_chain.chain_model import ChainModel
from salp_estimation.thruster_chain.dynamics import propagate, read_imus

PERIOD = 0.01
VARIANCES = np.array([1e-4, 1e-4, 1e-6])
OPEN = 1e30


class Case(NamedTuple):
    """A chain of rods, what is thought of it, and the noise of a step."""

    model: ChainModel
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
        model, printed = ChainModel.rods(2.0 * half, psi), PrintedModel(half, psi)
        return cls(model, printed, mean, np.diag(stddev**2), noise**2)

    def packed(self, spread: float, size: int, physical: bool = False, bent: float = np.inf) -> tuple:
        """Settings, with numbers in their room that would show in the results if anything read them."""
        links, noise = len(self.model.links), np.zeros(size)
        noise[: 4 * links] = self.step_noise / PERIOD
        room = (np.full((rows, 2 * size + 1), np.nan) for rows in (3 * links, size - 2 * links, 3 * links))
        return tuple(self.model), physical, noise, np.full(size, np.inf), VARIANCES, spread, bent, *room

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
        heard = np.arange(len(self.model.links)) if heard is None else heard
        count = len(heard)
        seen = np.empty((count, 3)), np.empty((count, 3, 3)), np.empty((count, 2))
        thresholds = np.array([threshold, 0.0 if threshold < OPEN else threshold])
        packed = self.packed(spread, len(mean), physical, bent)
        return *paper.update(packed, mean, covariance, thrust, heard, measured, thresholds, *seen), *seen

    def readings(self, state: np.ndarray, thrust: np.ndarray, physical: bool = False) -> np.ndarray:
        """(N, 3) without noise."""
        twice, out = 2 * len(self.model.links), np.empty((3 * len(self.model.links), 1))
        given, motion = np.concatenate([np.exp(-state[:twice]), thrust])[:, None], state[twice:, None].copy()
        read_imus(physical, self.model, given, motion, out)
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
    case = case._replace(model=ChainModel.rods(2.0 * half, psi))
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
    propagate(case.model, np.concatenate([np.exp(-truth[:200]), thrust])[:, None], moved, PERIOD, PERIOD)
    truth[200:] = moved[:, 0]
    mean, covariance = case.predict(thrust, spread)
    after, corrected, *_ = case.update(mean, covariance, thrust, case.readings(truth, thrust), spread)
    assert np.linalg.eigvalsh(corrected)[0] > 0.0
    assert np.trace(corrected) < np.trace(covariance)
    deviation = (after - truth) / np.sqrt(np.diag(corrected))
    assert np.abs(deviation).max() < 1.0
