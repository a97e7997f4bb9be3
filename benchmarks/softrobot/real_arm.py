"""A soft arm that was recorded by markers: its steps of pressure, and its stiffness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares, minimize_scalar
from scipy.spatial.transform import Rotation
from scipy.stats import t as student_t

from benchmarks.measuring import Array, Row, row
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, POSE
from recorded_robots.soft_arm import read_soft_arm

STARTED_SHARE, ARRIVED_SHARE = 0.02, 0.3
"""Of the farthest that a tip goes: more than the first away from rest it moves, beyond the second it surely has."""
RESTED_S = 0.2
"""Before the start, where the rest is read: markers creep by 0.2 mm in the first tenths of a second of a capture."""
_UNSURE_S = 0.02  # just before the start: two frames at 100 Hz, which may already be of the motion
READ_AT_S, HALF_WINDOW_S = 2.0, 0.25
"""Age at which a plateau is read, and half of how long it is averaged: all recordings reach it, and ring no more."""
VENTED_SHARE = 0.9
"""Of the farthest: where the tip was last beyond it, the valve opens."""
_VENTING_S = 0.05  # the last frames before, which may be of the return
TARGET = 0.15


class TipMotion(NamedTuple):
    """The middle of the tip's markers from its rest on, and what stands around it.

    Attributes
    ----------
    times_s
        (K,) since the tip began to move; below zero at rest.
    displacements_m, turns_rad
        (K, 3) each, from the rest before the start, along and about the capture's axes.
    resting_offset_m
        (3,) from the middle of the base's markers to that of the tip's, at rest.
    base_markers_m
        (M, 3) mean places of the base's markers.
    nominal_pressure_mbar
        By the file's name, if that says one.
    """

    times_s: Array
    displacements_m: Array
    turns_rad: Array
    resting_offset_m: Array
    base_markers_m: Array
    nominal_pressure_mbar: int | None

    def between(self, first_s: float, last_s: float) -> NDArray[np.bool_]:
        """Which instants lie in this stretch of time."""
        return (self.times_s >= first_s) & (self.times_s <= last_s)


def read_tip_motion(path: Path) -> TipMotion:
    """A recording of markers (.c3d) of a body `base` and a body `tip` that rests first, then moves."""
    content = read_soft_arm(path)
    truth = {one.channel.topic.removeprefix("ground_truth/"): one for one in content.recording.truth}
    tip, base = truth["tip/pose"], truth["base/pose"]
    positions, rotations = tip.values[:, POSE.position], Rotation.from_quat(tip.values[:, POSE.orientation])
    times_s = tip.stamps_ns / NANOSECONDS_PER_SECOND
    times_s = times_s - _start_s(times_s, np.linalg.norm(positions - positions[0], axis=1))
    rested = (times_s >= -RESTED_S) & (times_s < -_UNSURE_S)
    middle = positions[rested].mean(axis=0)
    markers = [one for name, one in truth.items() if name.startswith("base_") and name.endswith("/position")]
    return TipMotion(
        times_s,
        displacements_m=positions - middle,
        turns_rad=(rotations * rotations[np.flatnonzero(rested)].mean().inv()).as_rotvec(),
        resting_offset_m=middle - base.values[:, POSE.position].mean(axis=0),
        base_markers_m=np.array([one.values.mean(axis=0) for one in markers]),
        nominal_pressure_mbar=content.counts.get("nominal_pressure_mbar"),
    )


def _start_s(times_s: Array, away_m: Array) -> float:
    """When the tip leaves its rest: back from where it surely moves to where it was last near its place before."""
    moving = int(np.argmax(away_m > ARRIVED_SHARE * away_m.max()))
    before = (times_s < times_s[moving] - 3 * _UNSURE_S) & (times_s > times_s[moving] - RESTED_S - 3 * _UNSURE_S)
    near = np.abs(away_m[: moving + 1] - np.median(away_m[before])) <= STARTED_SHARE * away_m.max()
    return float(times_s[np.flatnonzero(near)[-1] + 1])


@dataclass(frozen=True, eq=False)
class PressureStep:
    """From the first motion until the arm is vented.

    Attributes
    ----------
    pressure_mbar
        What the valve was set to; nobody measured what the arm got.
    times_s
        (K,) since the tip began to move.
    displacements_m
        (K, 2) of the tip's markers: across the arm in the direction of bending, and along it away from the base.
    deflections_m
        (K,) length of the whole displacement, what goes sideways out of that plane included.
    length_m
        From the base's to the tip's markers, along the arm at rest.
    """

    pressure_mbar: float
    times_s: Array
    displacements_m: Array
    deflections_m: Array
    length_m: float

    @property
    def end_s(self) -> float:
        """Age at venting."""
        return float(self.times_s[-1])

    def plateau(self) -> tuple[Array, float]:
        """Mean displacement (2,) and deflection about `READ_AT_S`, m."""
        chosen = np.abs(self.times_s - READ_AT_S) <= HALF_WINDOW_S
        return self.displacements_m[chosen].mean(axis=0), float(self.deflections_m[chosen].mean())


def read_pressure_step(path: Path) -> PressureStep:
    """A recording of an arm (.c3d) whose name says the pressure."""
    motion = read_tip_motion(path)
    markers, deflections_m = motion.base_markers_m, np.linalg.norm(motion.displacements_m, axis=1)
    axis = np.linalg.svd(markers - markers.mean(axis=0))[2][2]  # across the base's plate
    axis = axis * np.sign(axis @ motion.resting_offset_m)
    vented_s = motion.times_s[np.flatnonzero(deflections_m > VENTED_SHARE * deflections_m.max())[-1]]
    chosen = motion.between(0.0, vented_s - _VENTING_S)
    moved = motion.displacements_m[chosen]
    along = moved @ axis
    sideways = moved - np.outer(along, axis)
    direction = sideways.sum(axis=0) / np.linalg.norm(sideways.sum(axis=0))
    return PressureStep(
        pressure_mbar=float(motion.nominal_pressure_mbar or np.nan),
        times_s=motion.times_s[chosen],
        displacements_m=np.column_stack([sideways @ direction, along]),
        deflections_m=deflections_m[chosen],
        length_m=float(axis @ motion.resting_offset_m),
    )


class MarkedArc(NamedTuple):
    """An arc of a circle with markers at its end, which do not sit on the backbone."""

    length_m: float
    offset_m: float
    """Of the markers' middle from the backbone's end, towards the side to which the arm bends."""

    def displacement(self, bending_rad: ArrayLike) -> Array:
        """(K, 2) of the markers, across and along, for bendings (K,)."""
        b = np.atleast_1d(np.asarray(bending_rad, dtype=np.float64))
        chord = self.length_m * np.sinc(0.5 * b / np.pi)
        ends = np.column_stack([chord * np.sin(0.5 * b), chord * np.cos(0.5 * b) - self.length_m])
        return np.asarray(ends + self.offset_m * np.column_stack([np.cos(b) - 1.0, -np.sin(b)]))

    def deflection(self, bending_rad: ArrayLike) -> Array:
        """(K,) how far the markers are from where they are at rest."""
        return np.asarray(np.linalg.norm(self.displacement(bending_rad), axis=1))

    def bending(self, displacements_m: ArrayLike) -> Array:
        """(K,) whose markers come nearest to displacements (K, 2), by Gauss and Newton."""
        wanted = np.atleast_2d(np.asarray(displacements_m, dtype=np.float64))
        angles = 2.0 * wanted[:, 0] / self.length_m
        for _ in range(12):
            slopes = (self.displacement(angles + 1e-6) - self.displacement(angles - 1e-6)) / 2e-6
            missing = wanted - self.displacement(angles)
            angles = angles + (slopes * missing).sum(axis=1) / (slopes**2).sum(axis=1)
        return angles


def fit_arc(steps: Sequence[PressureStep]) -> MarkedArc:
    """The arc as long as the markers are apart, with the offset that the plateaus of these steps fit best."""
    plateaus = np.array([step.plateau()[0] for step in steps])
    length_m = float(np.mean([step.length_m for step in steps]))

    def misfit_m2(offset_m: float) -> float:
        arc = MarkedArc(length_m, offset_m)
        return float(np.sum((arc.displacement(arc.bending(plateaus)) - plateaus) ** 2))

    found = minimize_scalar(misfit_m2, bounds=(-0.5 * length_m, 0.5 * length_m), method="bounded")
    return MarkedArc(length_m, float(found.x))


PRIOR_SCATTER, PRIOR_READINGS = 0.02, 4
"""Standard deviation of log stiffness from run to run before anything is fitted, and how many readings that counts for.

