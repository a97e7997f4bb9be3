"""What the command `train` shows of a residual model: with what it was trained, and what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.capabilities.tables import ReportTable
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.recording import LoadedRecording
from salp_estimation import residual_training
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.residual_model import ResidualModel
from salp_estimation.training_runs import TrainingRun, link_rates, training_run

_MOST_LINKS_FOR_PROCESSES = 3
"""Gaussian processes have 2 N - 1 inputs: with more links their data are too thin."""
_MOST_COLUMNS = 4
SMALLEST_ANGLE_RANGE_RAD = 0.2
"""The rates depend on sines and cosines of the joint angles: over less than 11 deg they are hardly more than lines."""
SMALLEST_SPEED_RANGE_M_S = 0.02
"""Five times the speed at which dry friction has reached most of its size (`population.SLIP`)."""

# Of each parameter of a wheel and of a joint, in the order of `friction_kernels`: words, unit shown, factor to it.
_WHEEL = (
    ("dry friction along", "N", 1.0),
    ("dry friction across", "N", 1.0),
    ("dry friction against turning", "N m", 1.0),
    ("drag along, factor", "", 1.0),
    ("drag across, factor", "", 1.0),
    ("drag against turning, factor", "", 1.0),
    ("thrust gained", "%", 100.0),
    ("lag beyond 50 ms", "ms", 1000.0),
    ("wheel angle, deviation", "deg", 57.29577951308232),
)
_JOINT = (
    ("harness torque at zero", "N m", 1.0),
    ("harness stiffness", "N m/rad", 1.0),
    ("dry friction of the joint", "N m", 1.0),
)


class Input(NamedTuple):
    """How far an input was moved, in its unit: the range of 98 % of the points, for outliers teach nothing."""

    name: str
    unit: str
    lowest: float
    highest: float
    wanted: float

    @property
    def moved(self) -> bool:
        """Whether the range was wide enough."""
        return self.highest - self.lowest >= self.wanted


class Parameter(NamedTuple):
    """One kind of parameter: a value for each wheel, or joint, with standard deviations, in the unit shown."""

    words: str
    unit: str
    values: tuple[float, ...]
    uncertainty: tuple[float, ...]
    from_run_to_run: float


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

    def parameters(self) -> list[Parameter]:
        """Of the population that the runs come from: of wheels, then of joints."""
        population, links = self.model.population, self.model.link_count
        stddevs = np.sqrt(np.diag(population.uncertainty))
        out = []
        wheels = len(_WHEEL) * links
        for kinds, start, stop in ((_WHEEL, 0, wheels), (_JOINT, wheels, len(stddevs))):
            for number, (words, unit, factor) in enumerate(kinds):
                place = slice(start + number, stop, len(kinds))
                values, known_to = ((factor * one[place]).tolist() for one in (population.parameters, stddevs))
                spread = float(factor * population.spreads[place].max())
                out.append(Parameter(words, unit, tuple(values), tuple(known_to), spread))
        return out

    def inputs(self) -> list[Input]:
        """All of the model's."""
        header, joints = self.model.header, self.model.link_count - 1
        moved = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in self.runs])
        wanted = [SMALLEST_ANGLE_RANGE_RAD] * joints + [SMALLEST_SPEED_RANGE_M_S] * (joints + 1)
        lowest, highest = np.percentile(moved, [1.0, 99.0], axis=0).tolist()
        return list(map(Input, header.input_names, header.input_units, lowest, highest, wanted))

    def left_out(self) -> dict[str, int]:
        """Frames with flipped markers, by link, over all runs."""
        links = [name.partition("/")[2] for name in self.model.header.sensors]
        return {link: sum(run.left_out.get(link, 0) for run in self.runs) for link in links}

    def summary(self) -> dict[str, Any]:
        """All figures, units in the names."""
        header, population = self.model.header, self.model.population
        names, units = header.output_names, header.output_units
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
            "parameters": [
                {
                    "name": one.words,
                    "unit": one.unit,
                    "values": list(one.values),
                    "standard_deviations": list(one.uncertainty),
                    "from_run_to_run": one.from_run_to_run,
                }
                for one in (self.parameters() if self.calibrated else ())
            ],
            "residuals": [
                {"name": name, "unit": unit, "standard_deviation": float(stddev), "correlation_time_s": float(lasts_s)}
                for name, unit, stddev, lasts_s in zip(
                    names, units, population.residual_stddevs, population.correlation_times_s, strict=False
                )
            ],
            "inputs": [
                {"name": one.name, "unit": one.unit, "lowest": one.lowest, "highest": one.highest, "moved": one.moved}
                for one in self.inputs()
            ],
            "flipped_frames_left_out": self.left_out(),
            "notes": list(self.notes),
        }

    def sentences(self) -> list[str]:
        """What it was trained with, what is to be known of the data, and what was left out."""
        training = self.model.header.training
        flips = self.left_out()
        counted = ", ".join(f"{link} {count}" for link, count in flips.items() if count)
        still = [
            f"{name} hardly moved: {lowest:.3g} to {highest:.3g} {unit}, a range of {wanted:.3g} is wanted"
            for name, unit, lowest, highest, wanted in (one for one in self.inputs() if not one.moved)
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
                one.words,
                _values(one.values),
                f"{max(one.uncertainty):.2g}",
                f"{one.from_run_to_run:.2g}",
                one.unit,
            )
            for one in self.parameters()
        )
        headings = ("parameter", "of each wheel or joint", "known to", "from run to run", "unit")
        title = "friction, harness and lag (standard deviations: of the common value, and from run to run)"
        return ReportTable(title, headings, rows, headings[1:4])

    def _residual_table(self) -> ReportTable:
        header, population = self.model.header, self.model.population
        rows = []
        for number, (stddev, lasts_s) in enumerate(
            zip(population.residual_stddevs, population.correlation_times_s, strict=True)
        ):
            factor, unit = (1000.0, "mm/s") if header.output_units[number] == "m/s" else (57.29577951308232, "deg/s")
            rows.append((header.output_names[number], f"{factor * stddev:.3g}", unit, f"{lasts_s:.2g}"))
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
