"""Fixed-interval smoother of `robust`: each of its two filters forward, then back, see below.

Its states hold the measurements, and the filter's state once a second. Looking back, each of those seconds is filtered
once more, with all that a tick was: so ten minutes of ten links take about half a gigabyte and not forty.

Of the navigation a tick is linear in the error: a transition F, the pins' correction, and before and after it a
`keep_unobservable`, which is a change of the linearisation's axes and so a transition as well.

Of the parameter filter a tick is a transition, and at the end of a window a correction. It has two beliefs. That of the
end has come along one line: back to where a challenger began that took over, it was that challenger; before, it was the
belief of those times, which had not yet seen the load that came after. So a load is placed where the challenger began,
however late it was found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Estimate, Matrix, Measurement, Vector
from onboard_estimation.filtering.moments import Later, Moments, Seen
from onboard_estimation.pipeline.estimator import Estimator, Step
from thruster_chain_estimation.estimators import inertial_kernels
from thruster_chain_estimation.estimators.jointed_navigation import NavigationState
from thruster_chain_estimation.estimators.parameter_filter import ParameterPassage, ParameterState
from thruster_chain_estimation.estimators.robust_estimator import PastTick, RobustEstimator, RobustState
from thruster_chain_estimation.model import inertial_layout
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

STRETCH_TICKS = 100
"""Between two states that are kept: 1 s."""


class Stretch(NamedTuple):
    """A stretch of the run: the filter's state at its start, and what was measured in it."""

    start: RobustState
    measurements: tuple[Measurement, ...] = ()


class SmootherState(NamedTuple):
    """The filter's, and what it came from: whole stretches, and the one that still grows."""

    filtered: RobustState
    past: tuple[Stretch, ...]
    last: Stretch


class RobustSmoother(Estimator[SmootherState]):
    """`RobustEstimator`, which looks back over what it has filtered: a `Smoother`.

    What the pins' gate refused stays refused. What comes after a gap over which headings are lost says nothing of those
    before it.
    """

    def __init__(self, configuration: ThrusterChainConfiguration) -> None:
        self._filter = RobustEstimator(configuration)
        self.space = self._filter.space

    def start(self, initial: Estimate | None) -> SmootherState:
        """As the filter."""
        filtered = self._filter.start(initial)
        return SmootherState(filtered, (), Stretch(filtered))

    def step(self, state: SmootherState, measurement: Measurement) -> Step:
        """As the filter; the measurement is kept."""
        filtered, past, last = state
        if filtered.ticks >= last.start.ticks + STRETCH_TICKS:
            past, last = (*past, last), Stretch(filtered)
        step = self._filter.step(filtered, measurement)
        last = last._replace(measurements=(*last.measurements, measurement))
        return step._replace(state=SmootherState(step.state, past, last))

    def smoothed(self, state: SmootherState) -> list[Estimate]:
        """One wherever the filter has one, and at the end the filter's own."""
        end = state.filtered
        # What was measured later says of the navigation, and of both beliefs that there are at the end.
        navigation = unknown = Later.nothing(len(end.navigation.mean))
        belief, challenger = (Line(Later.nothing(len(end.parameters.belief.mean)), one) for one in (False, True))
        out: list[Estimate] = []
        for stretch in reversed((*state.past, state.last)):
            steps = [Step(stretch.start)]
            for measurement in stretch.measurements:
                steps.append(self._filter.step(steps[-1].state, measurement))
            for step in reversed(steps[1:]):
                after: RobustState = step.state
                if step.estimate is not None:
                    parameters = after.parameters._replace(
                        belief=belief.smoothed(after.parameters),
                        challenger=challenger.smoothed(after.parameters),
                        evidence=end.parameters.evidence,
                    )
                    smoothed = _smoothed(after.navigation, navigation)
                    given_later = after._replace(navigation=smoothed, parameters=parameters)
                    out.append(self._filter.told(given_later, step.estimate.stamp_ns))
                for tick in reversed(after.passed):
                    navigation = before_navigation_tick(navigation, tick)
                    belief, challenger = (one.before_tick(tick.parameters) for one in (belief, challenger))
                if after.restarted:
                    navigation = unknown
        return out[::-1]


def _smoothed(state: NavigationState, later: Later) -> NavigationState:
    """The navigation given what came later, turning rates with the biases and scales that it then has.

    Its velocity and position stay the filter's: of their errors the parameter filter knows, and is smoothed.
    """
    mean, covariance = later.smoothed(Moments(state.mean, state.covariance))
    links = inertial_layout.LINK * np.arange(len(state.rates))
    bias, scale = links + inertial_layout.GYRO_BIAS, links + inertial_layout.GYRO_SCALE
    gain = 1.0 - mean[scale]
    rates = gain / (1.0 - state.mean[scale]) * state.rates - gain * (mean[bias] - state.mean[bias])
    chain = inertial_layout.chain_part(len(links))
    mean[chain : chain + 4] = state.mean[chain : chain + 4]
    return state._replace(mean=mean, covariance=covariance, rates=rates)


def before_navigation_tick(later: Later, tick: PastTick) -> Later:
    """What is said of the navigation's state (n,) before a tick; a bias that has jumped says nothing of before."""
    if tick.pinned is not None:
        toward, slopes, seen, onward, tight = tick.pinned
        later = _before_carrying(later, onward, tight)
        later = _before_correction(later, slopes, seen, 1.0)
        later = _before_carrying(later, toward, tight)
    for closing in reversed(tick.closings):
        by = np.eye(len(later.adjoint))
        by[closing.rows] = closing.by
        later = Later(by.T @ later.adjoint, by.T @ later.information @ by)
    return _before_prediction(later, tick.transition)


class Line(NamedTuple):
    """A belief of the end, gone back: `later` of what it was, which was the challenger or the belief of those times."""

    later: Later
    challenging: bool

    def smoothed(self, state: ParameterState) -> Moments:
        """Given what came later along the line."""
        return self.later.smoothed(state.challenger if self.challenging else state.belief)

    def before_tick(self, passage: ParameterPassage) -> Line:
        """Before a tick of the parameter filter."""
        later = self.later
        challenging = passage.taken_over or (self.challenging and not passage.begun_anew)
        for corrected in reversed(passage.challenger if challenging else passage.belief):
            later = _before_correction(later, corrected.slopes, corrected.seen, corrected.share)
        return Line(_before_prediction(later, passage.transition), challenging)


def _before_prediction(later: Later, transition: Matrix) -> Later:
    """Before a transition as `inertial_kernels.transform` takes it."""
    row, column = transition[:, :2].astype(np.intp).T
    adjoint, information = later.adjoint.copy(), later.information.copy()
    np.add.at(adjoint, column, transition[:, 2] * later.adjoint[row])
    inertial_kernels.transform(information, np.ascontiguousarray(transition[:, [1, 0, 2]]))
    return Later(adjoint, information)


def _before_correction(later: Later, slopes: Matrix, seen: Seen, share: float) -> Later:
    precision = share * seen.whitener.T @ seen.whitener
    return later.before_correction(slopes, seen.spread.T @ precision, precision, seen.value)


def _before_carrying(later: Later, change: Vector, tight: NDArray[np.bool_]) -> Later:
    """Before `inertial_kernels.keep_unobservable`, whose transition is I + directions^T means."""
    directions, means = inertial_kernels.unobservable(change, tight)
    adjoint = later.adjoint + means.T @ (directions @ later.adjoint)
    half: Matrix = later.information + (later.information @ directions.T) @ means
    return Later(adjoint, half + means.T @ (directions @ half))