An assumption: valves are set to a few percent, and the arm creeps by as much while its plateau is read.
"""
LARGEST_BENDING_RAD = np.pi
"""Up to which a bending is looked for: a half circle."""


class StiffnessLaw(NamedTuple):
    """Stiffness of a soft arm against its bending, from few steps of pressure, and where other pressures bend it to.

        gain * pressure = stiffness(bending) * bending,    gain / stiffness(bending) = compliance + softening * bending

    Chambers, masses and forces of the arm are not known, so that only stiffness over gain can be told, in mbar/rad.
    Weight that always acts in one direction is in it, too: at rest, in one attitude, nothing sets it apart from
    stiffness. The two numbers are positive, and say how far the law holds: beyond 1 / softening no bending bears the
    pressure. It is the same as a constant stiffness and a chamber whose moment grows with bending.

    Attributes
    ----------
    logarithms
        (2,) of compliance in rad/mbar and of softening in 1/mbar.
    covariance
        (2, 2) of these.
    scatter
        Standard deviation of log stiffness of one run, prior included.
    degrees_of_freedom
        Of Student's t for all that is said with `scatter`.
    """

    logarithms: Array
    covariance: Array
    scatter: float
    degrees_of_freedom: float

    def stiffness_mbar_rad(self, bending_rad: ArrayLike) -> Array:
        """Over gain, with the bending's shape."""
        compliance, softening = np.exp(self.logarithms)
        return np.asarray(1.0 / (compliance + softening * np.asarray(bending_rad, dtype=np.float64)))

    def log_stddev(self, bending_rad: ArrayLike) -> Array:
        """Standard deviation of the logarithm of `stiffness_mbar_rad` itself, without the scatter of a run."""
        gradient = _gradient(self.logarithms, np.asarray(bending_rad, dtype=np.float64))
        return np.asarray(np.sqrt(np.einsum("...i,ij,...j->...", gradient, self.covariance, gradient)))

    def bending_rad(self, pressure_mbar: ArrayLike) -> Array:
        """At rest, with the pressure's shape, which is below 1 / softening."""
        compliance, softening = np.exp(self.logarithms)
        pressure = np.asarray(pressure_mbar, dtype=np.float64)
        return np.asarray(compliance * pressure / (1.0 - softening * pressure))

    def unsure(self, bending_rad: ArrayLike) -> Array:
        """Half of the range, in the logarithm, in which 90 % of the runs have their stiffness."""
        factor = student_t.ppf(0.95, self.degrees_of_freedom)
        return np.asarray(factor * np.hypot(self.log_stddev(bending_rad), self.scatter))

    def range_rad(self, pressure_mbar: float) -> tuple[float, float, float]:
        """Of one run at that pressure: what the law says, and between what bounds its bending lies, 90 of 100 times.

        The bounds are the bendings whose own pressure, by the law, differs from that given by just as much as it is
        unsure there: no linearisation about the expected bending, which explodes where the arm hardly bears the
        pressure. They are `LARGEST_BENDING_RAD` at most: there the law bounds it no more.
        """
        bendings = np.linspace(1e-5, LARGEST_BENDING_RAD, 20_000)
        missing = np.log(self.stiffness_mbar_rad(bendings) * bendings / pressure_mbar)
        inside = bendings[np.abs(missing) <= self.unsure(bendings)]
        return float(self.bending_rad(pressure_mbar)), float(inside[0]), float(inside[-1])


