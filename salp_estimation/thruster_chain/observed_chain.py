"""What observability asks of a chain: its model, the noise of its IMUs, and the state that is to be known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain.chain_model import ChainModel, ImuModel


class Blocks(NamedTuple):
    """Where in the 5N + 2 states what is: rad, rad/s, velocity of the chain's centre of mass m/s, kg, kg m^2, gains.

    A gain is thrust by command, 1 by design. Only the first three move.
    """

    theta: slice
    omega: slice
    velocity: slice
    mass: slice
    inertia: slice
    gain: slice


def blocks(count: int) -> Blocks:
    """Of a chain of `count` links."""
    ends = np.cumsum([0, count, count, 2, count, count, count]).tolist()
    return Blocks(*(slice(begin, end) for begin, end in pairwise(ends)))


def quantities(count: int) -> tuple[str, ...]:
    """Names of the 5N + 2 states: theta1, ..., omega1, ..., vx, vy, m1, ..., j1, ..., g1, ..."""

    def numbered(letter: str) -> tuple[str, ...]:
        return tuple(f"{letter}{link + 1}" for link in range(count))

    return (*numbered("theta"), *numbered("omega"), "vx", "vy", *numbered("m"), *numbered("j"), *numbered("g"))


def packed(
    theta: ArrayLike,
    omega: ArrayLike,
    mass: ArrayLike,
    inertia: ArrayLike,
    gain: ArrayLike = 1.0,
    velocity: ArrayLike = 0.0,
) -> Matrix:
    """States (5N + 2,), or (K, 5N + 2), from their blocks, which broadcast to the headings' shape."""
    headings = np.asarray(theta, dtype=np.float64)
    at = blocks(headings.shape[-1])
    state: Matrix = np.empty((*headings.shape[:-1], at.gain.stop))
    for place, values in zip(at, (headings, omega, velocity, mass, inertia, gain), strict=True):
        state[..., place] = values
    return state


def given_and_motion(states: NDArray[Any], thrust_n: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(3N, P) and (2N + 4, P) of `dynamics`, from states (5N + 2, P) and commanded thrust (N, P), or (N, 1)."""
    at = blocks((len(states) - 2) // 5)
    given = np.concatenate([1.0 / states[at.mass], 1.0 / states[at.inertia], states[at.gain] * thrust_n])
    nowhere = np.zeros_like(states[at.velocity])
    return given, np.concatenate([states[at.theta], states[at.omega], nowhere, states[at.velocity]])


@dataclass(frozen=True, eq=False)
class ObservedChain:
    """A chain and its IMUs.

    Attributes
    ----------
    accelerometer_stddev_m_s2, gyro_stddev_rad_s
        White noise of one sample; by default the paper's (Table IV).
    imu_model
        `PHYSICAL`, or the paper's `PAPER`; see `dynamics`.
    """

    model: ChainModel
    accelerometer_stddev_m_s2: float = 0.01
    gyro_stddev_rad_s: float = 1e-3
    imu_model: ImuModel = ImuModel.PHYSICAL

    @property
    def count(self) -> int:
        """Number of links N."""
        return len(self.model.links)

    @property
    def noise(self) -> Vector:
        """(3N,) standard deviations of the outputs: of each link acceleration along x, along y, turning rate."""
        return np.tile(
            [self.accelerometer_stddev_m_s2, self.accelerometer_stddev_m_s2, self.gyro_stddev_rad_s], self.count
        )

    def averaged(self, samples: float) -> ObservedChain:
        """IMUs whose one sample stands for several."""
        share = max(samples, 1.0) ** -0.5
        return replace(
            self,
            accelerometer_stddev_m_s2=self.accelerometer_stddev_m_s2 * share,
            gyro_stddev_rad_s=self.gyro_stddev_rad_s * share,
        )
