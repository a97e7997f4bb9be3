"""The slaves on one wire: a frame goes through them in order, and back."""

from __future__ import annotations

import time
from collections.abc import Sequence

from drivers.emulators.ethercat.controller import COUNTED_UP
from drivers.emulators.ethercat.frames import mark_returned, places
from drivers.emulators.ethercat.slave import Slave

_LAST, _BETWEEN = 0x5611, 0x5A31
"""DL status: port 0 has a link, or ports 0 and 1; the others are closed."""


class Segment:
    """Slaves in the order in which a frame meets them.

    Attributes
    ----------
    slaves
        As given.
    reach
        So many of them are reached: behind one that is off there is none.
    """

    def __init__(self, slaves: Sequence[Slave]) -> None:
        self.slaves = tuple(slaves)
        self.reach = 0
        self.connect(len(self.slaves))

    def connect(self, reach: int) -> None:
        """Only the first so many are there; their ports know."""
        self.reach = reach
        for place, slave in enumerate(self.slaves[:reach]):
            slave.controller.links = _BETWEEN if place + 1 < reach else _LAST
            slave.controller.settle()

    def process(self, frame: bytearray) -> bool:
        """What the slaves make of a frame; whether it comes back.

        Raises
        ------
        FrameError
            It is no EtherCAT frame.
        """
        found = places(frame)
        reached = self.slaves[: self.reach]
        if not reached:
            return False
        now_ns = time.time_ns()
        for slave in reached:
            slave.watch(now_ns)
        mark_returned(frame)
        for place in found:
            data = frame[place.data : place.counter]
            address, counted_up = place.address, place.command in COUNTED_UP
            counter = int.from_bytes(frame[place.counter : place.counter + 2], "little")
            for slave in reached:
                counter += slave.controller.execute(place.command, address, data)
                if counted_up:
                    address = address & 0xFFFF_0000 | (address + 1) & 0xFFFF
            frame[place.data : place.counter] = data
            frame[place.counter : place.counter + 2] = (counter & 0xFFFF).to_bytes(2, "little")
            if counted_up:
                frame[place.start + 2 : place.start + 6] = address.to_bytes(4, "little")
        return True
