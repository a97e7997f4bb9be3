"""The gait of least effort among all that move a chain as wanted in a cycle: sequential quadratic programming.

Every cycle starts straight, as a robot at rest stands. Where on its loop of shapes it does so is no
convention but part of the optimum: a gait shifted in time runs through another loop, at another effort. So the fit is
repeated from first guesses that are shifted in time, and the best is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import minimize

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.state_space import StateSpace, se2
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.chain_kernels import completed, propagate
from salp_estimation.model.gaits import Gait

TOLERANCE = 1e-6
"""Largest deviation, m and rad, from the wanted motion of a cycle and from the straight shape."""

_STARTS, _LIMITED_STARTS = 8, 4  # limits make a start several times as slow
_SEARCH_STEPS, _FINAL_STEPS, _CHECK_STEPS = 24, 96, 192
_SEARCH, _FINAL = (1e-8, 60), (1e-13, 100)  # tolerance of SLSQP on the effort, relative, and its iterations
_DIFFERENCE = 1e-5
_LIMIT_MARGIN_RAD = float(np.deg2rad(0.5))
_NODE = float(np.sqrt(3.0) / 6.0)
_NEAR, _FAR = 0.5 + 2.0 * _NODE, 0.5 - 2.0 * _NODE
_POSE = StateSpace(se2("pose"))


Array = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def held(links: Array, start: Array, controls: Array, interval: float) -> Array:
    """States (K + 1, N + 2) from `start` (N + 2,) on under the rim speeds (K, N), each held for one interval, s.

    One Runge-Kutta step an interval.
    """
    links = completed(links)
    out = np.empty((controls.shape[0] + 1, start.shape[0]))
    out[0] = start
    for k in range(controls.shape[0]):
        out[k + 1] = propagate(links, out[k : k + 1], controls[k], interval, interval)[0]
    return out


def cycle(chain: Chain, gait: Gait, steps: int) -> NDArray[np.float64]:
    """States (steps + 1, N + 2) of a cycle from the origin, straight.

    Commutator-free Magnus integrator of fourth order: every step is two halves, each under constant rim speeds that
    mix those at the two Gauss nodes (Blanes and Moan, "Fourth- and sixth-order commutator-free Magnus integrators",
    2006).
    """
    controls = _controls(steps) @ gait.coefficients
    start = np.zeros(chain.link_count + 2)
    states: NDArray[np.float64] = held(chain.links, start, controls, 0.5 * gait.period_s / steps)
    return states[::2]


@cache
def _controls(steps: int) -> Matrix:
    """(2 steps, 3) shares of offset, sine and cosine in the rim speeds of each half step."""
    middles = (np.arange(steps) + 0.5) / steps
    earlier, later = (2.0 * np.pi * (middles + sign * _NODE / steps) for sign in (-1.0, 1.0))
    earlier, later = (np.column_stack([np.ones(steps), np.sin(t), np.cos(t)]) for t in (earlier, later))
    return np.stack([_NEAR * earlier + _FAR * later, _FAR * earlier + _NEAR * later], axis=1).reshape(2 * steps, 3)


def effort(gait: Gait) -> float:
    """Mean of |u|^2 over a cycle, m^2/s^2."""
    offset, sine, cosine = gait.coefficients
    return float(offset @ offset + 0.5 * (sine @ sine + cosine @ cosine))


def exponential(twist: Vector) -> Vector:
    """Pose (3,) after one unit of time at the body velocity (3,)."""
    return _POSE.plus(np.zeros(3), twist)


def logarithm(pose: Vector) -> Vector:
    """The body velocity (3,) that leads to the pose (3,) in one unit of time; its heading within (-pi, pi)."""
    return _POSE.minus(pose, np.zeros(3))


def fit(chain: Chain, twist: Vector, guess: Gait) -> Gait:
    """The best of several local optima.

    Parameters
    ----------
    twist
        (3,) exponential coordinates of the body's motion in a cycle.
    guess
        About such a gait, for its size, its plane of thrusts and its period.

    Raises
    ------
    UserError
        No start led to a gait that keeps to the motion and to the joints' limits.
    """
    closest = np.inf
    excess_rad = 0.0
    for limited in (False, True):
        found = _search(chain, twist, guess, limited)
        if found is None:
            continue
        # With finer steps, checked with steps of half that size.
        gait = _Problem(chain, twist, found, _FINAL_STEPS, limited).least_effort(found, *_FINAL)
        check = _Problem(chain, twist, gait, _CHECK_STEPS, limited)
        z = check.variables(gait)
        beyond_rad = -float(check.room(z).min()) - (_LIMIT_MARGIN_RAD if limited else 0.0)
        deviation = float(np.abs(check.off(z)).max())
        closest = min(closest, deviation)
        if deviation > TOLERANCE:
            continue
        if beyond_rad <= 0.0:
            return gait
        excess_rad = max(excess_rad, beyond_rad)  # the limits are in the way: with them from the start
    raise UserError(_refusal(twist, closest, excess_rad))


class _Problem:
    """The fit in numbers near one: variables are coefficients over `scale`, as (offset, sine, cosine) one by one."""

    def __init__(self, chain: Chain, twist: Vector, size: Gait, steps: int, limited: bool) -> None:
        self.chain, self.steps, self.limited = Chain(kernels.unlimited(chain.links)), steps, limited
        # Both constraints are differentiated at the same places.
        self._cycle = lru_cache(256)(lambda key: cycle(self.chain, self.gait(np.frombuffer(key)), self.steps))
        self.period_s = size.period_s
        self.scale = np.sqrt(effort(size))
        self.target = np.append(exponential(twist), np.zeros(chain.link_count - 1))
        length_m = float(chain.links[:, kernels.LENGTH].sum())
        self.sizes = np.array([0.04 * length_m, 0.04 * length_m, *[0.1] * chain.link_count])
        self.weights = np.repeat([1.0, 0.5, 0.5], chain.link_count)
        lower, upper = chain.links[:-1, kernels.LOWER], chain.links[:-1, kernels.UPPER]
        self.lower = np.minimum(lower + _LIMIT_MARGIN_RAD, 0.0)
        self.upper = np.maximum(upper - _LIMIT_MARGIN_RAD, 0.0)

    def gait(self, z: Vector) -> Gait:
        """The gait of these variables."""
        return Gait.of((self.scale * z).reshape(3, -1), self.period_s)

    def variables(self, gait: Gait) -> Vector:
        """The variables of a gait."""
        return gait.coefficients.ravel() / self.scale

    def miss(self, z: Vector) -> Vector:
        """(N + 2,) zero where the cycle ends at the wanted pose, straight."""
        return self.off(z) / self.sizes

    def off(self, z: Vector) -> NDArray[np.float64]:
        """(N + 2,) the same in m and rad."""
        off = self._states(z)[-1] - self.target
        off[2] = np.arctan2(np.sin(off[2]), np.cos(off[2]))
        return off

    def room(self, z: Vector) -> Vector:
        """(2 (N - 1),) rad from the joints' extremes to their limits less a margin, negative beyond them."""
        joints = self._states(z)[:, 3:]
        return np.concatenate([joints.min(axis=0) - self.lower, self.upper - joints.max(axis=0)])

    def is_near(self, gait: Gait) -> bool:
        """Whether the gait meets the constraints so well that finer steps can do the rest."""
        z = self.variables(gait)
        kept = not self.limited or self.room(z).min() > -0.1 * _LIMIT_MARGIN_RAD
        return bool(kept and np.abs(self.miss(z)).max() < 1e-3)

    def least_effort(self, start: Gait, tolerance: float, iterations: int) -> Gait:
        """A local optimum near the start, and one more Newton step towards the wanted motion."""
        constraints = [self._constraint("eq", self.miss)]
        if self.limited:
            constraints.append(self._constraint("ineq", self.room))
        z = minimize(
            lambda z: self.weights @ z**2,
            self.variables(start),
            jac=lambda z: 2.0 * self.weights * z,
            method="SLSQP",
            constraints=constraints,
            options={"ftol": tolerance, "maxiter": iterations},
        ).x
        step = np.linalg.lstsq(self._jacobian(self.miss, z), self.miss(z), rcond=None)[0]
        return self.gait(z - step)

    def _states(self, z: Vector) -> Matrix:
        return self._cycle(z.tobytes())

    def _constraint(self, kind: str, function: Callable[[Vector], Vector]) -> dict[str, object]:
        return {"type": kind, "fun": function, "jac": lambda z: self._jacobian(function, z)}

    def _jacobian(self, function: Callable[[Vector], Vector], z: Vector) -> Matrix:
        """By central differences; by forward ones, which cost half, while only searching."""
        steps = _DIFFERENCE * np.eye(len(z))
        ahead = np.array([function(z + step) for step in steps])
        if self.steps == _SEARCH_STEPS:
            return (ahead - function(z)).T / _DIFFERENCE
        return (ahead - np.array([function(z - step) for step in steps])).T / (2.0 * _DIFFERENCE)


