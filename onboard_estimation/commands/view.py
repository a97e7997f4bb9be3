"""`onboard-estimation view`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import argument, flag, option


@output.command(
    "view",
    "view --namespace salp",
    "view runs/walk-salp",
    "view walk --no-browser --port 9000",
)
@arguments.taking("config", "overrides", "namespace")
def view(
    record: Annotated[Path | None, argument("[RUN|BAG]", "Run folder or bag; the live graph otherwise.")] = None,
    robot: arguments.RobotOption = None,
    options: Any = None,
    bag: Annotated[Path | None, option("BAG", "Where the bag of a run is now, for its ground truth.")] = None,
    port: Annotated[int | None, option("N", "Port of the page; 8080 or the next free one.", min=1, max=65535)] = None,
    host: Annotated[
        str, option("ADDRESS", "Address to listen on; by default only this machine can look.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str],
        option(
            "NAME[:PORT]",
            "A further name that the page is asked for by, such as that of a proxy or a forwarded port; may be "
            "repeated. Requests for other names and from pages of other sites are refused.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    no_browser: Annotated[bool, flag("Only print the address.", "--no-browser")] = False,
) -> None:
    """Show estimate and truth in the browser: the robot, its way, 95 % ellipses, joint angles with their uncertainty.

    Without an argument of the live graph, as it comes; of a run folder or a bag under a time slider. A bag without
    estimates is replayed first. Only the live graph needs ROS 2, nothing needs a network. Ctrl-C ends it.
    """
    options = replace(options, robot=robot)
    from onboard_estimation.live.signals import stop_on_signal
    from onboard_estimation.view.server import Page, open_server

    page = Page(host, port, not no_browser, tuple(allow_host))
    with stop_on_signal() as stop:
        if record is not None:
            from onboard_estimation.view.recorded import load_records
            from onboard_estimation.view.server import show_records

            with open_server(page) as (server, address):  # first: a port that is taken shows before a long replay
                with output.steps(f"reading {record}") as progress:
                    records = load_records(record, options, bag, progress)
                _announce(page, address, f"{record}: {', '.join(one.subject.namespace for one in records)}")
                show_records(server, records, stop)
            return
        from onboard_estimation.live.session import graph_node, place
        from onboard_estimation.view.live import LiveGraph
        from onboard_estimation.view.server import show_live

        with open_server(page) as (server, address), graph_node("view") as node:
            _announce(page, address, f"live graph, {place()}")
            show_live(server, LiveGraph(node, options), stop)


def _announce(page: Any, address: str, what: str) -> None:
    """Where to look, a warning where others can look as well; opens the browser where that is wanted."""
    import sys

    from onboard_estimation.view.server import is_loopback, open_browser

    if not is_loopback(page.host):
        output.say(f"warning: everybody who reaches {page.host} can look; there is no password", style="yellow")
    output.say(what)
    output.say(f"picture: {address} (Ctrl-C ends)")
    sys.stdout.flush()
    if page.browser:
        open_browser(address)
