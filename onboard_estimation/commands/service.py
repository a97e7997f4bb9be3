"""`onboard-estimation service call`, and `param set`, which calls a service too; shaped as those of `ros2`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onboard_estimation.commands import output

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Call services of running nodes.")
parameters = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Set parameters of running nodes.")

EXIT_REFUSED = 1

TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", min=0.1, help="Give up after S seconds without an answer.")
]
_KINDS = ((bool, "bool"), (int, "integer"), (float, "double"), (str, "string"))


@app.command(
    "call",
    epilog=output.examples(
        "service call /salp/reset",
        "service call /salp/imu/link_2/enable '{data: false}'",
        "service call /salp/reset std_srvs/srv/Trigger",
        "service call /salp/salp_estimator/list_parameters",
        "service call /salp/salp_estimator/get_parameters '{names: [gate_probability]}'",
    ),
)
def call(
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="Full name, e.g. `/salp/reset`.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TYPE] [YAML]", help="Its type, otherwise taken from the graph; fields of the request."
        ),
    ] = None,
    timeout: TimeoutOption = 5.0,
    json: output.JsonOption = False,
) -> int:
    """Call a service and show its response. Exits with 1 where the response says `success: false`.

    A name that is not there is answered with those that are.
    """
    from onboard_estimation.live import by_hand, message_text

    wanted, fields = by_hand.split_words("srv", words or [])
    response = _call(service, wanted, fields, timeout)
    if json:
        output.print_json(message_text.to_plain(response))
    else:
        typer.echo(message_text.to_yaml(response), nl=False)
    return 0 if getattr(response, "success", True) else EXIT_REFUSED


@parameters.command(
    "set",
    epilog=output.examples(
        "param set /salp/salp_estimator gate_probability 0.99", "param set /ethercat_wrench_emulator fault.slave 2"
    ),
)
def set_(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Full name, e.g. `/salp/salp_estimator`.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the parameter, e.g. `gate_probability`.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="In YAML, as in a parameter file.")],
    timeout: TimeoutOption = 5.0,
) -> int:
    """Set a parameter of a running node. Exits with 1 and the reason where the node refuses.

    `topic list -v` shows the nodes; for reading, see the examples of `service call --help`.
    """
    fields = {"parameters": [{"name": name, "value": parameter_value(value)}]}
    response = _call(f"{node}/set_parameters", "rcl_interfaces/srv/SetParameters", fields, timeout)
    result = response.results[0]
    reason = f": {result.reason}" if result.reason else ""
    typer.echo(
        f"Set{'' if result.successful else 'ting'} parameter {'successful' if result.successful else 'failed'}{reason}",
        err=not result.successful,
    )
    return 0 if result.successful else EXIT_REFUSED


def _call(service: str, wanted: str | None, fields: dict[str, Any], timeout_s: float) -> Any:
    from onboard_estimation.live.by_hand import call
    from onboard_estimation.live.session import graph_node

    with graph_node("service_call") as node:
        return call(node, service, wanted, fields, timeout_s)


def parameter_value(text: str) -> dict[str, Any]:
    """Fields of `rcl_interfaces/msg/ParameterValue`: the type is that of the value in YAML."""
    import yaml

    from onboard_estimation.errors import UserError

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    several = isinstance(value, list)
    for number, (kind, word) in enumerate(_KINDS, 1):
        if all(type(one) is kind for one in (value if several else [value])):
            return {"type": number + 5 * several, f"{word}{'_array' * several}_value": value}
    raise UserError(f"{text[:80]}: a parameter holds a boolean, number or text, or a list of one of these")
