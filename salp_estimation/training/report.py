"""What is shown of a residual model: training data, what was found, how far a run lies outside of the data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError, first_of, said_of
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.presentation import display_unit
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import EvaluationResult, Note
from onboard_estimation.contract.trained import ReportTable
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.paper_filter import PaperModel, load_trained
from salp_estimation.estimators.residual_model import ROBOT, ResidualModel
from salp_estimation.model.configuration import MIXED_DRAG, PAPER, SalpConfiguration
from salp_estimation.training import paper_training, residual_training
from salp_estimation.training.motion import Rows
from salp_estimation.training.paper_training import PaperTraining
from salp_estimation.training.population import JOINT, WHEEL
from salp_estimation.training.references import loss_sentences, worse_than
from salp_estimation.training.runs import TrainingRun, lagged_commands, link_rates, rim_speeds, training_run

_MOST_LINKS_FOR_PROCESSES = 3
"""Gaussian processes have 2 N - 1 inputs: with more links their data are too thin."""
_MOST_COLUMNS = 4

MARGIN = 0.05
"""The covered range of an input is widened by this share of it, on either side: so far a model carries."""
WORTH_SAYING = 0.05
"""A larger share of the run outside belongs into the verdict."""
_MOST_NAMED = 4
_HELD_OUT = (
    "run", "trained_rmse_deg", "without_a_model_rmse_deg", "by_integrated_commands_rmse_deg",
    "assumed_straight_rmse_deg", "within_3_sigma",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SalpTraining:
    """A trained model and all that is known of its training."""

    model: ResidualModel
    runs: tuple[TrainingRun, ...]
    notes: tuple[str, ...]
    duration_s: float

    def parameters(self) -> list[dict[str, Any]]:
        """Of the population that the runs come from: of wheels, then of joints.

        Each kind has a value for each wheel, or joint, with standard deviations, in the unit shown.
        """
        names = "name", "unit", "values", "standard_deviations", "from_run_to_run"
        population, links = self.model.population, self.model.link_count
        stddevs = np.sqrt(np.diag(population.uncertainty))
        out, wheels = [], len(WHEEL) * links
        for table, start, stop in ((WHEEL, 0, wheels), (JOINT, wheels, len(stddevs))):
            for number, one in enumerate(table):
                place = slice(start + number, stop, len(table))
                values, known_to = ((one.factor * of[place]).tolist() for of in (population.parameters, stddevs))
                spread = float(one.factor * population.spreads[place].max())
                out.append(dict(zip(names, (one.words, one.unit, values, known_to, spread), strict=True)))
        return out

    def residuals(self) -> list[dict[str, Any]]:
        """What is left of each rate, and how long it lasts."""
        header, population = self.model.header, self.model.population
        left = population.residual_stddevs.tolist(), population.correlation_times_s.tolist()
        names = "name", "unit", "standard_deviation", "correlation_time_s"
        rows = zip(header.output_names, header.output_units, *left, strict=False)  # gyros have none of their own
        return [dict(zip(names, row, strict=True)) for row in rows]

    def inputs(self) -> list[dict[str, Any]]:
        """How far each was moved, in its unit: the range of 98 % of the points, for outliers teach nothing."""
        header, names = self.model.header, ("name", "unit", "lowest", "highest")
        moved = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in self.runs])
        ranges = np.percentile(moved, [1.0, 99.0], axis=0).tolist()
        rows = zip(header.input_names, header.input_units, *ranges, strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

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
            "parameters": self.parameters(),
            "residuals": self.residuals(),
            "inputs": self.inputs(),
            "held_out": [dict(zip(_HELD_OUT, row, strict=True)) for row in self._held_out()],
            "flipped_frames_left_out": self.left_out(),
            "notes": list(self.notes),
        }

    def sentences(self) -> list[str]:
        """What it was trained with, what is to be known of the data, and what was left out."""
        training = self.model.header.training
        flips = self.left_out()
        counted = ", ".join(f"{link} {count}" for link, count in flips.items() if count)
        return [
            f"{training.point_count} points at {training.rate_hz:g} Hz of {len(training.runs)} runs "
            f"({training.duration_s:.0f} s of motion), trained in {self.duration_s:.1f} s.",
            f"Frames with flipped markers left out: {counted or 'none'}.",
            *(f"{note}." for note in self.notes),
        ]

    def tables(self) -> list[ReportTable]:
        """Held-out runs where there are any, parameters, what remains of the rates, and the inputs covered."""
        return [
            *([self._held_out_table()] if len(self.model.held_out) else []),
            self._parameter_table(),
            self._residual_table(),
            self._input_table(),
        ]

    def _held_out(self) -> list[tuple[str | float, ...]]:
        """Name and figures of each run that was held out."""
        runs = self.model.header.training.runs
        return [(runs[int(number)], *figures) for number, *figures in self.model.held_out.tolist()]

    def _held_out_table(self) -> ReportTable:
        rows = [
            (str(name), *(f"{one:.2f}" for one in errors), f"{within:.3f}")
            for name, *errors, within in self._held_out()
        ]
        middle = [f"{one:.2f}" for one in np.median(self.model.held_out[:, 1:5], axis=0)]
        rows.append(("median; mean within", *middle, f"{self.model.held_out[:, 5].mean():.3f}"))
        headings = ("run", "trained", "no model", "commands", "straight", "within 3 sigma")
        title = "runs held out: RMS of the joint angles (deg), and of what the trained filter has to beat"
        return ReportTable(title, headings, tuple(rows), headings[1:])

    def _parameter_table(self) -> ReportTable:
        rows = tuple(
            (name, _values(values), f"{max(known_to):.2g}", f"{spread:.2g}", unit)
            for name, unit, values, known_to, spread in map(dict.values, self.parameters())
        )
        headings = ("parameter", "of each wheel or joint", "known to", "from run to run", "unit")
        title = "friction, harness and lag (standard deviations: of the common value, and from run to run)"
        return ReportTable(title, headings, rows, headings[1:4])

    def _residual_table(self) -> ReportTable:
        rows = []
        for name, unit, stddev, lasts_s in map(dict.values, self.residuals()):
            shown, factor = display_unit(unit, stddev)
            rows.append((name, f"{factor * stddev:.3g}", shown, f"{lasts_s:.2g}"))
        headings = ("rate", "standard deviation", "unit", "lasts, s")
        return ReportTable("what is left of the rates", headings, tuple(rows), (headings[1], headings[3]))

    def _input_table(self) -> ReportTable:
        rows = []
        for name, unit, low, high in map(dict.values, self.inputs()):
            shown, factor = display_unit(unit, high - low)
            rows.append((name, f"{factor * low:.3g}", f"{factor * high:.3g}", shown))
        headings = ("input", "from", "to", "unit")
        return ReportTable("inputs covered (98 % of the points)", headings, tuple(rows), headings[1:3])

    def save(self, path: Path) -> Sequence[Path]:
        """Write the model's file; UserError where it cannot be written."""
        self.model.save(path)
        return ()


