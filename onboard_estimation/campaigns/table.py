"""The table of a campaign: a YAML file of what is to be run, each with each.

    robot: salp
    bags: [monday/*.bag, tuesday]
    estimators: [calibrated, no_model]
    configurations:
      as shipped: {}
      quiet gyro: {set: {gyro.noise_stddev_rad_s: 0.001}}
    what_ifs:
      as recorded: {}
      biased: {bias: [imu/link_3.gyro_z=0.01]}

What another filter made is a configuration too, `theirs: {trajectory: /odometry/filtered}`.
`simulated: {scenario: hardware, variants: [forward], seeds: 0-19, duration_s: 60}` in the place of bags simulates. Runs
under `configurations`, `what_ifs` and `options` (for all runs) take every option of `evaluate` by its name without
dashes. Paths are relative to the table's folder.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from onboard_estimation.bags.topics import TRUTH
from onboard_estimation.base.bounded_file import reading
from onboard_estimation.base.errors import UserError, first_of
from onboard_estimation.base.measurement import component_names
from onboard_estimation.base.parameter_file import read_yaml_file
from onboard_estimation.base.series import Series
from onboard_estimation.campaigns.campaign import AXES, FILES, MOST_NAMED, Case
from onboard_estimation.contract.robot import Robot, all_robots, estimator_name, find_robot
from onboard_estimation.contract.simulated import Simulated, chosen_scenario
from onboard_estimation.judging.options import EvaluateOptions, Keep, Option, declared, from_typed, is_part
from onboard_estimation.judging.simulated_bags import SimulatedRun
from onboard_estimation.judging.sources import load_configuration, model_file
from onboard_estimation.judging.what_if import changed_series
from onboard_estimation.report.run_folder import content_hash

MOST_RUNS = 200_000
AS_IT_IS = ""
"""Label along an axis that a campaign has not."""
_KEYS = ("robot", "bags", "simulated", "estimators", "configurations", "what_ifs", "options", "keep")
_SIMULATED_KEYS = ("scenario", "variants", "seeds", "duration_s")
_OPTIONS: dict[str, tuple[str, Option]] = {
    option.flag.removeprefix("--").replace("-", "_"): (name, option) for name, option, _ in declared()
}
_HASHED = ("config", "model", "times")  # a truth may be a bag of many gigabytes
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

Typed = Mapping[str, Any]
"""Options of `evaluate` as they would be typed, by the names of their fields, see `from_typed`."""


@dataclass(frozen=True)
class Table:
    """What is to be run, each with each.

    Attributes
    ----------
    robot
        None: guessed of each bag.
    recordings
        Bags to be evaluated, or what is simulated in their place.
    estimators
        Names; none: the robot's first.
    configurations, what_ifs
        Options, by what they are called.
    options
        For all runs.
    keep
        Of each run, see `write_run`.
    faults
        Of the file that it was read from, which `cases_of` tells with its own.
    """

    robot: str | None = None
    recordings: tuple[Path, ...] | tuple[SimulatedRun, ...] = ()
    estimators: tuple[str, ...] = ()
    configurations: Mapping[str, Typed] = field(default_factory=lambda: {AS_IT_IS: {}})
    what_ifs: Mapping[str, Typed] = field(default_factory=lambda: {AS_IT_IS: {}})
    options: Typed = field(default_factory=dict)
    keep: Keep = "reports"
    faults: tuple[str, ...] = ()


def read_table(path: Path) -> Table:
    """The table of a file.

    Raises
    ------
    UserError
        It cannot be read as YAML. Other faults are kept: `cases_of` tells all at once.
    """
    content, faults = read_yaml_file(path, "YAML")
    reader = _Reader(path.absolute().parent)
    reader.faults += faults
    table = reader.table(content)
    return replace(table, faults=(f"{path}: {'; '.join(reader.faults)}",) if reader.faults else ())


def cases_of(table: Table, options: EvaluateOptions | None = None) -> list[Case]:
    """The runs, in the order in which the table tells of them.

    Parameters
    ----------
    options
        For all runs; what the table says goes before.

    Raises
    ------
    UserError
        There is none or there are too many, options that are none, models that cannot be read, or files that are not
        there: all faults in one line.
    """
    if not (table.recordings or table.faults):
        raise UserError("a campaign needs bags, or something to simulate")
    estimators: Sequence[str | None] = table.estimators or (None,)
    _refuse_many(len(table.recordings) * len(estimators) * len(table.configurations) * len(table.what_ifs))
    faults = dict.fromkeys(table.faults)
    settings: dict[tuple[str, str], EvaluateOptions] = {}
    for chosen in itertools.product(table.configurations, table.what_ifs):
        typed = _merged(table.options, table.configurations[chosen[0]], table.what_ifs[chosen[1]])
        try:
            settings[chosen] = _absolute(replace(from_typed(typed, options), robot=table.robot))
        except UserError as error:
            faults[str(error)] = None
    faults |= {fault: None for fault in _faults(table, settings.values()) if not any(fault in told for told in faults)}
    named = {path: None for one in settings.values() for name in FILES if (path := getattr(one, name)) is not None}
    absent = [str(path) for path in named if not path.exists()]
    if faults or absent:  # the bags of a sound table are looked for where they are read, by all workers
        absent += [str(bag) for bag in table.recordings if isinstance(bag, Path) and not bag.exists()]
        told = [f"not there: {first_of(absent, MOST_NAMED)}"] if absent else []
        raise UserError("; ".join([*faults, *told]))
    names = bag_names([one for one in table.recordings if isinstance(one, Path)])
    hashed = cache(_hashed)
    cases: dict[str, Case] = {}
    every = ((one, estimator, *of) for one in table.recordings for estimator in estimators for of in settings.items())
    for recording, estimator, chosen, options in every:
        labels = dict.fromkeys(AXES, "") | {"robot": table.robot or "", "estimator": estimator or ""}
        labels |= {"configuration": chosen[0], "what_if": chosen[1]}
        if isinstance(recording, SimulatedRun):
            labels |= {"recording": recording.scenario or "", "variant": recording.variant or ""}
            labels["seed"] = str(recording.seed)
        else:
            labels["recording"] = names[recording]
        contents = {name: hashed(path) for name in _HASHED if (path := getattr(options, name)) is not None}
        case = Case(recording, replace(options, estimator=estimator), labels, contents, table.keep)
        if (other := cases.setdefault(case.identity, case)) is not case:
            raise UserError(f"two runs are the same but for what they are called: {other.name} and {case.name}")
    return list(cases.values())


def simulated_runs(
    robot: str, scenario: str | None, variants: Sequence[str], seeds: Sequence[int], duration_s: float
) -> tuple[SimulatedRun, ...]:
    """Every variant with every seed; without variants, all that the scenario has."""
    found = Simulated[Any].of(find_robot(robot))
    name, _ = chosen_scenario(found, scenario, None)
    chosen = tuple(variants) or found.scenarios[name].variants or ("",)
    _refuse_many(len(chosen) * len(seeds))
    kinds = [SimulatedRun(robot, name, variant, duration_s).checked() for variant in chosen]
    return tuple(replace(kind, seed=seed) for kind in kinds for seed in seeds)


def expanded(patterns: Sequence[str], folder: Path) -> tuple[list[Path], list[str]]:
    """Bags that names with wildcards stand for, relative to a folder, in order; and those that nothing fits."""
    bags: dict[Path, None] = {}
    without = []
    for pattern in patterns:
        place = Path(pattern).expanduser()
        if any(sign in pattern for sign in "*?["):
            root = Path(place.anchor) if place.is_absolute() else folder
            found = sorted(root.glob(str(place.relative_to(place.anchor))))
            without += [] if found else [pattern]
        else:
            found = [folder / place]
        bags |= dict.fromkeys(found)
    return list(bags), without


class _Reader:
    """Takes a table apart, and gathers what is wrong with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.faults: list[str] = []

    def table(self, content: Any) -> Table:
        if not isinstance(content, Mapping):
            self.faults.append(f"is no table: it needs keys such as {', '.join(_KEYS[:4])}")
            return Table()
        self._unknown(content, _KEYS, "")
        robot = content.get("robot")
        if robot is not None and not isinstance(robot, str):
            self.faults.append(f"robot is {robot!r}, not a name")
            robot = None
        if ("bags" in content) == ("simulated" in content):
            self.faults.append("it needs either bags or simulated")
        bags, without = expanded(self._texts(content, "bags"), self._folder)
        self.faults += [f"no bag is called {pattern}" for pattern in without]
        keep = content.get("keep", "reports")
        if keep not in get_args(Keep):
            self.faults.append(f"keep is {keep!r}; there are {', '.join(get_args(Keep))}")
        return Table(
            robot,
            self._simulated(robot, content["simulated"]) if "simulated" in content else tuple(bags),
            tuple(self._texts(content, "estimators")),
            self._named(content, "configurations"),
            self._named(content, "what_ifs"),
            self._typed(content.get("options") or {}, "options"),
            keep,
        )

    def _simulated(self, robot: str | None, content: Any) -> tuple[SimulatedRun, ...]:
        if not isinstance(content, Mapping):
            self.faults.append(f"simulated is {content!r}; it needs keys such as {', '.join(_SIMULATED_KEYS)}")
            return ()
        self._unknown(content, _SIMULATED_KEYS, "simulated: ")
        duration_s, scenario = content.get("duration_s", 60.0), content.get("scenario")
        if isinstance(duration_s, bool) or not isinstance(duration_s, (int, float)):
            self.faults.append(f"simulated: duration_s is {duration_s!r}, not a number")
            duration_s = 60.0
        seeds = self._seeds(content.get("seeds", "0-19"))
        if robot is None:
            self.faults.append("simulated: which robot? write robot: NAME")
            return ()
        try:
            return simulated_runs(robot, scenario, self._texts(content, "variants"), seeds, float(duration_s))
        except UserError as error:
            self.faults.append(str(error))
        return ()

    def _seeds(self, content: Any) -> list[int]:
        """`0-19`, `3`, or a list of such."""
        seeds: dict[int, None] = {}
        if content == []:
            self.faults.append("simulated: seeds is empty: write a number or a range, such as 0-19")
        for one in content if isinstance(content, list) else [content]:
            found = _SPAN.fullmatch(str(one).strip())
            if found is None or isinstance(one, bool):
                self.faults.append(f"simulated: seeds {one!r}: write a number or a range, such as 0-19")
                continue
            first, last = int(found[1]), int(found[2] or found[1])
            if last < first or last - first >= MOST_RUNS:
                self.faults.append(f"simulated: seeds {one}: from {first} to {last} is no range")
                continue
            seeds |= dict.fromkeys(range(first, last + 1))
        return list(seeds)

    def _named(self, content: Mapping[Any, Any], key: str) -> dict[str, Typed]:
        given = content.get(key)
        if given is None:
            return {AS_IT_IS: {}}
        if not isinstance(given, Mapping) or not given:
            self.faults.append(f"{key} is {given!r}; it needs a name for each, and its options")
            return {AS_IT_IS: {}}
        return {str(name): self._typed(options or {}, f"{key}: {name}") for name, options in given.items()}

    def _typed(self, content: Any, where: str) -> dict[str, Any]:
        if not isinstance(content, Mapping):
            self.faults.append(f"{where} is {content!r}, not options of evaluate")
            return {}
        self._unknown(content, tuple(_OPTIONS), f"{where}: ")
        typed = {}
        for key, value in content.items():
            if key in _OPTIONS:
                name, option = _OPTIONS[key]
                try:
                    typed[name] = self._value(option, value)
                except (TypeError, ValueError, OverflowError):
                    self.faults.append(f"{where}: {key} is {value!r}, which is nothing for {option.flag}")
        return typed

    def _value(self, option: Option, value: Any) -> Any:
        """As the command line would give it; ValueError or TypeError where it cannot be."""
        if option.typed == list[str]:
            if isinstance(value, Mapping):
                return option.texts(value)
            return [str(one) for one in value] if isinstance(value, list) else [str(value)]
        if isinstance(value, (list, Mapping)) or value is None or isinstance(value, bool) != (option.typed is bool):
            raise TypeError
        if option.typed is bool:
            return value
        if option.typed == Path | None:
            return self._folder / Path(str(value)).expanduser()
        if option.typed in (int, float, float | None):
            number = float(value)
            too_small = option.minimum is not None and number < option.minimum
            if math.isnan(number) or too_small or (option.typed is int and number != int(number)):
                raise ValueError
            return int(number) if option.typed is int else number
        return str(value)

    def _texts(self, content: Mapping[Any, Any], key: str) -> list[str]:
        given = content.get(key, [])
        texts = given if isinstance(given, list) else [given]
        if not all(isinstance(one, str) and one for one in texts) or (key in content and not texts):
            self.faults.append(f"{key} is {given!r}, not a list of names")
            return []
        return texts

    def _unknown(self, content: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
        for key in content:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                self.faults.append(f"{where}{key} is no key here; {hint}")


def _merged(*typed: Typed) -> dict[str, Any]:
    """Options of several places: the later one counts, but lists go together."""
    out: dict[str, Any] = {}
    for one in typed:
        for name, value in one.items():
            out[name] = [*out.get(name, []), *value] if isinstance(value, list) else value
    return out


def _faults(table: Table, settings: Iterable[EvaluateOptions]) -> Iterator[str]:
    """What the robot does not take, or where none is named no installed one, as far as no bag tells it."""
    try:
        robots = list(all_robots()) if table.robot is None else [find_robot(table.robot)]
    except UserError as error:
        yield str(error)
        return
    checks: list[Callable[[Robot], Any]] = [partial(estimator_name, asked=name) for name in table.estimators]
    for options in settings:
        if options.config is None or options.config.exists():
            checks += [partial(check, options=options, table=table) for check in (_check_sensors, _check_model)]
    for check in checks:
        reasons = []
        for robot in robots:
            try:
                check(robot)
                break
            except UserError as error:
                reasons.append(str(error))
        else:
            yield reasons[0] if table.robot else f"no installed robot fits ({first_of(reasons, 1)})"


def _check_sensors(robot: Robot, options: EvaluateOptions, table: Table) -> None:
    """Raise UserError where a robot has no such parameters, or no such sensors for a what-if."""
    stamps, channels = np.zeros(0, dtype=np.int64), robot.channels(_configuration(robot, options, table))
    sensors = [Series(one, stamps, np.zeros((0, len(component_names(one))))) for one in channels]
    drop = tuple(name for name in options.what_if.drop if not is_part(name, TRUTH))
    # What changes of a simulated robot its simulator knows.
    fault = () if any(isinstance(one, SimulatedRun) for one in table.recordings) else options.what_if.fault
    changed_series(sensors, replace(options.what_if, drop=drop, fault=fault))


def _check_model(robot: Robot, options: EvaluateOptions, table: Table) -> None:
    """Raise UserError where a robot's model cannot be read, or does not fit; not where it is not there."""
    configuration = _configuration(robot, options, table)
    if model_file(robot, configuration) is not None and (options.model is None or options.model.exists()):
        for name in [one for one in table.estimators if one in robot.estimators] or robot.estimators[:1]:
            robot.estimator(configuration, name)


def _configuration(robot: Robot, options: EvaluateOptions, table: Table) -> Any:
    return load_configuration(robot, options, next((one for one in table.recordings if isinstance(one, Path)), None))


def _refuse_many(count: int) -> None:
    if count > MOST_RUNS:
        raise UserError(f"{count} runs are too many for one campaign; at most {MOST_RUNS}")


def _absolute(options: EvaluateOptions) -> EvaluateOptions:
    """With paths that mean the same to a worker in another folder."""
    paths = {name: path.absolute() for name in FILES if (path := getattr(options, name)) is not None}
    return replace(options, **paths)


def _hashed(path: Path) -> str:
    with reading(path):
        return content_hash(path)


def bag_names(bags: Sequence[Path]) -> dict[Path, str]:
    """What bags are called: the shortest ends of their paths that tell them apart."""
    names = {bag: bag.name for bag in bags}
    for depth in range(2, 20):
        counts = Counter(names.values())
        twice = [bag for bag, name in names.items() if counts[name] > 1]
        if not twice:
            break
        names |= {bag: "/".join(bag.parts[-depth:]) for bag in twice}
    return names
