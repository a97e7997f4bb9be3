"""Which single push would tell most, in words: "push thruster 2 for 0.3 s to halve the deviation of m2".

From a filter's mean and covariance, one trajectory for each thruster that may matter: the thruster on, all others off,
and the covariance that its information would leave after each instant. No random numbers, no filter run: a few
milliseconds for three links, so it can be said live once a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain.information import moved, predict
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks, quantities

SHORTEST_PUSH_S, LONGEST_PUSH_S = 0.1, 1.0
_STEP_S = 0.02
_ENOUGH = 0.01
"""Of a mass or inertia: what is known as well as this needs no push."""
_WORTH = 0.9
"""A push that leaves more of a deviation than this is not worth its fuel."""
_REACH = 2
"""Links on either side of a parameter's own whose thrusters are tried: further away a push arrives weakened."""
_MOST_TRIED = 4
"""Parameters, from the one that is known worst."""


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


def forecast(
    chain: ObservedChain,
    state: Vector,
    covariance: ArrayLike,
    limit_n: float,
    rate_hz: float,
    noise_density: ArrayLike = 0.0,
    time_constant_s: float = 0.0,
) -> Forecast:
    """The shortest push of one thruster that halves the deviation of the parameter known worst, or does most for it.

    Parameters
    ----------
    state, covariance
        (5N + 2,) and (5N + 2, 5N + 2), see `observed_chain.Blocks`; variances of zero: known.
    limit_n
        Thrust of a push.
    rate_hz
        Samples a second that the noise of `chain` belongs to.
    noise_density
        (5N + 2,) random walks of the states.
    time_constant_s
        Of the thrust after the command.
    """
    deviations = np.sqrt(np.diag(covariance))
    averaged = chain.averaged(rate_hz * _STEP_S)
    time = _STEP_S * np.arange(round(LONGEST_PUSH_S / _STEP_S))
    rise = limit_n * (-np.expm1(-(time + 0.5 * _STEP_S) / time_constant_s) if time_constant_s else np.ones(len(time)))
    first, left = round(SHORTEST_PUSH_S / _STEP_S) - 1, dict[int, Matrix]()

    def predicted(thruster: int) -> Matrix:
        if thruster not in left:
            thrust = np.outer(rise, np.arange(chain.count) == thruster)
            path, _ = moved(averaged, state, thrust, time)
            left[thruster] = predict(averaged, path, covariance, noise_density).stddev
        return left[thruster]

    hopeless: list[str] = []
    names = quantities(chain.count)
    for index in _worst_first(chain.count, np.asarray(state), deviations):
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
        duration = _STEP_S * (first + instant + 1)
        push = Push(tried[best] + 1, duration, names[index], float(deviations[index]), after)
        return Forecast(push, tuple(hopeless))
    return Forecast(None, tuple(hopeless))


def _worst_first(count: int, state: Vector, deviations: Vector) -> Iterator[int]:
    """Masses and inertias by their deviation against their value, the largest first, without what is known enough."""
    at = blocks(count)
    parameters = np.arange(at.mass.start, at.inertia.stop)
    relative = deviations[parameters] / np.abs(state[parameters])
    order = parameters[np.argsort(-relative, kind="stable")]
    yield from (int(one) for one in order[:_MOST_TRIED] if deviations[one] > _ENOUGH * abs(state[one]))
