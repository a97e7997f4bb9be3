"""Robots learned from recordings, and many runs, from Python: `identify`, `train`, `tune`, `campaign`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onboard_estimation.api.arguments import PathLike, options_of, paths_of
from onboard_estimation.base.workers import open_workers, sharing
from onboard_estimation.contract.trained import Learned as Learned
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.options import TuningSettings as TuningSettings

if TYPE_CHECKING:
    from onboard_estimation.campaigns.campaign import Campaign


def identify(
    robot: str,
    bags: PathLike | Sequence[PathLike],
    output: PathLike | None = None,
    *,
    full: bool = False,
    cutoff_hz: float | None = None,
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    topics: Mapping[str, str] | None = None,
    namespace: str | None = None,
    mirror_truth: str | None = None,
) -> Learned:
    """Identify a robot's physical coefficients from bags with ground truth.

    Parameters
    ----------
    output
        Folder to write parameter file, picture and figures into; None: `runs/identify-<robot>`.
    full, cutoff_hz
        Full drag matrices as well; low-pass of motion and commands: of a salp.
    config, parameters, topics, namespace, mirror_truth
        As for `load`.

    Raises
    ------
    UserError
        The robot cannot be identified, the folder cannot be written, or a bag does not do.
    """
    from onboard_estimation.campaigns.identification import identify_from_bags

    options = options_of(config, parameters, None, topics, namespace=namespace, mirror_truth=mirror_truth)
    folder = None if output is None else Path(output)
    return identify_from_bags(robot, paths_of(bags), folder, options, full, cutoff_hz)


def train(
    robot: str,
    bags: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    form: str | None = None,
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    topics: Mapping[str, str] | None = None,
    namespace: str | None = None,
    mirror_truth: str | None = None,
    workers: int = 0,
    scheduler: str | None = None,
) -> Learned:
    """Train a model of what a robot's equations leave out, from bags with ground truth.

    Parameters
    ----------
    output
        File to write; a model there is replaced.
    form
        Of the model; None: the robot's choice.
    config, parameters, topics, namespace, mirror_truth
        As for `load`.
    workers, scheduler
        See `open_workers`.

    Raises
    ------
    UserError
        The robot or the form cannot be trained, the file cannot be written, or a bag does not do.
    """
    from onboard_estimation.campaigns.training import train_from_bags

    options = options_of(config, parameters, None, topics, namespace=namespace, mirror_truth=mirror_truth)
    with open_workers(workers, scheduler) as team, sharing(team):
        return train_from_bags(robot, paths_of(bags), Path(output), options, form)


def tune(
    robot: str,
    bags: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    ranges: Mapping[str, tuple[float, float] | None] | None = None,
    search: TuningSettings | None = None,
    settings: JudgeSettings | None = None,
    workers: int = 0,
    scheduler: str | None = None,
    **loaded: Any,
) -> Learned:
    """Find noise and other parameters with which the filter foretells recordings best.

    Parameters
    ----------
    output
        Parameter file to write, a new one.
    ranges
        Parameters to tune, by their dotted names, and between which bounds; None as bounds: a factor of 30 either way.
        Those of noise if none is named.
    search
        How it is searched, and what is foretold.
    settings
        How runs are judged.
    workers, scheduler
        See `open_workers`.
    loaded
        `estimator`, `config`, `parameters`, `model`, `topics`, `namespace`, `mirror_truth`, `align_clock`, as for
        `load`.

    Raises
    ------
    UserError
        A parameter or an option is none, the file cannot be written, or a bag cannot be scored.
    """
    from onboard_estimation.campaigns.tuned_file import TuningOfBags

    options = options_of(**loaded, settings=settings)
    job = TuningOfBags.of(robot, paths_of(bags), Path(output), options, ranges or {}, search or TuningSettings())
    with open_workers(workers, scheduler) as team:
        return job.search(team)


def campaign(
    table: PathLike, output: PathLike, *, workers: int | None = None, scheduler: str | None = None
) -> Campaign:
    """Do the runs of a table, see docs/evaluation.md; one that was interrupted goes on. Writes its report as well.

    Parameters
    ----------
    workers, scheduler
        See `open_workers`.

    Returns
    -------
    Rows of the runs; `pandas.read_parquet(output / "results.parquet")` has the same as a table.
    """
    from onboard_estimation.campaigns.campaign import run_campaign
    from onboard_estimation.campaigns.report import write_campaign_report
    from onboard_estimation.campaigns.table import cases_of, read_table

    cases = cases_of(read_table(Path(table)))
    with open_workers(workers, scheduler) as team:
        done = run_campaign(cases, Path(output), team, {"asked": str(table), "runs": len(cases)})
    write_campaign_report(done, Path(table).stem)
    return done
