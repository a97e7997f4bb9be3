"""Headings of the links from their IMUs and from the pins that hold them together: no masses, no thrust, no model.

See `inertial_kernels` for the equations. An extended Kalman filter: its model is all but linear over a tick, its
derivatives are exact, and its 12 states of a link would cost an unscented one 25 integrations of every IMU.

The parameter filter, which finds more of the navigation's errors by drag, has those of its velocity and position in its
state. Without drag it must believe
of them what the navigation does: they grow as the navigation's covariance does, by whatever causes, and what the pins
tell is told here as a measurement that makes of the one covariance the other (the channel filter of distributed
estimation: Durrant-Whyte, Rao and Hu, "Toward a fully decentralized architecture for multi-sensor data fusion", 1990).

A turn of the whole, to which drag is blind, is taken out of all of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.filtering.gating import Gate, Innovation, decide
from onboard_estimation.filtering.moments import Moments, Seen, corrected, correction, see
from thruster_chain_estimation.estimators import inertial_kernels as kernels
from thruster_chain_estimation.model import inertial_layout as parts
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

PIN_STDDEV_M = 2e-5
"""Play of a pin, and what a straight line between two readings leaves out of a tick."""
STILL_STDDEV_M_S = 1e-4
MOVING_STDDEV_M_S = 0.05
TICK_NS = 10_000_000
TICK_S = TICK_NS / NANOSECONDS_PER_SECOND
"""Between two instants at which the pins are held together."""
SILENT_S = 0.1
"""A link that was not heard for so long is gone on without."""

LOST_RAD = 0.5
"""A heading less sure than this is lost: no straight line holds over so wide an angle, and its pins are not held."""


NOTHING = 1e-7
"""Share of a variance that is too small to be told of."""


class NavigationErrors(NamedTuple):
    """Of a tick; errors are truth minus estimate.

    Attributes
    ----------
    drift
        (2, 2) by how much the covariance of the velocity grew, (m/s)^2.
    told, by, variances
        (k,), (k, 2), (k,) what the pins told of the velocity: measured, how it depends on it, its noise.
    change
        (4,) by which estimates of velocity and position were moved then.
    """

    drift: Matrix
    told: Vector
    by: Matrix
    variances: Vector
    change: Vector


class NavigationState(NamedTuple):
    """All that measurements change.

    Attributes
    ----------
    mean, covariance
        (n,), (n, n), see `inertial_layout`.
    tick_s
        Where the filter stands on the laboratory's clock, s after the start.
    labels_s
        (N,) where it stands on each link's own clock, s.
    rates
        (N,) of the links there, rad/s.
    readings
        Of each link (K, 4): stamp (s, own clock, less the low-pass's delay), rate, specific force x y; those that are
        still needed, and later ones.
    rejected_in_a_row
        Ticks at which the pins were refused.
    """

    mean: Vector
    covariance: Matrix
    tick_s: float
    labels_s: Vector
    rates: Vector
    readings: tuple[Matrix, ...]
    rejected_in_a_row: int = 0


class Moved(NamedTuple):
    """What the links did over a tick, for whoever explains it by forces.

    Attributes
    ----------
    lasted_s
        Length of the tick.
    headings, rates
        (N,) at its middle, rad, and mean over it, rad/s.
    angular
        (N,) mean angular accelerations, rad/s^2.
    velocities
        (N, 2) of the links' middles in the room, m/s.
    force
        (2,) mean specific force in the middle of the first link, along and across it, m/s^2.
    heard
        All links were, and no heading is lost.
    errors
        What the navigation knows of its own.
    """

    lasted_s: float
    headings: Vector
    rates: Vector
    angular: Vector
    velocities: Matrix
    force: Vector
    heard: bool
    errors: NavigationErrors


class Pinned(NamedTuple):
    """What held the pins together at a tick: `toward` and `onward` (n,) are what `keep_unobservable` was given before
    and after the correction by what was `seen`, whose observation is `slopes` (m, n)."""

    toward: Vector
    slopes: Matrix
    seen: Seen
    onward: Vector


class Passage(NamedTuple):
    """How errors went through a tick: by the `transition` of `kernels.predict`, and by the pins, if they were held."""

    transition: Matrix
    pinned: Pinned | None


class JointedNavigation:
    """The filter; it has no state but its settings."""

    def __init__(self, configuration: ThrusterChainConfiguration) -> None:
        chain = configuration.chain
        self.count = chain.count
        self.half = 0.5 * chain.lengths
        self.places = np.ascontiguousarray(chain.imu_places)
        self._chain = kernels.Chain(self.half, self.places)
        self._noise = np.square(
            [
                configuration.gyro.noise_density_rad_s_sqrt_hz,
                configuration.accelerometer.noise_density_m_s2_sqrt_hz,
                configuration.gyro.bias_walk_rad_s_sqrt_s,
                configuration.accelerometer.bias_walk_m_s2_sqrt_s,
            ]
        )
        self._gate = Gate(configuration.gate_probability, configuration.recover_after)
        self.headings = parts.LINK * np.arange(self.count) + parts.HEADING
        self.clocks = parts.LINK * np.arange(self.count) + parts.CLOCK
        joints = parts.first_joint(self.count) + parts.JOINT * np.arange(self.count - 1)[:, None]
        first = parts.chain_part(self.count)
        self._moving = np.concatenate([[first, first + 1], (joints + np.arange(2)).ravel()])
        self._gaps = (joints + 2 + np.arange(2)).ravel()

    def start(self, mean: Vector, covariance: Matrix) -> NavigationState:
        """Before the first reading, at rest."""
        unset = np.full(self.count, np.nan)
        return NavigationState(mean, covariance, 0.0, unset, np.zeros(self.count), (np.empty((0, 4)),) * self.count)

    def set_moving(self, state: NavigationState, rates: Vector, middles: Matrix) -> NavigationState:
        """Started in motion: turning rates (N,) of the links, velocities (N, 2) of their middles, to 0.05 m/s."""
        mean, covariance = state.mean.copy(), state.covariance.copy()
        c, s = np.cos(mean[self.headings]), np.sin(mean[self.headings])
        arms = np.column_stack([-s, c]) * self.places[:, :1] - np.column_stack([c, s]) * self.places[:, 1:]
        velocities = middles + rates[:, None] * arms
        mean[self._moving] = np.concatenate([velocities[0], (velocities[:-1] - velocities[1:]).ravel()])
        covariance[self._moving, self._moving] += MOVING_STDDEV_M_S**2
        return state._replace(mean=mean, covariance=covariance, rates=rates.copy())

    def heard(self, state: NavigationState, link: int, reading: Vector) -> NavigationState:
        """With one more reading (4,) of a link."""
        before = state.readings[link]
        if len(before) and reading[0] <= before[-1, 0]:
            return state
        readings = (*state.readings[:link], np.vstack([before, reading]), *state.readings[link + 1 :])
        if np.isnan(state.labels_s[link]):
            labels = state.labels_s.copy()
            labels[link] = reading[0]
            return state._replace(readings=readings, labels_s=labels)
        return state._replace(readings=readings)

    def ready(self, state: NavigationState, tick_s: float, now_s: float) -> bool:
        """Whether all links that are heard at all were heard up to a tick, at a measurement's stamp."""
        for link, readings in enumerate(state.readings):
            last = readings[-1, 0] if len(readings) else -np.inf
            if last < tick_s + state.mean[self.clocks[link]] and now_s - last < SILENT_S:
                return False
        return True

    def tick(
        self, state: NavigationState, tick_s: float, at_rest: bool
    ) -> tuple[NavigationState, Moved, Innovation, Passage]:
        """Go on to an instant, and hold the pins together: what came of it.

        Raises
        ------
        numpy.linalg.LinAlgError
            The covariance of the gaps is not positive.
        """
        count = self.count
        mean, covariance = state.mean.copy(), state.covariance.copy()
        lasted_s = tick_s - state.tick_s
        before = mean[self.headings].copy()
        moved, by = np.zeros((count, kernels.MOVED)), np.zeros((count, 5, parts.LINK))
        labels, lasted, blind, rates = np.empty(count), np.empty(count), np.zeros(count), np.empty(count)
        rows = []
        for link, readings in enumerate(state.readings):
            target = tick_s + mean[self.clocks[link]]
            begin = state.labels_s[link]
            reached = -np.inf
            if len(readings) > 1 and target > begin:
                own = mean[parts.LINK * link : parts.LINK * (link + 1)]
                reached = kernels.integrate(own, readings, begin, target, moved[link], by[link])
            if np.isnan(begin) or (reached < target - 1e-6 and (not len(readings) or readings[-1, 0] < target)):
                blind[link], begin = 1.0, state.tick_s + mean[self.clocks[link]] if np.isnan(begin) else begin
                labels[link] = target
            else:
                labels[link] = max(reached, begin)
            lasted[link] = max(labels[link] - begin, 0.0)
            rates[link] = 0.0
            if not blind[link]:
                raw = np.interp(labels[link], readings[:, 0], readings[:, 1])
                base = parts.LINK * link
                rates[link] = (raw - mean[base + parts.GYRO_BIAS]) * (1.0 - mean[base + parts.GYRO_SCALE])
            keep = max(0, int(np.searchsorted(readings[:, 0], labels[link], side="right")) - 2)
            rows.append(readings[keep:])
        known = errors_of(covariance, count)
        did = kernels.Did(moved, by, lasted, blind)
        transition = kernels.predict(mean, covariance, self._chain, did, self._noise)
        lost = covariance[self.headings, self.headings] > LOST_RAD**2
        heard = not (blind.any() or lost.any())
        predicted, place = errors_of(covariance, count), slice(parts.chain_part(count), parts.chain_part(count) + 4)
        pins = mean, covariance, rates, labels - tick_s, moved, lasted, at_rest and heard, lost
        after, covariance, innovation, rejected, pinned = self._pinned(*pins, state.rejected_in_a_row)
        change = after[place] - mean[place]
        errors = of_tick(known, predicted, errors_of(covariance, count), change)
        motion = self._did(state, mean, moved, before, rates, lasted, lasted_s, heard, errors)
        now = NavigationState(after, covariance, tick_s, labels, rates, tuple(rows), rejected)
        return now, motion, innovation, Passage(transition, pinned)

    def told_poses(
        self, state: NavigationState, headings: Vector, middle: Vector, heading_stddev_rad: float, stddev_m: float
    ) -> NavigationState:
        """Corrected by motion capture at the last tick.

        `headings` (N,), NaN where a link is not seen, and the `middle` (2,) of the first link.
        """
        expected, by = self.ahead(state, state.tick_s)
        seen = np.isfinite(headings)
        place, _ = self.first_middle(state.mean, state.rates)
        chain = parts.chain_part(self.count)
        arm = place - state.mean[chain + 2 : chain + 4]
        of_middle = np.zeros((2, len(state.mean)))
        of_middle[[0, 1], [chain + 2, chain + 3]] = 1.0
        of_middle[:, parts.HEADING] = _across(arm)
        turned = (headings[seen] - expected[seen] + np.pi) % (2.0 * np.pi) - np.pi
        residual, jacobian = turned, by[seen]
        variances = np.full(len(turned), heading_stddev_rad**2)
        if np.isfinite(middle).all():
            residual, jacobian = np.concatenate([residual, middle - place]), np.vstack([jacobian, of_middle])
            variances = np.append(variances, [stddev_m**2] * 2)
        if not len(residual):
            return state
        after = corrected(Moments(state.mean, state.covariance), residual, jacobian, np.diag(variances))
        return state._replace(mean=after.mean, covariance=after.covariance)

    def ahead(self, state: NavigationState, at_s: float) -> tuple[Vector, Matrix]:
        """Headings (N,) at an instant, and how they depend (N, n) on the state: turning on as at the last tick."""
        late = at_s - state.labels_s + state.mean[self.clocks]
        late = np.where(np.isfinite(late), late, 0.0)
        jacobian = np.zeros((self.count, len(state.mean)))
        links = np.arange(self.count)
        jacobian[links, self.headings] = 1.0
        jacobian[links, self.clocks] = state.rates
        return state.mean[self.headings] + state.rates * late, jacobian

    def first_middle(self, mean: Vector, rates: Vector) -> tuple[Vector, Vector]:
        """Position and velocity (2,) of the middle of the first link, m and m/s, in a state's mean and rates."""
        chain = parts.chain_part(self.count)
        turned = _turned(mean[parts.HEADING], -(self.places[0] + mean[parts.PLACE_X : parts.PLACE_X + 2]))
        return mean[chain + 2 : chain + 4] + turned, mean[chain : chain + 2] + rates[0] * _across(turned)

    def _did(
        self,
        state: NavigationState,
        mean: Vector,
        moved: Matrix,
        before: Vector,
        rates: Vector,
        lasted: Vector,
        lasted_s: float,
        heard: bool,
        errors: NavigationErrors,
    ) -> Moved:
        headings = before + 0.5 * moved[:, 0]
        turning = moved[:, 0] / np.maximum(lasted, 1e-6)
        angular = (rates - state.rates) / max(lasted_s, 1e-6)
        arm = -(self.places[0] + mean[parts.PLACE_X : parts.PLACE_X + 2])
        room = moved[0, 1:3] / max(lasted[0], 1e-6)
        force = _turned(-headings[0], room) + angular[0] * _across(arm) - turning[0] ** 2 * arm
        _, velocity = self.first_middle(mean, rates)
        velocities = np.empty((self.count, 2))
        velocities[0] = velocity
        for i in range(1, self.count):
            for link in (i - 1, i):
                across = np.array([-np.sin(headings[link]), np.cos(headings[link])])
                velocity = velocity + self.half[link] * turning[link] * across
            velocities[i] = velocity
        return Moved(lasted_s, headings, turning, angular, velocities, force, heard, errors)

    def _pinned(
        self,
        mean: Vector,
        covariance: Matrix,
        rates: Vector,
        labels: Vector,
        moved: Matrix,
        lasted: Vector,
        at_rest: bool,
        lost: NDArray[np.bool_],
        rejected_in_a_row: int,
    ) -> tuple[Vector, Matrix, Innovation, int, Pinned | None]:
        count, n = self.count, len(mean)
        gaps = 2 * (count - 1)
        residual, jacobian = np.empty(gaps), np.empty((gaps, n))
        kernels.expect_pins(mean, rates, self._chain, labels, residual, jacobian)
        variances = np.full(gaps, PIN_STDDEV_M**2)
        apart = np.repeat(lost[1:] | lost[:-1], 2)
        jacobian[apart], residual[apart] = 0.0, 0.0
        if at_rest:
            still, by, noise = self._still(mean, moved, lasted)
            residual, jacobian = np.concatenate([residual, still]), np.vstack([jacobian, by])
            variances = np.concatenate([variances, noise])
        # Turn and scale are taken as unobserved as they are in truth, where gaps, and at rest velocities, are nothing:
        # else what an estimate has of those, turned by an error of the heading, would pass for a measurement of it.
        toward = np.zeros(n)
        nothing = self._gaps if not at_rest else np.concatenate([self._gaps, self._moving])
        toward[nothing] = -mean[nothing]
        held = kernels.keep_unobservable(covariance, toward, count)
        seen = see(held, residual, jacobian, np.diag(variances))
        accepted, inflation, rejected = decide(self._gate, seen.nis, len(residual), rejected_in_a_row)
        if inflation > 1.0:
            return self._pinned(mean, covariance * inflation, rates, labels, moved, lasted, at_rest, lost, 0)
        # Of the gaps alone: the first rows of a lower root are the root of the first rows.
        innovation = Innovation(residual[:gaps], seen.root[:gaps, :gaps], seen.nis, accepted)
        if not accepted:
            return mean, covariance, innovation, rejected, None
        change, covariance = correction(held, seen)
        onward = change - toward
        covariance = kernels.keep_unobservable(covariance, onward, count)
        return mean + change, covariance, innovation, rejected, Pinned(toward, jacobian, seen, onward)

    def _still(self, mean: Vector, moved: Matrix, lasted: Vector) -> tuple[Vector, Matrix, Vector]:
        """Rest: no gyro turns, no IMU moves."""
        count, n = self.count, len(mean)
        links = np.arange(count)
        by = np.zeros((count + 2 + 2 * (count - 1), n))
        lasted = np.maximum(lasted, 1e-6)
        by[links, parts.LINK * links + parts.GYRO_BIAS] = -(1.0 - mean[parts.LINK * links + parts.GYRO_SCALE])
        by[np.arange(count, len(by)), self._moving] = 1.0
        still = np.full(len(self._moving), STILL_STDDEV_M_S**2)
        noise = np.concatenate([self._noise[kernels.GYRO_NOISE] / lasted, still])
        return np.concatenate([-moved[:, 0] / lasted, -mean[self._moving]]), by, noise


def _turned(angle: float, vector: NDArray[np.float64]) -> Vector:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]])


