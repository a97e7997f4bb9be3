"""`onboard-estimation doctor`, `budget`, `warmup`: what this computer has, and whether it is fast enough."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, option

if TYPE_CHECKING:
    from onboard_estimation.realtime.budget import Job
    from onboard_estimation.realtime.verdict import Figures


EXIT_FAULT = 1
"""Something is at fault, or too slow."""
_STYLES = {
    "ok": "green", "note": "yellow", "fault": "bold red", "fits": "green", "tight": "yellow", "too slow": "bold red"
}  # fmt: skip
_LEAST_S, _MOST_S = 2.0, 600.0
_BUSY_LOAD = 0.5
"""Load average for each core; half a minute after a program has ended, half of it still stands there."""


@output.command("doctor", "doctor --json")
def doctor(json: JsonOption = False) -> int:
    """Check what the live graph needs: ROS 2, DDS, network, clocks, ports, cache, capabilities.

    Two processes exchange a message, so that what is said of the network is tried. Each finding is `ok`, a `note`, or
    a `fault`, with its repair. Exits with 1 where there is a fault.
    """
    from rich.text import Text

    from onboard_estimation.realtime import doctor as looks

    findings = []
    with output.steps("checking", quiet=json) as progress:
        for finding in looks.findings():
            findings.append(finding)
            progress(finding.subject)
    faults = sum(finding.state == "fault" for finding in findings)
    if json:
        output.print_json({"faults": faults, "findings": [asdict(finding) for finding in findings]})
        return EXIT_FAULT if faults else 0
    table = output.table("", "what", "", "found", "repair")
    for finding in findings:
        style = _STYLES[finding.state]
        table.add_row(finding.subject, Text(finding.state, style), finding.text, finding.repair)
    output.console().print(table)
    notes = sum(finding.state == "note" for finding in findings)
    output.say(f"{faults or 'no'} fault{'' if faults == 1 else 's'}, {notes} note{'' if notes == 1 else 's'}")
    return EXIT_FAULT if faults else 0


@output.command(
    "budget",
    "budget hopper --seconds 30",
    "budget softrobot --estimator marginalized_pf --set learning.particles=200",
    "budget hopper --set output_rate_hz=0",
    "budget --json > budget.json",
)
@arguments.taking()
def budget(
    names: arguments.RobotsArgument = None,
    seconds: Annotated[float, option("S", "Length of each measurement, s; warming up is not counted.")] = 10.0,
    estimator: arguments.EstimatorOption = None,
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Measure what robots' estimators take of this computer, and whether it is fast enough.

    Each robot's estimator node is started as `launch` starts it, in a ROS domain of its own, and fed in real time with
    what the simulated robot's sensors read, by this process, which listens to `odometry` or `state` as well. What the
    node takes of a core, what comes out, how late, what is lost and how much memory it holds is measured, and said in a
    sentence: whether it fits, and what to lower if not.

    `--set` takes parameters of the robot and of its node (`output_rate_hz`, `publish_tf`, ...). Nothing of it
    disturbs a robot that runs, but its figures count on a quiet machine only; with them the machine is printed, for a
    report or a paper. Exits with 1 where a robot is too slow. Linux only.
    """
    from onboard_estimation.live.signals import heed_interrupts
    from onboard_estimation.realtime.budget import measure
    from onboard_estimation.realtime.machine_facts import machine
    from onboard_estimation.realtime.machine_facts import state as machine_state
    from onboard_estimation.realtime.verdict import RULE, state

    jobs = _jobs(names or [], estimator, options, seconds)
    facts = machine()
    interrupts = heed_interrupts()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, interrupts)  # as at Ctrl-C: the node ends too
    found: list[Figures] = []
    with output.steps("budget", quiet=json, lines=True) as progress:
        for number, job in enumerate(jobs, 1):
            place = f"{job.robot.name} ({job.estimator}), {number} of {len(jobs)}"

            def step(what: str, place: str = place) -> None:
                progress(f"{place}: {what}")

            found.append(measure(job, step))
    facts["state_after"] = machine_state()
    if json:
        output.print_json({"machine": facts, "rule": RULE, "robots": [_described(figures) for figures in found]})
    else:
        _show(facts, found)
        output.say(f"{RULE[:1].upper()}{RULE[1:]}.", style="dim")
    if any(state(figures) == "too slow" for figures in found):
        raise typer.Exit(EXIT_FAULT)


