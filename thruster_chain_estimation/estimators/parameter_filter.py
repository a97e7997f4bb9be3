"""Masses, inertias and all else that thrust shows of a chain, learned from how the links move.

An extended Kalman filter over the parameters of `parameter_layout`. Its measurement is the motion that the navigation
saw over a window of a few ticks; what it predicts is `response_kernels`. It never corrects the navigation: a wrong
model of forces must not turn a heading that the sensors know.

What no parameter explains (draughts, cables, turbulence) is a disturbance on each link. Its size is adapted: the
innovations' covariance summed over their correlation time must be what the filter says, so that errors which last are
not taken for many independent ones.

A load that is taken up changes the mass of a link at once. Beside the filter runs a challenger, started from it every
few seconds with that of one link free again: of the link whose jump explains the innovations since best, see `Jumps`.
Where the challenger explains the motion since better, by a likelihood that counts its freedom against it, it takes
over. With all links free, eight had to explain 20 nats before the first counted. But a draught, or a hand, is no load:
it pushes whether or not a thruster does, and it ends. The challenger must explain the motion better as well than masses
that are what they were, with a force on each link that lasts for a while and may begin at any time.

At an end stop a joint passes on a torque that nobody knows: it is a disturbance of both of its links, as large as need
be, and the others are learned from. One of seven joints is at a stop half of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.gating import gate_threshold
from onboard_estimation.filtering.moments import Moments, Seen, corrected, correction, part, put, see
from thruster_chain_estimation.estimators import jumps as evidence_of
from thruster_chain_estimation.estimators.inertial_kernels import transform
from thruster_chain_estimation.estimators.jointed_navigation import TICK_S
from thruster_chain_estimation.estimators.jumps import Corrected, Jumps
from thruster_chain_estimation.estimators.pin_kernels import Moved, NavigationErrors
from thruster_chain_estimation.model import parameter_layout as layout
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.inertial_layout import clock_stddev_s
from thruster_chain_estimation.model.response_kernels import Given, advance_thrust, expect

WINDOW = 5
"""Ticks of a measurement: 50 ms, over which the noise of differentiated gyros is small against that of forces."""
DISTURBED = 0.02
"""Of a thruster's limit: disturbance of a link in a window, before it is adapted; as a torque, at half its length."""
SLOWLY = 0.005
"""Random walk of the logs of masses and inertias, in a second."""
SMALLEST_SCALE, LARGEST_SCALE, FIRST_SCALE = 0.3, 1e3, 5.0
"""Of the disturbance's variance, as adapted and at the start."""
LAGS = 6
"""Windows over which innovations are taken to be correlated."""
MEMORY = 200
"""Windows over which the disturbance is adapted: 10 s."""
RESTART, LONGEST = 60, 240
"""Windows after which the challenger starts anew, 3 s, unless it has the better of it; and in any case."""
PROMISING = 2.0
"""Evidence of a challenger that is given more time."""
UNLIKELY = 6.3
"""Log of the odds against a load in such a time, once in an hour, which the challenger's evidence, the log of a
likelihood, has to make up for: both are published, weighed by the odds."""
EVIDENCE = 16.0
"""At which it takes over, and is told of: the odds, and half as much again and more, for no model is exact and one of N
links was chosen. Without any load 12 was reached in one simulated run with a draught; loads are told as soon."""
PUSH, PUSH_S = 0.2, 2.0
"""Of a thruster's limit, on each axis of a link in the room, and for how long it lasts: a draught, or a hand."""
STILL = 1.5
"""Of the square of a force on the links over its variance: as much is chance, from there on windows teach less."""
STOP_MARGIN_RAD = np.deg2rad(12.0)
"""Before a joint's end stop its torque is no parameter."""
STOPPED = 30.0
"""Standard deviation of it, of what a thruster can do at half a link's length: stops any link within a window."""
CAPPED = 0.9999
"""Windows less probable count as if they were this probable: a blow is no information."""