def _across(vector: NDArray[np.float64]) -> Vector:
    """Turned by a right angle."""
    return np.array([-vector[1], vector[0]])


def errors_of(covariance: Matrix, count: int) -> Matrix:
    """(2, 2) of the errors of the velocity, but for what a turn of the whole does to it."""
    headings, chain = parts.LINK * np.arange(count) + parts.HEADING, parts.chain_part(count)
    velocity = slice(chain, chain + 2)
    turn = float(covariance[np.ix_(headings, headings)].mean())
    by_turn = covariance[velocity, headings].mean(axis=1)
    errors: Matrix = covariance[velocity, velocity] - np.outer(by_turn, by_turn) / max(turn, 1e-12)
    return errors


def of_tick(before: Matrix, predicted: Matrix, after: Matrix, change: Vector) -> NavigationErrors:
    """From the (2, 2) of `errors_of` before a tick, after its prediction, and after its correction; `change` (4,)."""
    return NavigationErrors(_positive(predicted - before), *_told(predicted, after, change[:2]), change)


def _told(before: Matrix, after: Matrix, change: Vector) -> tuple[Vector, Matrix, Vector]:
    """The measurement that moves zero to `change`, and makes `after` of the covariance `before`.

    Along the axes in which both covariances are diagonal, the first all ones, the second's entries m are 1 / (1 + 1/r)
    for a measurement with the variance r, whose value is the change by its gain, 1 - m.
    """
    deviations = np.sqrt(np.maximum(np.diag(before), 1e-20))
    whitener = np.linalg.inv(np.linalg.cholesky(before / np.outer(deviations, deviations) + 1e-12 * np.eye(2)))
    whitener = whitener / deviations
    left, axes = np.linalg.eigh(whitener @ after @ whitener.T)
    left = np.maximum(left, 1e-9)
    seen = left < 1.0 - NOTHING
    by, gain = axes.T[seen] @ whitener, 1.0 - left[seen]
    return by @ change / gain, by, left[seen] / gain


def _positive(matrix: Matrix) -> NDArray[np.float64]:
    values, axes = np.linalg.eigh(0.5 * (matrix + matrix.T))
    positive: NDArray[np.float64] = (axes * np.maximum(values, 0.0)) @ axes.T
    return positive
