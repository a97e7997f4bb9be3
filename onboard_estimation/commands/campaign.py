"""`onboard-estimation campaign`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.evaluate import EstimatorOption
from onboard_estimation.commands.evaluate_options import taking
from onboard_estimation.commands.simulate import RobotArgument, ScenarioOption, choose

EXAMPLES = output.examples(
    "campaign salp --seeds 20 --duration 60",
    "campaign salp --gait forward --bias imu/link_3.gyro_z=0.01 --json",
)


@taking("config", "overrides", "model", "drop", "delay", "bias", "noise", "beacon_s")
def campaign(
    robot: RobotArgument,
    scenario: ScenarioOption = None,
    variant: Annotated[
        list[str],
        typer.Option(
            "--gait", "--variant", metavar="NAME", help="What it does; may be repeated; all variants otherwise."
        ),
    ] = [],  # noqa: B006 (typer copies it)
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Number of seeds.")] = 20,
    first_seed: Annotated[int, typer.Option(metavar="N", min=0, help="First seed.")] = 0,
    duration: Annotated[float, typer.Option(metavar="S", help="Length of each run, s.")] = 60.0,
    estimator: EstimatorOption = None,
    options: Any = None,
    json: output.JsonOption = False,
) -> None:
    """Simulate many seeds and judge accuracy and consistency across them: medians, worst cases, NEES."""
    from onboard_estimation.evaluation.campaign import judge_campaign, simulated_runs
    from onboard_estimation.robots import estimator_name

    first = variant[0] if variant else None
    found, configuration, scenario, chosen = choose(robot, scenario, first, duration, options)
    variants = list(variant) or list(found.scenarios[scenario].variants) or [chosen]
    for name in variants:
        choose(robot, scenario, name, duration, options)
    chosen_estimator = estimator_name(found, estimator)
    numbers = range(first_seed, first_seed + seeds)
    judged: dict[str, Any] = {}
    with output.bar(f"{robot}, {scenario}", seeds * len(variants), quiet=json) as advance:
        for name in variants:
            runs = simulated_runs(
                found,
                configuration,
                scenario,
                name,
                duration,
                numbers,
                chosen_estimator,
                settings=options.settings,
                what_if=options.what_if,
                progress=advance,
            )
            judged[name or scenario] = judge_campaign(runs)
    if json:
        mapping = {name: {part: one.to_mapping() for part, one in parts.items()} for name, parts in judged.items()}
        about = {"robot": robot, "scenario": scenario, "source": "simulated", "duration_s": duration}
        output.print_json({**about, "seeds": list(numbers), "variants": mapping})
        return
    output.console().print(_table(judged, f"{robot}, scenario {scenario}, {seeds} seeds of {duration:g} s, simulated"))
    output.say(
        "NEES/dof: 1 is consistent, more is overconfident. In band: share of the instants at which the NEES averaged "
        "over the seeds lies in its 95 % band. 1 sigma, 3 sigma: share of the errors within (Gaussian: 0.683, 0.997)."
    )


def _table(judged: dict[str, Any], title: str) -> Any:
    numbers = ("RMS median", "RMS worst", "NEES/dof", "in band", "1 sigma", "3 sigma")
    from onboard_estimation.evaluation.presentation import words

    table = output.table(title, "variant", "part", *numbers, right=numbers)
    for variant, parts in judged.items():
        for name, part in parts.items():
            mapping = part.to_mapping()
            unit = f" {part.unit}" if part.unit else ""
            suffix = f"_{part.unit}" if part.unit else ""
            consistency = part.consistency
            rms = ["-", "-"]
            if part.rmse is not None:
                rms = [f"{mapping[f'rmse_{which}{suffix}']:.3g}{unit}" for which in ("median", "worst")]
            table.add_row(
                variant,
                words(name),
                *rms,
                f"{consistency.nees_per_degree_of_freedom:.2f}",
                f"{100.0 * consistency.share_in_band:.0f} %",
                f"{consistency.coverage_1_sigma:.3f}",
                f"{consistency.coverage_3_sigma:.3f}",
            )
    return table
