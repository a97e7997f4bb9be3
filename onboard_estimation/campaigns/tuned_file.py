"""`tune`: bags go in, a parameter file comes out that says how it was made and whether it helps."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from onboard_estimation.base.atomic_file import check_output, write_atomically
from onboard_estimation.base.configuration import to_parameter_file
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.workers import Workers, software
from onboard_estimation.campaigns.table import bag_names
from onboard_estimation.campaigns.tuning import Ranges, Tell, Tuning, shown, tunables, tune
from onboard_estimation.contract.robot import estimator_name, find_robot
from onboard_estimation.contract.trained import Learned
from onboard_estimation.judging.options import EvaluateOptions, TuningSettings, words
from onboard_estimation.judging.sources import load_configuration, read_bag
from onboard_estimation.report.run_folder import content_hash

Working = Callable[[str], AbstractContextManager[tuple[Workers, Tell]]]


def tune_with_bags(
    robot: str,
    bags: Sequence[Path],
    output: Path,
    options: EvaluateOptions,
    ranges: Ranges,
    settings: TuningSettings,
    working: Working,
) -> Learned:
    """Search parameters with which the filter foretells recordings best, and write them as a parameter file.

    Parameters
    ----------
    output
        File to write, a new one.
    options
        As for `evaluate`, estimator included.
    ranges
        None: all parameters of noise.
    settings
        Where they do not say by what, it is by the truth if all bags have one.
    working
        Given what is tuned, once nothing is amiss any more: who works, and takes what is done.

    Raises
    ------
    UserError
        As `tunables` and `tune`; the file cannot be written, a bag cannot be read, or is given twice.
    """
    check_output(output)
    found = find_robot(robot)
    options = replace(options, robot=robot, estimator=estimator_name(found, options.estimator))
    chosen = tunables(load_configuration(found, options, bags[0]), ranges)
    if gone := [str(bag) for bag in bags if not bag.exists()]:
        raise UserError(f"not there: {', '.join(gone)}")
    if len({bag.resolve() for bag in bags}) < len(bags):
        raise UserError("a bag is given twice")
    if settings.by is None:
        bodies = [set(read_bag(bag, options).recording.tracks) for bag in bags]
        settings = replace(settings, by="truth" if all(bodies) else "innovations")
    recordings = {name: bag for bag, name in bag_names([bag.absolute() for bag in bags]).items()}
    with working(f"{len(chosen)} parameters of {robot} with {len(bags)} bags by {settings.by}") as (workers, tell):
        tuning = tune(recordings, options, chosen, settings, workers, tell)
    asked = [f"{name}={span[0]}..{span[1]}" if span else name for name, span in ranges.items()]
    again = ["onboard-estimation", "tune", robot, *map(str, bags), "--estimator", str(options.estimator)]
    again += [word for one in asked for word in ("--parameter", one)] + words(options) + words(settings)
    tuned = replace(options, overrides={**options.overrides, **tuning.values})
    text = _header(tuning, shlex.join(again), bags) + to_parameter_file(load_configuration(found, tuned, bags[0]))
    write_atomically(output, text.encode(), str(output))
    return Learned(tuning, {"file": output})


def _header(tuning: Tuning, command: str, bags: Sequence[Path]) -> str:
    """How the file was made, as comments."""
    lines = [f"Tuned on {datetime.now(timezone.utc).date().isoformat()}: {command}"]
    lines += tuning.sentences()
    lines += [f"{one.name}: {shown(one.value)} before, {shown(tuning.values[one.name])} now" for one in tuning.chosen]
    for one in tuning.left_out:
        nees = [
            f"{part} {nees:.2f} to {one.after.nees.get(part, math.nan):.2f}" for part, nees in one.before.nees.items()
        ]
        scores = f"score {one.before.value:.4g} to {one.after.value:.4g}"
        lines.append(f"left out {one.name}: {scores}, NEES per degree of freedom {', '.join(nees)}")
    lines += [f"bag {bag.name}: sha256 {content_hash(bag)}" for bag in bags]
    lines.append(", ".join(f"{name} {version}" for name, version in software().items()))
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)
