"""What the nominal model makes of the pressures alone: the baseline that every filter with a wrench has to beat.

Beside the nominal segment others run that are one standard deviation off in one unknown each: stiffness, force and
offset of a chamber, lag, tilt, damping, and where it was at the start. How far each has come from the nominal one is
that unknown's part of the error; the covariance is the sum of their squares.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.estimator import Estimator, FilterBreakdown, Step
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from softrobot_estimation.channels import SPACE, pressure_channel
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.constant_curvature import (
    ConstantCurvatureSegment,
    coordinates_of_tip,
    nominal_segment,
    with_damping_ratios,
)
from softrobot_estimation.integration_limits import largest_stable_step_s, linearised, sub_steps

PIECE_S = 0.01
"""Longest step through which lagging pressures are held."""
FORGOTTEN_S = 10.0
"""What came before is damped away: of a longer pause only so much is integrated."""
SILENT_S = 0.5
"""After which the pressure of a chamber may be any."""

_CORNER_BENDING_RAD = 2.0
_CORNER_ELONGATION = 0.15  # of the length, either way
_MOST_OFF = 1e-3  # of the nominal damping: what is less has none, and no segment may be without


class OpenLoopState(NamedTuple):
    """All that pressures change; N segments: the nominal one, then one for each unknown.

    Attributes
    ----------
    stamp_ns
        Of the last pressure; None before the first.
    segments
        (N, 6) states of the segments.
    stiffness
        (N,) in bending, N m/rad.
    chambers_pa
        (N, C) gauge pressures behind hose and chamber.
    readings_pa, heard_ns
        (C,) last gauge pressure of each transducer, and its stamp.
    silent
        (C,) whether that is too old.
    """

    stamp_ns: int | None
    segments: Matrix
    stiffness: Vector
    chambers_pa: Matrix
    readings_pa: Vector
    heard_ns: NDArray[np.int64]
    silent: NDArray[np.bool_]


class OpenLoop(Estimator[OpenLoopState]):
    """Nominal segment, driven by the measured pressures."""

    space = SPACE

    def __init__(self, configuration: SoftRobotConfiguration) -> None:
        self._configuration = configuration
        self._nominal = nominal_segment(configuration)
        names, model = configuration.chambers.names, configuration.model
        self._chamber_of = {pressure_channel(name).sensor: place for place, name in enumerate(names)}
        count = len(names)
        # Rows: nominal, stiffness in bending, axial, forces and offsets of the chambers, lag, start; then those with
        # a segment of their own: tilt about x, about y, damping.
        self._gain_rows, self._offset_rows = 3 + np.arange(count), 3 + count + np.arange(count)
        lag_row = 3 + 2 * count
        self._start_rows = slice(lag_row + 1, lag_row + 7)
        self._shared = lag_row + 7
        tilts = [
            replace(configuration.mounting, tilt_deg=(x, y))
            for x, y in np.add(configuration.mounting.tilt_deg, np.diag([configuration.mounting.tilt_stddev_deg] * 2))
        ]
        damped = max(model.damping_ratio - model.damping_ratio_stddev, _MOST_OFF * model.damping_ratio)
        self._own = (
            *(nominal_segment(replace(configuration, mounting=one)) for one in tilts),
            with_damping_ratios(self._nominal, damped, damped),
        )
        self._count = self._shared + len(self._own)
        self._gains, self._lags_s = np.ones((self._count, count)), np.full(self._count, model.pressure_lag_s)
        self._gains[self._gain_rows, np.arange(count)] += model.chamber_spread
        self._lags_s[lag_row] += model.pressure_lag_stddev_s
        self._axial = np.full(self._count, configuration.stiffness.axial_n_per_m)
        self._axial[2] *= 1.0 + model.axial_stiffness_spread
        slowest_rad_s = float(np.abs(np.linalg.eigvals(linearised(self._nominal, np.zeros(3)))).min())
        self._shape_stddev = model.shape_stddev_m, model.shape_stddev_m * slowest_rad_s
        self._largest_step_s = _largest_step_s(self._nominal, 1.0 + model.bending_stiffness_spread, self._axial.max())

    def start(self, initial: Estimate | None) -> OpenLoopState:
        """Where it was given to be, else straight, without pressure and at rest, sagging as it may."""
        known, names = self._configuration, self._configuration.chambers.names
        plate_m, length_m = known.segment.tip_plate_thickness_m, known.segment.length_m
        nominal = known.stiffness.bending_n_m_per_rad
        stddev = np.repeat([known.initial.position_stddev_m, known.initial.velocity_stddev_m_s], 3)
        spread, place, velocity = np.diag(stddev), np.array([0.0, 0.0, length_m + plate_m]), np.zeros(3)
        stiffness_stddev = known.model.bending_stiffness_spread * nominal
        if initial is not None:
            place, velocity = (initial.mean[SPACE.coordinates(name)] for name in ("position", "velocity"))
            nominal = float(initial.mean[SPACE.coordinates("stiffness")][0])
            spread = covariance_root(initial.covariance[:6, :6])
            stiffness_stddev = float(np.sqrt(initial.covariance[6, 6]))
        segments = np.zeros((self._count, 6))
        segments[:, :3] = coordinates_of_tip(self._nominal, place[None], plate_m)
        jacobian, _ = self._nominal.jacobian(segments[0], offset_m=plate_m)
        segments[:, 3:] = np.linalg.solve(jacobian, velocity)
        off = np.linalg.solve(jacobian, np.hstack([spread[:3], spread[3:]])).T
        segments[self._start_rows] += np.hstack([off[:6], off[6:]])
        stiffness = np.full(self._count, nominal)
        stiffness[1] += stiffness_stddev
        return OpenLoopState(
            stamp_ns=None if initial is None else initial.stamp_ns,
            segments=segments,
            stiffness=stiffness,
            chambers_pa=np.zeros((self._count, len(names))),
            readings_pa=np.zeros(len(names)),
            heard_ns=np.full(len(names), -1 if initial is None else initial.stamp_ns),
            silent=np.zeros(len(names), dtype=np.bool_),
        )

    def step(self, state: OpenLoopState, measurement: Measurement) -> Step:
        """A pressure: the model moves up to its stamp, through the pressures of before; all else is not looked at."""
        chamber = self._chamber_of.get(measurement.sensor)
        if chamber is None:
            return Step(state, used=False)
        now_ns = measurement.stamp_ns
        estimate: Estimate | None = None
        events: tuple[Notice, ...] = ()
        if state.stamp_ns is None:
            state = state._replace(stamp_ns=now_ns, heard_ns=np.full_like(state.heard_ns, now_ns))
        elif now_ns > state.stamp_ns:
            elapsed_s = (now_ns - state.stamp_ns) / NANOSECONDS_PER_SECOND
            state, events = self._listened(state, now_ns)
            state = self._moved(state, elapsed_s)._replace(stamp_ns=now_ns)
            estimate = Estimate(now_ns, *self._moments(state))
        readings, heard_ns = state.readings_pa.copy(), state.heard_ns.copy()
        readings[chamber] = measurement.value[0] - self._configuration.pressure.ambient_pa
        heard_ns[chamber] = now_ns
        return Step(state._replace(readings_pa=readings, heard_ns=heard_ns), estimate, events=events)

    def _listened(self, state: OpenLoopState, now_ns: int) -> tuple[OpenLoopState, tuple[Notice, ...]]:
        """With the chambers that have been silent for too long, and a sentence on each that has just become so."""
        silent = now_ns - state.heard_ns > SILENT_S * NANOSECONDS_PER_SECOND
        names = self._configuration.chambers.names
        events = tuple(
            Notice(
                f"no pressure of {names[chamber]} for {SILENT_S:g} s, at {now_ns / NANOSECONDS_PER_SECOND:.3f} s: "
                "from here on the model counts on its last one, which may be off by the whole range"
            )
            for chamber in np.flatnonzero(silent & ~state.silent)
        )
        return state._replace(silent=silent), events

    def _moved(self, state: OpenLoopState, elapsed_s: float) -> OpenLoopState:
        """All segments after some time, with the pressures that were read before."""
        known = self._configuration
        unsure_pa = np.where(
            state.silent, known.chambers.pressure_max_pa / np.sqrt(12.0), known.pressure.offset_stddev_pa
        )
        goal = np.tile(state.readings_pa, (self._count, 1))
        goal[self._offset_rows, np.arange(len(unsure_pa))] += unsure_pa
        stiffness = self._nominal.stiffness(state.stiffness / self._nominal.bending_radius_m**2, self._axial)
        segments, chambers_pa = state.segments, state.chambers_pa
        remaining_s = min(elapsed_s, FORGOTTEN_S)
        pieces = int(np.ceil(remaining_s / PIECE_S - 1e-9))
        piece_s = remaining_s / pieces
        keep = np.exp(-piece_s / self._lags_s)[:, None]
        mean = self._lags_s[:, None] / piece_s * (1.0 - keep)  # share of what is left of the old one, over the piece
        parts = sub_steps(piece_s, self._largest_step_s)
        for _ in range(pieces):
            acting = self._gains * (goal + mean * (chambers_pa - goal))
            moved = np.empty_like(segments)
            shared = slice(0, self._shared)
            moved[shared] = self._nominal.step(
                segments[shared], piece_s, acting[shared], stiffness[shared], sub_steps=parts
            )
            for row, segment in enumerate(self._own, self._shared):
                moved[row] = segment.step(segments[row], piece_s, acting[row], stiffness[row], sub_steps=parts)
            segments, chambers_pa = moved, goal + keep * (chambers_pa - goal)
        if not np.isfinite(segments).all():
            raise FilterBreakdown(
                "the model bends by more than a full circle at gauge pressures of "
                f"{', '.join(f'{one:.3g}' for one in state.readings_pa)} Pa"
            )
        return state._replace(segments=segments, chambers_pa=chambers_pa)

    def _moments(self, state: OpenLoopState) -> tuple[Vector, Matrix]:
        known = self._configuration
        plate_m = known.segment.tip_plate_thickness_m
        jacobian, _ = self._nominal.jacobian(state.segments, offset_m=plate_m)
        rows = np.hstack(
            [
                self._nominal.position(state.segments, offset_m=plate_m),
                np.einsum("kij,kj->ki", jacobian, state.segments[:, 3:]),
                state.stiffness[:, None],
            ]
        )
        off = rows[1:] - rows[0]
        covariance = off.T @ off
        for name, stddev in zip(("position", "velocity"), self._shape_stddev, strict=True):
            covariance[SPACE.tangent(name), SPACE.tangent(name)] += stddev**2 * np.eye(3)
        return rows[0], covariance


def _largest_step_s(segment: ConstantCurvatureSegment, stiffer: float, axial_n_m: float) -> float:
    """That is stable for the stiffest of the segments, wherever pressures bring it."""
    bent = _CORNER_BENDING_RAD * segment.bending_radius_m
    stretched = _CORNER_ELONGATION * segment.length_m
    corners = [[x, y, z] for x, y in ((0.0, 0.0), (bent, 0.0), (0.0, bent)) for z in (-stretched, 0.0, stretched)]
    return largest_stable_step_s(
        segment, corners, segment.stiffness(stiffer * segment.bending_stiffness_n_m, axial_n_m)
    )