def fit_stiffness(pressures_mbar: ArrayLike, bendings_rad: ArrayLike) -> StiffnessLaw:
    """The law that fits pairs of pressure and bending, (n,) each, best, in log stiffness.

    An arm that stiffens as it bends is out of its reach: it gets a constant stiffness, and a scatter that shows it.
    """
    pressures, bendings = (np.asarray(one, dtype=np.float64) for one in (pressures_mbar, bendings_rad))
    measured = np.log(pressures / bendings)
    found = least_squares(
        lambda logs: measured + np.log(np.exp(logs[0]) + np.exp(logs[1]) * bendings),
        np.array([-measured.max(), np.log(0.5 / pressures.max())]),
        jac=lambda logs: -_gradient(logs, bendings),
        bounds=([-np.inf, np.log(1e-6 / pressures.max())], np.inf),
        x_scale=0.1,
    )
    freedom = len(pressures) - 2 + PRIOR_READINGS
    variance = (2.0 * found.cost + PRIOR_READINGS * PRIOR_SCATTER**2) / freedom
    gradient = _gradient(found.x, bendings)
    return StiffnessLaw(found.x, variance * np.linalg.pinv(gradient.T @ gradient), float(np.sqrt(variance)), freedom)


def _gradient(logarithms: Array, bendings_rad: Array) -> Array:
    """(..., 2) derivative of log stiffness with respect to both logarithms."""
    compliance, softening = np.exp(logarithms)
    whole = compliance + softening * bendings_rad
    return -np.stack(np.broadcast_arrays(compliance / whole, softening * bendings_rad / whole), axis=-1)


