"""`onboard-estimation param`: list, get, set, dump and describe, shaped as those of `ros2`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.node import NodeArgument

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Read and change parameters of running nodes.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the parameter, e.g. `gate_probability`.")]

EXIT_REFUSED = 1


@app.command("list", epilog=output.examples("param list", "param list /salp/estimator"))
def list_(
    name: Annotated[str | None, typer.Argument(metavar="NODE", help="Node; all otherwise.")] = None,
    json: output.JsonOption = False,
) -> None:
    """List the parameters of a node, or of all."""
    from onboard_estimation.errors import UserError
    from onboard_estimation.live import discovery
    from onboard_estimation.live.parameters import RemoteParameters
    from onboard_estimation.live.session import graph_node, place

    found: dict[str, list[str]] = {}
    with graph_node("param") as node:
        if name is None:
            discovery.settle(node)
        names = discovery.nodes(node) if name is None else [discovery.find_node(node, name)]
        offered = {service for service, _ in node.get_service_names_and_types()}
        for one in dict.fromkeys(names):
            if name is None and f"{one}/list_parameters" not in offered:
                continue
            try:
                found[one] = RemoteParameters(node, one).names()
            except UserError as error:
                if name is not None:
                    raise
                typer.echo(f"WARNING: {error}", err=True)
    if json:
        output.print_json({"nodes": found})
        return
    if not found:
        typer.echo(f"no node with parameters in {place()}", err=True)
    for one, parameters in found.items():
        if name is None:
            typer.echo(f"{one}:")
        for parameter in parameters:
            typer.echo(f"  {parameter}")


@app.command("get", epilog=output.examples("param get /salp/estimator use_sim_time"))
def get(
    node: NodeArgument,
    name: NameArgument,
    hide_type: Annotated[bool, typer.Option("--hide-type", help="Print the value alone.")] = False,
    json: output.JsonOption = False,
) -> None:
    """Show the value of a parameter."""
    from onboard_estimation.live import parameters

    with _remote(node) as remote:
        (value,) = remote.get([name])
        if value.type == parameters.NOT_SET:
            remote.describe([name])
    if json:
        kind = parameters.TYPE_NAMES[value.type]
        output.print_json({"node": remote.remote, "name": name, "type": kind, "value": parameters.to_python(value)})
    else:
        typer.echo(parameters.to_python(value) if hide_type else parameters.describe_value(value))


@app.command(
    "set",
    epilog=output.examples("param set /salp/estimator gate_probability 0.99", "param set /salp/estimator names [a,b]"),
)
def set_(
    node: NodeArgument,
    name: NameArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="In YAML, as in a parameter file.")],
) -> int:
    """Change a parameter. Exits with 1 and the reason where the node refuses."""
    with _remote(node) as remote:
        taken, reason = remote.set(name, value)
    if taken:
        typer.echo("Set parameter successful" + (f": {reason}" if reason else ""))
        return 0
    typer.echo("Setting parameter failed" + (f": {reason}" if reason else ""), err=True)
    return EXIT_REFUSED


@app.command("dump", epilog=output.examples("param dump /salp/estimator > estimator.yaml"))
def dump(node: NodeArgument, json: output.JsonOption = False) -> None:
    """Print all parameters of a node as a parameter file."""
    import yaml

    from onboard_estimation.live import parameters

    with _remote(node) as remote:
        names = remote.names()
        values = dict(zip(names, map(parameters.to_python, remote.get(names)), strict=True))
    given = {name: value for name, value in values.items() if value is not None}
    content = {remote.remote: {"ros__parameters": parameters.nested(given)}}
    if json:
        output.print_json(content)
    else:
        typer.echo(yaml.safe_dump(content, sort_keys=True, allow_unicode=True, width=sys.maxsize), nl=False)


@app.command("describe", epilog=output.examples("param describe /salp/estimator gate_probability"))
def describe(
    node: NodeArgument,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Parameters.")],
) -> None:
    """Show what parameters mean: type, description, range."""
    from onboard_estimation.live import parameters

    with _remote(node) as remote:
        descriptors = remote.describe(names)
    for name, descriptor in zip(names, descriptors, strict=True):
        typer.echo("\n".join(parameters.describe_parameter(name, descriptor)))


@contextmanager
def _remote(name: str) -> Iterator[Any]:
    """The parameters of a node that was found."""
    from onboard_estimation.live import discovery
    from onboard_estimation.live.parameters import RemoteParameters
    from onboard_estimation.live.session import graph_node

    with graph_node("param") as node:
        yield RemoteParameters(node, discovery.find_node(node, name))
