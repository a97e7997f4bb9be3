"""Emulated EtherCAT devices in a process of their own at the far end of a cable, told what to do line by line.

off | on | power | fall PLACE CODE | values PLACE NUMBER... | status PLACE LEVEL... | forget PLACE INDEX SUBINDEX |
remember PLACE | freeze PLACE | thaw PLACE | halve PLACE | is PLACE STATE
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class EmulatedSlaves:
    """The process; `do` waits until it is done."""

    def __init__(self, interface: str, sensors: Sequence[str], entering: Sequence[str] = ()) -> None:
        command = [*entering, sys.executable, __file__, interface, *sensors]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer("there")

    def do(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        self._answer(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10.0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _answer(self, wanted: str) -> None:
        assert self._process.stdout is not None
        found = self._process.stdout.readline().strip()
        assert found == wanted, f"{found!r} in place of {wanted!r}"


@contextmanager
def emulated_slaves(interface: str, *sensors: str, entering: Sequence[str] = ()) -> Iterator[EmulatedSlaves]:
    """`entering`: into the namespace of the far end, see `Cable`."""
    slaves = EmulatedSlaves(interface, sensors, entering)
    try:
        yield slaves
    finally:
        slaves.close()


def main(interface: str, sensors: Sequence[str]) -> None:
    """The far end."""
    from drivers.emulators.ethercat_segment import Segment, Wire
    from drivers.emulators.ethercat_slave import Slave, State
    from drivers.ethercat.description import find

    values = [[0.0] * len(find(name).fields) for name in sensors]
    slaves = [Slave(find(name), lambda _, held=held: held) for name, held in zip(sensors, values, strict=True)]
    segment, wire = Segment(slaves), Wire(interface)
    ends, forgotten = threading.Event(), dict[tuple[int, int], Any]()

    def act(words: list[str]) -> None:
        match words:
            case ["off"]:
                segment.connect(0)
            case ["on"]:
                segment.connect(len(slaves))
            case ["power"]:
                for slave in slaves:
                    slave.power_up()
            case ["fall", place, code]:
                slaves[int(place)].enter(State.SAFEOP, int(code, 0))
            case ["values", place, *numbers]:
                values[int(place)][:] = [float(number) for number in numbers]
            case ["status", place, *levels]:
                slaves[int(place)].sensor.status = frozenset(levels)
            case ["freeze" | "thaw" as word, place]:
                slaves[int(place)].sensor.is_frozen = word == "freeze"
            case ["halve", place]:  # the rate of its readings
                sensor = slaves[int(place)].sensor
                whole = sensor.inputs

                def every_other(now_ns: int) -> bytes:
                    sensor.is_frozen = not sensor.is_frozen
                    return whole(now_ns)

                sensor.inputs = every_other  # type: ignore[method-assign]
            case ["is", place, state]:
                assert slaves[int(place)].state.name == state
            case ["forget", place, index, subindex]:
                one = int(index, 0), int(subindex, 0)
                forgotten[one] = slaves[int(place)].dictionary.objects.pop(one)
            case ["remember", place]:
                slaves[int(place)].dictionary.objects |= forgotten
            case _:
                raise ValueError(words)

    def listen() -> None:
        for line in sys.stdin:
            act(line.split())
            print(line.strip(), flush=True)
        ends.set()

    threading.Thread(target=listen, daemon=True).start()
    print("there", flush=True)
    wire.serve(segment.process, lambda: not ends.is_set())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
