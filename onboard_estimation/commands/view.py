"""`onboard-estimation view`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import completion, output
from onboard_estimation.commands.evaluate_options import taking

EXAMPLES = output.examples(
    "view",
    "view --namespace salp",
    "view runs/walk-salp",
    "view walk --no-browser --port 9000",
    "view runs/walk-salp --rrd walk.rrd",
)


@taking("config", "overrides", "namespace")
def view(
    record: Annotated[
        Path | None, typer.Argument(metavar="[RUN|BAG]", help="Run folder or bag; the live graph otherwise.")
    ] = None,
    robot: Annotated[
        str | None,
        typer.Option(
            metavar="ROBOT",
            help="Robot, see `onboard-estimation robots`; otherwise guessed.",
            autocompletion=completion.robots,
        ),
    ] = None,
    options: Any = None,
    bag: Annotated[
        Path | None, typer.Option(metavar="BAG", help="Where the bag of a run is now, for its ground truth.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=65535, help="Port of the page; 8080 or the next free one. Of --foxglove 8765."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; by default only this machine can look.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:PORT]",
            help="A further name that the page is asked for by, such as that of a proxy or a forwarded port; may be "
            "repeated. Requests for other names and from pages of other sites are refused.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    foxglove: Annotated[
        bool, typer.Option("--foxglove", help="Serve the live graph's topics to Foxglove instead, on port 8765.")
    ] = False,
    rrd: Annotated[
        Path | None,
        typer.Option("--rrd", metavar="FILE", help="Write the run or bag as a recording for Rerun's viewer instead."),
    ] = None,
) -> None:
    """Show estimate and truth in the browser: the robot, its way, 95 % ellipses, joint angles with their uncertainty.

    Without an argument of the live graph, as it comes; of a run folder or a bag under a time slider. A bag without
    estimates is replayed first. Needs no ROS 2 and no network. Ctrl-C ends it.
    """
    options = replace(options, robot=robot)
    if foxglove:
        _refuse("--foxglove", {"--robot": robot, "--namespace": options.namespace, "--bag": bag, "--rrd": rrd})
        _refuse("--foxglove", {"--allow-host": allow_host, "--no-browser": no_browser})
        _serve_foxglove(record, host, port)
        return
    if rrd is not None:
        _refuse("--rrd", {"--port": port, "--allow-host": allow_host, "--no-browser": no_browser})
        _write_rerun(record, options, bag, rrd)
        return
    from onboard_estimation.live.signals import stop_on_signal
    from onboard_estimation.live.view_server import Page, open_server

    page = Page(host, port, not no_browser, tuple(allow_host))
    with stop_on_signal() as stop:
        if record is not None:
            from onboard_estimation.live.view_recorded import load_records
            from onboard_estimation.live.view_server import show_records

            with open_server(page) as (server, address):  # first: a port that is taken shows before a long replay
                with output.steps(f"reading {record}") as progress:
                    records = load_records(record, options, bag, progress)
                _announce(page, address, f"{record}: {', '.join(one.subject.namespace for one in records)}")
                show_records(server, records, stop)
            return
        from onboard_estimation.live.session import graph_node, place
        from onboard_estimation.live.view_live import LiveGraph
        from onboard_estimation.live.view_server import show_live

        with open_server(page) as (server, address), graph_node("view") as node:
            _announce(page, address, f"live graph, {place()}")
            show_live(server, LiveGraph(node, options), stop)


def _refuse(mode: str, given: dict[str, Any]) -> None:
    """Raise UserError where options were given that do nothing there."""
    from onboard_estimation.errors import UserError

    if there := [name for name, value in given.items() if value]:
        raise UserError(f"{mode} has no use for {', '.join(there)}")


def _write_rerun(record: Path | None, options: Any, bag: Path | None, path: Path) -> None:
    from onboard_estimation.errors import UserError
    from onboard_estimation.live.rerun_file import write_rerun
    from onboard_estimation.live.view_recorded import load_records

    if record is None:
        raise UserError("--rrd writes a run folder or a bag: name one")
    with output.steps(f"reading {record}") as progress:
        records = load_records(record, options, bag, progress)
    count = write_rerun(records, path)
    output.say(f"{count} estimates written; look at them: rerun {path}")


def _announce(page: Any, address: str, what: str) -> None:
    """Where to look, a warning where others can look as well; opens the browser where that is wanted."""
    import sys

    from onboard_estimation.live.view_server import is_loopback, open_browser

    if not is_loopback(page.host):
        _warn_of_lookers(page.host)
    output.say(what)
    output.say(f"picture: {address} (Ctrl-C ends)")
    sys.stdout.flush()
    if page.browser:
        open_browser(address)


def _serve_foxglove(record: Path | None, host: str, port: int | None) -> None:
    """The live graph for Foxglove; a recording it opens itself."""
    import sys

    from onboard_estimation.errors import UserError
    from onboard_estimation.live.foxglove_server import open_foxglove
    from onboard_estimation.live.session import graph_node, place
    from onboard_estimation.live.signals import stop_on_signal
    from onboard_estimation.live.view_server import is_loopback
    from onboard_estimation.resources import resource

    if record is not None:
        files = sorted(record.rglob("*.mcap")) if record.is_dir() else [record]
        found = ", ".join(str(file) for file in files if file.suffix == ".mcap")
        raise UserError(
            f"--foxglove serves the live graph only; open in Foxglove: {found}"
            if found
            else f"--foxglove serves the live graph only, and {record} holds no .mcap file for Foxglove to open"
        )
    with stop_on_signal() as stop, open_foxglove(host, port) as server, graph_node("view") as node:
        if not is_loopback(host):
            _warn_of_lookers(host)
        output.say(f"live graph, {place()}")
        output.say(f'Foxglove, "Open connection": {server.address} (Ctrl-C ends)')
        layouts = sorted(resource("config").glob("*_foxglove.json"))
        output.say(f'layouts, "Import from file": {", ".join(str(one) for one in layouts)}')
        sys.stdout.flush()
        server.run(node, stop, lambda note: output.say(note, style="yellow"))


def _warn_of_lookers(host: str) -> None:
    output.say(f"warning: everybody who reaches {host} can look; there is no password", style="yellow")
