"""What is simulated, trained and judged for the paper's figures 7 and 8 and its table by gait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.reproduced import Paper
from salp_estimation.model.configuration import PAPER, SalpConfiguration
from salp_estimation.model.gaits import GAITS
from salp_estimation.paper.runs import CALIBRATED, Drive, Filter, Honesty, Judged, Lesson, honesty, judged_drive, taught

Outcomes: TypeAlias = dict[Drive, dict[str, Judged]]

FIRST_DAY, FIRST_OTHER_DAY, FIRST_CHECKED_DAY, FIRST_TEST_DAY = 930_000, 931_000, 932_000, 100
"""Seeds: days that teach and are judged, days that teach beside the first one, days that noise is chosen on, days that
judge alone."""
CHECKED_RUN, TEST_RUN, SHOWN_RUN = 50, 60, 70
"""Numbers of a day's runs; from zero on they teach."""
FORWARD_ONLY, MULTI_GAIT, OURS, PLAIN = "forward-only", "multi-gait", "ours (calibrated)", "ours (no model)"
FIVE_DAYS, AS_ONE, WIDER = "five days", "errors that last count once", "and by how far days differ"


@dataclass(frozen=True)
class Plan:
    """How much is simulated.

    Attributes
    ----------
    days, test_days
        How many of each kind.
    lesson_s, test_s
        Of a run that teaches (five teach a model), and of one that judges.
    points
        Of a model, at the most.
    """

    days: int
    test_days: int
    lesson_s: float
    test_s: float
    points: int
    gaits: tuple[str, ...] = tuple(GAITS)
    held_out: bool = True

    def lesson(self, day: int, gait: str = "") -> tuple[Drive, ...]:
        """Of one day: that gait alone, or all of them."""
        return tuple(Drive(gait or one, day, number, self.lesson_s) for number, one in enumerate(GAITS))

    def tests(self, days: Sequence[int], number: int) -> list[Drive]:
        """A run of each gait on each of the days."""
        return [Drive(gait, day, number, self.test_s) for day in days for gait in self.gaits]


def plan(paper: Paper, quick: bool) -> Plan:
    """As the paper has it, or less."""
    if quick:
        return Plan(1, 1, 16.0, 24.0, 300, ("forward", "left", "turning"), held_out=False)
    printed = partial(paper.figure, "Section V-B")
    return Plan(2, 2, printed("training_duration_s") / len(GAITS), 48.0, printed("training_points"))


@dataclass
class Work:
    """Models in a folder, trained as soon as they are asked for, and what filters made of runs."""

    configuration: SalpConfiguration
    plan: Plan
    folder: Path
    points: dict[tuple[str, int], int] = field(default_factory=dict)
    outcomes: Outcomes = field(default_factory=dict)
    honest: dict[str, Honesty] = field(default_factory=dict)

    @property
    def days(self) -> range:
        """That teach."""
        return range(FIRST_DAY, FIRST_DAY + self.plan.days)

    @property
    def test_days(self) -> range:
        """That do not."""
        return range(FIRST_TEST_DAY, FIRST_TEST_DAY + self.plan.test_days)

    def path(self, name: str, day: int = FIRST_DAY) -> Path:
        """Of a model's file."""
        return self.folder / f"{name.replace(' ', '_')}_{day}.npz"

    def train(self) -> None:
        """All models."""
        plan = self.plan
        spread = tuple(Drive(gait, FIRST_OTHER_DAY + k, 0, plan.lesson_s) for k, gait in enumerate(GAITS))
        lessons = {(FIVE_DAYS, FIRST_DAY): spread}
        for day in self.days:
            lessons |= {(FORWARD_ONLY, day): plan.lesson(day, "forward"), (MULTI_GAIT, day): plan.lesson(day)}
        tasks = []
        for (name, day), drives in lessons.items():
            files = {PAPER: self.path(name, day)}
            if name != FORWARD_ONLY:
                files[CALIBRATED] = self.path(f"{name} {OURS}", day)
            tasks.append((self.configuration, Lesson(drives, files, plan.points, plan.held_out)))
        self.points = dict(zip(lessons, all_of(taught, tasks), strict=True))

    def judge(self) -> None:
        """All filters, on held-out runs of the days that taught and on other days."""
        checked = {
            "same day": (MULTI_GAIT, FIRST_DAY), "another day": (MULTI_GAIT, FIRST_CHECKED_DAY),
            "five days teach": (FIVE_DAYS, FIRST_CHECKED_DAY),
        }  # fmt: skip
        runs = [
            (words, (self.configuration, drive, self.path(name)))
            for words, (name, day) in checked.items()
            for drive in self.plan.tests([day], CHECKED_RUN)
        ]
        found = all_of(honesty, [task for _, task in runs])
        for words in checked:
            some = [one for one, (of, _) in zip(found, runs, strict=True) if of == words]
            self.honest[words] = Honesty(*np.median(np.array(some), axis=0).tolist())
        as_one, days = self.honest["five days teach"].instants_as_one, self.honest["five days teach"].variance_ratio
        tasks: list[tuple[SalpConfiguration, Drive, tuple[Filter, ...]]] = []
        for day in self.days:
            filters = (
                Filter(FORWARD_ONLY, self.path(FORWARD_ONLY, day)), Filter(MULTI_GAIT, self.path(MULTI_GAIT, day)),
                Filter(AS_ONE, self.path(MULTI_GAIT, day), self.honest["same day"].instants_as_one),
                Filter(OURS, self.path(f"{MULTI_GAIT} {OURS}", day)), Filter(PLAIN),
            )  # fmt: skip
            tasks += [(self.configuration, drive, filters) for drive in self.plan.tests([day], TEST_RUN)]
        away = (
            Filter(MULTI_GAIT, self.path(MULTI_GAIT)), Filter(FIVE_DAYS, self.path(FIVE_DAYS)),
            Filter(AS_ONE, self.path(FIVE_DAYS), as_one),
            Filter(WIDER, self.path(FIVE_DAYS), as_one * max(1.0, days)),
            Filter(OURS, self.path(f"{FIVE_DAYS} {OURS}")), Filter(PLAIN),
        )  # fmt: skip
        tasks += [(self.configuration, drive, away) for drive in self.plan.tests(list(self.test_days), TEST_RUN)]
        self.outcomes = dict(zip([drive for _, drive, _ in tasks], all_of(judged_drive, tasks), strict=True))

    def of(self, name: str, home: bool, gait: str = "") -> list[Judged]:
        """Runs of a filter at home (a day that taught) or away, of a gait or all."""
        return [
            found[name]
            for drive, found in self.outcomes.items()
            if (drive.day >= FIRST_DAY) == home and gait in ("", drive.gait)
        ]
