"""Pushes that are forecast do what was said, in the prediction and in a filter that runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from observed_chains import assumed, paper_chain, paper_prior, paper_state

from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.judging.information import (
    blocks,
    forecast,
    moved,
    predict,
    quantities,
)
from thruster_chain_estimation.model.configuration import PaperConfiguration, ThrusterChainConfiguration

PHYSICAL = paper_chain(True)


def test_push_leaves_in_a_filter_what_was_said() -> None:
    """From rest and straight, masses and inertias known to half a percent but for one; IMUs that are rather bad."""
    accelerometer, gyro = 10.0 * PHYSICAL.accelerometer_stddev_m_s2, 10.0 * PHYSICAL.gyro_stddev_rad_s
    chain = replace(PHYSICAL, accelerometer_stddev_m_s2=accelerometer, gyro_stddev_rad_s=gyro)
    prior, at, asked = paper_prior(), blocks(3), quantities(3).index("j1")
    prior[at.mass], prior[at.inertia] = 0.0025, 1.3e-5
    prior[asked] = paper_prior()[asked]
    push = forecast(assumed(chain), paper_state(), np.diag(prior**2)).push
    assert push is not None
    assert push.parameter == "j1"
    assert push.before == pytest.approx(prior[asked])
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
    left = np.sqrt(np.diag(covariance))[asked]
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
