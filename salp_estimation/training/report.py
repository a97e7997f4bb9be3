"""What the command `train` shows of a residual model: with what it was trained, and what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.trained import ReportTable
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.training import residual_training
from salp_estimation.training.population import JOINT, WHEEL
from salp_estimation.training.runs import TrainingRun, link_rates, training_run

_MOST_LINKS_FOR_PROCESSES = 3
"""Gaussian processes have 2 N - 1 inputs: with more links their data are too thin."""
_MOST_COLUMNS = 4
SMALLEST_ANGLE_RANGE_RAD = 0.2
"""The rates depend on sines and cosines of the joint angles: over less than 11 deg they are hardly more than lines."""
SMALLEST_SPEED_RANGE_M_S = 0.02
"""Five times the speed at which dry friction has reached most of its size (`population.SLIP`)."""

_WANTED = {"rad": SMALLEST_ANGLE_RANGE_RAD, "m/s": SMALLEST_SPEED_RANGE_M_S}
"""Ranges that inputs should be moved over, by their unit."""


class Input(NamedTuple):
    """How far an input was moved, in its unit: the range of 98 % of the points, for outliers teach nothing."""

    name: str
    unit: str
    lowest: float
    highest: float
    moved: bool


class FoundParameter(NamedTuple):
    """One kind of parameter: a value for each wheel, or joint, with standard deviations, in the unit shown."""

    name: str
    unit: str
    values: list[float]
    standard_deviations: list[float]
    from_run_to_run: float


class Remainder(NamedTuple):
    """What is left of a rate, and how long it lasts."""

    name: str
    unit: str
    standard_deviation: float
    correlation_time_s: float


@dataclass(frozen=True, eq=False)
class SalpTraining:
    """A trained model and all that is known of its training."""

    model: ResidualModel
    runs: tuple[TrainingRun, ...]
    notes: tuple[str, ...]
    duration_s: float

    @property
    def calibrated(self) -> bool:
        """Whether friction, harness and lag were found."""
        return self.model.header.kind != "gaussian_process"

    def parameters(self) -> list[FoundParameter]:
        """Of the population that the runs come from: of wheels, then of joints."""
        if not self.calibrated:
            return []
        population, links = self.model.population, self.model.link_count
        stddevs = np.sqrt(np.diag(population.uncertainty))
        out, wheels = [], len(WHEEL) * links
        for table, start, stop in ((WHEEL, 0, wheels), (JOINT, wheels, len(stddevs))):
            for number, one in enumerate(table):
                place = slice(start + number, stop, len(table))
                values, known_to = ((one.factor * of[place]).tolist() for of in (population.parameters, stddevs))
                spread = float(one.factor * population.spreads[place].max())
                out.append(FoundParameter(one.words, one.unit, values, known_to, spread))
        return out

    def residuals(self) -> list[Remainder]:
        """Of each rate."""
        header, population = self.model.header, self.model.population
        left = population.residual_stddevs.tolist(), population.correlation_times_s.tolist()
        return list(map(Remainder, header.output_names, header.output_units, *left))

    def inputs(self) -> list[Input]:
        """All of the model's."""
        header = self.model.header
        moved = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in self.runs])
        ranges = zip(header.input_names, header.input_units, *np.percentile(moved, [1.0, 99.0], axis=0), strict=True)
        return [
            Input(name, unit, float(low), float(high), high - low >= _WANTED[unit]) for name, unit, low, high in ranges
        ]

    def left_out(self) -> dict[str, int]:
        """Frames with flipped markers, by link, over all runs."""
        links = [name.partition("/")[2] for name in self.model.header.sensors]
        return {link: sum(run.left_out.get(link, 0) for run in self.runs) for link in links}

    def summary(self) -> dict[str, Any]:
        """All figures, units in the names."""
        header = self.model.header
        return {
            "robot": header.robot,
            "form": header.kind,
            "points": header.training.point_count,
            "rate_hz": header.training.rate_hz,
            "motion_s": header.training.duration_s,
            "training_s": self.duration_s,
            "runs": {
                run.label: {"points": len(run.time_s), "sha256": digest}
                for run, digest in zip(self.runs, header.training.hashes, strict=True)
            },
            "parameters": [one._asdict() for one in self.parameters()],
            "residuals": [one._asdict() for one in self.residuals()],
            "inputs": [one._asdict() for one in self.inputs()],
            "flipped_frames_left_out": self.left_out(),
            "notes": list(self.notes),
        }

    def sentences(self) -> list[str]:
        """What it was trained with, what is to be known of the data, and what was left out."""
        training = self.model.header.training
        flips = self.left_out()
        counted = ", ".join(f"{link} {count}" for link, count in flips.items() if count)
        still = [
            f"{one.name} hardly moved: {one.lowest:.3g} to {one.highest:.3g} {one.unit}, a range of "
            f"{_WANTED[one.unit]:.3g} is wanted"
            for one in self.inputs()
            if not one.moved
        ]
        out = [
            f"{training.point_count} points at {training.rate_hz:g} Hz of {len(training.runs)} runs "
            f"({training.duration_s:.0f} s of motion), trained in {self.duration_s:.1f} s.",
            f"Frames with flipped markers left out: {counted or 'none'}.",
        ]
        if still:
            out.append(f"The model knows little of {len(still)} inputs that the runs leave alone: {'; '.join(still)}.")
        return [*out, *(f"{note}." for note in self.notes)]

    def tables(self) -> list[ReportTable]:
        """Parameters where there are any, what remains of the rates, and the inputs covered."""
        return [*([self._parameter_table()] if self.calibrated else []), self._residual_table(), self._input_table()]

    def _parameter_table(self) -> ReportTable:
        rows = tuple(
            (
                one.name,
                _values(one.values),
                f"{max(one.standard_deviations):.2g}",
                f"{one.from_run_to_run:.2g}",
                one.unit,
            )
            for one in self.parameters()
        )
        headings = ("parameter", "of each wheel or joint", "known to", "from run to run", "unit")
        title = "friction, harness and lag (standard deviations: of the common value, and from run to run)"
        return ReportTable(title, headings, rows, headings[1:4])

    def _residual_table(self) -> ReportTable:
        rows = []
        for name, unit, stddev, lasts_s in self.residuals():
            factor, shown = (1000.0, "mm/s") if unit == "m/s" else (57.29577951308232, "deg/s")
            rows.append((name, f"{factor * stddev:.3g}", shown, f"{lasts_s:.2g}"))
        headings = ("rate", "standard deviation", "unit", "lasts, s")
        return ReportTable("what is left of the rates", headings, tuple(rows), (headings[1], headings[3]))

    def _input_table(self) -> ReportTable:
        rows = []
        for one in self.inputs():
            factor, unit = (57.29577951308232, "deg") if one.unit == "rad" else (100.0, "cm/s")
            moved = "moved" if one.moved else "hardly moved"
            rows.append((one.name, f"{factor * one.lowest:.3g}", f"{factor * one.highest:.3g}", unit, moved))
        headings = ("input", "from", "to", "unit", "")
        return ReportTable("inputs covered (98 % of the points)", headings, tuple(rows), headings[1:3])

    def save(self, path: Path) -> None:
        """Write the model's file; UserError where it cannot be written."""
        self.model.save(path)


