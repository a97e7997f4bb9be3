"""`onboard-estimation robots`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onboard_estimation.commands import completion, output

if TYPE_CHECKING:
    from onboard_estimation.robots import Robot

EXAMPLES = output.examples("robots", "robots salp --json")


def robots(
    names: completion.RobotsArgument = None,
    json: output.JsonOption = False,
) -> None:
    """Show the robots that are installed: what they estimate from which topics, and what can be simulated.

    A robot of your own is found as soon as its package is installed.
    """
    from onboard_estimation.errors import UserError
    from onboard_estimation.robots import find_robot, robot_names

    described: list[dict[str, Any]] = []
    faults = []
    for name in names or robot_names():
        try:
            described.append(_described(find_robot(name)))
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


def _described(robot: Robot[Any]) -> dict[str, Any]:
    from onboard_estimation.capabilities.simulated import Simulated
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.evaluation.options import EvaluateOptions

    configuration = load_configuration(robot, EvaluateOptions())
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
