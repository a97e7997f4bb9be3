"""`onboard-estimation node`: list and info, shaped as those of `ros2`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onboard_estimation.commands import output

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look at running nodes: which there are, and their topics and services.",
)

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Full name, e.g. `/salp/estimator`.")]
HiddenOption = Annotated[
    bool, typer.Option("--include-hidden", "-a", help="Also names of which a part starts with an underscore.")
]


@app.command("list", epilog=output.examples("node list", "node list --json"))
def list_(include_hidden: HiddenOption = False, json: output.JsonOption = False) -> None:
    """List all running nodes."""
    from onboard_estimation.live import discovery
    from onboard_estimation.live.session import graph_node, place

    with graph_node("node_list") as node:
        discovery.settle(node)
        found = discovery.nodes(node, include_hidden)
    twice = sorted({name for name in found if found.count(name) > 1})
    if json:
        output.print_json({"nodes": found, "names_used_twice": twice})
        return
    if not found:
        typer.echo(f"no node in {place()}: is one running, with the same ROS_DOMAIN_ID?", err=True)
    if twice:
        typer.echo(f"WARNING: several nodes share a name, which has unwanted effects: {', '.join(twice)}", err=True)
    for name in found:
        typer.echo(name)


@app.command("info", epilog=output.examples("node info /salp/estimator"))
def info(
    name: NodeArgument,
    include_hidden: Annotated[bool, typer.Option("--include-hidden", help="Also hidden topics and services.")] = False,
    json: output.JsonOption = False,
) -> None:
    """Show what a node subscribes to and publishes, and the services it offers and uses."""
    from onboard_estimation.live import discovery
    from onboard_estimation.live.session import graph_node

    with graph_node("node_info") as node:
        full = discovery.find_node(node, name)
        discovery.settle(node)
        found = _entities(node, full, include_hidden)
    if json:
        output.print_json({"name": full, **{title.lower().replace(" ", "_"): of for title, of in found.items()}})
        return
    typer.echo(full)
    for title, entities in found.items():
        typer.echo(f"  {title}:")
        for entity, types in entities.items():
            typer.echo(f"    {entity}: {', '.join(types)}")


def _entities(node: Any, full: str, include_hidden: bool) -> dict[str, dict[str, list[str]]]:
    from onboard_estimation.live.discovery import is_hidden

    namespace, _, name = full.rpartition("/")
    queries = {
        "Subscribers": node.get_subscriber_names_and_types_by_node,
        "Publishers": node.get_publisher_names_and_types_by_node,
        "Service Servers": node.get_service_names_and_types_by_node,
        "Service Clients": node.get_client_names_and_types_by_node,
    }
    return {
        title: {
            entity: list(types)
            for entity, types in sorted(query(name, namespace or "/"))
            if include_hidden or not is_hidden(entity)
        }
        for title, query in queries.items()
    }