def train_salp(
    configuration: SalpConfiguration,
    recordings: Mapping[str, LoadedRecording],
    hashes: Sequence[str],
    form: str | None = None,
    progress: Callable[[float, str], None] = lambda share, step: None,
) -> SalpTraining:
    """See `Robot.train`; the form `calibrated` for up to three links, else `local`, where none is named."""
    start_s = time.perf_counter()
    links = len(configuration.chain.link_names)
    chosen = form or ("calibrated" if links <= _MOST_LINKS_FOR_PROCESSES else "local")
    runs = []
    for number, (label, recording) in enumerate(recordings.items()):
        progress(0.1 * number / len(recordings), f"motion of {label}")
        try:
            run = training_run(configuration, recording, label)
        except UserError as error:
            raise UserError(str(error) if str(error).startswith(label) else f"{label}: {error}") from error
        _refuse_mirrored(run)
        runs.append(run)
    model, notes = residual_training.train(
        configuration,
        runs,
        hashes,
        chosen,
        lambda share, step: progress(0.1 + 0.9 * share, step),
        list(recordings.values()),
    )
    return SalpTraining(model, tuple(runs), tuple(notes), time.perf_counter() - start_s)


def _refuse_mirrored(run: TrainingRun) -> None:
    """Raise UserError where gyros and motion capture turn against each other: one of them is left-handed."""
    turning = link_rates(run.rates)
    together = float((run.gyro * turning).sum() / np.sqrt((run.gyro**2).sum() * (turning**2).sum() + 1e-300))
    if together < 0.0:
        raise UserError(
            f"{run.label}: gyros and motion capture turn against each other (correlation {together:.2f}): "
            "--mirror-truth y where the truth is left-handed, --set gyro.axis=-z where the gyros point down"
        )


def _values(values: Sequence[float]) -> str:
    """Each of a few, the range of many."""
    if len(values) <= _MOST_COLUMNS:
        return "  ".join(f"{value:.3g}" for value in values)
    return f"{min(values):.3g} to {max(values):.3g}"
