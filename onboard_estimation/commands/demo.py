"""`onboard-estimation demo`, `reproduce`: what the suite does, shown; what its papers print, made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, flag, option

if TYPE_CHECKING:
    from onboard_estimation.contract.result import EvaluationResult
    from onboard_estimation.contract.simulated import Simulated
    from onboard_estimation.report.evaluate import Evaluation

# Measured with all robots, see docs/results.md.
_COST = "About 140 s of processor time the first time, which compiles the models; 320 MB of disk."
_MARK = ".onboard_estimation_demo"
_SECONDS = 60.0
_SET_FOR = "hardware"
_LOST_NEES = 100.0
"""Of a degree of freedom, in the mean: errors ten times as large as stated. Their size means nothing any more."""


@output.command("demo", "demo salp --output my_demo")
def demo(
    robots: arguments.RobotsArgument = None,
    folder: Annotated[
        Path,
        arguments.into(
            "FOLDER", "Where bags and reports go; an earlier demo there is replaced.", folder=True, replaced=True
        ),
    ] = Path("demo_output"),
    seed: Annotated[int, option("N", "Of the simulation.", min=0)] = 1,
) -> None:
    """Simulate each robot, run its estimator on the bag, judge it, and write a report to open in a browser.

    Ends with a table of what was shown: errors against the truth, whether the filter is as sure as it should be, the
    report.
    """
    from onboard_estimation.base.errors import UserError
    from onboard_estimation.contract.robot import all_robots, find_robot
    from onboard_estimation.contract.simulated import Simulated
    from onboard_estimation.contract.trained import ReportTable

    if robots:
        chosen = [Simulated[Any].of(find_robot(name)) for name in robots]
    else:
        chosen = [robot for robot in all_robots() if isinstance(robot, Simulated)]
    if folder.exists() and not (folder / _MARK).exists() and any(folder.iterdir()):
        raise UserError(f"{folder} exists and was not made by a demo; name another --output")
    output.say(f"{', '.join(robot.name for robot in chosen)}: simulated and judged, into {folder}.")
    output.say(f"All robots take: {_COST}\n")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    shown: Lines = []
    for robot in chosen:
        shown += _show(robot, folder, seed)
    headings = ("robot", "simulated run", "part", "RMS error", "1 sigma", "3 sigma", "report")
    output.print_tables([ReportTable("", headings, tuple(shown), headings[3:6])])
    output.say(
        "1 sigma, 3 sigma: errors within so many stated standard deviations; 68 % and 99.7 % where a filter is as"
    )
    output.say(f"sure as it should be. Reports open in any browser, e.g. {folder / shown[0][-1]}")
    program = output.program()
    output.say(f"The papers behind it, with what they print: {program} reproduce landsalp --quick")
    output.say(f"With a bag of yours: {program} inspect BAG, {program} evaluate BAG")


Lines = list[tuple[str, ...]]
"""Of the table: robot, simulated run, part, its RMS error and shares within one and three sigma, report."""


def _show(robot: Simulated[Any], folder: Path, seed: int) -> Lines:
    """The scenario that the robot's noise is set for, else its first, with its first estimator as it is configured."""
    from onboard_estimation.contract.simulated import chosen_scenario
    from onboard_estimation.judging.options import EvaluateOptions
    from onboard_estimation.judging.simulated_bags import simulate_to_bag
    from onboard_estimation.judging.sources import load_configuration
    from onboard_estimation.report.evaluate import evaluate_bag

    scenario, variant = chosen_scenario(robot, _SET_FOR if _SET_FOR in robot.scenarios else None, None)
    bag = folder / f"{robot.name}_{scenario}"
    options = EvaluateOptions(robot=robot.name)
    with _steps(f"{robot.name}: simulating {_SECONDS:g} s") as progress:
        configuration = load_configuration(robot, options)
        simulate_to_bag(robot, configuration, scenario, variant, _SECONDS, seed, bag, progress=progress)
    with _steps(f"{robot.name}: evaluating") as progress:
        evaluation = evaluate_bag(bag, options, folder / robot.name, progress=progress)
    _say(robot.name, f"{evaluation.result.verdict}.")
    return _lines(evaluation, _words(f"{_SECONDS:g} s", scenario, variant))


