"""`onboard-estimation simulate`, `inspect` and `convert`: bags made, and looked into."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, flag, option
from onboard_estimation.judging.options import path_word

# No Literal: typer takes one from 0.19 on, and 0.12 does.
StorageOption = Annotated[str, option("mcap|sqlite3", "Format of the bag.")]


@output.command(
    "simulate salp --gait backward --duration 30 --seed 3 --output bag",
    "simulate salp --scenario hardware --fault imu/link_2.gyro_z=+0.03@15 --fault wheel_2=*0.7@20..30 --output bag",
    "simulate salp --output bag --storage sqlite3 --set chain.joint_drag=[0.02,0.02]",
)
@arguments.taking("config", "overrides", "fault")
def simulate(
    robot: arguments.RobotArgument,
    bag: Annotated[Path, arguments.into("BAG", "Bag to write, a folder.", folder=True)],
    scenario: Annotated[
        str | None, option("NAME", "Scenario, see `onboard-estimation robots`; the robot's first otherwise.")
    ] = None,
    variant: Annotated[
        str | None,
        option("NAME", "What it does, e.g. its gait; the scenario's first otherwise.", "--gait", "--variant"),
    ] = None,
    duration: Annotated[float, option("S", "Length, s.")] = 60.0,
    seed: Annotated[int, option("N", "Of all noise and disturbances; the same seed gives the same bag.", min=0)] = 0,
    storage: StorageOption = "mcap",
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Simulate a robot with its sensors and the motion capture, and write all of it as a ROS 2 bag."""
    from onboard_estimation.contract.simulated import Simulated, chosen_scenario
    from onboard_estimation.judging.simulated_bags import check_duration, simulate_to_bag

    _check_storage(storage)
    check_duration(duration)
    found, configuration = arguments.configured(robot, options, ability=Simulated[Any])
    scenario, variant = chosen_scenario(found, scenario, variant)
    with output.steps(f"simulating {robot}", quiet=json) as progress:
        faults = options.what_if.faults()
        written = simulate_to_bag(
            found, configuration, scenario, variant, duration, seed, bag, storage, progress, faults
        )
    if json:
        output.print_json(written)
        return
    what = ", ".join(word for word in (scenario, variant, f"seed {seed}", *options.what_if.fault) if word)
    size = f"{written['messages']} messages on {written['topics']} topics"
    output.say(f"{bag}: {size}, {duration:g} s of {robot} ({what}), simulated")
    output.say_command("next: ", f"evaluate {shlex.quote(path_word(bag))}")


@output.command("inspect BAG", "inspect BAG --json")
def inspect(
    bag: Annotated[Path, argument("BAG", "Bag: a rosbag2 folder, an .mcap, .db3 or ROS 1 .bag file.")],
    json: JsonOption = False,
) -> None:
    """Show what is in a bag and what is wrong with it: rates, gaps, stamps, and the truth against the IMUs.

    Of the truth: holes, jumps, marker flips; its clock and frames, the IMUs' lever arms, which way is up, from motion.
    """
    from onboard_estimation.inspection import inspect as inspection
    from onboard_estimation.trajectories.bag_poses import foreign_topics

    with output.steps(f"inspecting {bag}", quiet=json) as progress:
        found = inspection.inspect_with_robots(bag, progress)
    if json:
        output.print_json(found.summary())
        return
    output.console().print(inspection.render(found))
    if found.suggested_options:
        output.say("\nNo topic names of an installed robot; by their types these may be. To try:")
    for line in found.suggested_options:
        output.say_command("  ", f"evaluate {shlex.quote(path_word(bag))} {line}")
    for topic in foreign_topics(found.topics):
        output.say(f"To judge the poses on {printable(topic)}, of whatever filter:")
        output.say_command("  ", f"evaluate {shlex.quote(path_word(bag))} --trajectory {shlex.quote(topic)}")


def _check_storage(storage: str) -> None:
    if storage not in ("mcap", "sqlite3"):
        raise UserError(f"--storage {storage}: must be mcap or sqlite3")


def _show_formats(wanted: bool) -> None:
    if not wanted:
        return
    from inspect import getdoc

    from onboard_estimation.base.installed import load, offered
    from onboard_estimation.contract.converters import GROUP

    for form in offered(GROUP):
        try:
            text = getdoc(load(GROUP, "format", form)) or "not described"
            said = text.partition("\n\nParameters\n")[0].partition("\n\nRaises\n")[0]
        except UserError as error:  # one of another package must not hide the rest
            said = str(error)
        output.say(f"{form}: {' '.join(said.split())}\n")
    raise typer.Exit


@output.command(
    "convert --formats",
    "convert serial_log device.log --output hops",
)
def convert(
    form: Annotated[str, argument("FORMAT", "Format of the file, see `--formats`.", autocompletion=arguments.formats)],
    file: Annotated[Path, argument("FILE", "File to convert, or folder of a run.")],
    bag: Annotated[Path, arguments.into("BAG", "Bag to write, a folder.", folder=True)],
    storage: StorageOption = "mcap",
    as_recorded: Annotated[
        bool,
        flag(
            "Leave what the format would mend (the truth's axes, clocks) as it is, wrong or not.",
            "--as-recorded",
            "--truth-as-recorded",
        ),
    ] = False,
    formats: Annotated[
        bool,
        flag("Show the installed formats and what each becomes.", "--formats", callback=_show_formats, is_eager=True),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Turn a recording of another group, or a device's log, into a ROS 2 bag.

    Formats come from installed packages, yours among them: a function that reads the file, and an entry point of the
    group `onboard_estimation.converters` that names it. What is mended on the way, such as a left-handed truth or a
    second clock, is said, and left with `--as-recorded`.
    """
    from onboard_estimation.judging import simulated_bags

    _check_storage(storage)
    with output.steps(f"converting {file}", quiet=json):
        written = simulated_bags.convert(form, file, bag, storage, as_recorded)
    if json:
        output.print_json(written)
        return
    output.say(f"{bag}: {written['messages']} messages, {written['duration_s']:.1f} s, {written['source']}")
    for note in written["notes"]:
        output.say(f"- {note}")
    output.say_command("next: ", f"{written['next']} {shlex.quote(path_word(bag))}")
