"""Pushes that are forecast do what was said, in the prediction and in a filter that runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from observed_chains import PAPER_ANGLES, assumed, paper_chain, paper_noise, paper_prior, paper_state

from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.judging.information import Forecast, Push, forecast, moved, predict
from thruster_chain_estimation.judging.observed_chain import ObservedChain, blocks, quantities
from thruster_chain_estimation.model.configuration import PaperConfiguration, ThrusterChainConfiguration

PHYSICAL = paper_chain(True)


def known_but(name: str) -> np.ndarray:
    """The prior, with masses and inertias known to half a percent but for one."""
    stddev, at = paper_prior(), blocks(3)
    stddev[at.mass], stddev[at.inertia] = 0.0025, 1.3e-5
    stddev[quantities(3).index(name)] = paper_prior()[quantities(3).index(name)]
    return stddev


def noisy(factor: float) -> ObservedChain:
    """IMUs so much worse than the paper's."""
    return replace(
        PHYSICAL,
        accelerometer_stddev_m_s2=factor * PHYSICAL.accelerometer_stddev_m_s2,
        gyro_stddev_rad_s=factor * PHYSICAL.gyro_stddev_rad_s,
    )


def filtered(
    configuration: ThrusterChainConfiguration,
    time_s: np.ndarray,
    thrust_n: np.ndarray,
    outputs: np.ndarray,
    mean: np.ndarray,
    stddev: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (4N,) and covariance after the last outputs, by the paper's filter from `mean` and `stddev` (5N,)."""
    paper_filter, count = PaperFilter(configuration, dead_reckoned=False), configuration.chain.count
    told = slice(4 * count)
    moments = paper_filter.start(mean[told], np.diag(stddev[told] ** 2))
    for k in range(len(time_s)):
        moments, _ = paper_filter.update(moments, thrust_n[k], np.arange(count), outputs[k].reshape(count, 3))
        if k + 1 < len(time_s):
            moments = paper_filter.predict(moments, thrust_n[k], time_s[k + 1] - time_s[k])
    return paper_filter.published(moments)


@pytest.mark.parametrize("name", ["m2", "j1", "j3"])
def test_push_leaves_in_a_filter_what_was_said(name: str) -> None:
    chain, prior = noisy(10.0), known_but(name)
    push = forecast(assumed(chain), paper_state(), np.diag(prior**2)).push
    assert push is not None
    assert push.parameter == name
    assert push.before == pytest.approx(prior[quantities(3).index(name)])
    assert push.after < 0.9 * push.before
    samples = round(100 * push.duration_s)
    thrust = np.zeros((samples + 1, 3))
    thrust[:samples, push.thruster - 1] = 1.0
    time = 0.01 * np.arange(samples + 1)
    _, outputs = moved(chain, paper_state(), thrust, time)
    rng = np.random.default_rng(1)
    noisy_outputs = outputs + rng.normal(size=outputs.shape) * chain.noise
    paper = replace(
        PaperConfiguration(heading_noise_rad=0.0, rate_noise_rad_s=0.0, mass_noise_kg=0.0, inertia_noise_kg_m2=0.0),
        accelerometer_stddev_m_s2=chain.accelerometer_stddev_m_s2,
        gyro_stddev_rad_s=chain.gyro_stddev_rad_s,
    )
    configuration = ThrusterChainConfiguration(paper=paper)
    _, covariance = filtered(configuration, time, thrust, noisy_outputs, paper_state(), prior)
    left = np.sqrt(np.diag(covariance))[quantities(3).index(name)]
    assert left == pytest.approx(push.after, rel=0.15)


def test_no_other_thruster_halves_it_sooner() -> None:
    chain, prior = noisy(3.0), known_but("m2")
    push = forecast(assumed(chain), paper_state(), np.diag(prior**2)).push
    assert push is not None
    assert push.after <= 0.5 * push.before
    left = []
    for thruster in range(3):
        thrust = np.zeros((round(100 * push.duration_s), 3))
        thrust[:, thruster] = 1.0
        path, _ = moved(chain, paper_state(), thrust, 0.01 * np.arange(len(thrust)))
        left.append(predict(chain, path, prior)[0][-1, quantities(3).index("m2")])
    assert int(np.argmin(left)) == push.thruster - 1


def test_scale_that_no_push_can_tell_is_said_and_what_is_known_needs_none() -> None:
    """Gains that are known to 5 % only: with what the prior says, that is all there is to the common scale."""
    prior = paper_prior(gain=0.05)
    covariance = np.diag(prior**2)
    state = paper_state()
    for _ in range(8):
        found = forecast(assumed(PHYSICAL), state, covariance)
        if found.push is None:
            break
        thrust = np.zeros((round(100 * found.push.duration_s) + 50, 3))
        thrust[:-50, found.push.thruster - 1] = 1.0
        path, _ = moved(PHYSICAL, state, thrust, 0.01 * np.arange(len(thrust)))
        covariance, state = predict(PHYSICAL, path, covariance)[1], path.states[-1]
    assert found.push is None
    assert str(found).startswith("no single push of up to 1 s tells much more of ")
    deviations = np.sqrt(np.diag(covariance))[blocks(3).mass] / 0.5
    scaled = slice(blocks(3).mass.start, None)
    scale_stddev = np.sum((paper_state() / np.maximum(prior, 1e-30))[scaled] ** 2) ** -0.5
    assert (deviations > scale_stddev).all()
    assert (deviations < 1.5 * scale_stddev).all()
    known = forecast(assumed(PHYSICAL), paper_state(), np.diag((0.02 * paper_prior()) ** 2))
    assert str(known) == "all masses and inertias are known to 1 % or better"


def test_a_slow_thruster_needs_longer_and_a_random_walk_takes_some_back() -> None:
    chain, prior = noisy(30.0), known_but("m2")
    quick = forecast(assumed(chain), paper_state(), np.diag(prior**2)).push
    slow = forecast(assumed(chain, time_constant_s=0.3), paper_state(), np.diag(prior**2)).push
    walking = forecast(assumed(chain, paper_noise()), paper_state(), np.diag(prior**2)).push
    assert quick is not None
    assert slow is not None
    assert walking is not None
    assert (slow.duration_s, slow.after) > (quick.duration_s, quick.after)
    assert (walking.duration_s, walking.after) > (quick.duration_s, quick.after)


def test_words() -> None:
    push = Push(2, 0.3, "m2", 0.1, 0.048)
    assert str(push) == "push thruster 2 for 0.3 s to halve the deviation of m2 (0.1 to 0.048 kg)"
    assert str(Forecast(replace(push, parameter="j1", after=0.08), ("m3",))) == (
        "push thruster 2 for 0.3 s to take 20 % off the deviation of j1 (0.1 to 0.08 kg m^2); "
        "no single push of up to 1 s tells much more of m3"
    )


def test_long_chain_tries_neighbours_only() -> None:
    count = 12
    chain = paper_chain(True, tuple(np.resize(PAPER_ANGLES, count)))
    prior = paper_prior(count)
    prior[blocks(count).mass] = 0.001
    prior[blocks(count).inertia] = 1e-5
    prior[quantities(count).index("m9")] = 0.1
    push = forecast(assumed(chain), paper_state(count=count), np.diag(prior**2)).push
    assert push is not None
    assert push.parameter == "m9"
    assert 7 <= push.thruster <= 11
