"""Both filters of `robust` gone back through, against a state that is carried forward beside the filter's.

The oracle needs no backward pass and no inverse of a covariance: the state of an instant becomes further states that
never change, tied to the filter's by a covariance, and every correction corrects them too (fixed-point smoothing;
Sarkka, "Bayesian filtering and smoothing", 2013, section 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from test_jointed_navigation import CONFIGURATION, COUNT, Run, Tick, driven, ticks
from test_parameter_filter import COMMANDED, Truth, ticked
from test_parameter_filter import CONFIGURATION as PARAMETERS
from test_parameter_filter import driven as pushed

from onboard_estimation.filtering.moments import Later, Moments
from thruster_chain_estimation.estimators import inertial_kernels
from thruster_chain_estimation.estimators.jointed_navigation import TICK_S
from thruster_chain_estimation.estimators.parameter_filter import (
    Corrected,
    ParameterFilter,
    ParameterPassage,
    ParameterState,
)
from thruster_chain_estimation.estimators.robust_smoother import Line, before_navigation_tick
from thruster_chain_estimation.model import inertial_layout

Array = NDArray[np.float64]


class Fixed:
    """Moments of an instant, corrected by what comes after it; `tie` is their covariance with the running state."""

    def __init__(self, moments: Moments) -> None:
        self.mean, self.covariance = (one.copy() for one in moments)
        self.tie = moments.covariance.copy()

    def moved(self, transition: Array) -> None:
        """The running state was."""
        self.tie = self.tie @ transition.T

    def corrected(self, slopes: Array, covariance: Array, spread: Array, innovation: Array) -> None:
        """By an innovation with that covariance (k, k); `spread` (k, n) is H P of the running state."""
        inverse = np.linalg.inv(covariance)
        gain = self.tie @ slopes.T @ inverse
        self.mean = self.mean + gain @ innovation
        self.covariance = self.covariance - gain @ covariance @ gain.T
        self.tie = self.tie @ (np.eye(len(self.mean)) - spread.T @ inverse @ slopes).T


def assert_same(found: Moments, expected: Fixed, filtered: Moments) -> None:
    """In standard deviations of the filter; where covariances were inflated to recover, rounding alone is 1e-9."""
    stddev = np.sqrt(np.diag(filtered.covariance))
    np.testing.assert_allclose((found.mean - expected.mean) / stddev, 0.0, atol=3e-9)
    np.testing.assert_allclose((found.covariance - expected.covariance) / np.outer(stddev, stddev), 0.0, atol=3e-9)


# The navigation.


def dense(transition: Array, n: int) -> Array:
    out = np.eye(n)
    np.add.at(out, tuple(transition[:, :2].astype(int).T), transition[:, 2])
    return out


def carrying(change: Array) -> Array:
    """The transition of `keep_unobservable`: it leaves what its rows are made of alone, so that T T^T shows it."""
    n = len(change)
    square = np.eye(n)
    square = inertial_kernels.keep_unobservable(square, change, np.ones(COUNT, dtype=np.bool_))
    links = inertial_layout.LINK * np.arange(COUNT)
    told = np.concatenate([links + inertial_layout.HEADING, links + inertial_layout.ACCELEROMETER_SCALE])
    out = np.eye(n)
    out[:, told] = square[:, told]
    return out


def navigated(run: Run, gate_probability: float) -> list[Tick]:
    configuration = replace(CONFIGURATION, gate_probability=gate_probability, recover_after=3)
    return ticks(run, 0.01 * np.eye(COUNT), configuration)


@pytest.fixture(scope="module")
def run() -> Run:
    return driven(5, 3.0)


@pytest.fixture(scope="module")
def plain(run: Run) -> list[Tick]:
    return navigated(run, 0.997)


@pytest.mark.parametrize("gate_probability", [0.997, 0.02])
def test_navigation_gone_back_is_a_state_carried_forward(run: Run, plain: list[Tick], gate_probability: float) -> None:
    """At rest and in motion; and where the gate refuses much, and the covariance is inflated to recover."""
    found = plain if gate_probability > 0.9 else navigated(run, gate_probability)
    n = inertial_layout.chain_part(COUNT) + inertial_layout.CHAIN
    refused = [one.passage.pinned is None for one in found]
    assert any(refused) == (gate_probability < 0.9)
    fixed: dict[int, Fixed] = {}
    for k, (before, *_, passage) in enumerate(found):
        if k in (0, 60, 149, 151, 230):
            fixed[k] = Fixed(Moments(before.mean, before.covariance))
        for one in fixed.values():
            one.moved(dense(passage.transition, n))
            if (pinned := passage.pinned) is not None:
                one.moved(carrying(pinned.toward))
                seen = pinned.seen
                one.corrected(pinned.slopes, seen.root @ seen.root.T, seen.spread, seen.value)
                one.moved(carrying(pinned.onward))
    later = Later.nothing(n)
    for k in range(len(found) - 1, -1, -1):
        later = before_navigation_tick(later, found[k].passage)
        if k in fixed:
            filtered = Moments(found[k].before.mean, found[k].before.covariance)
            assert_same(later.smoothed(filtered), fixed[k], filtered)
            assert np.linalg.eigvalsh(later.smoothed(filtered).covariance)[0] > -1e-12


# The parameters.


class Told(NamedTuple):
    """What the parameter filter was before a tick and after it, and how."""

    before: ParameterState
    after: ParameterState
    passage: ParameterPassage

    def corrections(self, challenging: bool) -> tuple[Corrected, ...]:
        """Of one of the beliefs."""
        return self.passage.challenger if challenging else self.passage.belief


@pytest.fixture(scope="module")
def told() -> list[Told]:
    """A load after 8 s, found some seconds later; a blow before it, which counts for less; what pins tell at times."""
    truth = Truth.drawn(11, draught_n=0.003)
    loaded = pushed(((truth, 8.0), (truth.loaded(2, 0.4), 7.0)), 11)
    tracker = ParameterFilter(PARAMETERS)
    state, out = tracker.start(), []
    for k, moved in enumerate(loaded.moved):
        if 600 <= k < 610:
            moved = moved._replace(angular=moved.angular + np.array([40.0, -30.0, 20.0]))
        if k % 50 == 7:
            errors = moved.errors._replace(told=np.array([1e-3]), by=np.array([[1.0, 0.5]]), variances=np.array([1e-4]))
            moved = moved._replace(errors=errors._replace(change=np.full(4, 1e-3)))
        if k % COMMANDED == 0:
            state = tracker.commanded(state, TICK_S * k, loaded.commands[k])
        after, passage = ticked(tracker, state, k, moved)
        out.append(Told(state, after, passage))
        state = after
    return out


def ancestry(told: Sequence[Told], challenging: bool) -> list[bool]:
    """Whether the belief (or the challenger) of the end was the challenger before each tick, by identity of means."""
    out = []
    for one in reversed(told):
        if one.passage.taken_over or one.passage.begun_anew:
            challenging = one.passage.taken_over
        out.append(challenging)
    return out[::-1]


@pytest.mark.parametrize("challenging", [False, True])
def test_beliefs_gone_back_are_states_carried_forward(told: list[Told], challenging: bool) -> None:
    """Through the challenger that found the load, and the belief that it began from."""
    assert told[-1].after.changes > 0
    assert min(found.share for one in told for found in one.passage.belief) < 0.5
    was_challenger = ancestry(told, challenging)
    assert len(set(was_challenger)) == 2
    n = len(told[0].before.belief.mean)
    chosen = (0, 500, *np.flatnonzero(np.diff(was_challenger)).tolist(), len(told) - 100)
    fixed: dict[int, Fixed] = {}
    for k, one in enumerate(told):
        if k in chosen:
            fixed[k] = Fixed(one.before.challenger if was_challenger[k] else one.before.belief)
        for state in fixed.values():
            state.moved(dense(one.passage.transition, n))
            for found in one.corrections(was_challenger[k]):
                covariance = found.seen.root @ found.seen.root.T / found.share
                state.corrected(found.slopes, covariance, found.seen.spread, found.seen.value)
    line = Line(Later.nothing(n), challenging)
    for k in range(len(told) - 1, -1, -1):
        line = line.before_tick(told[k].passage)
        assert line.challenging == was_challenger[k]
        if k in fixed:
            filtered = told[k].before.challenger if was_challenger[k] else told[k].before.belief
            assert_same(line.smoothed(told[k].before), fixed[k], filtered)
