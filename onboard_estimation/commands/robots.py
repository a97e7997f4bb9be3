"""`onboard-estimation robots`, `config`, `urdf`, `gait`: what a robot is; `new robot`: one of your own."""

from __future__ import annotations

import keyword
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated, Any

from onboard_estimation.base.atomic_file import check_output, new_folder
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import packaged_text
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, option
from onboard_estimation.judging.options import EvaluateOptions


@output.command("robots", "robots salp --json")
def robots(
    names: arguments.RobotsArgument = None,
    json: JsonOption = False,
) -> None:
    """Show the robots that are installed: what they estimate from which topics, and what can be simulated.

    A robot of your own is found as soon as its package is installed.
    """

    described: list[dict[str, Any]] = []
    faults = []
    for name in names or arguments.robots(""):
        try:
            described.append(_described(name))
        except UserError as error:
            if names:
                raise
            faults.append(f"{name}: {error}")
    if json:
        output.print_json({"robots": described, "faults": faults})
        return
    for one in described:
        output.say(f"{one['name']}: {one['summary']}", style="bold")
        output.say(f"  estimators  {', '.join(one['estimators'])}")
        output.say(f"  topics      {', '.join(one['topics'])}")
        output.say(f"  truth       {', '.join(one['truth_bodies']) or 'none'}")
        for scenario, about in one["scenarios"].items():
            variants = f" ({', '.join(about['variants'])})" if about["variants"] else ""
            output.say(f"  scenario    {scenario}{variants}: {about['summary']}")
    for fault in faults:
        output.say(f"cannot be loaded: {fault}")


def _described(name: str) -> dict[str, Any]:
    from onboard_estimation.contract.simulated import Simulated

    robot, configuration = arguments.configured(name, EvaluateOptions())
    return {
        "name": robot.name,
        "summary": robot.summary,
        "estimators": list(robot.estimators),
        "topics": [channel.topic for channel in robot.channels(configuration)],
        "truth_bodies": list(robot.truth_specification(configuration).bodies),
        "scenarios": {
            name: {"summary": scenario.summary, "variants": list(scenario.variants)}
            for name, scenario in (robot.scenarios if isinstance(robot, Simulated) else {}).items()
        },
    }


@output.command(
    "config init salp",
    "config init salp --output my_salp.yaml",
    "config salp --config my_salp.yaml --set gyro.noise_stddev_rad_s=0.01",
)
@arguments.taking()
def config(
    words: Annotated[
        list[str],
        argument("[init] ROBOT", "A robot, see `onboard-estimation robots`.", autocompletion=arguments.robots),
    ],
    options: Any = None,
    file: Annotated[
        Path | None, arguments.into("FILE", "Write it there; after `init`, `ROBOT.yaml` otherwise.")
    ] = None,
) -> None:
    """Write or print a robot's parameters as a ROS 2 parameter file, each with its meaning and unit.

    `config init ROBOT` writes the file to begin with; nothing is overwritten. `config ROBOT` prints it. With `--config`
    and `--set` it checks a file and shows the result; all faults are listed together.
    """
    from onboard_estimation.base.configuration import to_parameter_file

    begins = len(words) == 2 and words[0] == "init"
    if not begins and len(words) != 1:
        raise UserError(f"write config ROBOT, or config init ROBOT; not config {shlex.join(words)}")
    name = words[-1]
    if begins and file is None:
        file = Path(f"{name}.yaml")
    text = to_parameter_file(arguments.configured(name, options)[1])
    if begins:
        text = _heading(name, file) + text
    if output.put(text, file):
        output.say(f"{file}: {text.count(chr(10))} lines")
        output.say_command("next: ", f"evaluate BAG --config {shlex.quote(str(file))}")


def _heading(name: str, file: Path | None) -> str:
    return (
        f"# Parameters of the robot {name}. Behind each: what it is, its unit in brackets, what is allowed.\n"
        "# What you do not change may be deleted: the defaults stay.\n"
        f"# Check it: {output.PROGRAM} config {name} --config {file}\n"
        f"# Use it:   {output.PROGRAM} evaluate BAG --config {file}\n"
    )


@output.command("urdf salp", "urdf salp --config my_salp.yaml --output my_salp.urdf")
@arguments.taking()
def urdf(
    robot: arguments.RobotArgument,
    options: Any = None,
    file: Annotated[Path | None, arguments.into("FILE", "Write it there instead of to the screen.")] = None,
) -> None:
    """Print a robot's URDF, made from its configuration: for `robot_state_publisher` and RViz's RobotModel."""
    from onboard_estimation.contract.reported import Drawn

    found, configuration = arguments.configured(robot, options, ability=Drawn[Any])
    text = found.urdf(configuration)
    if output.put(text, file):
        output.say(f"{file}: {text.count('<link ')} links, {text.count('<joint ')} joints")


