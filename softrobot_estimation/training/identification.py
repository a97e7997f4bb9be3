"""Fit of the grey box to motion capture: a free run of the model on pressures against the tip's places.

The most probable parameters, by priors and errors of the free run. Their slow part is
weighted by itself, and fitted by itself at first: free vibration goes out of phase with the measured one where the
stiffness is a little off, which makes one minimum beside the other.

Errors are no white noise, they are what the model has not (hysteresis, shape). Their spectrum is estimated from what
is left, and gives the covariance of the parameters in a sandwich: bread of the weights that were fitted with, meat of
the spectrum, raised by what the fit has absorbed of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import inv as inverse
from scipy.ndimage import uniform_filter1d
from scipy.optimize import least_squares
from scipy.signal import butter, freqz_sos, sosfiltfilt

from onboard_estimation.base.configuration import describe
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.grey_box import GreyBox
from softrobot_estimation.training.identification_runs import STEP_S, Run

BENDING_STIFFNESS, AXIAL_STIFFNESS = "stiffness.bending_n_m_per_rad", "stiffness.axial_n_per_m"


Progress = Callable[[str], None]
NORMAL_95 = 1.959964
DETERMINED = 0.5
"""Of the prior's standard deviation: what is known no better keeps to the prior."""
_SLOW_HZ = 1.5
_SLOW_MM, _FAST_MM = 0.7, 3.0
"""Standard deviations of errors below and above that frequency."""
_SLOW_TIME_S, _FAST_TIME_S = 0.5, 0.2
"""In which errors become others."""
_THINNED = 5  # of slow errors one in so many is as good as all
_LARGEST_MM = 60.0
_STARTS = (1.0, 0.7, 1.4, 0.5, 2.0, 2.8, 4.0)
"""Times the configured stiffness: a model that falls over has no slope to go back by."""
_DIFFERENCE = 1e-3
_ROUNDS = (("slow part", True, 15), ("whole", False, 25))
_INSIDE = 0.2
"""Standard deviations off its limits that a fit starts: close to one its steps are short."""
_SMOOTHED_BINS = 9
_MOST_ABSORBED = 0.8


def _priors(configuration: SoftRobotConfiguration) -> tuple[tuple[str, float, bool, str], ...]:
    """Of each parameter name, standard deviation, whether that is of the logarithm, and where it is known from."""
    share = "a share fades, of unknown size"
    return (
        (BENDING_STIFFNESS, 0.5, True, "one bench test at small deflection"),
        (AXIAL_STIFFNESS, 0.3, True, "one bench test"),
        ("behaviour.bending_stiffening_per_rad2", 0.5, False, "silicone softens or stiffens when strained"),
        ("behaviour.pressure_stiffening_per_100_kpa", 0.3, False, "inflated chambers are stiffer or thinner"),
        ("behaviour.anisotropy", 0.05, False, "casting"),
        ("behaviour.rest_bending_rad", 0.05, False, "casting, markers set up by hand"),
        ("behaviour.rest_elongation_m", 0.001, False, "length to its last digit, markers set up by hand"),
        ("behaviour.bending_damping_ratio", 0.5, True, "usual for silicone"),
        ("behaviour.bending_damping_growth_per_rad2", 1.0, False, "unknown"),
        ("behaviour.axial_damping_ratio", 0.5, True, "usual for silicone"),
        ("behaviour.chamber_gains", 0.1, True, "nominal areas of cast chambers"),
        ("behaviour.moment_gain", 0.08, True, "nominal places of cast chambers"),
        ("behaviour.chambers_turned_deg", 1.7, False, "angles to a few degrees, markers set up by hand"),
        ("behaviour.pressure_offsets_pa", configuration.pressure.offset_stddev_pa, False, "data sheet"),
        ("behaviour.supply_lag_s", 1.0, True, "half a metre of hose"),
        ("behaviour.relaxation_shares", 0.07, False, share),
        ("behaviour.relaxation_times_s", 0.7, True, share),
        ("behaviour.inertia_share", 0.1, False, "of a clamped beam, not quite the robot's shape"),
    )


