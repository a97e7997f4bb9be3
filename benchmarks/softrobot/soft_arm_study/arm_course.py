"""How a soft arm comes to its bending after a step of pressure: air that fills the chambers, a mode that rings, creep.

    pressure(a) = set (1 - exp(-a / rise)),                      a: age, since the valve opened
    rest(a)     = law(pressure(a)) (1 + creep log(a / 2 s)),     creep: share for each factor e of the age
    bending''   = w^2 (rest - bending) - 2 damping w bending'

With the two numbers of the law these are six, for all pressures. The mode has one frequency: the recorded arm rings at
8.3 Hz at 100 mbar and at 8.0 Hz at 300 mbar, though its stiffness over gain is 0.57 times as large there, which would
make 6.2 Hz. What falls with bending acts on slow pressure, and hardly on fast motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares, minimize_scalar
from scipy.signal import bilinear, lfilter

from benchmarks.softrobot.soft_arm_study.arm_step import READ_AT_S, MarkedArc, PressureStep
from benchmarks.softrobot.soft_arm_study.arm_stiffness import StiffnessLaw

Array = NDArray[np.float64]

STEP_S = 0.0025
"""Of the filter that stands for the mode: a fiftieth of a period of 8 Hz, 0.1 % of its frequency."""
YOUNGEST_CREEP_S = 0.1
"""Before this age creep is held, for its logarithm has no beginning."""
OPENED_S = (-0.1, 0.05)
"""Against the first motion seen, in which the valve's opening is looked for: nobody recorded it."""
_START = (0.05, 8.0, 0.07, 0.08)  # rise, frequency, damping ratio, creep
_SCALES = (0.3, 0.05, 0.3, 0.02)


@dataclass(frozen=True, eq=False)
class Course:
    """The law of the plateau at 2 s, and how it is reached."""

    law: StiffnessLaw
    rise_s: float
    """In which the chambers fill to two thirds."""
    frequency_hz: float
    damping_ratio: float
    creep_share: float
    """By how much of itself the bending grows while the age grows by a factor e."""

    def bending_rad(self, pressure_mbar: float, times_s: ArrayLike, opened_s: float = 0.0) -> Array:
        """(K,) at times of which `opened_s` is when the valve opened; zero before.

        Raises
        ------
        UserError
            The pressure is beyond what the law holds for.
        """
        ages = np.asarray(times_s, dtype=np.float64) - opened_s
        grid = np.arange(0.0, max(float(ages.max()), 0.0) + 2.0 * STEP_S, STEP_S)
        rest = self.law.bending_rad(pressure_mbar * -np.expm1(-grid / self.rise_s))
        rest *= 1.0 + self.creep_share * np.log(np.maximum(grid, YOUNGEST_CREEP_S) / READ_AT_S)
        w = 2.0 * np.pi * self.frequency_hz
        reached = lfilter(*bilinear([w**2], [1.0, 2.0 * self.damping_ratio * w, w**2], 1.0 / STEP_S), rest)
        return np.asarray(np.interp(ages, grid, reached, left=0.0))


def fit_course(law: StiffnessLaw, arc: MarkedArc, steps: Sequence[PressureStep]) -> Course:
    """The four numbers that fit the whole of these steps best, each weighed by its plateau; and when valves opened."""
    bendings = [arc.bending(step.displacements_m) for step in steps]
    plateaus = [float(arc.bending(step.plateau()[0])[0]) for step in steps]

    def course(values: Array) -> Course:
        rise_s, frequency_hz, damping_ratio = np.exp(values[:3]).tolist()
        return Course(law, rise_s, frequency_hz, damping_ratio, float(values[3]))

    def misfits(values: Array) -> Array:
        found = course(values)
        rows = zip(steps, bendings, plateaus, values[4:].tolist(), strict=True)
        return np.concatenate(
            [
                (found.bending_rad(step.pressure_mbar, step.times_s, opened_s) - seen) / plateau / np.sqrt(len(seen))
                for step, seen, plateau, opened_s in rows
            ]
        )

    count = len(steps)
    start = np.array([*np.log(_START[:3]), _START[3], *[0.5 * OPENED_S[0]] * count])
    low = np.array([*start[:3] - 2.5, -1.0, *[OPENED_S[0]] * count])
    high = np.array([*start[:3] + 2.5, 1.0, *[OPENED_S[1]] * count])
    scales = np.array([*_SCALES, *[0.01] * count])
    return course(least_squares(misfits, start, bounds=(low, high), x_scale=scales).x)


def predicted_deflections(course: Course, arc: MarkedArc, step: PressureStep) -> Array:
    """(K,) m, at the times of a step; of what the step recorded only the instant of the valve's opening is used."""

    def deflections(opened_s: float) -> Array:
        return arc.deflection(course.bending_rad(step.pressure_mbar, step.times_s, opened_s))

    found = minimize_scalar(
        lambda opened_s: float(np.mean((deflections(opened_s) - step.deflections_m) ** 2)),
        bounds=OPENED_S,
        method="bounded",
    )
    return deflections(float(found.x))