def _jobs(names: Sequence[str], estimator: str | None, options: Any, seconds: float) -> list[Job]:
    """One for each robot, all that was asked for checked before the first of them runs."""
    from onboard_estimation.base import ros2
    from onboard_estimation.base.configuration import describe
    from onboard_estimation.contract.robot import estimator_name
    from onboard_estimation.judging.sources import load_configuration
    from onboard_estimation.realtime.budget import Job, measurable

    if not _LEAST_S <= seconds <= _MOST_S:
        raise UserError(f"--seconds {seconds:g}: must be from {_LEAST_S:g} to {_MOST_S:g}")
    robots = measurable(list(dict.fromkeys(names)))
    if len(robots) != 1 and (estimator or options.config):
        raise UserError("--estimator and --config are of one robot: name it")
    ros2.require()
    from onboard_estimation.ros.estimator_host import EstimatorHost

    node_names = {row.name for row in describe(EstimatorHost)}
    host = {name: value for name, value in options.overrides.items() if name in node_names}
    options = replace(options, overrides={k: value for k, value in options.overrides.items() if k not in host})
    return [
        Job(robot, estimator_name(robot, estimator), load_configuration(robot, options), host, seconds)
        for robot in robots
    ]


def _described(figures: Figures) -> dict[str, Any]:
    """For `--json`."""
    from onboard_estimation.realtime import verdict

    late = figures.latency_ms
    return {
        **asdict(figures),
        "latency_ms": None if late is None else dict(zip(("median", "p99", "worst"), late, strict=True)),
        "latency_limit_ms": figures.latency_limit_ms,
        "readings_per_s": figures.readings_per_s,
        "headroom": figures.headroom,
        "verdict": verdict.state(figures),
        "sentence": verdict.sentence(figures),
        "notes": verdict.notes(figures),
    }


def _show(facts: Mapping[str, Any], found: Sequence[Figures]) -> None:
    """The computer and whether it was quiet, the table, then a sentence for each robot."""
    from onboard_estimation.contract.trained import ReportTable
    from onboard_estimation.realtime import verdict

    before = facts["state"]
    said = {name: value for name, value in facts.items() if name not in ("versions", "state", "state_after")}
    said |= facts["versions"] | before | {f"{name} after": value for name, value in facts["state_after"].items()}
    output.say(f"{said.pop('processor')}, {said.pop('cores')} cores, {said.pop('memory_gb')} GB", style="bold")
    output.say(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in said.items() if value is not None))
    if before.get("load_average", 0.0) > _BUSY_LOAD * facts["cores"]:
        output.say("This computer was busy before: figures count only on a quiet machine.", style="yellow")
    rows = []
    for one in found:
        late = ["-"] * 3 if one.latency_ms is None else [f"{late_ms:.1f}" for late_ms in one.latency_ms]
        made = "-" if one.estimates_per_s is None else f"{one.estimates_per_s:.0f}"
        rates = (f"{one.readings_per_s:.0f}", made, f"{one.outputs_per_s:.0f}")
        rest = (f"{one.lost}", f"{one.memory_mb:.0f}", f"{100.0 * one.sender_share:.0f}")
        rows.append((f"{one.robot} {one.estimator}", f"{100.0 * one.share:.1f}", *rates, *late, *rest))
    right = ("core %", "in/s", "est/s", "out/s", "median", "99 %", "worst", "lost", "MB", "sender %")
    output.print_tables([ReportTable("", ("robot, estimator", *right), tuple(rows), right)])
    output.say(
        "core %: of one core, by the node alone; the sender's stands last. in, est, out: readings, estimates made, and "
        "those sent out. median, 99 %, worst: ms from sending a reading to the arrival of its estimate. MB: resident.",
        style="dim",
    )
    for figures in found:
        output.say("\n" + verdict.sentence(figures), style=_STYLES[verdict.state(figures)])
        for note in verdict.notes(figures):
            output.say(f"- {note}")
    output.say("")


@output.command("warmup", "warmup salp")
def warmup(
    names: arguments.RobotsArgument = None,
    json: JsonOption = False,
) -> None:
    """Compile all kernels of the robots, so that nodes start in a second. To be run once after each installation.

    The machine code is kept in a folder of yours that is named by the sources: a changed source compiles anew. Set
    `ONBOARD_ESTIMATION_CACHE_DIR` to choose another folder.
    """
    from onboard_estimation.realtime.warmup import warm_up

    with output.steps("warming up", quiet=json) as progress:
        warmth = warm_up(names or [], progress)
    if json:
        output.print_json({**asdict(warmth), "folder": str(warmth.folder)})
        return
    robots = ", ".join(warmth.robots) or "no robot"
    if warmth.compiled:
        output.say(f"{robots}: {len(warmth.compiled)} kernels compiled in {warmth.duration_s:.1f} s")
    else:
        output.say(f"{robots}: nothing to do, all kernels are compiled already ({warmth.duration_s:.1f} s to look)")
    output.say(f"kept in {warmth.folder}" if warmth.kept else f"not kept: {warmth.folder} goes with this process")
    for note in warmth.notes:
        output.say(f"- {note}")
