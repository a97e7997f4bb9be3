"""`onboard-estimation evaluate`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from onboard_estimation.commands import completion, output

EXAMPLES = output.examples(
    "evaluate BAG",
    "evaluate BAG --topic imu/link_2/data_raw=/xsens_2/imu --output run",
    "evaluate BAG --model salp.npz --beacon 30",
    "evaluate BAG --model salp.npz --smooth",
    "evaluate BAG --estimator kf1 --estimator kf3 --estimator ba1",
    "evaluate BAG --bias imu/link_3.gyro_z=0.01 --delay imu=20ms --json",
)
_WHAT_IF = "What if: changes to the recording before it is replayed; may be repeated"
_JUDGED = "How it is judged"
_WRITTEN = "What is written"

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="ROS 2 parameter file, as `onboard-estimation config ROBOT` prints it."
    ),
]
SetOption = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Set one parameter; may be repeated. E.g. `gyro.axis=-z`."),
]
DropOption = Annotated[
    list[str],
    typer.Option(
        "--drop",
        metavar="SENSOR",
        rich_help_panel=_WHAT_IF,
        help="Leave a sensor out, e.g. `imu/link_2`; `imu`: all IMUs.",
    ),
]
DelayOption = Annotated[
    list[str],
    typer.Option(
        "--delay",
        metavar="SENSOR=TIME",
        rich_help_panel=_WHAT_IF,
        help="Stamps that much too late, e.g. `imu=20ms`; s, ms or us.",
    ),
]
BiasOption = Annotated[
    list[str],
    typer.Option(
        "--bias",
        metavar="SENSOR.COMPONENT=VALUE",
        rich_help_panel=_WHAT_IF,
        help="A constant added, SI units, e.g. `imu/link_1.gyro_z=0.01` (rad/s).",
    ),
]
NoiseOption = Annotated[
    list[str],
    typer.Option(
        "--noise",
        metavar="SENSOR.COMPONENT=STDDEV",
        rich_help_panel=_WHAT_IF,
        help="White noise added, SI units, e.g. `imu.gyro=0.01` (rad/s a sample, all axes).",
    ),
]


# Of commands that read several bags at once.
BagTopicOption = Annotated[
    list[str],
    typer.Option(metavar="NAME=TOPIC", help="Where the bags call a topic otherwise; may be repeated."),
]
BagNamespaceOption = Annotated[str | None, typer.Option(metavar="NAME", help="Namespace of the robot's topics.")]
BagMirrorOption = Annotated[
    str | None,
    typer.Option(metavar="AXES", help="Turn round axes of the truth: `y` for a left-handed one, `yz` for z down."),
]
EstimatorOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Estimator; the robot's first otherwise, see `onboard-estimation robots`."),
]


ModelOption = Annotated[
    Path | None,
    typer.Option("--model", metavar="FILE", help="Trained model, as `onboard-estimation train` writes it."),
]
BeaconOption = Annotated[
    float | None,
    typer.Option(
        "--beacon",
        metavar="S",
        rich_help_panel=_JUDGED,
        help="Give the filter the pose of the motion capture every so many seconds, as a beacon would.",
    ),
]


def evaluate(
    bag: Annotated[
        Path, typer.Argument(metavar="BAG", help="Bag: a rosbag2 folder, an .mcap, .db3 or ROS 1 .bag file.")
    ],
    robot: Annotated[
        str | None,
        typer.Option(
            metavar="ROBOT",
            help="Robot, see `onboard-estimation robots`; otherwise guessed from the topics.",
            autocompletion=completion.robots,
        ),
    ] = None,
    estimator: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Estimator, see `onboard-estimation robots`; the robot's first otherwise. May be repeated: each is "
            "judged on the bag, and they are compared.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    config: ConfigOption = None,
    set_: SetOption = [],  # noqa: B006
    model: ModelOption = None,
    topic: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=TOPIC",
            help="Where the bag calls a topic otherwise; may be repeated. E.g. `imu/link_1/data_raw=/my/imu`.",
        ),
    ] = [],  # noqa: B006
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Namespace of the robot's topics, where several robots are in the bag."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Run folder to write; `runs/<bag>-<robot>` otherwise. Of several estimators, one folder each in it.",
        ),
    ] = None,
    drop: DropOption = [],  # noqa: B006
    delay: DelayOption = [],  # noqa: B006
    bias: BiasOption = [],  # noqa: B006
    noise: NoiseOption = [],  # noqa: B006
    mirror_truth: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            rich_help_panel=_JUDGED,
            help="Turn round axes of the truth: `y` for a left-handed one, `yz` for z down.",
        ),
    ] = None,
    truth_gap: Annotated[
        float, typer.Option(metavar="S", rich_help_panel=_JUDGED, help="Interpolate the truth over gaps up to this, s.")
    ] = 0.1,
    initial: Annotated[
        str,
        typer.Option(
            metavar="drawn|exact",
            rich_help_panel=_JUDGED,
            help="Where the initial state comes from the truth: `drawn` adds an error as large as the filter "
            "believes, `exact` does not.",
        ),
    ] = "drawn",
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, rich_help_panel=_JUDGED, help="Of that error, and of `--noise`.")
    ] = 0,
    settle: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            rich_help_panel=_JUDGED,
            help="Leave this much at the start out of the figures, s; the robot's own otherwise.",
        ),
    ] = None,
    lag: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            rich_help_panel=_JUDGED,
            help="How late a message may come and still be used, s, below 10; the configuration's otherwise.",
        ),
    ] = None,
    beacon: BeaconOption = None,
    smooth: Annotated[
        bool,
        typer.Option(
            "--smooth",
            rich_help_panel=_JUDGED,
            help="Judge the robot's smoother, which knows the whole recording at every instant; not every robot has "
            "one.",
        ),
    ] = False,
    message_by_message: Annotated[
        bool,
        typer.Option(
            "--message-by-message",
            rich_help_panel=_JUDGED,
            help="Filter measurement by measurement, as live, where the robot could filter the recording at once. The "
            "figures are the same.",
        ),
    ] = False,
    estimates_rate: Annotated[
        str | None,
        typer.Option(
            metavar="HZ|all",
            rich_help_panel=_WRITTEN,
            help="Largest rate of the estimates that are written as a bag; very many are thinned otherwise. Figures "
            "are always made of all.",
        ),
    ] = None,
    json: output.JsonOption = False,
) -> None:
    """Replay a bag through a robot's estimator and judge the estimates against the ground truth.

    Writes a run folder: metrics.json, report.html, plots, the estimates as a bag, and what is needed to repeat it.
    Robot and topics are guessed from the bag where they are not given. With several estimators, the bag is read once.
    """
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.evaluate import EvaluateOptions, evaluate_bag, evaluate_estimators
    from onboard_estimation.evaluation.judge import JudgeSettings
    from onboard_estimation.evaluation.what_if import WhatIf

    if initial not in ("drawn", "exact"):
        raise UserError(f"--initial {initial}: must be drawn or exact")
    if mirror_truth is not None and not (
        0 < len(set(mirror_truth)) == len(mirror_truth) and set(mirror_truth) <= set("xyz")
    ):
        raise UserError(f"--mirror-truth {mirror_truth}: must be one or more of x, y, z, e.g. y")
    for name, value in (("--truth-gap", truth_gap), ("--settle", settle), ("--lag", lag)):
        if value is not None and not 0.0 <= value < float("inf"):
            raise UserError(f"{name} {value}: must be a time of 0 s or more")
    if twice := [name for name in dict.fromkeys(estimator) if estimator.count(name) > 1]:
        raise UserError(f"--estimator {twice[0]} is given {estimator.count(twice[0])} times")
    options = EvaluateOptions(
        robot=robot,
        estimator=estimator[0] if estimator else None,
        config=config,
        overrides=output.parse_overrides(set_),
        topics=output.parse_pairs(topic, "--topic", "NAME=TOPIC"),
        namespace=namespace,
        mirror_truth=mirror_truth,
        model=model,
        what_if=WhatIf(tuple(drop), tuple(delay), tuple(bias), tuple(noise), seed),
        settings=JudgeSettings(
            cast(Literal["drawn", "exact"], initial),
            seed,
            truth_gap,
            settle,
            lag,
            beacon,
            smooth,
            bulk=not message_by_message,
        ),
        estimates_rate_hz=parse_rate(estimates_rate),
    )
    if len(estimator) < 2:
        with output.steps(f"evaluating {bag}", quiet=json) as progress:
            evaluation = evaluate_bag(bag, options, run, progress=progress)
        if json:
            output.print_json(summary(evaluation))
        else:
            show(evaluation)
        return
    with output.steps(f"evaluating {bag}", quiet=json) as progress:
        # The record of each is let go before the next is filtered.
        judged = [
            (evaluation.folder, summary(evaluation))
            for evaluation in evaluate_estimators(bag, options, estimator, run, progress)
        ]
    if json:
        output.print_json([one for _, one in judged])
    else:
        show_several([one for _, one in judged], [folder for folder, _ in judged if folder is not None])


def parse_rate(text: str | None) -> float | None:
    """Rate in Hz, infinity for `all`; UserError where it is neither a rate nor `all`."""
    from onboard_estimation.errors import UserError

    if text is None or text == "all":
        return None if text is None else math.inf
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0.0 < rate < math.inf:
        raise UserError(f"--estimates-rate {text}: must be a rate in Hz above 0, or all")
    return rate


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
    title = f"{result.robot} ({result.estimator}) on {result.bag}, {result.source} data"
    output.say(title, style="bold")
    output.console().print(output.metrics_table(result.metrics, ""))
    for note in result.notes:
        output.say(f"- {note}")
    output.say(f"\n{result.verdict[:1].upper()}{result.verdict[1:]}.", style="bold")
    output.say(f"\nreport: {evaluation.folder}/report.html")
    output.say(f"again:  {output.program()}{result.command.removeprefix(output.PROGRAM)}")


def show_several(summaries: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    """Print runs of several estimators on one bag for people, side by side."""
    from onboard_estimation.evaluation.comparison import compare_runs

    compared = compare_runs(folders)
    output.console().print(compared.table())
    for note in compared.notes:
        output.say(f"- {note}")
    for one in summaries:
        output.say(f"\n{one['estimator']}: {one['verdict']}.", style="bold")
        output.say(f"report: {one['folder']}/report.html")
