"""What goes wrong on the bus, on request."""

from __future__ import annotations

import random
import time

from drivers.emulators.ethercat.configuration import SDO_OBJECT, EthercatFaults
from drivers.emulators.ethercat.segment import Segment
from drivers.emulators.ethercat.slave import State

_STATES = {"pre_op": State.PREOP, "safe_op": State.SAFEOP, "op": State.OP}
_ABORT = 0x0800_0000
_NO_REASON = 0x0001


class FaultyBus:
    """A segment whose frames get lost, and whose slaves fail.

    Attributes
    ----------
    lost
        Frames that did not come back.
    """

    def __init__(self, segment: Segment, faults: EthercatFaults, seed: int = 0) -> None:
        self.lost = 0
        self._segment, self._faults = segment, faults
        self._random = random.Random(seed)
        self._asked: EthercatFaults | None = None
        self._begin_s: float | None = None
        self._round: float | None = None
        self._off = False
        self._set = False

    def change(self, faults: EthercatFaults) -> None:
        """Other faults, from the next frame on; from any thread."""
        self._asked = faults

    def process(self, frame: bytearray) -> bool:
        """See `Segment`."""
        now_s = time.monotonic()
        if self._asked is not None:
            self._end()
            self._faults, self._asked, self._begin_s = self._asked, None, now_s
        if self._begin_s is None:
            self._begin_s = now_s + self._faults.after_s
        passed_s = now_s - self._begin_s
        if passed_s >= 0.0 and not self._lets_through(passed_s):
            self.lost += 1
            return False
        comes_back = self._segment.process(frame)
        if not comes_back:
            self.lost += 1
        return comes_back

    def _lets_through(self, passed_s: float) -> bool:
        """Do what is due; whether the frame gets through."""
        faults = self._faults
        slave = self._segment.slaves[min(faults.slave, len(self._segment.slaves) - 1)]
        if not self._set:
            self._set = True
            slave.sensor.status = frozenset(one for one in ("overload", "error", "warning") if getattr(faults, one))
            if faults.refused_state != "none":
                slave.refused = _STATES[faults.refused_state], _NO_REASON
            found = [SDO_OBJECT.fullmatch(one) for one in faults.sdo_aborts]
            slave.dictionary.aborts = {(int(one[1], 16), int(one[2], 16)): _ABORT for one in found if one}
        current, within_s = divmod(passed_s, faults.again_s) if faults.again_s else (0.0, passed_s)
        if current != self._round:
            self._round = current
            if faults.leaves_op and slave.state is State.OP:
                slave.fail(State.SAFEOP, _NO_REASON)
        is_off = within_s < faults.power_off_s
        if is_off != self._off:
            self._off = is_off
            if is_off:
                self._segment.connect(self._segment.slaves.index(slave))
            else:
                self._power_up()
        if within_s < faults.unplugged_s:
            return False
        return not faults.frame_loss_rate or self._random.random() >= faults.frame_loss_rate

    def _power_up(self) -> None:
        place = self._segment.reach
        status = self._segment.slaves[place].sensor.status
        self._segment.slaves[place].power_up()
        self._segment.slaves[place].sensor.status = status
        self._segment.connect(len(self._segment.slaves))

    def _end(self) -> None:
        """What lasts is over."""
        if self._off:
            self._power_up()
        self._off, self._set, self._round = False, False, None
        for slave in self._segment.slaves:
            slave.refused, slave.sensor.status = None, frozenset()
            slave.dictionary.aborts = {}
