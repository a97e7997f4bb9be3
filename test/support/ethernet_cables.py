"""Ethernet cables that are not there: veth pairs, both ends here or the far one in a network namespace of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import pytest

_NUMBERS = count()


@dataclass(frozen=True)
class Cable:
    """A veth pair: names of its ends; `namespace` is where the far one is, empty: here."""

    near: str
    far: str
    namespace: str = ""

    @property
    def entering(self) -> list[str]:
        """What a command at the far end begins with."""
        return ["ip", "netns", "exec", self.namespace] if self.namespace else []

    def pull(self) -> None:
        """Neither end has a link any more."""
        ip("link", "set", self.near, "down")

    def plug_in(self) -> None:
        """Undo `pull`."""
        ip("link", "set", self.near, "up")


@contextmanager
def cable(namespace: bool = False) -> Iterator[Cable]:
    """A cable for as long as it is needed; the test is skipped where there can be none."""
    if shutil.which("ip") is None:
        pytest.skip("no program `ip` (iproute2): no virtual Ethernet pair can be made")
    number = next(_NUMBERS)
    made = Cable(f"ec{os.getpid()}n{number}", f"ec{os.getpid()}f{number}", f"ec{os.getpid()}_{number}" * namespace)
    try:
        if namespace:
            ip("netns", "add", made.namespace)
        ip("link", "add", made.near, "type", "veth", "peer", "name", made.far)
        if namespace:
            ip("link", "set", made.far, "netns", made.namespace)
            ip("-n", made.namespace, "link", "set", "lo", "up")
        ip(*(("-n", made.namespace) if namespace else ()), "link", "set", made.far, "up")
        ip("link", "set", made.near, "up")
    except subprocess.CalledProcessError as error:
        _remove(made)
        pytest.skip(f"no virtual Ethernet pair, it takes CAP_NET_ADMIN: {error.stderr.strip()}")
    try:
        yield made
    finally:
        _remove(made)


def ip(*words: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20.0)


def _remove(made: Cable) -> None:
    """The far end goes with the near one."""
    subprocess.run(["ip", "link", "del", made.near], check=False, capture_output=True, timeout=20.0)
    if made.namespace:
        subprocess.run(["ip", "netns", "del", made.namespace], check=False, capture_output=True, timeout=20.0)