class ParameterState(NamedTuple):
    """All that ticks and commands change.

    Attributes
    ----------
    belief, challenger
        What is believed, and what is believed with one link's masses that were free again a while ago.
    evidence, age
        Log of the likelihood ratio of the challenger since its start, and windows since.
    push, pushed
        Forces on the links (2N,) N instead of changed masses, and the log of their likelihood ratio, at least nothing.
    thrust, bristles
        (N, 6), (N - 1,) of `response_kernels`.
    commands
        (C, 1 + N) stamps (s) and thrusts in order: the one in force, and later ones.
    reference
        (N + 1,) logs of time constants, and delay, that `thrust` is made with.
    window
        Ticks so far: what moved, and thrusters and bristles in their middles, see `response_kernels`.
    scale
        Of the disturbance's variance.
    past
        Last whitened innovations.
    changes
        How often the challenger took over.
    jumps, freed
        Since a while ago, and the link whose masses are free in the challenger.
    """

    belief: Moments
    challenger: Moments
    evidence: float
    age: int
    thrust: Matrix
    bristles: Vector
    commands: Matrix
    reference: Vector
    jumps: Jumps
    window: tuple[tuple[Moved, Matrix, Vector], ...] = ()
    scale: float = FIRST_SCALE
    past: tuple[Vector, ...] = ()
    changes: int = 0
    freed: int = 0
    push: Moments | None = None
    pushed: float = 0.0


class ParameterPassage(NamedTuple):
    """How errors of both beliefs went through a tick.

    Attributes
    ----------
    transition
        (E, 3) as `inertial_kernels.transform` takes it.
    belief, challenger
        Their corrections after it, in order.
    taken_over
        The challenger was believed from then on, and another one began.
    begun_anew
        Another challenger began from the belief.
    """

    transition: Matrix
    belief: tuple[Corrected, ...] = ()
    challenger: tuple[Corrected, ...] = ()
    taken_over: bool = False
    begun_anew: bool = False


def share_of_challenger(state: ParameterState) -> float:
    """By the odds of a load."""
    return float(1.0 / (1.0 + np.exp(min(UNLIKELY - state.evidence, 500.0))))