def _words(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _say(who: str, sentence: str) -> None:
    output.say(f"{who}: {sentence}\n", style="bold")


@contextmanager
def _steps(what: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Progress that counts the kernels that are compiled, too: in the first run they take most of the time."""
    from onboard_estimation.base.kernel_cache import compilations

    count = 0

    def compiling(kernel: str) -> None:
        nonlocal count
        count += 1
        progress(f"compiling its models, {count} kernels so far, kept for the next time")

    with output.steps(what, quiet, lines=True) as progress, compilations(compiling):
        yield progress


def _lines(evaluation: Evaluation, run: str) -> Lines:
    from onboard_estimation.base.presentation import percent, quantity

    result = evaluation.result
    report = f"{evaluation.folder.name}/report.html" if evaluation.folder else ""
    if _is_lost(result):
        return [(result.robot, run, "", "lost", "-", "-", report)]
    parts = [name for name, part in result.parts.items() if part.matched.any()]
    out: Lines = []
    for name in parts:
        shares = (percent(result.metrics[name][f"coverage_{count}_sigma"]) for count in (1, 3))
        first = ("", "", "") if out else (result.robot, run, report)
        part = result.parts[name]
        errors = part.rms(part.judged(result.time_s, result.settle_s))
        words = ", ".join(quantity(rms, unit) for unit, rms in errors.items())
        out.append((*first[:2], name.replace("_", " "), words, *shares, first[2]))
    return out


def _is_lost(result: EvaluationResult) -> bool:
    found = (result.metrics.get(name, {}).get("mean_nees_per_degree_of_freedom", 0.0) for name in result.parts)
    return any(nees > _LOST_NEES for nees in found)


def _known_papers(incomplete: str) -> list[str]:
    from onboard_estimation.contract.reproduced import papers

    return [name for name in papers() if name.startswith(incomplete)]


@output.command(
    "reproduce landsalp --quick",
    "reproduce softrobot --output tables",
    "reproduce landsalp monday/*.bag --json",
)
@arguments.taking("config", "overrides", "topics", "namespace")
def reproduce(
    paper: Annotated[
        str, argument("PAPER", "`landsalp`, `multilink`, `hopping` or `softrobot`.", autocompletion=_known_papers)
    ],
    bags: Annotated[
        list[Path] | None,
        argument("BAG...", "Recordings of yours, of the paper's robot, with motion capture; all is simulated without."),
    ] = None,
    quick: Annotated[bool, flag("Fewer runs: within a minute or two, else within half an hour.", "--quick")] = False,
    folder: Annotated[
        Path | None, arguments.into("FOLDER", "Folder to write; `runs/reproduce-<paper>` otherwise.", folder=True)
    ] = None,
    workers: arguments.WorkersOption = None,
    scheduler: arguments.SchedulerOption = None,
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Make a paper's tables and figures again: what it prints, and beside it what comes out here.

    The paper's own filters run to the letter, and the suite's beside them. Each table and figure is told to be
    reproduced, and within what, or why not. Writes a page to open in a browser, the pictures, and all figures as JSON.
    """
    from onboard_estimation.base.workers import sharing
    from onboard_estimation.campaigns.training import reproduced
    from onboard_estimation.contract.trained import ReportTable

    with (
        arguments.working(workers, scheduler, 2, quiet=json) as team,
        sharing(team),
        _steps(f"reproducing {paper}", quiet=json) as progress,
    ):
        items, figures, page = reproduced(paper, bags or [], options, quick, folder, output.PROGRAM, progress)
    if json:
        output.print_json(figures)
        return
    for one in items:
        output.say(f"\n{one.place}, {one.title}: {one.outcome}", style="bold")
        output.say(f"{one.because}\n")
        output.print_tables(one.tables)
    rows = tuple((one.place, one.title, one.outcome) for one in items)
    output.print_tables([ReportTable("What came out", ("place", "what it shows", "outcome"), rows)])
    output.say(f"with its pictures: {page}")
