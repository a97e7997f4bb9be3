"""What the nominal model makes of the pressures alone: the baseline that every filter with a wrench has to beat.

Beside the nominal segment others run that are one standard deviation off in one unknown each: stiffness, force and
offset of a chamber, lag, tilt, damping, and where it was at the start. How far each has come from the nominal one is
that unknown's part of the error; the covariance is the sum of their squares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.pipeline.estimator import Estimator, FilterBreakdown, Step
from softrobot_estimation.model.configuration import SPACE, SoftRobotConfiguration, pressure_channel
from softrobot_estimation.model.constant_curvature import state_of_tip
from softrobot_estimation.model.grey_box import GreyBox, linearised, nominal
from softrobot_estimation.model.grey_box_kernels import ROW

PIECE_S = 0.01
"""Longest step through which lagging pressures are held."""
FORGOTTEN_S = 10.0
"""What came before is damped away: of a stretching pause only so much is integrated."""
SILENT_S = 0.5
"""After which the pressure of a chamber may be any."""

_MOST_OFF = 1e-3  # of the nominal damping: what is less has none, and no segment may be without


class OpenLoopState(NamedTuple):
    """All that pressures change; N segments: the nominal one, then one for each unknown.

    Attributes
    ----------
    stamp_ns
        Of the last pressure; None before the first.
    rows
        (N, ROW) of the grey box, one of each segment.
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
    rows: Matrix
    stiffness: Vector
    chambers_pa: Matrix
    readings_pa: Vector
    heard_ns: NDArray[np.int64]
    silent: NDArray[np.bool_]


class OpenLoop(Estimator[OpenLoopState]):
    """Nominal segment, driven by the measured pressures."""

    space = SPACE
    held = ("stiffness",)

    def __init__(self, configuration: SoftRobotConfiguration) -> None:
        self._configuration = configuration
        known, model, mounting = nominal(configuration), configuration.model, configuration.mounting
        names = configuration.chambers.names
        self._nominal = GreyBox(known)
        self._chamber_of = {pressure_channel(name).sensor: place for place, name in enumerate(names)}
        count = len(names)
        # Rows: nominal, stiffness in bending, forces and offsets of the chambers, lag, start; then those with a box of
        # their own: axial stiffness, tilt about x, about y, damping.
        self._gain_rows, self._offset_rows = 2 + np.arange(count), 2 + count + np.arange(count)
        lag_row = 2 + 2 * count
        self._start_rows = slice(lag_row + 1, lag_row + 7)
        stiffer = 1.0 + model.axial_stiffness_spread
        damped = max(model.damping_ratio - model.damping_ratio_stddev, _MOST_OFF * model.damping_ratio)
        others: tuple[dict[str, Any], ...] = (
            {  # damped as the nominal one
                "stiffness.axial_n_per_m": stiffer * configuration.stiffness.axial_n_per_m,
                "behaviour.axial_damping_ratio": model.damping_ratio / np.sqrt(stiffer),
            },
            *(
                {"mounting.tilt_deg": (x, y)}
                for x, y in np.add(mounting.tilt_deg, mounting.tilt_stddev_deg * np.eye(2)).tolist()
            ),
            {"behaviour.bending_damping_ratio": damped, "behaviour.axial_damping_ratio": damped},
        )
        shared = lag_row + 7
        self._count = shared + len(others)
        self._boxes = [(slice(0, shared), self._nominal)]
        self._boxes += [
            (slice(row, row + 1), GreyBox(known.with_parameters(one))) for row, one in enumerate(others, shared)
        ]
        self._gains, self._lags_s = np.ones((self._count, count)), np.full(self._count, model.pressure_lag_s)
        self._gains[self._gain_rows, np.arange(count)] += model.chamber_spread
        self._lags_s[lag_row] += model.pressure_lag_stddev_s
        slowest_rad_s = float(np.abs(np.linalg.eigvals(linearised(self._nominal.segment, np.zeros(3)))).min())
        self._shape_stddev = model.shape_stddev_m, model.shape_stddev_m * slowest_rad_s

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
        rows = np.zeros((self._count, ROW))
        rows[:, :6], jacobian = state_of_tip(self._nominal.segment, place, velocity, plate_m)
        off = np.linalg.solve(jacobian, np.hstack([spread[:3], spread[3:]])).T
        rows[self._start_rows, :6] += np.hstack([off[:6], off[6:]])
        stiffness = np.full(self._count, nominal)
        stiffness[1] += stiffness_stddev
        return OpenLoopState(
            stamp_ns=None if initial is None else initial.stamp_ns,
            rows=rows,
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
        rows, chambers_pa = state.rows, state.chambers_pa
        remaining_s = min(elapsed_s, FORGOTTEN_S)
        pieces = int(np.ceil(remaining_s / PIECE_S - 1e-9))
        piece_s = remaining_s / pieces
        keep = np.exp(-piece_s / self._lags_s)[:, None]
        mean = self._lags_s[:, None] / piece_s * (1.0 - keep)  # share of what is left of the old one, over the piece
        for _ in range(pieces):
            acting = self._gains * (goal + mean * (chambers_pa - goal))
            rows = np.vstack(
                [box.propagate(rows[own], state.stiffness[own], acting[own], piece_s) for own, box in self._boxes]
            )
            chambers_pa = goal + keep * (chambers_pa - goal)
        if not np.isfinite(rows).all():
            raise FilterBreakdown(
                "the model bends by more than a full circle at gauge pressures of "
                f"{', '.join(f'{one:.3g}' for one in state.readings_pa)} Pa"
            )
        return state._replace(rows=rows, chambers_pa=chambers_pa)

    def _moments(self, state: OpenLoopState) -> tuple[Vector, Matrix]:
        tips = self._nominal.tips(state.rows, state.stiffness, state.readings_pa)
        off = tips[1:] - tips[0]
        covariance = off.T @ off
        for name, stddev in zip(("position", "velocity"), self._shape_stddev, strict=True):
            covariance[SPACE.tangent(name), SPACE.tangent(name)] += stddev**2 * np.eye(3)
        return tips[0], covariance
