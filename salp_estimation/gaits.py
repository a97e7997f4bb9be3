"""Periodic gaits: rim speeds of the wheels as first-order Fourier series of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Gait:
    """u(t) = offset + sine sin(2 pi t / period) + cosine cos(2 pi t / period), m/s for each of N wheels."""

    offset: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    period_s: float = 6.0

    def controls(self, time_s: ArrayLike) -> NDArray[np.float64]:
        """Rim speeds (..., N), m/s, at the times (...), s."""
        phase = 2.0 * np.pi / self.period_s * np.asarray(time_s, dtype=np.float64)[..., None]
        return np.array(self.offset) + np.sin(phase) * np.array(self.sine) + np.cos(phase) * np.array(self.cosine)

    def reversed(self) -> Gait:
        """u_b(t) = -u(-t): the same shapes run through backwards, the motion of a cycle undone."""
        return Gait(
            tuple(-value for value in self.offset),
            self.sine,
            tuple(-value for value in self.cosine),
            self.period_s,
        )


# Coefficients of the real robot, published with the simulation code of a co-author: 3.00 cm a cycle.
FORWARD = Gait(
    offset=(-0.002271237, -0.003813663, -0.001091332),
    sine=(-0.113492429, 0.013340879, 0.048042369),
    cosine=(0.041477767, 0.050787768, 0.024609896),
)
GAITS: dict[str, Gait] = {"forward": FORWARD, "backward": FORWARD.reversed()}
