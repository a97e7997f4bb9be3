"""Periodic gaits: rim speeds of the wheels as first-order Fourier series of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

SETTLE_S = 6.0
"""One cycle of the gaits: so long a filter may take to settle."""


@dataclass(frozen=True)
class Gait:
    """u(t) = offset + sine sin(2 pi t / period) + cosine cos(2 pi t / period), m/s for each of N wheels."""

    offset: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    period_s: float = 6.0

    @classmethod
    def of(cls, coefficients: ArrayLike, period_s: float) -> Gait:
        """From offset, sine and cosine, (3, N) m/s."""
        offset, sine, cosine = (tuple(row) for row in np.asarray(coefficients, dtype=np.float64).tolist())
        return cls(offset, sine, cosine, period_s)

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Offset, sine and cosine, (3, N) m/s."""
        return np.array([self.offset, self.sine, self.cosine])

    def controls(self, time_s: ArrayLike) -> NDArray[np.float64]:
        """Rim speeds (..., N), m/s, at the times (...), s."""
        phase = 2.0 * np.pi / self.period_s * np.asarray(time_s, dtype=np.float64)[..., None]
        return np.array(self.offset) + np.sin(phase) * np.array(self.sine) + np.cos(phase) * np.array(self.cosine)

    def reversed(self) -> Gait:
        """u_b(t) = -u(-t): the same shapes run through backwards, the motion of a cycle undone."""
        return Gait.of(self.coefficients * [[-1.0], [1.0], [-1.0]], self.period_s)


# Coefficients of the real robot, published with the simulation code of a co-author: 3.00 cm a cycle.
FORWARD = Gait(
    offset=(-0.002271237, -0.003813663, -0.001091332),
    sine=(-0.113492429, 0.013340879, 0.048042369),
    cosine=(0.041477767, 0.050787768, 0.024609896),
)
# Results of `gait_design.design` for LandSalp, the least effort for 3 cm sideways and for a turn of 45 deg a cycle.
LEFT = Gait(
    offset=(-0.005582096, -0.006463821, -0.004458239),
    sine=(0.025212921, -0.014617550, -0.011376654),
    cosine=(0.011707982, 0.020353805, -0.001576352),
)
TURNING = Gait(
    offset=(0.061610880, -0.011254953, -0.022933191),
    sine=(-0.009732770, 0.091338797, 0.027405967),
    cosine=(-0.016468325, -0.018337498, 0.066971253),
)
GAITS: dict[str, Gait] = {
    "forward": FORWARD,
    "backward": FORWARD.reversed(),
    "left": LEFT,
    "right": LEFT.reversed(),
    "turning": TURNING,
}