@dataclass(frozen=True)
class Unknown:
    """One number that is looked for.

    Attributes
    ----------
    name
        Dotted, of the parameter in the configuration.
    place
        Which of its numbers, where it has several.
    configured, lowest, highest
        In its unit; the latter are its limits, infinite where it has none.
    stddev
        Before the recordings; of its logarithm where `logarithmic`.
    source
        Where that is known from.
    """

    name: str
    place: int | None
    unit: str
    configured: float
    lowest: float
    highest: float
    stddev: float
    logarithmic: bool
    source: str

    @property
    def label(self) -> str:
        """Without its section, with its number counted from one."""
        short = self.name.partition(".")[2]
        return short if self.place is None else f"{short}[{self.place + 1}]"

    @property
    def bounds(self) -> tuple[float, float]:
        """Of what the fit works in: standard deviations from the configured value."""
        return self._deviations(self.lowest), self._deviations(self.highest)

    def value(self, deviations: float) -> float:
        """In its unit, so many standard deviations from the configured value."""
        moved = self.stddev * deviations
        return self.configured * math.exp(moved) if self.logarithmic else self.configured + moved

    def _deviations(self, value: float) -> float:
        if self.logarithmic:
            return math.log(value / self.configured) / self.stddev if value > 0.0 else -math.inf
        return (value - self.configured) / self.stddev


def unknowns(configuration: SoftRobotConfiguration) -> tuple[Unknown, ...]:
    """All that there are, about the configured values."""
    described = {one.name: one for one in describe(SoftRobotConfiguration)}
    between_s = math.sqrt(math.prod(configuration.behaviour.relaxation_times_s))
    found = []
    for name, stddev, logarithmic, source in _priors(configuration):
        value, one = attrgetter(name)(configuration), described[name]
        several = isinstance(value, tuple)
        for place, configured in enumerate(value if several else (value,)):
            low, high = (
                (-math.inf if one.minimum is None else one.minimum),
                (math.inf if one.maximum is None else one.maximum),
            )
            if name == "behaviour.relaxation_times_s":  # each keeps to its side, or they would change places
                low, high = (low, between_s) if place == 0 else (between_s, high)
            number, prior = place if several else None, (stddev, logarithmic, source)
            found.append(Unknown(name, number, one.unit, float(configured), low, high, *prior))
    return tuple(one for one in found if one.stddev > 0.0)


def with_values(
    configuration: SoftRobotConfiguration, wanted: Sequence[Unknown], deviations: Vector
) -> SoftRobotConfiguration:
    """The configuration with the unknowns (p,) standard deviations from where they were configured."""
    values: dict[str, Any] = {}
    for unknown, deviation in zip(wanted, np.asarray(deviations).tolist(), strict=True):
        value = unknown.value(deviation)
        if unknown.place is None:
            values[unknown.name] = value
        else:
            numbers = list(values.get(unknown.name, attrgetter(unknown.name)(configuration)))
            numbers[unknown.place] = value
            values[unknown.name] = tuple(numbers)
    return configuration.with_parameters(values)


@dataclass(frozen=True, eq=False)
class Fit:
    """The most probable parameters.

    Attributes
    ----------
    unknowns
        p of them.
    deviations
        (p,) standard deviations of the priors from the configured values.
    covariance
        (p, p) of these.
    configuration
        With them, as yet with the configured tilt.
    simulations
        Runs that were simulated for it.
    """

    unknowns: tuple[Unknown, ...]
    deviations: Vector
    covariance: Matrix
    configuration: SoftRobotConfiguration
    simulations: int

    @property
    def stddev(self) -> Vector:
        """(p,) of the deviations."""
        out: Vector = np.sqrt(np.diag(self.covariance))
        return out

    @property
    def determined(self) -> NDArray[np.bool_]:
        """(p,) whether the recordings tell more than the prior does."""
        return np.asarray(self.stddev <= DETERMINED, dtype=np.bool_)


