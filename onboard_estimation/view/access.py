"""Whom the page answers: requests for its own names, from pages of its own.

A socket on this machine does not keep pages from elsewhere out: every browser here reaches it, for whatever page it
shows. Such a page is known by its `Origin`, and one whose name was pointed at this machine after it had loaded (DNS
rebinding) by the `Host` that it asks for. So both have to be names that the page is served under, for files and for the
WebSocket with the data alike.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

from onboard_estimation.base.errors import UserError

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_PLACE = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<place>.*)", re.ASCII | re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST_SHOWN = 80


class Place(NamedTuple):
    """A name or address, in lower case and without brackets, and the port; None: not told."""

    name: str
    port: int | None


def parse_place(text: str) -> Place | None:
    """`robot.lan:8080`, `[::1]:8080`, `::1` or a bare name; None where it is none of them."""
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    name = found["name"].strip("[]").lower()
    try:
        name = str(ipaddress.ip_address(name))  # one spelling of an IPv6 address
    except ValueError:
        if ":" in name:
            return None
    port = int(found["port"]) if found["port"] else None
    return None if port is not None and port > 65535 else Place(name, port)


def allowed_places(host: str, names: Iterable[str]) -> tuple[Place, ...]:
    """Places that the page is served under: this machine's own, the host that it listens on, and those of the user.

    Raises
    ------
    UserError
        One of `names` is no host.
    """
    places = [place for name in (*_LOCAL_NAMES, host) if (place := parse_place(name)) is not None]
    for name in names:
        place = parse_place(name)
        if place is None:
            raise UserError(
                f"--allow-host {name!r}: no host; write a name or an address, such as robot.lan or robot:80"
            )
        places.append(place)
    return tuple(places)


def refusal(places: Iterable[Place], hosts: list[str], origins: list[str], address: str, port: int) -> str | None:
    """Why a request is refused, in a sentence; None where it is not.

    Parameters
    ----------
    places
        Where no port is told, the port of the connection counts.
    hosts, origins
        All values of the two header fields.
    address, port
        Of this machine, that the connection was made to. Nobody can point a name at an address that is asked for
        as a number, so that this one needs no permission.
    """
    own = {Place(place.name, place.port or port) for place in places}
    own |= {Place(place.name, port) for place in [parse_place(address.partition("%")[0])] if place is not None}
    host = parse_place(hosts[0]) if len(hosts) == 1 else None
    if host is None:
        return "this page answers requests with exactly one valid Host only."
    # Without a port it is that of the scheme, which a proxy in front may have chosen.
    ports = _DEFAULT_PORTS.values() if host.port is None else (host.port,)
    if not any(Place(host.name, one) in own for one in ports):
        return f"this page does not answer for the host {_shown(hosts[0])}; {_way_out(hosts[0])}"
    for origin in origins:
        if _origin_place(origin) not in own:
            asked = _ORIGIN.fullmatch(origin)
            way_out = _way_out(asked["place"]) if asked else "open its own address in the place of that page."
            return f"this page does not answer pages of {_shown(origin)}; {way_out}"
    return None


def _origin_place(origin: str) -> Place | None:
    found = _ORIGIN.fullmatch(origin)
    place = found and parse_place(found["place"])
    return Place(place.name, place.port or _DEFAULT_PORTS[found["scheme"].lower()]) if found and place else None


def _way_out(place: str) -> str:
    return f"if it is yours, start it with: onboard-estimation view --allow-host {_shown(place)}"


def _shown(text: str) -> str:
    """Text of others for a sentence: short, and nothing that a terminal obeys."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_LONGEST_SHOWN]


@contextmanager
def guarded_servers(places: tuple[Place, ...]) -> Iterator[None]:
    """Every server of `websockets` that is started inside asks for a `refusal` first.

    viser hands no such thing through; it calls the public `websockets.asyncio.server.serve`, with the
    `process_request` that is called before anything is answered. So that one is wrapped for as long as viser starts.

    Raises
    ------
    UserError
        No server came by, as after a change of viser: without its guard the page is not to be served.
    """
    from websockets.asyncio import server

    plain, count = server.serve, 0

    def serve(*arguments: Any, process_request: Callable[[Any, Any], Any] | None = None, **options: Any) -> Any:
        nonlocal count
        count += 1

        def guarded(connection: Any, request: Any) -> Any:
            address, port = connection.local_address[:2]
            headers = request.headers
            sentence = refusal(places, headers.get_all("Host"), headers.get_all("Origin"), address, port)
            if sentence is not None:
                return connection.respond(HTTPStatus.FORBIDDEN, f"Refused: {sentence}\n")
            return None if process_request is None else process_request(connection, request)

        return plain(*arguments, process_request=guarded, **options)

    server.serve = serve  # type: ignore[assignment, misc, unused-ignore]
    try:
        yield
    finally:
        server.serve = plain  # type: ignore[misc, unused-ignore]
    if not count:
        raise UserError(
            "this version of viser starts its server in a way that cannot be guarded: pip install viser==1.1"
        )