def _search(chain: Chain, twist: Vector, guess: Gait, limited: bool) -> Gait | None:
    """The optimum of least effort from shifted first guesses."""
    problem = _Problem(chain, twist, guess, _SEARCH_STEPS, limited)
    starts = _LIMITED_STARTS if limited else _STARTS
    ends = [problem.least_effort(_shifted(guess, k / starts), *_SEARCH) for k in range(starts)]
    return min((gait for gait in ends if problem.is_near(gait)), key=effort, default=None)


def _shifted(gait: Gait, fraction: float) -> Gait:
    """The gait that is ahead by a fraction of its period."""
    phase = 2.0 * np.pi * fraction
    offset, sine, cosine = gait.coefficients
    ahead = np.cos(phase) * sine - np.sin(phase) * cosine, np.sin(phase) * sine + np.cos(phase) * cosine
    return Gait.of([offset, *ahead], gait.period_s)


def _refusal(twist: Vector, closest: float, excess_rad: float) -> str:
    x, y, heading = exponential(twist)
    motion = f"{100.0 * x:.3g} cm forward, {100.0 * y:.3g} cm left and {np.rad2deg(heading):.3g} deg a cycle"
    if excess_rad > 0.0:
        return (
            f"no gait for {motion} was found within the joints' limits: without them a joint would go "
            f"{np.rad2deg(excess_rad):.2g} deg beyond. Ask for less a cycle, or widen chain.joint_lower_deg and "
            "chain.joint_upper_deg"
        )
    missed = f"the closest misses by {closest:.2g} (m, rad)"
    if not np.isfinite(closest):
        missed = f"none of {_STARTS} starts led to it"
    return f"no gait for {motion} was found: {missed}. Ask for less a cycle"
