"""`tune`: bags go in, a parameter file comes out that says how it was made and whether it helps."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from onboard_estimation.base.atomic_file import check_output, write_atomically
from onboard_estimation.base.configuration import to_parameter_file
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.workers import Workers, software
from onboard_estimation.campaigns.table import bag_names
from onboard_estimation.campaigns.tunables import Ranges, Tunable, tunables
from onboard_estimation.campaigns.tuning import Tell, Tuning, shown, tune
from onboard_estimation.contract.robot import estimator_name, find_robot
from onboard_estimation.contract.trained import Learned
from onboard_estimation.judging.options import EvaluateOptions, TuningSettings, words
from onboard_estimation.judging.sources import load_configuration, read_bag
from onboard_estimation.report.run_folder import content_hash


@dataclass(frozen=True, eq=False)
class TuningOfBags:
    """A search in which nothing is amiss, as far as that can be seen before it.

    Attributes
    ----------
    output
        Parameter file to write, a new one.
    options
        As for `evaluate`, robot and estimator included.
    ranges
        What was asked for; none: all parameters of noise.
    chosen
        What is searched.
    """

    bags: tuple[Path, ...]
    output: Path
    options: EvaluateOptions
    ranges: Ranges
    settings: TuningSettings
    chosen: tuple[Tunable, ...]

    @classmethod
    def of(
        cls,
        robot: str,
        bags: Sequence[Path],
        output: Path,
        options: EvaluateOptions,
        ranges: Ranges,
        settings: TuningSettings,
    ) -> TuningOfBags:
        """Where the settings do not say by what, it is by the truth if all bags have one.

        Raises
        ------
        UserError
            As `tunables`; the file cannot be written, a bag cannot be read, or is given twice.
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
        return cls(tuple(bags), output, options, ranges, settings, tuple(chosen))

    def search(self, workers: Workers, tell: Tell = lambda share, step: None) -> Learned:
        """Search, and write the file. Raises as `tune`."""
        recordings = {name: bag for bag, name in bag_names([bag.absolute() for bag in self.bags]).items()}
        tuning = tune(recordings, self.options, self.chosen, self.settings, workers, tell)
        options = replace(self.options, overrides={**self.options.overrides, **tuning.values})
        configuration = load_configuration(find_robot(str(options.robot)), options, self.bags[0])
        text = _header(tuning, self._command(), self.bags) + to_parameter_file(configuration)
        write_atomically(self.output, text.encode(), str(self.output))
        return Learned(tuning, {"file": self.output})

    def _command(self) -> str:
        asked = [f"{name}={span[0]}..{span[1]}" if span else name for name, span in self.ranges.items()]
        parameters = [word for one in asked for word in ("--parameter", one)]
        bags, of = map(str, self.bags), ["--estimator", str(self.options.estimator)]
        again = ["onboard-estimation", "tune", str(self.options.robot), *bags, *of, *parameters]
        return shlex.join([*again, *words(self.options), *words(self.settings)])


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
