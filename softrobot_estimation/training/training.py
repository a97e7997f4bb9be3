"""`train softrobot`: both filters are tuned on recordings with motion capture, and learn the stiffness from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.learning.reduced_rank import LearnedFunction
from softrobot_estimation.estimators.filter_model import FilterModel
from softrobot_estimation.estimators.particle_estimator import LEARNED_WEIGHT, ParticleEstimator
from softrobot_estimation.judging.stiffness_report import draw_stiffness
from softrobot_estimation.model.configuration import SPACE, SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip
from softrobot_estimation.training.filter_tuning import SEARCHES, JudgedRun, Score, Search, Tuned, judged, tune

Progress = Callable[[float, str], None]

_UKF_SHARE, _TUNED_SHARE = 0.35, 0.8
"""Of all work: up to the end of the tuning of `ukf`, and of `marginalized_pf`."""


@dataclass(frozen=True, eq=False)
class TrainedFilters:
    """Filters that were tuned, and the stiffness that particles have learned, as the command `train` shows them.

    Attributes
    ----------
    tuned
        By filter.
    learned
        Stiffness from all runs in turn, N m/rad over bending (rad, rad) and elongation (m); None where only `ukf` was
        trained.
    path
        (K, 3) where the robot was meanwhile.
    health
        What the particles said of themselves in each run, by its name.
    """

    configuration: SoftRobotConfiguration
    runs: tuple[JudgedRun, ...]
    hashes: tuple[str, ...]
    tuned: Mapping[str, Tuned]
    learned: LearnedFunction | None
    path: Matrix
    health: Mapping[str, Mapping[str, float]]
    simulated: bool

    @property
    def model(self) -> FilterModel:
        """What is kept."""
        return FilterModel({name: one.after for name, one in self.tuned.items()}, self.learned)

    def save(self, path: Path) -> Sequence[Path]:
        """Write the file, and the picture of the stiffness beside it; UserError where they cannot be written."""
        names, duration_s = tuple(run.name for run in self.runs), sum(run.duration_s for run in self.runs)
        self.model.save(path, self.configuration, names, self.hashes, duration_s, self.path)
        if self.learned is None:
            return ()
        source = f"{'SIMULATED' if self.simulated else 'RECORDED'} data, {', '.join(names)}"
        draw_stiffness(path.with_suffix(".png"), self.learned, self.path, f"{source}: learned stiffness")
        return (path.with_suffix(".png"),)

    def summary(self) -> dict[str, Any]:
        """Parameters and scores before and after by filter, and what was learned."""
        return {
            "source": "simulated" if self.simulated else "recorded",
            "runs": {run.name: {"capture_delay_s": run.delay_s, **self.health.get(run.name, {})} for run in self.runs},
            "filters": {
                name: {
                    "parameters": dict(one.after),
                    "parameters_before": dict(one.before),
                    "score": asdict(one.score_after),
                    "score_before": asdict(one.score_before),
                    "evaluations": one.evaluations,
                }
                for name, one in self.tuned.items()
            },
            "stiffness_noise_n_m_per_rad": None if self.learned is None else float(self.learned.noise_stddevs[0]),
        }

    def sentences(self) -> list[str]:
        """What it comes from, what did not help, and how it is to be used."""
        delays = ", ".join(f"{run.name} {1e3 * run.delay_s:.0f} ms" for run in self.runs)
        told = [
            "Tuned for the mean log density of the tip's true places under the filter's claim, on parts of "
            f"{len(self.runs)} run{'s' if len(self.runs) > 1 else ''}; motion capture is stamped late by: {delays}.",
            *(
                f"{name}: nothing better than the configured parameters was found; they are kept."
                for name, one in self.tuned.items()
                if one.kept
            ),
            *(
                f"{name}: {', '.join(one.at_bounds)} went as far as the search may, a factor of 10; training once more "
                "with these values configured would go on."
                for name, one in self.tuned.items()
                if one.at_bounds
            ),
        ]
        if self.learned is not None:
            lost = sum(one.get("times_lost", 0.0) for one in self.health.values())
            told.append(
                "marginalized_pf starts from the learned stiffness, with deviations "
                f"{LEARNED_WEIGHT**-0.5:g} times as large; particles had lost the robot {lost:.0f} times while they "
                "learned. A picture of the stiffness is beside the model (.png)."
            )
        told.append("The model goes with the parameter file that it was trained with: give the same --config.")
        return told

    def tables(self) -> list[ReportTable]:
        """Scores, and parameters."""
        scores = tuple(
            (name, when, *_shown(score))
            for name, one in self.tuned.items()
            for when, score in (("before", one.score_before), ("after", one.score_after))
        )
        figures = ("log density", "tip RMSE (mm)", "1 sigma (%)", "3 sigma (%)", "NEES of 3")
        parameters = tuple(
            (name, parameter, f"{one.before[parameter]:.3g}", f"{value:.3g}")
            for name, one in self.tuned.items()
            for parameter, value in one.after.items()
        )
        return [
            ReportTable("Filters, on the runs that they were tuned on", ("filter", "", *figures), scores, figures),
            ReportTable("Parameters", ("filter", "parameter", "before", "after"), parameters, ("before", "after")),
        ]


def train(
    configuration: SoftRobotConfiguration,
    recordings: Mapping[str, LoadedRecording],
    hashes: Sequence[str],
    form: str | None = None,
    progress: Progress = lambda share, step: None,
    searches: Mapping[str, Search] = SEARCHES,
) -> TrainedFilters:
    """Tune one filter (`form`) or both, and learn the stiffness.

    Raises
    ------
    UserError
        A run without motion capture, or one that a filter makes nothing of.
    """
    configuration = configuration.with_parameters({"learning.model": ""})
    progress(0.0, "delays of motion capture")
    runs = [JudgedRun.of(configuration, name, recording) for name, recording in recordings.items()]
    for run in runs:
        if not np.isfinite(judged(configuration, "ukf", [run]).log_density):
            raise UserError(f"{run.name}: the filter gave no estimate to judge; look at it with `inspect`")
    # Noise of the wrench and unknown moments are the same for both filters: what one has found, the other starts from.
    tuned = {"ukf": tune(configuration, "ukf", runs, searches["ukf"], progress=_part(progress, 0.05, _UKF_SHARE))}
    learned, path, health = None, np.zeros((0, 3)), dict[str, dict[str, float]]()
    if form != "ukf":
        search, hint = searches["marginalized_pf"], tuned["ukf"].after
        tuning = _part(progress, _UKF_SHARE, _TUNED_SHARE)
        tuned["marginalized_pf"] = tune(configuration, "marginalized_pf", runs, search, hint, tuning)
        particles = configuration.with_parameters(tuned["marginalized_pf"].after)
        learned, path, health = _learned(particles, runs, _part(progress, _TUNED_SHARE, 1.0))
    kept = {name: one for name, one in tuned.items() if form in (None, name)}
    simulated = any(one.simulated for one in recordings.values())
    return TrainedFilters(configuration, tuple(runs), tuple(hashes), kept, learned, path, health, simulated)


def _learned(
    configuration: SoftRobotConfiguration, runs: Sequence[JudgedRun], progress: Progress
) -> tuple[LearnedFunction, Matrix, dict[str, dict[str, float]]]:
    """The stiffness after all runs, each from where the last one ended, where they went (K, 3), and their health."""
    function: LearnedFunction | None = None
    health: dict[str, dict[str, float]] = {}
    paths: list[Matrix] = []
    for number, run in enumerate(runs):
        progress(number / len(runs), f"learning the stiffness from {run.name}")
        estimator = ParticleEstimator(configuration, function)
        record, pipeline = run.filtered(configuration, estimator)
        function, health[run.name] = pipeline.learned, dict(pipeline.health)
        places = record.means[:, SPACE.coordinates("position")]
        paths.append(coordinates_of_tip(estimator.grey_box.segment, places, estimator.grey_box.beyond_m))
    assert function is not None  # all runs have estimates
    return function, np.vstack(paths), health


def _part(progress: Progress, begin: float, end: float) -> Progress:
    return lambda share, step: progress(begin + (end - begin) * share, step)


def _shown(score: Score) -> tuple[str, ...]:
    return (
        f"{score.log_density:.2f}",
        f"{1e3 * score.rmse_m:.2f}",
        f"{100.0 * score.within_one:.0f}",
        f"{100.0 * score.within_three:.1f}",
        f"{score.nees:.2f}",
    )
