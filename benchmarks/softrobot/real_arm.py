"""A soft arm that was recorded by markers: its steps of pressure, its stiffness, and how it comes to its bending."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares, minimize_scalar
from scipy.signal import bilinear, lfilter
from scipy.spatial.transform import Rotation
from scipy.stats import t as student_t

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, POSE
from onboard_estimation.base.series import Series
from recorded_robots.soft_arm import read_soft_arm
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment

Array = NDArray[np.float64]

STARTED_SHARE, ARRIVED_SHARE = 0.02, 0.3
"""Of the farthest that a tip goes: more than the first away from rest it moves, beyond the second it surely has."""
RESTED_S = 0.2
"""Before the start, where the rest is read: markers creep by 0.2 mm in the first tenths of a second of a capture."""
_UNSURE_S = 0.02  # just before the start: two frames at 100 Hz, which may already be of the motion
_LEAST_MOTION_M = 1e-3


@dataclass(frozen=True, eq=False)
class TipMotion:
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

    @property
    def deflections_m(self) -> Array:
        """(K,) distance from the rest."""
        return np.asarray(np.linalg.norm(self.displacements_m, axis=1))

    def between(self, first_s: float, last_s: float) -> NDArray[np.bool_]:
        """Which instants lie in this stretch of time.

        Raises
        ------
        UserError
            None does.
        """
        chosen = (self.times_s >= first_s) & (self.times_s <= last_s)
        if not chosen.any():
            raise UserError(
                f"nothing was recorded from {first_s:.2f} to {last_s:.2f} s after the tip began to move; the recording "
                f"goes from {self.times_s[0]:.2f} to {self.times_s[-1]:.2f} s"
            )
        return chosen


def read_tip_motion(path: Path) -> TipMotion:
    """A recording of markers (.c3d) of a body `base` and a body `tip` that rests first, then moves.

    Raises
    ------
    UserError
        The file cannot be read, lacks one of the bodies, or its tip does not move or never rests.
    """
    content = read_soft_arm(path)
    truth = {one.channel.topic.removeprefix("ground_truth/"): one for one in content.recording.truth}
    if missing := [body for body in ("base", "tip") if f"{body}/pose" not in truth]:
        raise UserError(f"{path} has no pose of {' and '.join(missing)}; needed are three markers and more of each")
    tip, base = truth["tip/pose"], truth["base/pose"]
    start_s = _start_s(path, tip)
    times_s = tip.stamps_ns / NANOSECONDS_PER_SECOND - start_s
    rested = (times_s >= -RESTED_S) & (times_s < -_UNSURE_S)
    positions = tip.values[:, POSE.position]
    rotations = Rotation.from_quat(tip.values[:, POSE.orientation])
    middle = positions[rested].mean(axis=0)
    markers = [one for name, one in truth.items() if name.startswith("base_") and name.endswith("/position")]
    return TipMotion(
        times_s=times_s,
        displacements_m=positions - middle,
        turns_rad=(rotations * rotations[np.flatnonzero(rested)].mean().inv()).as_rotvec(),
        resting_offset_m=middle - base.values[:, POSE.position].mean(axis=0),
        base_markers_m=np.array([one.values.mean(axis=0) for one in markers]),
        nominal_pressure_mbar=content.counts.get("nominal_pressure_mbar"),
    )


def _start_s(path: Path, tip: Series) -> float:
    """When the tip leaves its rest: back from where it surely moves to where it was last near its place before."""
    times_s = tip.stamps_ns / NANOSECONDS_PER_SECOND
    away_m = np.linalg.norm(tip.values[:, POSE.position] - tip.values[0, POSE.position], axis=1)
    farthest_m = float(away_m.max())
    if farthest_m < _LEAST_MOTION_M:
        raise UserError(
            f"{path}: the tip moves by {farthest_m * 1e3:.2f} mm at most; a recording of a motion is needed"
        )
    moving = int(np.argmax(away_m > ARRIVED_SHARE * farthest_m))
    before = (times_s < times_s[moving] - 3 * _UNSURE_S) & (times_s > times_s[moving] - RESTED_S - 3 * _UNSURE_S)
    if times_s[moving] - times_s[0] < RESTED_S + 3 * _UNSURE_S or not before.any():
        raise UserError(
            f"{path}: the tip moves {times_s[moving] - times_s[0]:.2f} s after the recording begins; "
            f"it must rest for {RESTED_S:g} s first"
        )
    near = np.abs(away_m[: moving + 1] - np.median(away_m[before])) <= STARTED_SHARE * farthest_m
    return float(times_s[np.flatnonzero(near)[-1] + 1])


READ_AT_S, HALF_WINDOW_S = 2.0, 0.25
"""Age at which a plateau is read, and half of how long it is averaged: all recordings reach it, and ring no more."""
VENTED_SHARE = 0.9
"""Of the farthest: where the tip was last beyond it, the valve opens."""
_VENTING_S = 0.05  # the last frames before, which may be of the return
_GAUSS_NEWTON_STEPS = 12


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

    def plateau(self, age_s: float = READ_AT_S) -> tuple[Array, float]:
        """Mean displacement (2,) and deflection about that age, m."""
        chosen = np.abs(self.times_s - age_s) <= HALF_WINDOW_S
        if age_s - HALF_WINDOW_S < 0.0 or age_s > self.end_s or not chosen.any():
            raise UserError(
                f"at {self.pressure_mbar:g} mbar there is no plateau {age_s:g} s after the step: "
                f"the arm is vented after {self.end_s:.2f} s"
            )
        return self.displacements_m[chosen].mean(axis=0), float(self.deflections_m[chosen].mean())


def read_pressure_step(path: Path) -> PressureStep:
    """A recording of an arm (.c3d) whose name says the pressure.

    Raises
    ------
    UserError
        The name says no pressure, or `read_tip_motion` finds no motion.
    """
    motion = read_tip_motion(path)
    if motion.nominal_pressure_mbar is None:
        raise UserError(f"{path} says no pressure; name it as in 300mbar_V3.c3d")
    markers = motion.base_markers_m
    axis = np.linalg.svd(markers - markers.mean(axis=0))[2][2]  # across the base's plate
    length_m = float(axis @ motion.resting_offset_m)
    axis, length_m = (axis, length_m) if length_m > 0.0 else (-axis, -length_m)
    vented_s = motion.times_s[np.flatnonzero(motion.deflections_m > VENTED_SHARE * motion.deflections_m.max())[-1]]
    chosen = motion.between(0.0, vented_s - _VENTING_S)
    moved = motion.displacements_m[chosen]
    along = moved @ axis
    sideways = moved - np.outer(along, axis)
    direction = sideways.sum(axis=0) / np.linalg.norm(sideways.sum(axis=0))
    return PressureStep(
        pressure_mbar=float(motion.nominal_pressure_mbar),
        times_s=motion.times_s[chosen],
        displacements_m=np.column_stack([sideways @ direction, along]),
        deflections_m=motion.deflections_m[chosen],
        length_m=length_m,
    )


@dataclass(frozen=True)
class MarkedArc:
    """An arc of a circle with markers at its end, which do not sit on the backbone."""

    length_m: float
    offset_m: float
    """Of the markers' middle from the backbone's end, towards the side to which the arm bends."""

    @cached_property
    def segment(self) -> ConstantCurvatureSegment:
        """The arc. Only its shape is used: masses and stiffness are none of the arm's."""
        return ConstantCurvatureSegment(
            length_m=self.length_m,
            tip_mass_kg=1.0,
            bending_stiffness_n_m_per_rad=0.0,
            elongation_stiffness_n_m=0.0,
            gravity_m_s2=(0.0, 0.0, 0.0),
        )

    def displacement(self, bending_rad: ArrayLike) -> Array:
        """(K, 2) of the markers, across and along, for bendings (K,)."""
        angles = np.atleast_1d(np.asarray(bending_rad, dtype=np.float64))
        states = np.zeros((len(angles), 6))
        states[:, 0] = angles
        ends = self.segment.position(states)[:, [0, 2]] - [0.0, self.length_m]
        return np.asarray(ends + self.offset_m * np.column_stack([np.cos(angles) - 1.0, -np.sin(angles)]))

    def deflection(self, bending_rad: ArrayLike) -> Array:
        """(K,) how far the markers are from where they are at rest."""
        return np.asarray(np.linalg.norm(self.displacement(bending_rad), axis=1))

    def bending(self, displacements_m: ArrayLike) -> Array:
        """(K,) whose markers come nearest to displacements (K, 2)."""
        wanted = np.atleast_2d(np.asarray(displacements_m, dtype=np.float64))
        angles = 2.0 * wanted[:, 0] / self.length_m
        for _ in range(_GAUSS_NEWTON_STEPS):
            slopes = (self.displacement(angles + 1e-6) - self.displacement(angles - 1e-6)) / 2e-6
            missing = wanted - self.displacement(angles)
            angles = angles + (slopes * missing).sum(axis=1) / (slopes**2).sum(axis=1)
        return angles


