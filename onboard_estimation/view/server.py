"""The page: viser's server on this machine, and its loop for the live graph.

viser, because it listens where it is told to (127.0.0.1), is one wheel of 4 MB with its page inside, so that it works
without a network, and runs on Python 3.10 and on Arm; Rerun 0.41 binds its web viewer and its data port to all
interfaces without a choice, needs Python 3.11 and takes half a gigabyte.
"""

from __future__ import annotations

import io
import ipaddress
import socket
import time
import webbrowser
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any, NoReturn

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import optional
from onboard_estimation.contract import picture
from onboard_estimation.contract.reported import planar_position
from onboard_estimation.filtering.planar import HEIGHT, is_vertical
from onboard_estimation.live.followed import Rows, ShownRun
from onboard_estimation.live.signals import StopRequest
from onboard_estimation.view.access import allowed_places, guarded_servers
from onboard_estimation.view.live import LiveGraph, LiveRobot
from onboard_estimation.view.robot import Plots, RobotPicture, curves

DEFAULT_PORT = 8080
LOOPBACK = "127.0.0.1"

_PICTURE_PERIOD_S = 0.06
_PLOT_PERIOD_S = 0.25
_CAMERA_STEP_M = 0.05
_FAR_M = 5.0
"""From here on the grid is one of metres, not of tenths."""
_HIGHEST_HOP_M = 2.0
"""A robot of which only the height is known hops at least so high in the picture: live it may still stand."""
_LEGEND = (
    "**Blue** estimate, **orange** truth. Ellipses and wedge hold position and heading with 95 % by the filter's own "
    "covariance, bands are two standard deviations."
)


@contextmanager
def open_server(host: str, port: int | None, allowed_hosts: Iterable[str]) -> Iterator[tuple[Any, str]]:
    """viser's server, from start to end, and the page's address.

    Parameters
    ----------
    port
        None: 8080, or the next free one.
    allowed_hosts
        Names with or without a port that it answers for beside `host` and this machine's own.

    Raises
    ------
    UserError
        viser is not installed, the port is taken, the host is none of this machine, or an allowed one is none at all.
    """
    viser = optional("viser", "viser", "view")
    _check_place(host, port)
    places = allowed_places(host, allowed_hosts)
    with ExitStack() as ends:
        with redirect_stdout(io.StringIO()), guarded_servers(places):  # its own banner; ours says more
            server = viser.ViserServer(host=host, port=port or DEFAULT_PORT, verbose=False)
            ends.callback(_stop, server)
        # Its page can ask for a tunnel through a server of viser's makers: nothing leaves this machine here.
        server.request_share_url = _no_tunnel  # type: ignore[method-assign, unused-ignore]
        server.scene.set_up_direction("+z")
        server.gui.add_markdown(_LEGEND, order=-3.0)
        server.gui.configure_theme(control_width="large", show_logo=False, show_share_button=False)
        server.gui.main_panel.dock_right()
        yield server, f"http://{_shown_host(host)}:{server.get_port()}"


def _stop(server: Any) -> None:
    with redirect_stdout(io.StringIO()):
        server.stop()


def show_live(server: Any, graph: LiveGraph, stop: StopRequest) -> None:
    """Show the robots of the live graph, those that come later as well, until asked to stop."""
    status = server.gui.add_markdown("", order=-2.0)
    camera = _Camera(server, server.gui.add_checkbox("camera follows the robot", True, order=-1.5))
    panels: dict[str, tuple[RobotPicture, Plots]] = {}
    shown: dict[str, int] = {}
    plotted, plot_now = 0.0, True

    def show(namespace: str, live: LiveRobot) -> None:
        record = live.record()
        if record is None:
            return
        if namespace not in panels:
            panels[namespace] = RobotPicture(server, record.subject), Plots(server, namespace)
            if len(panels) == 1:
                _look_at(server, record, np.vstack(live.ways()))
        last_ns = int(record.stamps_ns[-1])
        if not server.get_clients() or shown.get(namespace) == last_ns:
            return
        robot, plots = panels[namespace]
        robot.show(record.at(-1), *live.ways())
        shown[namespace] = last_ns
        if plot_now:
            plots.show(curves(record))
        if len(panels) == 1:
            camera.follow(record)

    while not stop:
        graph.look_for_robots()
        plot_now = time.monotonic() - plotted >= _PLOT_PERIOD_S
        for namespace, live in graph.robots.items():
            live.aside(show, namespace, live)
        if plot_now:
            plotted = time.monotonic()
            text = graph.status()
            if status.content != text:
                status.content = text
        time.sleep(_PICTURE_PERIOD_S)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        found = {one[4][0] for one in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found)


def open_browser(address: str) -> None:
    """Open the page, where this machine has a browser; the address was printed anyway."""
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(address)


class _Camera:
    """Moves all clients' cameras along with a robot, in steps: in between they are the users' own."""

    def __init__(self, server: Any, follows: Any) -> None:
        self._server, self._follows = server, follows
        self._at: Any = None

    def follow(self, record: ShownRun) -> None:
        columns = planar_position(record.subject.space)
        if columns is None:
            return
        place = record.means[-1, columns]
        if self._at is None or not self._follows.value:
            self._at = place
        moved = place - self._at
        if np.linalg.norm(moved) < _CAMERA_STEP_M:
            return
        self._at = place
        for client in self._server.get_clients().values():
            client.camera.position = client.camera.position + np.array([*moved, 0.0])


def _look_at(server: Any, record: ShownRun, way: Rows) -> None:
    """A camera above the way, that has all of it in view; beside a robot of which only the height is known."""
    subject = record.subject
    size_m = picture.size_m(subject.robot, subject.configuration, subject.space)
    if is_vertical(subject.space):
        highest_m = max(float(record.means[:, record.subject.space.coordinates(HEIGHT)].max()), _HIGHEST_HOP_M)
        _aim(server, (0.0, 0.0, 0.5 * highest_m), (0.0, -1.3 * (highest_m + size_m), 0.5 * highest_m))
        return
    low, high = (way.min(axis=0), way.max(axis=0)) if len(way) else (np.zeros(2), np.zeros(2))
    x, y = 0.5 * (low + high)
    distance = 1.1 * (float((high - low).max()) + size_m)
    _aim(server, (x, y, 0.0), (x, y - 0.35 * distance, distance))


def _aim(server: Any, look_at: tuple[float, float, float], position: tuple[float, float, float]) -> None:
    """Point all cameras, and lay a grid on the ground."""
    distance = float(np.linalg.norm(np.subtract(position, look_at)))
    section_m = 1.0 if distance < _FAR_M else 10.0
    server.initial_camera.look_at = look_at
    server.initial_camera.position = position
    server.scene.add_grid(
        "/grid",
        infinite_grid=True,
        cell_size=0.1 * section_m,
        section_size=section_m,
        fade_distance=20.0 * distance,
    )
    for client in server.get_clients().values():
        client.camera.position = server.initial_camera.position
        client.camera.look_at = server.initial_camera.look_at


def _shown_host(host: str) -> str:
    """For the address that this machine's browser opens: of all its addresses the nearest."""
    if host in (LOOPBACK, "0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _check_place(host: str, port: int | None) -> None:
    """Raise UserError where the server could not listen."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port or 0))
    except (OSError, OverflowError, UnicodeError) as error:
        place = f"{host}:{port}" if port else host
        raise UserError(f"cannot listen on {place}: {error}; name another --host or --port") from error


def _no_tunnel(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("sharing through another server is switched off")
