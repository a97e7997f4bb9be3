"""Information along a trajectory of a thruster chain: the empirical Gramian, the covariance it leaves possible, a push.

All stand on exact sensitivities, in scaled units: states by their prior standard deviations, outputs by the noise of a
sample. An imaginary part of 1e-30 on one of the 5N states (`Blocks`), carried through a step and the
outputs of `dynamics`, is that column of the Jacobian, exact to rounding. Thrust is held from one instant to the next.

- `gramians`: W = sum of Phi^T C^T C Phi over a window, Phi the sensitivity of the state to that at the window's start.
  What the outputs of the window alone say of that state, without prior and without process noise.
- `predict`: the Cramer-Rao bound of filtering, by Riccati's recursion about the trajectory: prior, information and
  process noise together (van Trees's bound where the noise is zero). No unbiased filter of this model can be surer.
- `forecast`: which single push would tell most, in words ("push thruster 2 for 0.3 s to halve the deviation of m2"):
  from a filter's mean and covariance, one trajectory for each thruster that may matter, and what `predict` leaves after
  each of its instants. No random numbers, no filter run: a few milliseconds for three links, to be said live.

There are two readings of a configuration (`assumed_chain`). The laboratory's: IMUs and tolerances as by the data
sheets, gains of the thrusters uncertain, parameters constant. The paper's: what its filter is told, Tables III and IV.
Geometry is nominal in both, so what is predicted is the least that any filter of this robot can reach: tolerances of
places, mounting and sensors only add to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.contract.signals import first_order
from onboard_estimation.filtering.moments import correction, see
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, read_imus, rods
from thruster_chain_estimation.model.space import BOUND_TO_STDDEV, prior_stddev

LONGEST_STEP_S = 0.01
"""Of the integration; longer intervals are divided."""
_STEP = 1e-30
SHORTEST_PUSH_S, LONGEST_PUSH_S = 0.1, 1.0
_PUSH_STEP_S = 0.02
_ENOUGH = 0.01
"""Of a mass or inertia: what is known as well as this needs no push."""
_WORTH = 0.9
"""A push that leaves more of a deviation than this is not worth its fuel."""
_REACH = 2
"""Links on either side of a parameter's own whose thrusters are tried: further away a push arrives weakened."""
_MOST_TRIED = 4
"""Parameters, from the one that is known worst."""


class Blocks(NamedTuple):
    """Where in the 5N states what is: rad, rad/s, kg, kg m^2, gains.

    A gain is thrust by command, 1 by design. Only the first two move.
    """

    theta: slice
    omega: slice
    mass: slice
    inertia: slice
    gain: slice


def blocks(count: int) -> Blocks:
    """Of a chain of `count` links."""
    return Blocks(*(slice(block * count, (block + 1) * count) for block in range(5)))


def quantities(count: int) -> tuple[str, ...]:
    """Names of the 5N states: theta1, ..., omega1, ..., m1, ..., j1, ..., g1, ..."""
    return tuple(f"{letter}{link + 1}" for letter in ("theta", "omega", "m", "j", "g") for link in range(count))


def packed(theta: ArrayLike, omega: ArrayLike, mass: ArrayLike, inertia: ArrayLike, gain: ArrayLike = 1.0) -> Matrix:
    """States (5N,), or (K, 5N), from their blocks, which broadcast to the headings' shape."""
    headings = np.asarray(theta, dtype=np.float64)
    return np.concatenate([np.broadcast_to(one, headings.shape) for one in (headings, omega, mass, inertia, gain)], -1)