@output.command(
    "gait salp turning",
    "gait salp left --distance 0.05 --period 8 --output left.yaml",
    "gait salp forward --config my_salp.yaml --json",
)
@arguments.taking()
def gait(
    robot: arguments.RobotArgument,
    name: Annotated[str, argument("NAME", "Gait, as for `simulate --gait`.")],
    distance: Annotated[float | None, option("M", "Distance of a cycle, m: designs a gait for it.")] = None,
    turn: Annotated[
        float | None, option("DEG", "Turn of a cycle, deg, left is positive: designs a gait for it.")
    ] = None,
    period: Annotated[float | None, option("S", "Length of a cycle, s; 6 otherwise.")] = None,
    options: Any = None,
    file: Annotated[
        Path | None,
        arguments.into(
            "FILE",
            "Picture (.png) or coefficients (.yaml) to write; `gait_<robot>_<name>.png` otherwise.",
            endings=(".png", ".yaml"),
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show a gait and what a cycle of it does, with a picture; design one for another chain, distance or turn.

    A designed gait is the one of least effort (mean square of the rim speeds) that starts straight, moves the body by
    exactly what is asked for, and brings all joints back.
    """
    import math

    from onboard_estimation.base.parameter_file import to_yaml
    from onboard_estimation.contract.simulated import WithGaits

    if file is None and not json:
        file = Path(f"gait_{robot}_{name}.png")
        check_output(file, replaced=True)
    found, configuration = arguments.configured(robot, options, ability=WithGaits[Any])
    with output.steps(f"gait {name}", quiet=json):
        turn_rad = None if turn is None else math.radians(turn)
        report = found.gait(configuration, name, distance, turn_rad, period)
    if file is not None and file.suffix == ".png":
        report.write_picture(file)
    elif file is not None:
        output.put(to_yaml(report.summary(), default_flow_style=None), file)
    if json:
        output.print_json(report.summary())
        return
    for sentence in report.sentences():
        output.say(sentence)
    output.print_tables(report.tables())
    output.say(f"{file}: {'coefficients' if file and file.suffix == '.yaml' else 'picture'}")


new = output.group("Begin something of your own.")


@new.command(epilog=output.examples("new robot crawler", "new robot crawler --output my_lab/crawler"))
def robot(
    name: Annotated[str, argument("NAME", "What the robot is called: small letters and underscores.")],
    folder: Annotated[
        Path | None, arguments.into("FOLDER", "Folder to write; `./NAME` otherwise.", folder=True)
    ] = None,
) -> None:
    """Write a package for a robot of your own that works from the start, to be changed file by file.

    A cart on a rail, until you change it: parameters, a filter, a simulator, node, launch files, and tests of the
    contract. It builds with pip and with colcon. See docs/your_robot.md.
    """
    place = folder or Path(name)
    written = write_package(name, place)
    output.say(f"{place}: {len(written)} files; the robot is in {name}_estimation/robot.py")
    where = shlex.quote(str(place))
    output.say(f"next: python -m pip install --editable {where}")
    output.say_command("then: ", f"simulate {name} --output bag; {output.program()} evaluate bag")
    output.say(f"      python -m pytest {where}/test")


LONGEST_NAME = 24
"""Of a robot."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FILES = {  # in `templates/robot`, with `$name` and `$Name` in the place of the robot's name
    "README.md": "README.md",
    "package.xml": "package.xml",
    "setup.py": "setup.py",
    "setup.cfg": "setup.cfg",
    "config.yaml": "config/{name}.yaml",
    "robot.py": "{name}_estimation/robot.py",
    "nodes.py": "{name}_estimation/nodes.py",
    "main.py": "{name}_estimation/main.py",
    "live.launch.py": "launch/{name}.launch.py",
    "replay.launch.py": "launch/{name}_replay.launch.py",
    "test_robot.py": "test/test_{name}.py",
}


def write_package(name: str, folder: Path) -> list[str]:
    """Write a package for a robot, which works from the start, into a folder that is not there; the paths of its files.

    Raises
    ------
    UserError
        The name cannot be one, or the folder is there or cannot be written.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or len(name) > LONGEST_NAME:
        raise UserError(
            f"a robot cannot be called {name!r}: small letters, digits and single underscores, a letter first, "
            f"{LONGEST_NAME} characters at most, e.g. crawler"
        )
    if name in arguments.robots(""):
        raise UserError(f"there is a robot {name} already; choose another name")
    for package in (name, f"{name}_estimation"):
        if find_spec(package) is not None:
            raise UserError(f"a package {package} is installed already: choose another name")
    files = {f"{name}_estimation/__init__.py": f'"""The robot {name}."""\n', f"resource/{name}_estimation": ""}
    camel = "".join(part.capitalize() for part in name.split("_"))
    for part, path in _FILES.items():
        template = Template(packaged_text("onboard_estimation", f"templates/robot/{part}.template"))
        files[path.format(name=name)] = template.substitute(name=name, Name=camel)
    with new_folder(folder) as place:
        for path, text in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text, encoding="utf-8")
    return list(files)