def fit_arc(steps: Sequence[PressureStep], age_s: float = READ_AT_S) -> MarkedArc:
    """The arc as long as the markers are apart, with the offset that the plateaus of these steps fit best."""
    plateaus = np.array([step.plateau(age_s)[0] for step in steps])
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


@dataclass(frozen=True)
class BendingRange:
    """At one pressure: what the law says, and between what bounds it lies with the probability asked for."""

    expected_rad: float
    lower_rad: float
    upper_rad: float
    """At most LARGEST_BENDING_RAD: there it says that the law bounds it no more."""


@dataclass(frozen=True, eq=False)
class StiffnessLaw:
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

    @property
    def largest_pressure_mbar(self) -> float:
        """That the law can say anything of."""
        return float(np.exp(-self.logarithms[1]))

    def stiffness_mbar_rad(self, bending_rad: ArrayLike) -> Array:
        """Over gain, with the bending's shape."""
        compliance, softening = np.exp(self.logarithms)
        return np.asarray(1.0 / (compliance + softening * np.asarray(bending_rad, dtype=np.float64)))

    def log_stddev(self, bending_rad: ArrayLike) -> Array:
        """Standard deviation of the logarithm of `stiffness_mbar_rad` itself, without the scatter of a run."""
        gradient = _gradient(self.logarithms, np.asarray(bending_rad, dtype=np.float64))
        return np.asarray(np.sqrt(np.einsum("...i,ij,...j->...", gradient, self.covariance, gradient)))

    def bending_rad(self, pressure_mbar: ArrayLike) -> Array:
        """At rest, with the pressure's shape.

        Raises
        ------
        UserError
            A pressure is beyond what the law holds for.
        """
        pressure = np.asarray(pressure_mbar, dtype=np.float64)
        compliance, softening = np.exp(self.logarithms)
        if (pressure * softening >= 1.0).any():
            raise UserError(
                f"the stiffness found bears {self.largest_pressure_mbar:.0f} mbar at most, asked is "
                f"{pressure.max():.0f} mbar; fit it to recordings at higher pressures"
            )
        return np.asarray(compliance * pressure / (1.0 - softening * pressure))

    def range(self, pressure_mbar: float, probability: float = 0.9) -> BendingRange:
        """Of one run at that pressure.

        The bounds are the bendings whose own pressure, by the law, differs from that given by just as much as it is
        unsure there: no linearisation about the expected bending, which explodes where the arm hardly bears the
        pressure.
        """
        bendings = np.linspace(1e-5, LARGEST_BENDING_RAD, 20_000)
        factor = student_t.ppf(0.5 + 0.5 * probability, self.degrees_of_freedom)
        unsure = factor * np.hypot(self.log_stddev(bendings), self.scatter)
        missing = np.log(self.stiffness_mbar_rad(bendings) * bendings / pressure_mbar)
        inside = np.flatnonzero(np.abs(missing) <= unsure)
        if not len(inside):
            raise UserError(f"no bending up to {np.degrees(LARGEST_BENDING_RAD):.0f} deg fits {pressure_mbar:g} mbar")
        lower, upper = float(bendings[inside[0]]), float(bendings[inside[-1]])
        return BendingRange(float(self.bending_rad(pressure_mbar)), lower, upper)