def fit_grey_box(
    configuration: SoftRobotConfiguration, runs: Sequence[Run], progress: Progress = lambda step: None
) -> Fit:
    """The parameters that explain all runs best, from and about the configured ones.

    Raises
    ------
    UserError
        The model falls over from wherever it starts.
    """
    problem = _Problem(configuration, runs, progress)
    deviations = problem.start()
    for step, slow_only, most in _ROUNDS:
        deviations = problem.minimise(deviations, step, slow_only, most)
    progress("intervals")
    return Fit(
        problem.unknowns,
        deviations,
        problem.covariance(deviations),
        with_values(configuration, problem.unknowns, deviations),
        problem.simulations,
    )


def free_run(configuration: SoftRobotConfiguration, run: Run) -> Matrix:
    """(G, 3) where the tip is by pressures alone, at the run's instants, with the mounting of that configuration, m.

    NaN where the model has fallen over.
    """
    model = GreyBox(configuration)
    _, places = model.simulate(run.stamps_s, run.readings_pa, model.resting_row())
    at_s = run.grid_s - run.delay.delay_s
    return np.column_stack([np.interp(at_s, run.stamps_s, column) for column in places.T])


class _Problem:
    """Residuals of the free runs, and what they depend on; errors are in mm."""

    def __init__(self, configuration: SoftRobotConfiguration, runs: Sequence[Run], progress: Progress) -> None:
        self.unknowns = unknowns(configuration)
        self.simulations = 0
        self._configuration, self._runs, self._progress = configuration, runs, progress
        self._low_pass = butter(2, _SLOW_HZ, fs=1.0 / STEP_S, output="sos")
        self._lower, self._upper = np.array([one.bounds for one in self.unknowns]).T
        self._slow_weight = math.sqrt(_THINNED * STEP_S / _SLOW_TIME_S) / _SLOW_MM
        self._fast_weight = math.sqrt(STEP_S / _FAST_TIME_S) / _FAST_MM

    def start(self) -> Vector:
        """The configured values, with that stiffness among a few whose slow errors are least."""
        place = next(number for number, one in enumerate(self.unknowns) if one.name == BENDING_STIFFNESS)
        candidates = []
        for factor in _STARTS:
            deviations = np.zeros(len(self.unknowns))
            deviations[place] = math.log(factor) / self.unknowns[place].stddev
            candidates.append(self._inside(deviations))
        costs = [float(np.sum(np.square(self._residuals(self._errors(one), one, True)))) for one in candidates]
        best = int(np.argmin(costs))
        if not any(np.isfinite(free_run(self._of(candidates[best], run), run)).all() for run in self._runs):
            raise UserError(
                "the model falls over in every recording, with up to "
                f"{max(_STARTS):g} times the configured {BENDING_STIFFNESS}, "
                f"{self._configuration.stiffness.bending_n_m_per_rad:g} N m/rad; check mounting.attitude, "
                "chambers.area_m2 and pressure.ambient_pa, or configure a stiffness nearer to the robot's"
            )
        return candidates[best]

    def minimise(self, deviations: Vector, step: str, slow_only: bool, most: int) -> Vector:
        """Deviations of least squared residuals, from these on."""
        counted = 0

        def jacobian(x: Vector) -> Matrix:
            nonlocal counted
            counted += 1
            errors = self._errors(x)
            seen = sum(int(run.seen.sum()) for run in self._runs)
            rms_mm = math.sqrt(sum(float(np.sum(one**2)) for one in errors) / seen)
            self._progress(f"fitting, {step}, step {counted}: the free run errs by {rms_mm:.2f} mm")
            return self._jacobian(x, errors, slow_only)

        found = least_squares(
            lambda x: self._residuals(self._errors(x), x, slow_only),
            self._inside(deviations),
            jacobian,
            bounds=(self._lower, self._upper),
            max_nfev=most,
            xtol=1e-4,
            ftol=1e-4,
        )
        out: Vector = found.x
        return out

    def covariance(self, deviations: Vector) -> Matrix:
        """(p, p) of the deviations."""
        errors = self._errors(deviations)
        slopes = self._slopes(deviations, errors)
        jacobian = self._weighted(slopes, errors, False)
        bread = inverse(jacobian.T @ jacobian + np.eye(len(deviations)))
        meat = np.eye(len(deviations))
        for error, slope in zip(errors, slopes, strict=True):
            meat += self._meat(error, slope, bread)
        out: Matrix = bread @ meat @ bread
        return out

    def _meat(self, error: Matrix, slope: Matrix, bread: Matrix) -> Matrix:
        """Covariance (p, p) of one run's share of the gradient: error (G, 3), slope (G, 3, p)."""
        count = len(error)
        frequencies = np.fft.rfftfreq(count, STEP_S)
        gain = np.abs(freqz_sos(self._low_pass, frequencies, fs=1.0 / STEP_S)[1]) ** 2  # forwards and backwards
        weight = (self._slow_weight * gain) ** 2 / _THINNED + (self._fast_weight * (1.0 - gain)) ** 2
        twice = np.full(len(frequencies), 2.0)  # negative frequencies, which the real transform leaves out
        twice[0] = 1.0
        out = np.zeros(bread.shape)
        for axis in range(error.shape[1]):
            spectrum = np.abs(np.fft.rfft(error[:, axis])) ** 2 / count
            by_frequency = np.fft.rfft(slope[:, axis], axis=0)
            absorbed = weight / count * np.einsum("fp,pq,fq->f", by_frequency.conj(), bread, by_frequency).real
            left = 1.0 - np.minimum(uniform_filter1d(absorbed, _SMOOTHED_BINS, mode="nearest"), _MOST_ABSORBED)
            spectrum = uniform_filter1d(spectrum, _SMOOTHED_BINS, mode="nearest") / left
            weighted = by_frequency * np.sqrt(twice * spectrum / count)[:, None] * weight[:, None]
            out += (weighted.conj().T @ weighted).real
        return out

    def _inside(self, deviations: Vector) -> Vector:
        return np.clip(deviations, self._lower + _INSIDE, self._upper - _INSIDE)

    def _of(self, deviations: Vector, run: Run) -> SoftRobotConfiguration:
        return with_values(run.configuration, self.unknowns, deviations)

    def _errors(self, deviations: Vector) -> list[Matrix]:
        """(G, 3) of each run, mm; zero where the tip was not seen, cut off where the model falls."""
        out = []
        for run in self._runs:
            error = 1e3 * (free_run(self._of(deviations, run), run) - run.tip_m)
            error = np.clip(np.nan_to_num(error, nan=_LARGEST_MM), -_LARGEST_MM, _LARGEST_MM)
            error[~run.seen] = 0.0
            out.append(error)
        self.simulations += len(out)
        return out

    def _slopes(self, deviations: Vector, errors: Sequence[Matrix]) -> list[Matrix]:
        """(G, 3, p) of each run, derivatives of the errors."""
        slopes = [np.empty((*error.shape, len(deviations))) for error in errors]
        for number, upper in enumerate(self._upper.tolist()):
            moved = deviations.copy()
            step = _DIFFERENCE if moved[number] + _DIFFERENCE < upper else -_DIFFERENCE
            moved[number] += step
            for slope, after, before in zip(slopes, self._errors(moved), errors, strict=True):
                slope[..., number] = (after - before) / step
        return slopes

    def _jacobian(self, deviations: Vector, errors: Sequence[Matrix], slow_only: bool) -> Matrix:
        rows = self._weighted(self._slopes(deviations, errors), errors, slow_only)
        return np.vstack([rows, np.eye(len(deviations))])

    def _weighted(self, slopes: Sequence[Matrix], errors: Sequence[Matrix], slow_only: bool) -> Matrix:
        """Derivatives (n, p) of the residuals without the priors'."""
        columns = [
            self._filtered([slope[..., number] for slope in slopes], slow_only) for number in range(len(self.unknowns))
        ]
        return np.column_stack(columns)

    def _residuals(self, errors: Sequence[Matrix], deviations: Vector, slow_only: bool) -> Vector:
        return np.append(self._filtered(errors, slow_only), deviations)

    def _filtered(self, errors: Sequence[Matrix], slow_only: bool) -> Vector:
        parts = []
        for error in errors:
            slow = sosfiltfilt(self._low_pass, error, axis=0)
            parts.append((self._slow_weight * slow[::_THINNED]).ravel())
            if not slow_only:
                parts.append((self._fast_weight * (error - slow)).ravel())
        return np.concatenate(parts)
