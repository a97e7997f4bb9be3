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

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.filtering.gating import Gate, Innovation, decide
from onboard_estimation.filtering.moments import Moments, Seen, corrected, put
from thruster_chain_estimation.estimators import inertial_kernels as kernels
from thruster_chain_estimation.estimators import jumps as bias_jumps
from thruster_chain_estimation.estimators import loose_links, pin_kernels
from thruster_chain_estimation.model import inertial_layout as parts
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

MOVING_STDDEV_M_S = 0.05
TICK_NS = 10_000_000
TICK_S = TICK_NS / NANOSECONDS_PER_SECOND
"""Between two instants at which the pins are held together."""
SILENT_S = 0.1
"""A link that was not heard for so long is gone on without."""

LOST_RAD = 0.5
"""A heading less sure than this is lost: no straight line holds over so wide an angle, and its pins are not held."""
ANY_RAD = np.pi / np.sqrt(3.0)
"""Deviation of a heading that may be any."""


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
    lost
        (N,) links whose heading may be any, until it is found again.
    blind
        (N,) links of which nothing was heard over the last tick.
    felt
        Of each link, what finds it again.
    jumps
        Evidence that a bias has jumped.
    rejected_in_a_row
        Ticks at which the pins were refused.
    """

    mean: Vector
    covariance: Matrix
    tick_s: float
    labels_s: Vector
    rates: Vector
    readings: tuple[Matrix, ...]
    lost: NDArray[np.bool_]
    blind: NDArray[np.bool_]
    felt: tuple[loose_links.Felt, ...]
    jumps: bias_jumps.Onsets
    rejected_in_a_row: int = 0


class Advanced(NamedTuple):
    """The navigation a tick on, before its pins are held together.

    Attributes
    ----------
    before, state
        The navigation before the tick and after it.
    did
        What each link's IMU did over it.
    transition
        Of the errors, as `kernels.predict` gives it.
    tight, heard
        (N,) links that the pins hold; whether all links were heard, and no heading is lost.
    jump, jumped
        Of a bias, told before the tick; by which it moved velocity and position of the chain (4,), and (2, 2) the
        covariance of the velocity.
    closings
        Of joints of loose links, after it.
    """

    before: NavigationState
    state: NavigationState
    did: kernels.Did
    transition: Matrix
    tight: NDArray[np.bool_]
    heard: bool
    jump: bias_jumps.BiasJump | None
    jumped: tuple[Vector, Matrix]
    closings: tuple[loose_links.Closing, ...]


class Pinned(NamedTuple):
    """What held the pins of `tight` links (N,) together at a tick: `toward` and `onward` (n,) are what
    `keep_unobservable` was given before and after the correction by what was `seen`, whose observation is `slopes`."""

    toward: Vector
    slopes: Matrix
    seen: Seen
    onward: Vector
    tight: NDArray[np.bool_]


class JointedNavigation:
    """The filter; it has no state but its settings. A tick is `advanced`, then `pinned`; `moved` tells what it was.

    `learned`: what was found out before of the parts that are `inertial_layout.lasting`.
    """

    def __init__(self, configuration: ThrusterChainConfiguration, learned: Moments | None = None) -> None:
        chain = configuration.chain
        self.count = chain.count
        self.half = 0.5 * chain.lengths
        self.places = np.ascontiguousarray(chain.imu_places)
        self.geometry = kernels.Chain(self.half, self.places)
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
        self._unfelt = (loose_links.NOTHING_FELT,) * self.count
        self._all = np.ones(self.count, dtype=np.bool_)
        first = self.chain = parts.chain_part(self.count)
        joints = parts.LINK * self.count + parts.JOINT * np.arange(self.count - 1)[:, None]
        self._moving = np.concatenate([[first, first + 1], (joints + np.arange(2)).ravel()])
        stddev = parts.prior_stddev(configuration)
        stddev[first + 2 : first + 4] = configuration.initial.position_stddev_m
        self._prior = Moments(np.zeros(len(stddev)), np.diag(stddev**2))
        if learned is not None:
            put(self._prior, parts.lasting(self.count), learned)

    def start(self, headings: Vector, heading_covariance: Matrix, first_imu: Vector) -> NavigationState:
        """At rest before the first reading, with headings (N,) and the first link's IMU at a place (2,)."""
        mean, covariance = (one.copy() for one in self._prior)
        mean[self.headings], mean[self.chain + 2 : self.chain + 4] = headings, first_imu
        covariance[np.ix_(self.headings, self.headings)] = heading_covariance
        unset, still = np.full(self.count, np.nan), np.zeros(self.count)
        lost = np.diag(heading_covariance) > LOST_RAD**2
        lost[np.argmin(np.diag(heading_covariance))] = False  # the others are found again by it
        return NavigationState(
            mean,
            covariance,
            0.0,
            unset,
            still,
            (np.empty((0, 4)),) * self.count,
            lost,
            np.zeros(self.count, dtype=np.bool_),
            self._unfelt,
            bias_jumps.no_bias_jumped(len(mean), self.count),
        )

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
        before, labels = state.readings[link], state.labels_s
        if len(before) and reading[0] <= before[-1, 0]:
            return state
        if np.isnan(labels[link]):
            labels = labels.copy()
            labels[link] = reading[0]
        readings = (*state.readings[:link], np.concatenate((before, reading[None])), *state.readings[link + 1 :])
        return state._replace(readings=readings, labels_s=labels)

    def ready(self, state: NavigationState, tick_s: float, now_s: float) -> bool:
        """Whether all links that are heard at all were heard up to a tick, at a measurement's stamp."""
        for link, readings in enumerate(state.readings):
            last = readings[-1, 0] if len(readings) else -np.inf
            if last < tick_s + state.mean[self.clocks[link]] and now_s - last < SILENT_S:
                return False
        return True

    def advanced(self, state: NavigationState, tick_s: float) -> Advanced:
        """Up to an instant, by what the IMUs read; by biases as they are since one has jumped, if one has."""
        earlier, (state, jump) = state, self._jumped(state)
        counts = np.array([len(readings) for readings in state.readings])
        stood, did, transition, needed = kernels.advance(
            kernels.Stood(*state[:5]), tick_s, np.concatenate(state.readings), counts, self.geometry, self._noise
        )
        after = NavigationState(
            *stood,
            tuple(readings[first:] for readings, first in zip(state.readings, needed, strict=True)),
            state.lost,
            did.blind > 0.0,
            state.felt,
            state.jumps,
            state.rejected_in_a_row,
        )
        jumped = np.zeros(4), np.zeros((2, 2))
        if jump is not None:
            place, ours = slice(self.chain, self.chain + 4), ~state.lost
            grown = pin_kernels.errors_of(state.covariance, ours) - pin_kernels.errors_of(earlier.covariance, ours)
            jumped = state.mean[place] - earlier.mean[place], grown
        after, tight, closings = self._closed(state, after, did)
        heard = not (after.blind.any() or after.lost.any())
        return Advanced(state, after, did, transition, tight, heard, jump, jumped, closings)

    def _jumped(self, state: NavigationState) -> tuple[NavigationState, bias_jumps.BiasJump | None]:
        """With a bias that has jumped as it is since then."""
        jump, mean, covariance = bias_jumps.judged(state.jumps, state.mean, state.covariance)
        if jump is None:
            return state._replace(jumps=bias_jumps.begun_anew(state.jumps)), None
        rates = state.rates - (mean - state.mean)[self.headings - parts.HEADING + parts.GYRO_BIAS]
        jumps = bias_jumps.no_bias_jumped(len(mean), self.count)
        return state._replace(mean=mean, covariance=covariance, rates=rates, jumps=jumps), jump

    def _closed(
        self, before: NavigationState, after: NavigationState, did: kernels.Did
    ) -> tuple[NavigationState, NDArray[np.bool_], tuple[loose_links.Closing, ...]]:
        """With the joints of loose links closed, links (N,) that are tight, and how; what was lost and is found is."""
        if not (before.blind.any() or after.blind.any() or after.lost.any()):
            return after._replace(felt=self._unfelt), self._all, ()
        mean, covariance, lost = after.mean, after.covariance, after.lost.copy()
        fresh = after.blind & (np.diag(covariance)[self.headings] > LOST_RAD**2) & ~lost
        covariance[self.headings[fresh], self.headings[fresh]] += ANY_RAD**2
        lost |= fresh
        if lost.all():  # nothing tells the turn of the whole, and one is as good as another
            lost[np.argmin(np.diag(covariance)[self.headings])] = False
        # Pins at both ends show how a rod lies that is not heard; one pin does not.
        sound = np.concatenate([[False], ~(lost | after.blind), [False]])
        tight = ~lost & (sound[1:-1] | (sound[:-2] & sound[2:]))
        felt, closings = list(self._unfelt), []
        unheard, accelerometer = before.blind | after.blind, parts.LINK * np.arange(self.count) + parts.BIAS_X
        biases = np.diag(covariance)[accelerometer]
        for link, anchor in loose_links.anchored(tight):
            found = None
            if lost[link] and tight[anchor] and not (unheard[link] or unheard[anchor]):
                means, rates = (before.mean, mean), (before.rates, after.rates)
                own, other = (
                    loose_links.pin_velocity_change(means, rates, did.moved[k], self.geometry, k, side)
                    for k, side in ((link, float(anchor - link)), (anchor, float(link - anchor)))
                )
                felt[link] = loose_links.felt_more(before.felt[link], own, other)
                found = felt[link].found(did.lasted_s[link] * math.sqrt(biases[link] + biases[anchor]))
            lost[link] &= found is None
            unsure = kernels.UNSEEN_RAD_S if after.blind[link] else 0.0
            closings.append(
                loose_links.close_joint(mean, covariance, self.geometry, after.rates, unsure, (link, anchor), found)
            )
        return after._replace(lost=lost, felt=tuple(felt)), tight, tuple(closings)

    def pinned(self, tick: Advanced, at_rest: bool) -> tuple[NavigationState, Innovation, Pinned | None]:
        """With the pins held together, what they showed, and how that corrected, unless it was refused.

        Raises
        ------
        numpy.linalg.LinAlgError
            The covariance of the gaps is not positive.
        """
        state, covariance, gaps = tick.state, tick.state.covariance, 2 * (self.count - 1)
        rejected, inflation = state.rejected_in_a_row, math.inf
        stood, rest = kernels.Stood(*state[:5]), at_rest and tick.heard
        while inflation > 1.0:  # once more where it is to recover
            held, toward, slopes, seen = pin_kernels.look(
                stood, covariance, tick.did, self.geometry, tick.tight, rest, self._noise
            )
            nis, size = seen.nis, len(seen.value)
            accepted, inflation, rejected = decide(self._gate, nis, size, rejected)
            if inflation > 1.0:
                covariance, rejected = covariance * inflation, 0
        # Of the gaps alone: the first rows of a lower root are the root of the first rows.
        innovation = Innovation(seen.value[:gaps], seen.root[:gaps, :gaps], nis, accepted)
        mean, onward = state.mean, toward
        if accepted:
            mean, covariance, onward = pin_kernels.hold(mean, held, toward, seen, tick.tight)
        if tick.heard:
            # A blow counts as if it were as likely as what the gate lets through.
            by = bias_jumps.Corrected(slopes, seen, min(1.0, self._gate.threshold(size) / nis) if nis else 1.0)
            over = toward, onward
            jumps = bias_jumps.seen_past(state.jumps, tick.transition, by, over, tick.tight, accepted)
        else:
            jumps = bias_jumps.no_bias_jumped(len(mean), self.count)
        after = state._replace(mean=mean, covariance=covariance, rejected_in_a_row=rejected, jumps=jumps)
        return after, innovation, Pinned(toward, slopes, seen, onward, tick.tight) if accepted else None

    def moved(self, tick: Advanced, after: NavigationState) -> pin_kernels.Moved:
        """What the links did over a tick, after which the navigation is that of `pinned`."""
        before, state = (kernels.Stood(*one[:5]) for one in (tick.before, tick.state))
        tight = tick.tight if tick.tight.any() else ~tick.state.lost
        pinned = after.mean, after.covariance
        return pin_kernels.movement(before, state, tick.did, pinned, self.geometry, tight, tick.heard, tick.jumped)

    def told_poses(
        self, state: NavigationState, headings: Vector, middle: Vector, heading_stddev_rad: float, stddev_m: float
    ) -> NavigationState:
        """Corrected by motion capture at the last tick.

        `headings` (N,), NaN where a link is not seen, and the `middle` (2,) of the first link.
        """
        expected, by = self.ahead(state, state.tick_s)
        place, _ = self.first_middle(state.mean, state.rates)
        of_middle = np.zeros((2, len(state.mean)))
        of_middle[[0, 1], [self.chain + 2, self.chain + 3]] = 1.0
        of_middle[:, parts.HEADING] = _across(place - state.mean[self.chain + 2 : self.chain + 4])
        turned = (headings - expected + np.pi) % (2.0 * np.pi) - np.pi
        residual, jacobian = np.concatenate([turned, middle - place]), np.vstack([by, of_middle])
        variances = np.repeat(np.square([heading_stddev_rad, stddev_m]), [self.count, 2])
        seen = np.isfinite(residual)
        if not seen.any():
            return state
        before = Moments(state.mean, state.covariance)
        after = corrected(before, residual[seen], jacobian[seen], np.diag(variances[seen]))
        return state._replace(mean=after.mean, covariance=after.covariance)

    def ahead(self, state: NavigationState, at_s: float) -> tuple[Vector, Matrix]:
        """Headings (N,) at an instant, and how they depend (N, n) on the state: turning on as at the last tick."""
        late = at_s - state.labels_s + state.mean[self.clocks]
        late = np.where(np.isfinite(late), late, 0.0)
        links, jacobian = np.arange(self.count), np.zeros((self.count, len(state.mean)))
        jacobian[links, self.headings], jacobian[links, self.clocks] = 1.0, state.rates
        return state.mean[self.headings] + state.rates * late, jacobian

    def first_middle(self, mean: Vector, rates: Vector) -> tuple[Vector, Vector]:
        """Position and velocity (2,) of the middle of the first link, m and m/s, in a state's mean and rates."""
        return pin_kernels.first_middle(mean, rates, self.geometry)


def _across(vector: NDArray[np.float64]) -> Vector:
    """Turned by a right angle."""
    return np.array([-vector[1], vector[0]])