def train_salp(
    configuration: SalpConfiguration,
    recordings: Mapping[str, LoadedRecording],
    hashes: Sequence[str],
    form: str | None = None,
    progress: Callable[[float, str], None] = lambda share, step: None,
) -> SalpTraining | PaperTraining:
    """See `Robot.train`; the form `calibrated` for up to three links, else `local`, where none is named."""
    if form != PAPER and any(any(getattr(configuration.chain, name)) for name in MIXED_DRAG):
        raise UserError(
            f"chain.{', chain.'.join(MIXED_DRAG)}: of the forms, only `{PAPER}` knows mixed elements of drag"
        )
    start_s = time.perf_counter()
    links = len(configuration.chain.link_names)
    chosen = form or ("calibrated" if links <= _MOST_LINKS_FOR_PROCESSES else "local")
    runs = []
    for number, (label, recording) in enumerate(recordings.items()):
        progress(0.1 * number / len(recordings), f"motion of {label}")
        with said_of(label):
            runs.append(training_run(configuration, recording, label))
        _refuse_mirrored(runs[-1])
    if form == PAPER:
        fitted = paper_training.fitted(configuration, recordings, hashes, progress=progress)
        return PaperTraining(fitted, time.perf_counter() - start_s)
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


def outside(model: ResidualModel | PaperModel, joint_angles: Rows, controls: Rows) -> tuple[float, dict[str, float]]:
    """Shares of a run, in [0, 1], at which the inputs of a model lie outside its training data.

    Parameters
    ----------
    joint_angles, controls
        (K, N - 1), rad, and lagged rim speeds (K, N), m/s; rows with NaN do not count.

    Returns
    -------
    At which at least one does; and of those inputs that do at all, by name, the largest first.
    """
    conditions = model.header.training
    lowest, highest = np.array(conditions.input_lowest), np.array(conditions.input_highest)
    margin = MARGIN * (highest - lowest)
    inputs = np.hstack([joint_angles, controls])
    inputs = inputs[np.isfinite(inputs).all(axis=1)]
    if not len(inputs):
        return 0.0, {}
    beyond = (inputs < lowest - margin) | (inputs > highest + margin)
    shares: Vector = beyond.mean(axis=0)
    names, order = model.header.input_names, np.argsort(-shares, kind="stable")
    return float(beyond.any(axis=1).mean()), {names[k]: float(shares[k]) for k in order if shares[k] > 0.0}


def notes(configuration: SalpConfiguration, series: Sequence[Series], result: EvaluationResult) -> tuple[Note, ...]:
    """What was better than the filter, which model there was, and how much of the run lies outside its data."""
    part, worse = result.parts.get("joint_angles"), worse_than(result.metrics.get(ROBOT, {}))
    if not configuration.residual_model or part is None:
        return worse
    model, stamps_ns = load_trained(configuration.residual_model, configuration), result.stamps_ns
    training = model.header.training
    trained = (
        f"Residual model of the form {model.header.kind}, trained with {training.point_count} points of "
        f"{len(training.runs)} runs."
    )
    trained += "".join(f" Its training found: {sentence}." for sentence in loss_sentences(model.held_out))
    controls = np.zeros((len(stamps_ns), len(configuration.chain.link_names)))
    for one in series:
        if one.channel.sensor == COMMAND and np.isfinite(one.values).all(axis=1).any():
            controls = lagged_commands(*rim_speeds(configuration.chain, one), stamps_ns)
    any_input, by_input = outside(model, part.estimate, controls)
    if any_input == 0.0:
        return (*worse, Note(f"{trained} All of the run lies within its training data."))
    listed = first_of([f"{name} {100.0 * one:.3g} %" for name, one in by_input.items()], _MOST_NAMED)
    share = f"{100.0 * any_input:.2g} % of the run"
    # The inputs that are outside for at least half as long as the worst one: those to be trained.
    blamed = [name for name, one in by_input.items() if one >= 0.5 * max(by_input.values())]
    verdict = f"{share} is outside the training data ({first_of(blamed, _MOST_NAMED)})"
    sentence = f"{trained} {share} is outside its training data: {listed}."
    return (*worse, Note(sentence, verdict if any_input > WORTH_SAYING else ""))
