"""How what later ticks say goes back through one tick of either filter of `robust`.

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

from onboard_estimation.filtering.looking_back import Later
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.filtering.wide_moments import Seen
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain import inertial_kernels
from salp_estimation.thruster_chain import inertial_layout as layout
from salp_estimation.thruster_chain.jointed_navigation import Passage
from salp_estimation.thruster_chain.parameter_filter import ParameterPassage, ParameterState


def before_navigation_tick(later: Later, passage: Passage, count: int) -> Later:
    """What is said of the navigation's state (n,) before a tick of a chain of `count` links."""
    if passage.pinned is not None:
        toward, slopes, seen, onward = passage.pinned
        later = _before_carrying(later, onward, count)
        later = _before_correction(later, slopes, seen, 1.0)
        later = _before_carrying(later, toward, count)
    return _before_prediction(later, passage.transition)


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


def _before_carrying(later: Later, change: Vector, count: int) -> Later:
    """Before `inertial_kernels.keep_unobservable`, whose transition is I + directions^T means."""
    directions, means = _unobservable(change, count)
    adjoint = later.adjoint + means.T @ (directions @ later.adjoint)
    half: Matrix = later.information + (later.information @ directions.T) @ means
    return Later(adjoint, half + means.T @ (directions @ half))


def _unobservable(change: Vector, count: int) -> tuple[Matrix, Matrix]:
    """How turn and scale differ between two estimates that are `change` (n,) apart, and where they are seen: (2, n)."""
    n, links = len(change), layout.LINK * np.arange(count)
    directions, means = np.zeros((2, n)), np.zeros((2, n))
    vectors = slice(layout.first_joint(count), n)
    x, y = change[vectors].reshape(-1, 2).T
    directions[0, vectors] = np.column_stack([-y, x]).ravel()
    directions[1, vectors] = change[vectors]
    for part in layout.SCALED:
        directions[1, links + part] = change[links + part]
    means[0, links + layout.HEADING], means[1, links + layout.ACCELEROMETER_SCALE] = 1.0 / count, -1.0 / count
    return directions, means