def fit_stiffness(pressures_mbar: Sequence[float], bendings_rad: ArrayLike) -> StiffnessLaw:
    """The law that fits pairs of pressure and bending best, in log stiffness.

    An arm that stiffens as it bends is out of its reach: it gets a constant stiffness, and a scatter that shows it.

    Parameters
    ----------
    pressures_mbar, bendings_rad
        (n,) each, of two different pressures at least, all above zero.

    Raises
    ------
    UserError
        Too few, or not above zero.
    """
    pressures = np.array(pressures_mbar, dtype=np.float64)
    bendings = np.array(bendings_rad, dtype=np.float64)
    if len(np.unique(pressures)) < 2 or pressures.shape != bendings.shape:
        raise UserError(f"{len(pressures)} pressures and {len(bendings)} bendings; two different pairs are needed")
    if not (pressures > 0.0).all() or not (bendings > 0.0).all():
        raise UserError(f"pressures {pressures} mbar bend by {bendings} rad; all must be above zero")
    measured = np.log(pressures / bendings)
    start = np.array([-measured.max(), np.log(0.5 / pressures.max())])
    found = least_squares(
        lambda logs: measured + np.log(np.exp(logs[0]) + np.exp(logs[1]) * bendings),
        start,
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
    """How an arm comes to its bending after a step of pressure: air that fills the chambers, a mode that rings, creep.

        pressure(a) = set (1 - exp(-a / rise)),                      a: age, since the valve opened
        rest(a)     = law(pressure(a)) (1 + creep log(a / 2 s)),     creep: share for each factor e of the age
        bending''   = w^2 (rest - bending) - 2 damping w bending'

    With the two numbers of the law, of the plateau at 2 s, these are six, for all pressures. The mode has one
    frequency: the recorded arm rings at 8.3 Hz at 100 mbar and at 8.0 Hz at 300 mbar, though its stiffness over gain is
    0.57 times as large there, which would make 6.2 Hz. What falls with bending acts on slow pressure, hardly on fast
    motion.
    """

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
