"""Pressure sensors on analogue inputs: from volts to absolute pressure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Matrix, Vector

MARGIN = 0.05
"""Share of its span by which a sensor's voltage may be beyond it."""


@dataclass(frozen=True)
class PressureScale:
    """A line through two points, the same for all sensors, with an offset for each.

    Attributes
    ----------
    volts, pascals
        Voltages at the ends of the range, and the pressures there.
    offsets_pa
        (n,) taken off, one for each sensor.
    ambient_pa
        Added: of the air around, for sensors of gauge pressure; 0 for those of absolute pressure.
    """

    volts: tuple[float, float]
    pascals: tuple[float, float]
    offsets_pa: Vector
    ambient_pa: float

    def __call__(self, voltages: Matrix) -> Matrix:
        """(K, n) Pa, absolute, of voltages (K, n)."""
        slope = (self.pascals[1] - self.pascals[0]) / (self.volts[1] - self.volts[0])
        pressures: Matrix = self.pascals[0] + slope * (voltages - self.volts[0]) - self.offsets_pa + self.ambient_pa
        return pressures

    def beyond(self, voltages: Matrix) -> NDArray[np.bool_]:
        """(K, n) whether a voltage is none that such a sensor gives: a wire is off, or it is another sensor."""
        margin = MARGIN * abs(self.volts[1] - self.volts[0])
        outside: NDArray[np.bool_] = (voltages < min(self.volts) - margin) | (voltages > max(self.volts) + margin)
        return outside
