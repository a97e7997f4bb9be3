"""What the navigation tells of its own velocity makes another filter believe the same of it, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.filtering.moments import Moments, corrected
from thruster_chain_estimation.estimators.jointed_navigation import TICK_S, JointedNavigation, errors_of, of_tick
from thruster_chain_estimation.estimators.parameter_filter import ParameterFilter
from thruster_chain_estimation.model import inertial_layout, parameter_layout
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

Array = NDArray[np.float64]
CONFIGURATION = ThrusterChainConfiguration()
COUNT = CONFIGURATION.chain.count


@pytest.mark.parametrize("kept", [0.2, 0.9, 1.0 - 1e-6])
def test_one_covariance_becomes_the_other(kept: float) -> None:
    """Of correlated axes, one of which the pins told more of; and zero becomes the change."""
    before = np.array([[4e-4, 1.5e-4], [1.5e-4, 1e-4]])
    seen = np.linalg.cholesky(before) @ np.array([0.6, 0.8])
    after = before - (1.0 - kept) * np.outer(seen, seen)
    change = 0.3 * seen * np.sqrt(1.0 - kept)
    errors = of_tick(before, before, after, np.append(change, [0.0, 0.0]))
    np.testing.assert_allclose(errors.drift, 0.0, atol=1e-18)
    told = corrected(Moments(np.zeros(2), before), errors.told, errors.by, np.diag(errors.variances))
    np.testing.assert_allclose(told.covariance, after, rtol=1e-5)
    np.testing.assert_allclose(told.mean, change, rtol=1e-4)


def test_what_a_turn_of_the_whole_does_is_left_out() -> None:
    """A velocity that is wrong by an unknown heading of all links alone is not wrong against drag."""
    size, chain = inertial_layout.state_size(COUNT), inertial_layout.chain_part(COUNT)
    turn = np.zeros(size)
    turn[inertial_layout.LINK * np.arange(COUNT) + inertial_layout.HEADING] = 1.0
    turn[chain : chain + 2] = -0.4, 0.7
    covariance = 1e-2 * np.outer(turn, turn)
    np.testing.assert_allclose(errors_of(covariance, COUNT), 0.0, atol=1e-15)
    covariance[chain, chain] += 1e-4
    np.testing.assert_allclose(errors_of(covariance, COUNT), np.diag([1e-4, 0.0]), atol=1e-15)


def test_without_drag_both_filters_believe_the_same() -> None:
    """Ten seconds of IMUs that turn, on the one side; on the other only what was told of them."""
    rng = np.random.default_rng(3)
    navigation, parameters = JointedNavigation(CONFIGURATION), ParameterFilter(CONFIGURATION)
    mean, covariance = inertial_layout.started(CONFIGURATION, np.zeros(COUNT), 1e-4 * np.eye(COUNT), np.zeros(2))
    state, believed = navigation.start(mean, covariance), parameters.start()
    velocity = parameters.chain + parameter_layout.VELOCITY_X
    for tick in range(1, 1000):
        tick_s = tick * TICK_S
        for link in range(COUNT):
            for at_s in (tick_s - TICK_S, tick_s - 0.5 * TICK_S, tick_s):
                reading = np.array([at_s, 1.5 * np.sin(2.0 * at_s) + 1e-3 * rng.normal(), *rng.normal(0.0, 0.03, 2)])
                state = navigation.heard(state, link, reading)
        state, moved, _, _ = navigation.tick(state, tick_s, tick_s < 1.0)
        believed, _ = parameters.ticked(believed, tick_s, moved, True)
        theirs = believed.belief.covariance[velocity : velocity + 2, velocity : velocity + 2]
        if tick_s > 1.5:
            np.testing.assert_allclose(
                np.sqrt(np.diag(theirs)), np.sqrt(np.diag(errors_of(state.covariance, COUNT))), rtol=0.1
            )
    assert np.sqrt(errors_of(state.covariance, COUNT)[0, 0]) > 0.02
