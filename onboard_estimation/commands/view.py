"""`onboard-estimation view`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Any

from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import flag, option


@output.command(
    "view",
    "view --namespace salp",
    "view --no-browser --port 9000",
)
@arguments.taking("config", "overrides", "namespace")
def view(
    robot: arguments.RobotOption = None,
    options: Any = None,
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

    Of the live graph, as it comes, also of a bag that is played into it; a run's report replays that run. Nothing needs
    a network. Ctrl-C ends it.
    """
    options = replace(options, robot=robot)
    from onboard_estimation.live.session import graph_node, place
    from onboard_estimation.live.signals import stop_on_signal
    from onboard_estimation.view.live import LiveGraph
    from onboard_estimation.view.server import is_loopback, open_browser, open_server, show_live

    served = open_server(host, port, allow_host)
    with stop_on_signal() as stop, served as (server, address), graph_node("view") as node:
        if not is_loopback(host):
            output.say(f"warning: everybody who reaches {host} can look; there is no password", style="yellow")
        output.say(f"live graph, {place()}")
        output.say(f"picture: {address} (Ctrl-C ends)")
        sys.stdout.flush()
        if not no_browser:
            open_browser(address)
        show_live(server, LiveGraph(node, options), stop)