# What is said of it.


def fitted(steps: Sequence[PressureStep]) -> tuple[MarkedArc, StiffnessLaw]:
    """The arc and the law of these steps' plateaus."""
    shape = fit_arc(steps)
    bendings = shape.bending([step.plateau()[0] for step in steps])
    return shape, fit_stiffness([step.pressure_mbar for step in steps], bendings)


def deflection_row(step: PressureStep, steps: Sequence[PressureStep]) -> Row:
    """The tip at a pressure left out."""
    shape, law = fitted([one for one in steps if one is not step])
    expected, lower, upper = 1e3 * shape.deflection(law.range_rad(step.pressure_mbar))
    measured = 1e3 * step.plateau()[1]
    off = expected / measured - 1.0
    case = f"arm, {step.pressure_mbar:g} mbar left out, deflection of the tip"
    figure = f"{expected:.2f} mm ({lower:.1f} to {upper:.1f}); measured {measured:.2f} mm: {off:+.1%}"
    return row(case, figure, f"within {TARGET:.0%}", abs(off) <= TARGET)


def law_rows(steps: Sequence[PressureStep]) -> list[Row]:
    """What all recordings together say, and what a constant stiffness makes of pressures left out."""
    _, law = fitted(steps)
    places, constant = np.radians([0.0, 20.0, 60.0]), []
    pairs = zip(law.stiffness_mbar_rad(places), law.log_stddev(places), strict=True)
    known = ", ".join(f"{k:.0f} +- {k * s:.0f}" for k, s in pairs)
    for step in steps:
        others = [one for one in steps if one is not step]
        arc = fit_arc(others)
        stiffnesses = [one.pressure_mbar for one in others] / arc.bending([one.plateau()[0] for one in others])
        bending = min(step.pressure_mbar / np.exp(np.mean(np.log(stiffnesses))), LARGEST_BENDING_RAD)
        constant.append(f"{step.pressure_mbar:g} mbar {arc.deflection(bending)[0] / step.plateau()[1] - 1.0:+.0%}")
    return [
        row("arm, stiffness over gain at 0, 20, 60 deg", f"{known} mbar/rad"),
        row("arm, one constant stiffness, the tip at a pressure left out", ", ".join(constant)),
    ]
