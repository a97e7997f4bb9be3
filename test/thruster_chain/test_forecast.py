"""Pushes that are forecast do what was said, in the prediction and in a filter that runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from observed_chains import PAPER_ANGLES, assumed, paper_chain, paper_noise, paper_prior, paper_state

from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.judging.information import (
    AssumedChain,
    ObservedChain,
    Push,
    blocks,
    forecast,
    moved,
    predict,
    quantities,
)
from thruster_chain_estimation.model.configuration import PaperConfiguration, ThrusterChainConfiguration

PHYSICAL = paper_chain(True)


def known_but(name: str) -> np.ndarray:
    """The prior, with masses and inertias known to half a percent but for one."""
    stddev, at = paper_prior(), blocks(3)
    stddev[at.mass], stddev[at.inertia] = 0.0025, 1.3e-5
    stddev[quantities(3).index(name)] = paper_prior()[quantities(3).index(name)]
    return stddev


def best_push(known: AssumedChain, prior: np.ndarray) -> Push:
    """From rest and straight."""
    found = forecast(known, paper_state(count=known.chain.count), np.diag(prior**2)).push
    assert found is not None
    return found


def noisy(factor: float) -> ObservedChain:
    """IMUs so much worse than the paper's."""
    return replace(
        PHYSICAL,
        accelerometer_stddev_m_s2=factor * PHYSICAL.accelerometer_stddev_m_s2,
        gyro_stddev_rad_s=factor * PHYSICAL.gyro_stddev_rad_s,
    )


@pytest.mark.parametrize("name", ["m2", "j1"])
def test_push_leaves_in_a_filter_what_was_said(name: str) -> None:
    chain, prior = noisy(10.0), known_but(name)
    push = best_push(assumed(chain), prior)
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
    none = dict.fromkeys(("heading_noise_rad", "rate_noise_rad_s", "mass_noise_kg", "inertia_noise_kg_m2"), 0.0)
    noise = {name: getattr(chain, name) for name in ("accelerometer_stddev_m_s2", "gyro_stddev_rad_s")}
    paper = PaperConfiguration(**none, **noise)
    told = PaperFilter(ThrusterChainConfiguration(paper=paper), dead_reckoned=False)
    moments = told.start(paper_state()[:12], np.diag(prior[:12] ** 2))
    for k in range(samples + 1):
        moments, _ = told.update(moments, thrust[k], np.arange(3), noisy_outputs[k].reshape(3, 3))
        if k < samples:
            moments = told.predict(moments, thrust[k], 0.01)
    _, covariance = told.published(moments)
    left = np.sqrt(np.diag(covariance))[quantities(3).index(name)]
    assert left == pytest.approx(push.after, rel=0.15)


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
    quick, slow, walking = (
        best_push(one, prior)
        for one in (assumed(chain), assumed(chain, time_constant_s=0.3), assumed(chain, paper_noise()))
    )
    assert (slow.duration_s, slow.after) > (quick.duration_s, quick.after)
    assert (walking.duration_s, walking.after) > (quick.duration_s, quick.after)


def test_long_chain_tries_neighbours_only() -> None:
    count = 12
    chain = paper_chain(True, tuple(np.resize(PAPER_ANGLES, count)))
    prior = paper_prior(count)
    prior[blocks(count).mass] = 0.001
    prior[blocks(count).inertia] = 1e-5
    prior[quantities(count).index("m9")] = 0.1
    push = best_push(assumed(chain), prior)
    assert push.parameter == "m9"
    assert 7 <= push.thruster <= 11