class ParameterFilter:
    """The filter; it has no state but its settings."""

    def __init__(self, configuration: ThrusterChainConfiguration, learned: Moments | None = None) -> None:
        chain, thruster = configuration.chain, configuration.thruster
        self.count = chain.count
        self.limit_n = thruster.limit_n
        self.design = np.column_stack(
            [chain.masses, chain.inertias, 0.5 * chain.lengths, chain.thruster_places, chain.thruster_angles]
        )
        self._lag_s = float(np.sqrt(np.prod(layout.lag_bounds_s(configuration))))
        mean, stddev = layout.prior(configuration)
        self.prior = Moments(mean, np.diag(stddev**2))
        self.chain = layout.chain_part(self.count)
        # Thrust is late by its own delay, and by what the clocks of this day's IMUs have in common.
        self.delay = Moments(np.zeros(1), np.full((1, 1), configuration.thruster.delay_stddev_s**2))
        if learned is not None:
            put(self.prior, layout.lasting(self.count), learned)
            at = np.array([self.chain + layout.DELAY])
            self.delay = part(self.prior, at)
            self.prior.covariance[at, at] += clock_stddev_s(configuration) ** 2 / self.count
        self._inertial = layout.inertial(self.count).reshape(self.count, -1)
        self._free = stddev[self._inertial] ** 2
        self._steps = 1e-5 * stddev  # far above rounding, far below what bends
        self._steps[self.chain + layout.POSITION_X : self.chain + layout.AIR_X] = 0.0
        self._lags = layout.LINK * np.arange(self.count) + layout.LOG_LAG
        torque = DISTURBED * self.limit_n * 0.5 * chain.lengths
        self._disturbance = np.concatenate([torque, np.full(2 * self.count, DISTURBED * self.limit_n)]) ** 2
        window_s = WINDOW * TICK_S
        noise = np.full(self.count + 2, configuration.accelerometer.noise_density_m_s2_sqrt_hz**2 / window_s)
        noise[2:] = 2.0 * (configuration.gyro_stddev_rad_s / window_s) ** 2
        self._noise = noise
        travel_rad = np.deg2rad(chain.joint_travel_deg)
        # Pins of 180 degrees either way have no stops, and turn on.
        self._stop_rad = travel_rad - STOP_MARGIN_RAD if chain.joint_travel_deg < 180.0 else np.inf
        self._stop_torque = STOPPED * self.limit_n * 0.5 * float(chain.lengths.mean())
        self._cap = gate_threshold(CAPPED, self.count + 2)

    def start(self) -> ParameterState:
        """Before the first command, at rest."""
        reference = np.append(self.prior.mean[self._lags], self.prior.mean[self.chain + layout.DELAY])
        thrust, bristles, none = np.zeros((self.count, 6)), np.zeros(self.count - 1), np.zeros((1, 1 + self.count))
        none[0, 0] = -np.inf
        challenger, jumps = self._freed(self.prior, 0), Jumps.of(self._inertial, len(self.prior.mean))
        return ParameterState(self.prior, challenger, 0.0, 0, thrust, bristles, none, reference, jumps)

    def commanded(self, state: ParameterState, stamp_s: float, thrusts: Vector) -> ParameterState:
        """Other thrusts (N,) are asked for, from a stamp on."""
        clipped = np.concatenate(([stamp_s], np.minimum(np.maximum(thrusts, -self.limit_n), self.limit_n)))
        return state._replace(commands=np.vstack((state.commands, clipped)))

    def ticked(
        self, state: ParameterState, tick_s: float, moved: Moved, at_rest: bool
    ) -> tuple[ParameterState, ParameterPassage]:
        """Go on over a tick that ends there; once the window is full, `learned` makes a measurement of it."""
        begin, lag_s = tick_s - moved.lasted_s, self._lag_s * np.exp(state.reference[:-1])
        thrust, middle, over = drive(state.thrust, state.commands, lag_s, state.reference[-1], begin, tick_s)
        belief, challenger, jumps, (ours, other), transition, bristles = passed(
            state.belief, state.challenger, state.jumps, moved, state.bristles, self.count
        )
        # Air off, or a link that is not heard: nothing to learn from.
        window = () if at_rest or not moved.heard else (*state.window, (moved, middle, bristles))
        after = state._replace(
            thrust=thrust,
            bristles=bristles,
            commands=state.commands[over:],
            belief=belief,
            challenger=challenger,
            jumps=jumps,
            window=window,
        )
        told = len(moved.errors.told) > 0
        return after, ParameterPassage(transition, (ours,) * told, (other,) * told)

    def learned(self, state: ParameterState, passage: ParameterPassage) -> tuple[ParameterState, ParameterPassage]:
        """Both beliefs corrected by the window as a measurement, and their `passage` over its last tick."""
        rows = [(one.headings, one.rates, one.velocities, *pushed) for one, *pushed in state.window]
        measured = np.mean([np.concatenate([one.force, one.angular]) for one, _, _ in state.window], axis=0)
        headings, rates, velocities, thrust, bristles = (np.stack(one) for one in zip(*rows, strict=True))
        given = Given(headings, rates, velocities, thrust, bristles, self.design, state.reference, self.limit_n)
        passing = np.zeros(self.count - 1)
        passing[(np.abs(np.diff(headings, axis=1)) > self._stop_rad).any(axis=0)] = self._stop_torque**2
        noise = Noise(state.scale * self._disturbance, self._noise, passing)
        # What a push explains tells little of the rest.
        still = 1.0 if state.push is None else min(1.0, STILL**2 / max(size_of(state.push), STILL) ** 2)
        beliefs, found, likelihoods, disturbed = zip(
            *(
                confronted(one, given, self._steps, measured, noise, still, self._cap)
                for one in (state.belief, state.challenger)
            ),
            strict=True,
        )
        largest = (PUSH * self.limit_n) ** 2
        push = state.push or Moments(np.zeros(2 * self.count), largest * np.eye(2 * self.count))
        push, likelihood = pushed_on(push, found[0].seen, disturbed[0], headings[WINDOW // 2], largest, self._cap)
        pushed = max(0.0, state.pushed + likelihood - likelihoods[0])
        (belief, challenger), (ours, other) = beliefs, found
        evidence, age = state.evidence + likelihoods[1] - likelihoods[0], state.age + 1
        jumps = evidence_of.corrected(state.jumps, ours, True)
        explained = evidence_of.evidence(jumps, self._free)
        best, over = int(explained.argmax()), age >= (RESTART if evidence < PROMISING else LONGEST)
        another = best != state.freed and explained[best] > PROMISING > evidence
        taken_over, freed = evidence - pushed > EVIDENCE, state.freed
        begun_anew = not taken_over and (over or another)
        if taken_over:
            belief = challenger
        if taken_over or begun_anew:
            challenger, evidence, age, freed = self._freed(belief, best), 0.0, 0, best
        if taken_over or over:
            jumps = Jumps.of(self._inertial, len(belief.mean))
        scale, past = _adapted(state.scale, state.past, ours.seen.whitened)
        reference = np.append(belief.mean[self._lags], np.clip(belief.mean[self.chain + layout.DELAY], -0.03, 0.1))
        after = ParameterState(
            belief,
            challenger,
            evidence,
            age,
            _shifted(state.thrust, reference - state.reference),
            state.bristles,
            state.commands,
            reference,
            jumps,
            (),
            scale,
            past,
            state.changes + taken_over,
            freed,
            push,
            0.0 if taken_over else pushed,
        )
        corrections = (*passage.belief, ours), (*passage.challenger, other)
        return after, ParameterPassage(passage.transition, *corrections, taken_over, begun_anew)

    def after_gap(self, state: ParameterState, velocity_stddev_m_s: float, position_stddev_m: float) -> ParameterState:
        """Nothing was heard for long: thrust has died away, and the navigation has lost its velocity and place."""
        wider = np.zeros(len(state.belief.mean))
        wider[self.chain + np.array([layout.VELOCITY_X, layout.VELOCITY_Y])] = velocity_stddev_m_s**2
        wider[self.chain + np.array([layout.POSITION_X, layout.POSITION_Y])] = position_stddev_m**2
        belief, challenger = (
            Moments(one.mean, one.covariance + np.diag(wider)) for one in (state.belief, state.challenger)
        )
        return state._replace(
            belief=belief,
            challenger=challenger,
            thrust=np.zeros_like(state.thrust),
            bristles=np.zeros_like(state.bristles),
            window=(),
            past=(),
        )

    def told_velocity(self, state: ParameterState, stddev_m_s: float) -> ParameterState:
        """The navigation's velocity is right, to a standard deviation: motion capture keeps it so."""
        places = self.chain + np.array([layout.VELOCITY_X, layout.VELOCITY_Y])
        observation = np.eye(len(state.belief.mean))[places]
        value, noise = -state.belief.mean[places], stddev_m_s**2 * np.eye(2)
        return state._replace(belief=corrected(state.belief, value, observation, noise))

    def _freed(self, belief: Moments, link: int) -> Moments:
        """The belief, but that a link's masses may have changed."""
        covariance, places = belief.covariance.copy(), self._inertial[link]
        covariance[places, places] += self._free[link]
        return Moments(belief.mean, covariance)


@njit(cache=True)
def drive(
    thrust: Matrix, commands: Matrix, lag_s: Vector, delay_s: float, begin_s: float, end_s: float
) -> tuple[Matrix, Matrix, int]:
    """Thrusters (N, 6) at the end of a tick and in its middle, and how many commands are over by then."""
    thrust, at, over, middle_s = thrust.copy(), begin_s, 0, 0.5 * (begin_s + end_s)
    seen = thrust
    for end in (middle_s, end_s):
        while at < end:
            while over + 1 < len(commands) and commands[over + 1, 0] + delay_s <= at + 1e-9:
                over += 1
            until = end if over + 1 >= len(commands) else min(end, commands[over + 1, 0] + delay_s)
            advance_thrust(thrust, commands[over, 1:], lag_s, until - at)
            at = until
        if end == middle_s:
            seen = thrust.copy()
    return thrust, seen, over


@njit(cache=True)
def passed(
    belief: Moments, challenger: Moments, jumps: Jumps, moved: Moved, bristles: Vector, count: int
) -> tuple[Moments, Moments, Jumps, tuple[Corrected, Corrected], Matrix, Vector]:
    """Both beliefs and jumps a tick on, what that told of each, the transition of their errors, and bristles (N - 1,).

    Errors of the navigation go their way, as far as it knows itself; the air calms down and is stirred up again;
    everything else stays, but that batteries shift and water is shed: half a percent in a second's root.
    """
    turned = moved.lasted_s * np.diff(moved.rates)
    bristles = bristles + turned - np.abs(turned) * bristles / layout.BRISTLE_RAD
    bristles = np.minimum(np.maximum(bristles, -layout.BRISTLE_RAD), layout.BRISTLE_RAD)
    chain, calmer = layout.chain_part(count), np.exp(-moved.lasted_s / layout.AIR_TIME_S)
    transition = np.empty((4, 3))
    for axis in range(2):
        for row, to, of, entry in (
            (axis, layout.POSITION_X, layout.VELOCITY_X, moved.lasted_s),
            (axis + 2, layout.AIR_X, layout.AIR_X, calmer - 1.0),
        ):
            transition[row, 0], transition[row, 1], transition[row, 2] = chain + to + axis, chain + of + axis, entry
    belief, ours = _carried(belief, transition, moved.lasted_s, moved.errors, count)
    challenger, other = _carried(challenger, transition, moved.lasted_s, moved.errors, count)
    jumps = evidence_of.carried(jumps, transition)
    if len(moved.errors.told):
        jumps = evidence_of.corrected(jumps, ours, True)
    return belief, challenger, jumps, (ours, other), transition, bristles


@njit(cache=True)
def _carried(
    belief: Moments, transition: Matrix, step_s: float, errors: NavigationErrors, count: int
) -> tuple[Moments, Corrected]:
    """A belief, and what it was told."""
    mean, covariance, n = belief.mean.copy(), belief.covariance.copy(), len(belief.mean)
    for e in range(len(transition)):
        mean[int(transition[e, 0])] += transition[e, 2] * belief.mean[int(transition[e, 1])]
    transform(covariance, transition)
    for link in range(count):
        for at in (layout.LINK * link + layout.LOG_MASS, layout.LINK * link + layout.LOG_INERTIA):
            covariance[at, at] += SLOWLY**2 * step_s
    chain, calmer = layout.chain_part(count), np.exp(-step_s / layout.AIR_TIME_S)
    first = chain + layout.VELOCITY_X
    covariance[first : first + 2, first : first + 2] += errors.drift
    for at in (chain + layout.AIR_X, chain + layout.AIR_Y):
        covariance[at, at] += (1.0 - calmer**2) * layout.AIR_M_S**2
    by = np.zeros((len(errors.told), n))
    by[:, first : first + 2] = errors.by
    seen = Seen(errors.told, np.zeros((0, 0)), by, np.zeros((0, 0)), errors.told)
    if len(errors.told):
        seen = see(covariance, errors.told - by @ mean, by, np.diag(errors.variances))
        change, covariance = correction(covariance, seen)
        mean += change
    mean[first : first + 4] -= errors.change
    return Moments(mean, covariance), Corrected(by, seen, 1.0)


class Noise(NamedTuple):
    """Variances: of the disturbance (3N,), of what is measured (N + 2,), of torques at joints' end stops (N - 1,)."""

    disturbance: Vector
    measured: Vector
    stopped: Vector


@njit(cache=True)
def confronted(
    before: Moments, given: Given, steps: Vector, measured: Vector, noise: Noise, still: float, cap: float
) -> tuple[Moments, Corrected, float, Matrix]:
    """A belief corrected by a window, with at most a share `still`; the window's likelihood, and how it is disturbed.

    A blow is taken as if it were as likely as the cap.
    """
    size, n = len(measured), len(before.mean)
    predicted, jacobian, disturbed = np.empty(size), np.empty((size, n)), np.empty((size, len(noise.disturbance)))
    expect(before.mean, given, steps, predicted, jacobian, disturbed)
    spread = (disturbed * noise.disturbance) @ disturbed.T + np.diag(noise.measured)
    for joint in np.flatnonzero(noise.stopped):
        passed_on = disturbed[:, joint + 1] - disturbed[:, joint]
        spread += noise.stopped[joint] * np.outer(passed_on, passed_on)
    seen = see(before.covariance, measured - predicted, jacobian, spread)
    share = min(1.0, cap / _nis(seen), still)
    change, covariance = correction(before.covariance, seen, share)
    after = Moments(before.mean + change, covariance)
    return after, Corrected(jacobian, seen, share), _likelihood(seen, cap), disturbed


@njit(cache=True)
def _nis(seen: Seen) -> float:
    return float(seen.whitened @ seen.whitened)


@njit(cache=True)
def _likelihood(seen: Seen, cap: float) -> float:
    """Log of it, but for a constant; a blow counts as if it were as likely as the cap."""
    return -0.5 * min(_nis(seen), cap) - float(np.log(np.diag(seen.root)).sum())


@njit(cache=True)
def pushed_on(
    push: Moments, seen: Seen, disturbed: Matrix, headings: Vector, largest: float, cap: float
) -> tuple[Moments, float]:
    """Forces on the links in the room, given a window of what the belief did not expect, and their likelihood.

    They are a first-order Gauss-Markov process with the variance `largest`.
    """
    n, stays = len(headings), np.exp(-WINDOW * TICK_S / PUSH_S)
    by = np.empty((len(disturbed), 2 * n))
    for link in range(n):
        c, s, along, across = np.cos(headings[link]), np.sin(headings[link]), n + 2 * link, n + 2 * link + 1
        by[:, link] = disturbed[:, along] * c - disturbed[:, across] * s
        by[:, n + link] = disturbed[:, along] * s + disturbed[:, across] * c
    covariance = stays**2 * push.covariance + (1.0 - stays**2) * largest * np.eye(2 * n)
    mean = stays * push.mean
    pushed = see(covariance, seen.value - by @ mean, by, seen.root @ np.ascontiguousarray(seen.root.T))
    change, covariance = correction(covariance, pushed, min(1.0, cap / _nis(pushed)))
    return Moments(mean + change, covariance), _likelihood(pushed, cap)


@njit(cache=True)
def size_of(push: Moments) -> float:
    """Square of lasting forces on the links over their variance: larger than one by more than chance where they act."""
    return float(push.mean @ np.linalg.solve(push.covariance, push.mean)) / len(push.mean)


def _shifted(thrust: Matrix, change: Vector) -> Matrix:
    """Thrusters (N, 6) as they would be with other time constants and another delay, by what changed (N + 1,)."""
    shifted = thrust.copy()
    for way in range(2):
        shifted[:, way] += change[:-1] * thrust[:, 2 + way] - change[-1] * thrust[:, 4 + way]
    return shifted


def _adapted(scale: float, past: tuple[Vector, ...], whitened: Vector) -> tuple[float, tuple[Vector, ...]]:
    """Scale of the disturbance after an innovation, and the innovations to be kept.

    Bartlett's weights (Newey and West, "A simple, positive semi-definite covariance matrix", 1987).
    """
    size = len(whitened)
    whitened = np.clip(whitened, -5.0, 5.0)
    lasting = float(whitened @ whitened)
    for lag, before in enumerate(reversed(past), start=1):
        lasting += 2.0 * (1.0 - lag / (LAGS + 1)) * float(whitened @ before)
    scale *= np.exp((lasting / size - 1.0) / MEMORY)
    return float(np.clip(scale, SMALLEST_SCALE, LARGEST_SCALE)), (*past, whitened)[-LAGS:]
