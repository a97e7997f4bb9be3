"""`evaluate`: a bag goes in, a judged run comes out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from onboard_estimation.contract.reported import Reported
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions, Keep, recorded, words
from onboard_estimation.judging.sources import Source, model_file, read_bag
from onboard_estimation.report.page import check_templates
from onboard_estimation.report.run_folder import claimed_run, content_hash, content_hashes, write_run


@dataclass(frozen=True)
class Evaluation:
    """A result, and where it was written (None: nowhere)."""

    result: EvaluationResult
    folder: Path | None


Progress = Callable[[str], None]


def evaluate_bag(
    bag_path: Path,
    options: EvaluateOptions,
    output: Path | None = None,
    write: bool = True,
    progress: Progress = lambda step: None,
) -> Evaluation:
    """Replay a bag through a robot's pipeline, judge it, and write a run folder.

    Parameters
    ----------
    output
        Run folder; None: `runs/<bag>-<robot>`, numbered where that exists.

    Raises
    ------
    UserError
        Whatever the user can mend; the message says how.
    """
    with _read_for_runs(bag_path, options, [options.estimator], output, write, progress) as (read, hashes, folder):
        return evaluated(read, read.estimators[0], folder if write else None, hashes, progress)


def evaluate_estimators(
    bag_path: Path,
    options: EvaluateOptions,
    estimators: Sequence[str],
    output: Path | None = None,
    progress: Progress = lambda step: None,
) -> Iterator[Evaluation]:
    """The same with several estimators, one after the other; the bag is read once.

    Parameters
    ----------
    estimators
        Names, each once; `options.estimator` is not looked at.
    output
        Folder with a run folder of each estimator in it, by its name; None: as for `evaluate_bag`.
    """
    with _read_for_runs(bag_path, options, estimators, output, True, progress) as (read, hashes, folder):
        for estimator in read.estimators:
            yield evaluated(read, estimator, folder / estimator, hashes, partial(_named, progress, estimator))


def _named(progress: Progress, estimator: str, step: str) -> None:
    progress(f"{estimator}: {step}")


@contextmanager
def _read_for_runs(
    bag_path: Path,
    options: EvaluateOptions,
    estimators: Sequence[str | None],
    output: Path | None,
    write: bool,
    progress: Progress,
) -> Iterator[tuple[Source, Future[dict[str, str]], Path]]:
    """The bag, hashes of what runs are made of, and the folder for them, claimed before minutes of work."""
    with ExitStack() as stack:
        if write:
            check_templates()
            if output is not None:
                stack.enter_context(claimed_run(output, output))
        hashes = stack.enter_context(content_hashes({"bag": bag_path, "config": options.config} if write else {}))
        read = read_bag(bag_path, options, estimators, progress)
        folder = output or Path("runs") / f"{read.name}-{read.robot.name}"
        if write and output is None:
            folder = stack.enter_context(claimed_run(None, folder))
        yield read, hashes, folder


def evaluated(
    source: Source,
    estimator: str,
    folder: Path | None = None,
    hashes: Future[dict[str, str]] | None = None,
    progress: Progress = lambda step: None,
    keep: Keep = "everything",
) -> Evaluation:
    """Judge one estimator, and write its run folder where one is given, see `write_run`."""
    robot, configuration, options = source.robot, source.configuration, source.options
    command = shlex.join([*source.again, "--estimator", estimator, *words(options)])
    progress("filtering")
    result = judge(
        robot, configuration, estimator, source.recording, options.settings, bag=source.name, command=command
    )
    if folder is None:
        return Evaluation(result, None)
    if isinstance(robot, Reported):
        result = robot.presented(configuration, source.recording.series, result)
        result = replace(result, sections=robot.report_sections(configuration, source.recording.series, result))
    space = robot.estimator(configuration, estimator).space
    known = dict(hashes.result()) if hashes is not None else {}
    if (model := model_file(robot, configuration)) is not None:
        known["model"] = content_hash(model)
    result = write_run(
        result, space, configuration, known, folder, recorded(options), options.estimates_rate_hz, progress, keep
    )
    return Evaluation(result, folder)