def given_and_motion(states: NDArray[Any], thrust_n: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(3N, P) and (2N, P) of `dynamics`, from states (5N, P) and commanded thrust (N, P), or (N, 1)."""
    at = blocks(len(states) // 5)
    given = np.concatenate([1.0 / states[at.mass], 1.0 / states[at.inertia], states[at.gain] * thrust_n])
    return given, states[: at.omega.stop].copy()


@dataclass(frozen=True, eq=False)
class ObservedChain:
    """A chain and its IMUs.

    Attributes
    ----------
    links
        See `dynamics.rods`.
    accelerometer_stddev_m_s2, gyro_stddev_rad_s
        White noise of one sample; by default the paper's (Table IV).
    physical
        Whether accelerometers read what those on links do; else the paper's equation, see `dynamics`.
    """

    links: Matrix
    accelerometer_stddev_m_s2: float = 0.01
    gyro_stddev_rad_s: float = 1e-3
    physical: bool = True

    @property
    def count(self) -> int:
        """Number of links N."""
        return len(self.links)

    @property
    def noise(self) -> Vector:
        """(3N,) standard deviations of the outputs: of each link acceleration along x, along y, turning rate."""
        accelerometer = self.accelerometer_stddev_m_s2
        return np.tile([accelerometer, accelerometer, self.gyro_stddev_rad_s], self.count)

    def averaged(self, samples: float) -> ObservedChain:
        """IMUs whose one sample stands for several."""
        share = max(samples, 1.0) ** -0.5
        accelerometer, gyro = self.accelerometer_stddev_m_s2 * share, self.gyro_stddev_rad_s * share
        return replace(self, accelerometer_stddev_m_s2=accelerometer, gyro_stddev_rad_s=gyro)


@dataclass(frozen=True, eq=False)
class AssumedChain:
    """A robot as observability takes it.

    Attributes
    ----------
    chain
        Noise is that of one sample.
    design
        (5N,) state at rest, as designed, which the deviations below belong to.
    prior_stddev, noise_density
        (5N,) see `Blocks`; the latter a random walk, per root second.
    rate_hz
        Samples a second of each IMU.
    limit_n, time_constant_s
        Largest thrust, and of how it follows a command.
    dead_band_n
        Commands below do not start a thruster, N; conditions must hold by more than this.
    """

    chain: ObservedChain
    design: Vector
    prior_stddev: Vector
    noise_density: Vector
    rate_hz: float
    limit_n: float
    time_constant_s: float = 0.0
    dead_band_n: float = 0.0

    def noise_about(self, state: Vector) -> Vector:
        """(5N,) the noise density about another state: masses and inertias walk in shares, as their logarithms do."""
        at, factor = blocks(self.chain.count), np.ones_like(self.design)
        parameters = slice(at.mass.start, at.inertia.stop)
        factor[parameters] = state[parameters] / self.design[parameters]
        return factor * self.noise_density

    def started(self, thrust_n: Matrix) -> Matrix:
        """Commands (K, N) without those that do not start a thruster."""
        return np.where(np.abs(thrust_n) < self.dead_band_n, 0.0, thrust_n)

    def acting(self, thrust_n: Matrix, step_s: float) -> Matrix:
        """Thrust (K, N) by commands a step apart through the thrusters' lag.

        The step response half a step on, as the thrust is held from each instant to the next.
        """
        keep = float(np.exp(-step_s / self.time_constant_s)) if self.time_constant_s else 0.0
        return first_order(1.0 - keep, keep, thrust_n, np.zeros(thrust_n.shape[1]))

    def from_published(self, mean: Vector, covariance: Matrix) -> tuple[Vector, Matrix]:
        """State (5N,) and covariance from an estimator's 4N + 4: gains as by design, not correlated with the rest."""
        told = 4 * self.chain.count
        state, whole = np.ones_like(self.design), np.diag(self.prior_stddev**2)
        state[:told], whole[:told, :told] = mean[:told], covariance[:told, :told]
        return state, whole


def assumed_chain(configuration: ThrusterChainConfiguration, papers: bool = False) -> AssumedChain:
    """From a configuration, as the data sheets have it, or (`papers`) as the paper's filter is told."""
    chain, paper, thruster = configuration.chain, configuration.paper, configuration.thruster
    links = rods(chain.lengths, chain.thruster_angles, chain.thruster_places, chain.imu_places)
    theta, omega, mass, inertia = prior_stddev(configuration)[: 4 * chain.count].reshape(4, -1)
    design = packed(np.zeros(chain.count), 0.0, chain.masses, chain.inertias)
    if papers:
        imus = paper.accelerometer_stddev_m_s2, paper.gyro_stddev_rad_s, configuration.imu_model == "physical"
        prior = packed(theta, omega, paper.mass_stddev_kg, paper.inertia_stddev_kg_m2, 0.0)
        headings = np.full(chain.count, paper.heading_noise_rad)
        noise = packed(headings, paper.rate_noise_rad_s, paper.mass_noise_kg, paper.inertia_noise_kg_m2, 0.0)
        walk = noise * np.sqrt(paper.rate_hz)
        return AssumedChain(ObservedChain(links, *imus), design, prior, walk, paper.rate_hz, thruster.limit_n)
    prior = packed(theta, omega, mass, inertia, BOUND_TO_STDDEV * configuration.tolerances.thrust_gain_fraction)
    observed = ObservedChain(links, configuration.accelerometer_stddev_m_s2, configuration.gyro_stddev_rad_s)
    thrusters = thruster.limit_n, float(np.mean(thruster.time_constant_s)), thruster.dead_band_n
    return AssumedChain(observed, design, prior, np.zeros_like(prior), configuration.imu.rate_hz, *thrusters)


class Trajectory(NamedTuple):
    """K instants of a motion that derivatives are taken about.

    Attributes
    ----------
    time_s
        (K,) increasing.
    states
        (K, 5N), see `Blocks`.
    thrust_n
        (K, N) held from each instant to the next.
    """

    time_s: Vector
    states: Matrix
    thrust_n: Matrix


def moved(chain: ObservedChain, start: Vector, thrust_n: Matrix, time_s: Vector) -> tuple[Trajectory, Matrix]:
    """The motion from a state (5N,) under thrust (K, N), and the outputs (K, 3N) without noise."""
    states, outputs = np.tile(start, (len(time_s), 1)), np.empty((len(time_s), 3 * chain.count))
    for k, lasts_s in enumerate(np.diff(time_s, append=time_s[-1]).tolist()):
        read, after = read_and_moved(chain, states[k, :, None], thrust_n[k], lasts_s)
        outputs[k] = read[:, 0]
        if lasts_s:
            states[k + 1, : 2 * chain.count] = after[:, 0]
    return Trajectory(time_s, states, thrust_n), outputs


def read_and_moved(
    chain: ObservedChain, states: NDArray[Any], thrust: Vector, lasts_s: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Outputs (3N, P) of states (5N, P), and their headings and rates (2N, P) so much later."""
    given, motion = given_and_motion(states, thrust[:, None])
    read = np.empty((3 * chain.count, states.shape[1]), states.dtype)
    read_imus(chain.physical, chain.links, given, motion, read)
    if lasts_s:
        propagate(chain.links, given, motion, lasts_s, LONGEST_STEP_S)
    return read, motion


def scaled_jacobians(chain: ObservedChain, path: Trajectory, scale: Vector) -> tuple[Matrix, Matrix]:
    """Transitions (K - 1, 2N, M) and output gradients (K, 3N, M) of the M states of which `scale` is not zero.

    Headings and rates, which move, must be among them.
    """
    moving, free = 2 * chain.count, np.flatnonzero(scale)
    lasts_s, aside = np.diff(path.time_s, append=path.time_s[-1]), 1j * _STEP * np.eye(len(scale))[:, free]
    gradients = np.empty((len(lasts_s), 3 * chain.count, len(free)))
    transitions = np.empty((len(lasts_s), moving, len(free)))
    for k, step_s in enumerate(lasts_s.tolist()):
        read, after = read_and_moved(chain, path.states[k, :, None] + aside, path.thrust_n[k], step_s)
        gradients[k], transitions[k] = read.imag / _STEP, after.imag / _STEP
    return transitions[:-1] * (scale[free] / scale[:moving, None]), gradients * (scale[free] / chain.noise[:, None])


def predict(
    chain: ObservedChain,
    path: Trajectory,
    prior: ArrayLike,
    noise_density: ArrayLike = 0.0,
    seen: NDArray[np.bool_] | None = None,
) -> tuple[Matrix, Matrix]:
    """Standard deviations (K, 5N) after the outputs of each instant, and the covariance (5N, 5N) after the last.

    By Riccati's recursion with exact sensitivities; zero where the prior is.

    Parameters
    ----------
    prior
        (5N,) standard deviations of a diagonal covariance, or the covariance, before the first outputs. Masses,
        inertias and gains with a variance of zero are known.
    noise_density
        (5N,) of the random walks of the states, per root second.
    seen
        (K, 3N) which outputs there were; None: all. An IMU that is silent tells nothing.
    """
    given = np.asarray(prior, dtype=np.float64)
    whole = np.diag(given**2) if given.ndim == 1 else given
    scale = np.sqrt(np.diag(whole))
    free = np.flatnonzero(scale)
    transitions, gradients = scaled_jacobians(chain, path, scale)
    covariance: Matrix = whole[np.ix_(free, free)] / np.outer(scale[free], scale[free])
    density = np.broadcast_to(np.asarray(noise_density, dtype=np.float64), scale.shape)
    noise = np.diff(path.time_s)[:, None] * (density[free] / scale[free]) ** 2
    variances = np.empty((len(gradients), len(free)))
    for k, gradient in enumerate(gradients):
        read = gradient if seen is None else gradient[seen[k]]
        _, covariance = correction(covariance, see(covariance, np.zeros(len(read)), read, np.eye(len(read))))
        variances[k] = np.diag(covariance)
        if k < len(transitions):
            covariance = _carried(covariance, transitions[k]) + np.diag(noise[k])
    stddev, final = np.zeros_like(path.states), np.zeros_like(whole)
    stddev[:, free] = np.sqrt(np.maximum(variances, 0.0)) * scale[free]
    final[np.ix_(free, free)] = covariance * np.outer(scale[free], scale[free])
    return stddev, final


def _carried(covariance: Matrix, transition: Matrix) -> Matrix:
    """The covariance one instant on: `transition` (moving, M) for the states that move."""
    moving, rows, carried = len(transition), transition @ covariance, covariance.copy()
    carried[:moving] = rows
    carried[:, :moving] = rows.T
    carried[:moving, :moving] = rows @ transition.T
    return carried


def gramians(chain: ObservedChain, path: Trajectory, prior_stddev: ArrayLike, window_s: float) -> tuple[Vector, Matrix]:
    """Starts (W,) s and Gramians (W, M, M), scaled, of windows one after the other; the last one is whole, too."""
    scale = np.asarray(prior_stddev, dtype=np.float64)
    transitions, gradients = scaled_jacobians(chain, path, scale)
    moving, size = transitions.shape[1], gradients.shape[2]
    step = float(np.median(np.diff(path.time_s))) if len(path.time_s) > 1 else window_s
    length = max(1, round(window_s / step))
    starts = np.arange(0, len(path.time_s) - length + 1, length)
    total, flow = np.zeros((len(starts), size, size)), np.broadcast_to(np.eye(size), (len(starts), size, size)).copy()
    for offset in range(length):
        read = gradients[starts + offset] @ flow
        total += read.swapaxes(1, 2) @ read
        if offset + 1 < length:
            flow[:, :moving] = transitions[starts + offset] @ flow
    return path.time_s[starts], total


@dataclass(frozen=True)
class Push:
    """One thruster for some time, and what it would do to the deviation of one parameter.

    Attributes
    ----------
    thruster
        Counted from 1, as in words.
    parameter
        `m2`, `j3`, ...
    before, after
        Its standard deviation, kg or kg m^2.
    """

    thruster: int
    duration_s: float
    parameter: str
    before: float
    after: float

    def __str__(self) -> str:
        unit = "kg" if self.parameter.startswith("m") else "kg m^2"
        off = 1.0 - self.after / self.before
        aim = "halve" if 0.5 <= off < 0.6 else f"take {100.0 * off:.0f} % off"
        push = f"push thruster {self.thruster} for {self.duration_s:.2g} s"
        return f"{push} to {aim} the deviation of {self.parameter} ({self.before:.2g} to {self.after:.2g} {unit})"


@dataclass(frozen=True)
class Forecast:
    """The best single push, None where there is none, and the parameters that were found beyond any push.

    Attributes
    ----------
    hopeless
        Parameters known worse than that of `push` which no single push would tell more of.
    """

    push: Push | None
    hopeless: tuple[str, ...] = ()

    def __str__(self) -> str:
        beyond = f"no single push of up to {LONGEST_PUSH_S:g} s tells much more of {', '.join(self.hopeless)}"
        if self.push is None:
            return beyond if self.hopeless else f"all masses and inertias are known to {100 * _ENOUGH:g} % or better"
        return f"{self.push}; {beyond}" if self.hopeless else str(self.push)


def forecast(assumed: AssumedChain, state: Vector, covariance: Matrix) -> Forecast:
    """The shortest push of one thruster that halves the deviation of the parameter known worst, or does most for it.

    From a state (5N,) and its covariance (5N, 5N); variances of zero: known.
    """
    deviations, density = np.sqrt(np.diag(covariance)), assumed.noise_about(state)
    chain = assumed.chain.averaged(assumed.rate_hz * _PUSH_STEP_S)
    time: Vector = _PUSH_STEP_S * np.arange(round(LONGEST_PUSH_S / _PUSH_STEP_S), dtype=np.float64)
    lag_s = assumed.time_constant_s
    rise = assumed.limit_n * (-np.expm1(-(time + 0.5 * _PUSH_STEP_S) / lag_s) if lag_s else np.ones(len(time)))
    first = round(SHORTEST_PUSH_S / _PUSH_STEP_S) - 1

    @cache
    def predicted(thruster: int) -> Matrix:
        path, _ = moved(chain, state, np.outer(rise, np.arange(chain.count) == thruster), time)
        return predict(chain, path, covariance, density)[0]

    hopeless: list[str] = []
    names = quantities(chain.count)
    for index in _worst_first(chain.count, state, deviations):
        link = (index - blocks(chain.count).mass.start) % chain.count
        tried = range(max(0, link - _REACH), min(chain.count, link + _REACH + 1))
        # The outputs of instant k have seen the thrust for k + 1 steps.
        ratios = np.stack([predicted(one)[first:, index] / deviations[index] for one in tried])
        halved = ratios <= 0.5
        if halved.any():
            # The first to get there; of those that do so at one instant, the one that does most.
            instant = int(halved.any(axis=0).argmax())
        elif ratios[:, -1].min() < _WORTH:
            instant = ratios.shape[1] - 1
        else:
            hopeless.append(names[index])
            continue
        best = int(ratios[:, instant].argmin())
        after = float(ratios[best, instant] * deviations[index])
        duration = _PUSH_STEP_S * (first + instant + 1)
        push = Push(tried[best] + 1, duration, names[index], float(deviations[index]), after)
        return Forecast(push, tuple(hopeless))
    return Forecast(None, tuple(hopeless))


def _worst_first(count: int, state: Vector, deviations: Vector) -> list[int]:
    """Masses and inertias by their deviation against their value, the largest first, without what is known enough."""
    at = blocks(count)
    parameters = np.arange(at.mass.start, at.inertia.stop)
    relative = deviations[parameters] / np.abs(state[parameters])
    order = parameters[np.argsort(-relative, kind="stable")]
    return [int(one) for one in order[:_MOST_TRIED] if deviations[one] > _ENOUGH * abs(state[one])]
