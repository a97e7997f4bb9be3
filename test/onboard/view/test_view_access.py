"""Whom the live picture answers: foreign hosts and origins get nothing, over HTTP and over the WebSocket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from onboard_estimation.base.errors import UserError
from onboard_estimation.view.access import Place, allowed_places, guarded_servers, parse_place
from onboard_estimation.view.access import refusal as refused
from onboard_estimation.view.server import LOOPBACK, open_server

NO_VIEWER = pytest.mark.skipif(find_spec("viser") is None, reason="viser is not installed (extra `view`)")
LONGEST_WAIT_S = 30.0


def free_port(family: int = socket.AF_INET, host: str = "127.0.0.1") -> int:
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(host: str = "127.0.0.1", allowed: tuple[str, ...] = ()) -> Iterator[int]:
    """A page with something to tell."""
    port = free_port(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    with open_server(host, port, allowed) as (server, _):
        server.gui.add_markdown("what only this machine may see")
        yield port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as port:
        yield port


def answer(port: int, fields: list[str], websocket: bool, address: str = "127.0.0.1") -> tuple[int, bytes]:
    """Status and what comes after the head of the answer: all of it, of a WebSocket the first bytes."""
    import viser

    lines = ["GET / HTTP/1.1", *fields]
    if websocket:
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Sec-WebSocket-Protocol: viser-v{viser.__version__}"]
    with socket.create_connection((address, port), LONGEST_WAIT_S) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        received = b""
        while piece := connection.recv(65536):
            received += piece
            head, _, body = received.partition(b"\r\n\r\n")
            if b" 101 " in head[:20] and body:
                break
    return int(head.split()[1]), body


RIGHT = """
Host: localhost:{port}
Host: 127.0.0.1:{port}
Host: [::1]:{port}
host: LocalHost:{port}; origin: HTTP://127.0.0.1:{port}
Host: [0:0:0:0:0:0:0:1]:{port}; Origin: http://[::1]:{port}
"""
FOREIGN = """
Accept: no host at all
Host:
Host: evil.example
Host: evil.example:{port}
Host: evil.example:{port}; Origin: http://evil.example:{port}
Host: localhost.evil.example:{port}
Host: localhost:{port}.evil.example
Host: evil@localhost:{port}
Host: localhost
Host: localhost:1
Host: localhost:99999
Host: [::1
Host: 2130706433:{port}
Host: 192.0.2.1:{port}
Host: localhost:{port}; Host: evil.example
Host: localhost:{port}; Origin: http://evil.example
Host: localhost:{port}; Origin: https://evil.example:{port}
Host: localhost:{port}; Origin: http://localhost:{port}.evil.example
Host: localhost:{port}; Origin: http://localhost
Host: localhost:{port}; Origin: null
Host: localhost:{port}; Origin: file://
Host: localhost:{port}; Origin:
Host: localhost:{port}; Origin: http://localhost:{port}; Origin: http://evil.example
"""
"""Header fields of one request in each line; the fifth is DNS rebinding."""


@NO_VIEWER
def test_its_own_names_get_the_page_and_the_data(port: int) -> None:
    for fields in RIGHT.format(port=port).strip().splitlines():
        status, page = answer(port, fields.split("; "), websocket=False)
        assert (status, b"<html" in page.lower()) == (200, True), fields
        status, data = answer(port, fields.split("; "), websocket=True)
        assert (status, bool(data)) == (101, True), fields


@NO_VIEWER
@pytest.mark.parametrize("websocket", [False, True], ids=["http", "websocket"])
def test_foreign_hosts_and_origins_get_a_sentence_and_nothing_else(port: int, websocket: bool) -> None:
    for fields in FOREIGN.format(port=port).strip().splitlines():
        status, body = answer(port, fields.split("; "), websocket)
        assert status == 403, fields
        assert body.startswith(b"Refused: this page ")
        assert (len(body.splitlines()), len(body) < 300) == (1, True)


@NO_VIEWER
def test_the_refusal_names_the_option_that_opens_the_page() -> None:
    with served() as port:
        fields = [f"Host: robot.lan:{port}", f"Origin: http://robot.lan:{port}"]
        _, body = answer(port, fields, websocket=False)
        assert f"--allow-host robot.lan:{port}" in body.decode()
        _, body = answer(port, ["Host: localhost:" + str(port), "Origin: https://view.lab"], websocket=True)
        assert "--allow-host view.lab" in body.decode()
    with served(allowed=("Robot.lan", "view.lab:443", "localhost:9000")) as port:
        for fields in (
            [f"Host: robot.lan:{port}", f"Origin: http://robot.lan:{port}"],
            ["Host: view.lab", "Origin: https://view.lab"],  # a proxy in front
            ["Host: localhost:9000", "Origin: http://localhost:9000"],  # a forwarded port
        ):
            assert answer(port, fields, websocket=True)[0] == 101
        assert answer(port, ["Host: robot.lan:1"], websocket=True)[0] == 403


@NO_VIEWER
def test_ipv6() -> None:
    try:
        free_port(socket.AF_INET6, "::1")
    except OSError:
        pytest.skip("no IPv6 here")
    with served("::1") as port:
        assert answer(port, [f"Host: [::1]:{port}", f"Origin: http://[::1]:{port}"], True, "::1")[0] == 101
        assert answer(port, [f"Host: [::2]:{port}"], True, "::1")[0] == 403


@NO_VIEWER
def test_opened_to_others_it_answers_for_the_address_that_they_asked_and_for_the_printed_one() -> None:
    for host, shown in (("127.0.0.1", "localhost"), ("0.0.0.0", "localhost"), ("127.0.0.2", "127.0.0.2")):
        port, asked = free_port(host=host), "127.0.0.1" if shown == "localhost" else host
        with open_server(host, port, ()) as (_, address):
            assert address == f"http://{shown}:{port}"
            assert answer(port, [f"Host: {shown}:{port}"], False, asked)[0] == 200
            if host == "0.0.0.0":
                for name, status in (("127.0.0.5", 101), ("127.0.0.6", 403), ("evil.example", 403)):
                    assert answer(port, [f"Host: {name}:{port}"], True, "127.0.0.5")[0] == status


def test_places() -> None:
    assert parse_place("ROBOT.lan:80") == Place("robot.lan", 80)
    assert parse_place("::1") == parse_place("[0:0::1]") == Place("::1", None)
    assert parse_place("[::1]:8080") == Place("::1", 8080)
    # Of an address of the link the zone is not asked for.
    assert refused(allowed_places("::", ()), ["[fe80::1]:8080"], [], "fe80::1%eth0", 8080) is None
    for name in ("", "a b", "http://robot", "robot:port", "robot:99999", "[robot]", "a@b", "robot/x"):
        with pytest.raises(UserError, match="--allow-host"):
            allowed_places("127.0.0.1", [name])


@NO_VIEWER
def test_a_server_without_its_guard_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it would be after a change of viser: it must not go unguarded."""
    import viser

    stopped: list[Any] = []
    bare = SimpleNamespace(stop=lambda: stopped.append(True))
    monkeypatch.setattr(viser, "ViserServer", lambda **_: bare)
    with pytest.raises(UserError, match="cannot be guarded"), open_server(LOOPBACK, None, ()):
        pytest.fail("it was served")
    assert stopped
    with pytest.raises(UserError, match="cannot be guarded"), guarded_servers(()):
        pass
