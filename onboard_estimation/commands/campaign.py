"""`onboard-estimation campaign`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.base.errors import EXIT_BAD_INPUT, UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, option
from onboard_estimation.judging.options import CampaignSettings

if TYPE_CHECKING:
    from onboard_estimation.campaigns.campaign import Campaign
    from onboard_estimation.campaigns.summary import Difference, Group
    from onboard_estimation.campaigns.table import Table

EXIT_SOME_FAILED = 1


@output.command(
    "campaign table.yaml",
    "campaign table.yaml --scheduler tcp://10.0.0.5:8786",
    "campaign monday tuesday --robot hopper --estimator bounce --estimator kf1",
    "campaign salp --scenario hardware --gait forward --seeds 20 --duration 60",
    "campaign salp --gait forward --bias imu/link_3.gyro_z=0.01 --json",
)
@arguments.taking_all
@arguments.taking_settings(CampaignSettings())
def campaign(
    what: Annotated[
        list[str],
        argument(
            "TABLE|BAG...|ROBOT",
            "A table of what to run, a YAML file; bags; or a robot to be simulated (a bag of that name: ./NAME).",
            autocompletion=arguments.robots,
        ),
    ],
    folder: Annotated[
        Path | None,
        arguments.into(
            "FOLDER", "Folder of the campaign; `campaigns/...` otherwise. It goes on there.", folder=True, replaced=True
        ),
    ] = None,
    robot: arguments.RobotOption = None,
    estimator: Annotated[list[str], option("NAME", "Estimator; may be repeated; the robot's first otherwise.")] = [],  # noqa: B006 (typer copies it)
    settings: Any = None,
    workers: arguments.WorkersOption = None,
    scheduler: arguments.SchedulerOption = None,
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Run an estimator over many bags or simulated seeds, and judge accuracy and consistency over all of them.

    A table names bags or seeds, estimators, configurations and what-ifs, each run with each; see docs/evaluation.md.
    Runs are shared among this machine's cores, or a cluster's. A campaign that was interrupted goes on where it stopped
    when the same command is given again; a run that fails is a row with its reason (exit code 1; 2 where all failed).
    Writes results.parquet, report.html and a folder for each run.
    """
    from onboard_estimation.campaigns.campaign import run_campaign
    from onboard_estimation.campaigns.report import write_campaign_report
    from onboard_estimation.campaigns.table import cases_of

    asked, name = _table(what, robot, estimator, settings)
    cases = cases_of(asked, options)
    place = folder or _default_folder(name)
    about = {"asked": shlex.join(what), "runs": len(cases), "name": name}
    with arguments.working(workers, scheduler, len(cases), quiet=json) as team:
        output.note(f"{name}: {len(cases)} runs, {team.about}", json)
        with (
            output.share(name, quiet=json, lines=not json) as shown,
            output.gone_on_with(json, f"{place} keeps what is done"),
        ):

            def progress(finished: int, failed: int) -> None:
                failures = f", {failed} failed" if failed else ""
                shown(finished / max(len(cases), 1), f"{finished} of {len(cases)} runs{failures}")

            done = run_campaign(cases, place, team, about, progress)
    groups, found = write_campaign_report(done, name)
    if json:
        output.print_json(summary(done, groups, found))
    else:
        show(done, name, groups, found)
    if done.failures:
        raise typer.Exit(EXIT_BAD_INPUT if len(done.failures) == len(done.rows) else EXIT_SOME_FAILED)


def _table(
    what: Sequence[str], robot: str | None, estimators: Sequence[str], settings: CampaignSettings
) -> tuple[Table, str]:
    """What the words of the command line ask for, and what it is called."""
    from onboard_estimation.campaigns.table import Table, expanded, read_table, simulated_runs

    one = what[0]
    if Path(one).suffix in (".yaml", ".yml"):
        if len(what) > 1:
            raise UserError(f"one table makes a campaign, {len(what)} are given")
        table = read_table(Path(one))
        table = replace(table, robot=robot or table.robot, estimators=tuple(estimators) or table.estimators)
        return table, Path(one).stem
    if len(what) == 1 and one in arguments.robots(""):  # a bag of that name is ./NAME
        seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
        simulated = simulated_runs(one, settings.scenario, settings.variant, seeds, settings.duration_s)
        return Table(one, simulated, tuple(estimators), keep=settings.keep), f"{one}-{simulated[0].scenario}"
    if len(what) == 1 and not any(sign in one for sign in "*?[/") and not Path(one).exists():
        raise UserError(f"{one} is no table, no bag and no robot; robots are {', '.join(arguments.robots(''))}")
    bags, without = expanded(what, Path.cwd())
    faults = tuple(f"no bag is called {pattern}" for pattern in without)
    return Table(robot, tuple(bags), tuple(estimators), keep=settings.keep, faults=faults), robot or "bags"


def _default_folder(name: str) -> Path:
    """The first of `campaigns/NAME`, `campaigns/NAME-2`, ... that is free, or a campaign that can go on."""
    from onboard_estimation.campaigns.campaign import can_go_on

    number, place = 1, Path("campaigns") / name
    while place.exists() and not can_go_on(place):
        number += 1
        place = Path("campaigns") / f"{name}-{number}"
    return place


def summary(done: Campaign, groups: Iterable[Group], found: Iterable[Difference]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "folder": str(done.folder),
        "runs": len(done.rows),
        "failed": [{"name": row["name"], "reason": row["reason"]} for row in done.failures],
        "groups": [
            {
                **group.labels,
                "runs": len(group.rows),
                "failed": group.failed,
                "sources": sorted({row["source"] for row in group.rows}),
                "figures": {
                    one.name: {"median": one.median, "worst": one.largest, "by_run": list(one.values)}
                    for one in group.figures
                },
                "consistency": {part: one._asdict() for part, one in group.consistency.items()},
                "fault": group.fault_sentence(),
            }
            for group in groups
        ],
        "differences": [{**one._asdict(), "verdict": one.verdict} for one in found],
    }


def show(done: Campaign, name: str, groups: Sequence[Group], found: Sequence[Difference]) -> None:
    """Print a campaign for people."""
    from onboard_estimation.campaigns import summary as over_runs
    from onboard_estimation.contract.trained import ReportTable

    sources = "/".join(sorted({row["source"] for group in groups for row in group.rows})) or "nothing done"
    axes = over_runs.differing_axes(groups)
    lines = tuple(cells for group in groups for _, cells in group.lines(axes))
    title = f"{name}: {len(done.rows)} runs, {sources}"
    tables = [ReportTable(title, over_runs.FIGURE_HEADINGS, lines, over_runs.FIGURE_HEADINGS[3:])]
    if found:
        differing = tuple(one.cells() for one in found)
        headings = over_runs.DIFFERENCE_HEADINGS
        tables.append(ReportTable("What differs, recording by recording", headings, differing, headings[3:8]))
    output.print_tables(tables)
    for group in groups:
        if said := group.fault_sentence():
            output.say(f"- {group.name(axes)}: {said}")
    if done.earlier:
        output.say(f"- {done.earlier} of the {len(done.rows)} runs had been done before.")
    for row in done.failures[:5]:
        output.say(f"- failed: {row['name']}: {row['reason']}")
    if len(done.failures) > 5:
        output.say(f"- and {len(done.failures) - 5} more failed; the same command tries them again.")
    output.say(over_runs.FIGURE_CAPTION)
    if found:
        output.say(over_runs.DIFFERENCE_CAPTION)
    output.say(f"\nreport: {done.folder}/report.html")
    output.say(f"table:  {done.folder}/results.parquet")
