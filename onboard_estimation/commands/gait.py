"""`onboard-estimation gait`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.completion import RobotArgument
from onboard_estimation.commands.evaluate_options import taking

if TYPE_CHECKING:
    from onboard_estimation.capabilities.gaits import GaitReport

EXAMPLES = output.examples(
    "gait salp turning",
    "gait salp left --distance 0.05 --period 8 --output left.yaml",
    "gait salp forward --config my_salp.yaml --json",
)


@taking()
def gait(
    robot: RobotArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Gait, as for `simulate --gait`.")],
    distance: Annotated[
        float | None, typer.Option(metavar="M", help="Distance of a cycle, m: designs a gait for it.")
    ] = None,
    turn: Annotated[
        float | None, typer.Option(metavar="DEG", help="Turn of a cycle, deg, left is positive: designs a gait for it.")
    ] = None,
    period: Annotated[float | None, typer.Option(metavar="S", help="Length of a cycle, s; 6 otherwise.")] = None,
    options: Any = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Picture (.png) or coefficients (.yaml) to write; `gait_<robot>_<name>.png` otherwise.",
        ),
    ] = None,
    json: output.JsonOption = False,
) -> None:
    """Show a gait and what a cycle of it does, with a picture; design one for another chain, distance or turn.

    A designed gait is the one of least effort (mean square of the rim speeds) that starts straight, moves the body by
    exactly what is asked for, and brings all joints back.
    """
    import numpy as np

    from onboard_estimation.capabilities.gaits import WithGaits
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.robots import find_robot

    if file is not None:
        if file.suffix not in (".png", ".yaml"):
            raise UserError(f"--output {file}: the name must end in .png (picture) or .yaml (coefficients)")
        if file.exists():
            raise UserError(f"{file} exists already; name another file")
    found = WithGaits[Any].of(find_robot(robot))
    configuration = load_configuration(found, options)
    with output.steps(f"gait {name}", quiet=json):
        turn_rad = None if turn is None else float(np.deg2rad(turn))
        report = found.gait(configuration, name, distance, turn_rad, period)
    if file is None and not json:
        file = Path(f"gait_{robot}_{name}.png")
    if file is not None:
        _write(report, file)
    if json:
        output.print_json(report.summary())
        return
    for sentence in report.sentences():
        output.say(sentence)
    output.print_tables(report.tables())
    output.say(f"{file}: {'coefficients' if file and file.suffix == '.yaml' else 'picture'}")


def _write(report: GaitReport, file: Path) -> None:
    import yaml

    if file.suffix == ".png":
        report.write_picture(file)
    else:
        output.put(yaml.safe_dump(report.summary(), sort_keys=False, default_flow_style=None), file)
