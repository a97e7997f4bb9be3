"""`onboard-estimation evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from onboard_estimation.commands import output

RobotOption = Annotated[str | None, typer.Option("--robot", help="Robot; guessed from the bag's topics otherwise.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="ROS 2 parameter file; see `onboard-estimation config ROBOT`.")
]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="Set one parameter, e.g. `--set gyro.axis=-z`.")
]
DropOption = Annotated[
    list[str], typer.Option("--drop", metavar="SENSOR", help="What if: leave a sensor out, e.g. `--drop imu/link_2`.")
]
DelayOption = Annotated[
    list[str],
    typer.Option("--delay", metavar="SENSOR=TIME", help="What if: its stamps were late, e.g. `--delay imu=20ms`."),
]
BiasOption = Annotated[
    list[str],
    typer.Option(
        "--bias",
        metavar="SENSOR.COMPONENT=VALUE",
        help="What if: a bias, e.g. `--bias imu/link_1.gyro_z=0.01` (rad/s).",
    ),
]
NoiseOption = Annotated[
    list[str],
    typer.Option(
        "--noise", metavar="SENSOR.COMPONENT=STDDEV", help="What if: more noise, e.g. `--noise imu.gyro=0.01` (rad/s)."
    ),
]


def evaluate(
    bag: Annotated[Path, typer.Argument(help="Bag: a rosbag2 folder, an .mcap, .db3 or ROS 1 .bag file.")],
    robot: RobotOption = None,
    estimator: Annotated[str | None, typer.Option(help="Estimator; the robot's first otherwise.")] = None,
    config: ConfigOption = None,
    set_: SetOption = [],  # noqa: B006 (typer copies it)
    topic: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=TOPIC", help="Where a topic is called otherwise: `--topic imu/link_1/data_raw=/my/imu`."
        ),
    ] = [],  # noqa: B006
    run: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run folder; `runs/<bag>-<robot>` otherwise.")
    ] = None,
    drop: DropOption = [],  # noqa: B006
    delay: DelayOption = [],  # noqa: B006
    bias: BiasOption = [],  # noqa: B006
    noise: NoiseOption = [],  # noqa: B006
    mirror_truth: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Turn round one axis of a left-handed truth: x, y or z.")
    ] = None,
    truth_gap: Annotated[float, typer.Option(help="Interpolate the truth over gaps up to this, s.")] = 0.1,
    initial: Annotated[
        str,
        typer.Option(
            help="Where the initial state comes from the truth: `drawn` adds an error as large as the filter "
            "believes, `exact` does not."
        ),
    ] = "drawn",
    seed: Annotated[int, typer.Option(help="Of that error, and of `--noise`.")] = 0,
    settle: Annotated[
        float | None,
        typer.Option(help="Leave this much at the start out of the metrics, s; the robot's own otherwise."),
    ] = None,
    lag: Annotated[
        float | None, typer.Option(help="How late a message may come, s; the configuration's otherwise.")
    ] = None,
    json: output.JsonOption = False,
) -> None:
    """Replay a bag through a robot's estimator and judge the estimates against the ground truth.

    Writes a run folder: metrics.json, report.html, plots, the estimates as a bag, and what is needed to repeat it.
    Robot and topics are guessed from the bag where they are not given.
    """
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.evaluate import EvaluateOptions, evaluate_bag
    from onboard_estimation.evaluation.judge import JudgeSettings
    from onboard_estimation.evaluation.what_if import WhatIf

    if initial not in ("drawn", "exact"):
        raise UserError(f"--initial {initial}: must be drawn or exact")
    if mirror_truth not in (None, "x", "y", "z"):
        raise UserError(f"--mirror-truth {mirror_truth}: must be x, y or z")
    for name, value in (("--truth-gap", truth_gap), ("--settle", settle), ("--lag", lag)):
        if value is not None and not 0.0 <= value < float("inf"):
            raise UserError(f"{name} {value}: must be a time of 0 s or more")
    options = EvaluateOptions(
        robot=robot,
        estimator=estimator,
        config=config,
        overrides=output.parse_overrides(set_),
        topics=output.parse_pairs(topic, "--topic"),
        mirror_truth=mirror_truth,
        what_if=WhatIf(tuple(drop), tuple(delay), tuple(bias), tuple(noise), seed),
        settings=JudgeSettings(cast(Literal["drawn", "exact"], initial), seed, truth_gap, settle, lag),
    )
    with output.steps(f"evaluating {bag}", quiet=json) as progress:
        evaluation = evaluate_bag(bag, options, run, progress=progress)
    if json:
        output.print_json(summary(evaluation))
    else:
        show(evaluation)


def summary(evaluation: Any) -> dict[str, Any]:
    """What `--json` prints."""
    result = evaluation.result
    return {
        "verdict": result.verdict,
        "robot": result.robot,
        "estimator": result.estimator,
        "source": result.source,
        "metrics": result.metrics,
        "sensors": result.sensors,
        "notes": list(result.notes),
        "command": result.command,
        "folder": str(evaluation.folder),
    }


def show(evaluation: Any) -> None:
    """Print a judged run for people."""
    result = evaluation.result
    console = output.console()
    console.print(
        f"[bold]{result.robot}[/bold] ({result.estimator}) on {result.bag}, {result.source} data", markup=True
    )
    console.print(output.metrics_table(result.metrics, ""))
    for note in result.notes:
        console.print(f"- {note}", markup=False)
    console.print(f"\n{result.verdict}", style="bold", markup=False)
    console.print(f"\nreport: {evaluation.folder}/report.html", markup=False)
    console.print(f"again:  {result.command}", markup=False, soft_wrap=True)
