"""`identify softrobot`: recordings go in, parameters with intervals, a parameter file and a picture come out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import Panel, PanelGroup
from onboard_estimation.contract.trained import IdentificationReport, ReportTable
from onboard_estimation.report.plots import write_groups
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment
from softrobot_estimation.model.grey_box import GreyBox
from softrobot_estimation.training.identification import (
    AXIAL_STIFFNESS,
    NORMAL_95,
    Fit,
    Progress,
    fit_grey_box,
    free_run,
)
from softrobot_estimation.training.identification_runs import Run, mean_tilt_deg, run_from_recording

_MOST_DRAWN = 6
LOAD_SHARE = "behaviour.load_share"
_DIGITS = 5
_RATIO_ERROR = 0.03
"""Share of force by acceleration by which simulated robots, bent as far as pressures bend them, miss their own."""
_LEAST_SHARE, _MOST_SHARE = 0.0, 0.9
_ELONGATION_ERROR = 0.03
"""Share of an elongation that creep and hysteresis change, whatever the axial stiffness."""
_POOR_SHARE = 0.4
"""Error of the free run by the tip's own motion: above it the model does not describe the robot."""


@dataclass(frozen=True)
class Parameter:
    """One line of the table; `low` and `high` bound the 95 % interval.

    Attributes
    ----------
    determined
        Whether the recordings tell it; else it keeps to what was known beforehand, and so does the interval.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    configured: float
    determined: bool
    source: str


@dataclass(frozen=True, eq=False)
class FreeRun:
    """One recording against the model on its pressures alone, in the base's frame.

    Attributes
    ----------
    measured_m, before_m, after_m
        (G, 3) at the recording's instants: motion capture, the model with the configured and with the identified
        parameters. NaN where the tip was not seen, or the model has fallen over.
    """

    run: Run
    measured_m: Matrix
    before_m: Matrix
    after_m: Matrix

    @property
    def delay_s(self) -> float | None:
        """Of motion capture behind the wrench; None where it is not known."""
        return self.run.delay.delay_s if self.run.delay.known else None

    def errors_mm(self, places_m: Matrix) -> tuple[float, float, float, float]:
        """RMS in space and along x, y and z."""
        squares = np.nanmean(np.square(1e3 * (places_m - self.measured_m)), axis=0)
        x, y, z = np.sqrt(squares).tolist()
        return float(np.sqrt(squares.sum())), x, y, z

    @property
    def fallen(self) -> bool:
        """Whether the model falls over with the configured parameters."""
        return bool((np.isnan(self.before_m) & np.isfinite(self.measured_m)).any())

    def figures(self) -> dict[str, object]:
        """For JSON."""
        names = ("rms_mm", "rms_x_mm", "rms_y_mm", "rms_z_mm")
        return {
            "name": self.run.name,
            "capture_delay_s": self.delay_s,
            "configured_falls": self.fallen,
            "before": dict(zip(names, self.errors_mm(self.before_m), strict=True)),
            "after": dict(zip(names, self.errors_mm(self.after_m), strict=True)),
            "tilt_deg": self.run.tilt_deg,
            "resting_force_n": self.run.delay.weight_n,
        }


@dataclass(frozen=True, eq=False)
class Identification(IdentificationReport):
    """What the recordings tell of a soft robot.

    Attributes
    ----------
    identified
        Names of the parameters that were looked for.
    """

    subject = "Grey box"
    picture = "free_run.png"
    configuration: SoftRobotConfiguration
    fit: Fit
    table: tuple[Parameter, ...]
    identified: tuple[str, ...]
    free_runs: tuple[FreeRun, ...]

    def tables(self) -> list[ReportTable]:
        """Parameters, and errors of the free run."""
        headings = ("parameter", "value", "95 % interval", "unit", "configured", "known from")
        found = tuple(
            (
                one.name,
                f"{one.value:.4g}",
                f"{one.low:.4g} to {one.high:.4g}",
                one.unit,
                f"{one.configured:.4g}",
                "recordings" if one.determined else "before",
            )
            for one in self.table
        )
        right = (headings[1], headings[2], headings[4])
        parameters = ReportTable(f"softrobot: grey box from {self.origin}", headings, found, right)
        columns = ("recording", "capture late, ms", "configured, mm RMS", "identified, mm RMS", "x", "y", "z")
        rows = []
        for free in self.free_runs:
            after = free.errors_mm(free.after_m)
            before = f"{free.errors_mm(free.before_m)[0]:.2f}{' until it falls over' if free.fallen else ''}"
            delay = "not known" if free.delay_s is None else f"{1e3 * free.delay_s:.1f}"
            rows.append((free.run.name, delay, before, *(f"{one:.2f}" for one in after)))
        title = "tip by pressures alone against motion capture"
        return [parameters, ReportTable(title, columns, tuple(rows), right=columns[1:])]

    def parameters(self) -> dict[str, float | list[float]]:
        """Identified parameters by dotted name, as `--set` takes them."""
        values = {name: attrgetter(name)(self.configuration) for name in self.identified}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def found(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "source": self.source,
            "identified": [asdict(one) for one in self.table],
            "parameters": self.parameters(),
            "simulated_runs": self.fit.simulations,
            "recordings": [free.figures() for free in self.free_runs],
        }

    def draw(self, path: Path) -> None:
        """The tip in free runs, from the middle of where motion capture saw it."""
        others = f"identified from the {'first half' if self.halved else 'other recordings'} alone"
        columns = []
        for free in self.free_runs[:_MOST_DRAWN]:
            run = free.run
            lines = {"motion capture": free.measured_m, "as configured": free.before_m, "identified": free.after_m}
            if run.name in self.without:
                lines[others] = free_run(self.without[run.name], run)
            middle_m = np.nanmedian(free.measured_m, axis=0)
            notes = [f"identified: {one:.2f} mm RMS" for one in free.errors_mm(free.after_m)[1:]]
            panels = tuple(
                Panel(axis, "m", {name: (one - middle_m)[:, number] for name, one in lines.items()}, note=note)
                for number, (axis, note) in enumerate(zip("xyz", notes, strict=True))
            )
            columns.append((run.name, run.grid_s, PanelGroup("Tip", panels)))
        count = len(self.free_runs)
        more = f", the first {_MOST_DRAWN} of {count} recordings" if count > _MOST_DRAWN else ""
        write_groups(path, f"{self.source.upper()} data{more}: tip by pressures alone", columns)


def identify(
    configuration: SoftRobotConfiguration,
    recordings: Mapping[str, LoadedRecording],
    full: bool = False,
    cutoff_hz: float | None = None,
    progress: Progress = lambda step: None,
) -> Identification:
    """Grey box of a soft robot from recordings with pressures and motion capture; the wrench helps.

    Parameters
    ----------
    recordings
        By name; one will do, several have narrower intervals.

    Raises
    ------
    UserError
        What cannot be identified, with the numbers and what would help.
    """
    if full or cutoff_hz is not None:
        raise UserError("--full and --cutoff are for the salp's drag; identify softrobot goes without them")
    runs = tuple(run_from_recording(configuration, one, name) for name, one in recordings.items())
    fit = fit_grey_box(configuration, runs, progress)
    table = [
        Parameter(
            name=one.label,
            unit=one.unit,
            value=one.value(deviation),
            low=one.value(max(deviation - NORMAL_95 * stddev, one.bounds[0])),
            high=one.value(min(deviation + NORMAL_95 * stddev, one.bounds[1])),
            configured=one.configured,
            determined=determined,
            source=one.source,
        )
        for one, deviation, stddev, determined in zip(
            fit.unknowns, fit.deviations.tolist(), fit.stddev.tolist(), fit.determined.tolist(), strict=True
        )
    ]
    found = {one.name: attrgetter(one.name)(fit.configuration) for one in fit.unknowns}
    if (share := _load_share(fit.configuration, runs)) is not None:
        table.append(share)
        found[LOAD_SHARE] = share.value
    (axial,) = (one for one in table if f"stiffness.{one.name}" == AXIAL_STIFFNESS)
    spread = math.hypot(math.log(axial.high / axial.low) / (2.0 * NORMAL_95), _ELONGATION_ERROR)
    found["model.axial_stiffness_spread"] = min(configuration.model.axial_stiffness_spread, spread)
    notes = [*mass_sentences(configuration, runs), *_on_delays(runs)]
    if (tilt_deg := mean_tilt_deg(runs)) is not None:
        found["mounting.tilt_deg"] = tilt_deg
        found["mounting.tilt_stddev_deg"] = min(
            configuration.mounting.tilt_stddev_deg, configuration.truth.alignment_stddev_deg
        )
        notes.append(
            f"mounting.tilt_deg {tilt_deg[0]:.2f}, {tilt_deg[1]:.2f} is the base's by motion capture, known to "
            f"truth.alignment_stddev_deg, {configuration.truth.alignment_stddev_deg:g} deg."
        )
    identified = fit.configuration.with_parameters({name: _rounded(value) for name, value in found.items()})
    free_runs = tuple(_free_run(configuration, identified, run) for run in runs)
    notes += _on_fit(table, free_runs)
    notes += [f"{run.name}: {note}" for run in runs for note in run.notes]
    simulated = any(one.simulated for one in recordings.values())
    said = tuple(recordings), simulated, tuple(notes)
    return Identification(identified, *said, fit, tuple(table), tuple(found), free_runs)


def _rounded(value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    if isinstance(value, tuple):
        return tuple(float(f"{one:.{_DIGITS}g}") for one in value)
    return float(f"{value:.{_DIGITS}g}")


def _free_run(configured: SoftRobotConfiguration, identified: SoftRobotConfiguration, run: Run) -> FreeRun:
    """With the mounting of each configuration, as an estimator would have it."""

    places = (run.tip_m, free_run(configured, run), free_run(identified, run))
    return FreeRun(run, *(np.where(run.seen[:, None], one, np.nan) for one in places))


def _load_share(configuration: SoftRobotConfiguration, runs: Sequence[Run]) -> Parameter | None:
    """From the ratio of force and acceleration while the robot vibrates; None where no run has a wrench that tells."""
    segment = GreyBox(configuration).segment
    known = [run.delay for run in runs if run.delay.known]
    if not known:
        return None
    ratios = np.array([one.moving_kg for one in known])
    # Axes and runs disagree by more than noise (crosstalk, shape), and large bending is not in the ratio.
    apart = float(
        np.linalg.norm(
            [np.mean([one.moving_apart_kg for one in known]), np.ptp(ratios) / 2.0, _RATIO_ERROR * ratios.mean()]
        )
    )
    shares = np.array([load_share(configuration, segment, ratios.mean() + by * apart) for by in (-1.0, 0.0, 1.0)])
    low, value, high = np.clip(shares, _LEAST_SHARE, _MOST_SHARE).tolist()
    configured = configuration.behaviour.load_share
    return Parameter("load_share", "", value, low, high, configured, True, "force by acceleration while it vibrates")


def load_share(configuration: SoftRobotConfiguration, segment: ConstantCurvatureSegment, moving_kg: float) -> float:
    """`behaviour.load_share` with which the model puts that mass times the acceleration of its tip on the base.

    For small bending: each mass moves as far as its Jacobian says, and the load is linear in the share.
    """
    known = configuration.segment
    soft_kg = known.mass_kg - known.tip_plate_mass_kg

    def across(fraction: float, offset_m: float) -> float:
        return float(segment.jacobian(np.zeros(6), fraction, offset_m)[0][0, 0])

    tip, plate = across(1.0, known.tip_plate_thickness_m), across(1.0, 0.5 * known.tip_plate_thickness_m)
    spread = sum(mass * across(fraction, offset) for fraction, offset, mass in segment.arrays[1][1:].tolist())
    spread /= segment.backbone_mass_kg
    return (moving_kg * tip - known.tip_plate_mass_kg * plate - soft_kg * spread) / (soft_kg * (plate - spread))


def mass_sentences(configuration: SoftRobotConfiguration, runs: Sequence[Run]) -> Iterator[str]:
    """The weight on the sensor beside the mass that is known; none where the sensor does not tell."""
    weights = [run.delay.weight_n for run in runs if np.isfinite(run.delay.weight_n)]
    if not weights or configuration.wrench.tare == "with_robot":
        return
    gravity, known_kg = configuration.gravity_m_s2, configuration.segment.mass_kg
    mass_kg, drift_kg = float(np.mean(weights)) / gravity, configuration.wrench.force_drift_n / gravity
    doubt = (
        " They do not agree: was there a payload, or was the sensor not zeroed (wrench.tare)? What is found with the "
        "wrong mass makes up for it."
    )
    yield (
        f"Mass by the wrench {mass_kg:.4f} kg, with a drift of {drift_kg:.4f} kg; segment.mass_kg {known_kg:g} kg "
        f"stays.{doubt if abs(mass_kg - known_kg) > 3.0 * drift_kg else ''}"
    )


def _on_delays(runs: Sequence[Run]) -> Iterator[str]:
    if unknown := [run.name for run in runs if not run.delay.known]:
        yield (
            f"How late motion capture is stamped is not known in {', '.join(unknown)}: no wrench there that goes with "
            "the acceleration of the tip. It counts as 0, and behaviour.supply_lag_s takes up what it is."
        )


def _on_fit(table: Sequence[Parameter], runs: Sequence[FreeRun]) -> Iterator[str]:
    if kept := [one.name for one in table if not one.determined]:
        yield (
            f"The recordings hardly determine {', '.join(kept)}: these keep near what was known before, and so do "
            "their intervals. More recordings, with steps, rests and every chamber by itself, would help."
        )
    yield "Intervals tell the scatter from errors as they were left, not what the model leaves out (shape, hysteresis)."
    for free in runs:
        error_mm = free.errors_mm(free.after_m)[0]
        motion_mm = 1e3 * float(np.sqrt(np.nanvar(free.measured_m, axis=0).sum()))
        if not error_mm < _POOR_SHARE * motion_mm:
            yield (
                f"{free.run.name}: the free run errs by {error_mm:.1f} mm where the tip moves by {motion_mm:.1f} mm "
                "(RMS): the model does not describe this robot. Check chambers.angles_deg, "
                "wrench.angle_about_base_z_deg, mounting.attitude and the frames of the motion capture."
            )
