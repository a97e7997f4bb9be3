"""The cycle of a bus in a thread of its own: at absolute instants, by sleeping and a short spin; how well it does."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.bus import Bus
from drivers.ethercat.configuration import BusConfiguration
from drivers.ethercat.device import Device
from onboard_estimation.errors import UserError

_QUEUE, _KEPT = 20_000, 100_000
_AGAIN_S = 0.5
_LOOK_S = 0.25
_HURRY_S = 0.005
_REOPEN_S = 3.0
"""After so long without any device the bus is opened anew: its interface may have been taken away and come back."""
_PR_SET_TIMERSLACK = 29
_SWITCH_S = 0.0001


class Reading(NamedTuple):
    """Process data of one device in one cycle; the stamp is in the middle of the frame's way, ns since the epoch."""

    device: Device
    stamp_ns: int
    data: bytes


class Cycle:
    """Runs a bus until it is closed.

    Parameters
    ----------
    bus
        Not started yet.
    chosen
        How often, and how exactly; after how many cycles without the expected working counter, or as much time, the
        process data count as lost.
    tell
        Takes sentences on what changes, with whether they are bad news; from these threads.

    Attributes
    ----------
    readings
        Of cycles that were whole, for whoever takes them out.
    overflow
        Readings that nobody took.
    refusal
        Why the bus cannot be run at all.
    trouble
        Why there are no process data; empty: there are.
    counter, missed, cycles, overruns
        Working counter of the last cycle; totals.
    lost_for_s
        How long the process data were gone, the last time.
    """

    def __init__(self, bus: Bus, chosen: BusConfiguration, tell: Callable[[str, bool], object]) -> None:
        self._bus, self._chosen, self._tell = bus, chosen, tell
        self._period_ns, self._spin_ns = round(1e9 / chosen.cycle_hz), round(1e9 * chosen.spin_s)
        self.readings: deque[Reading] = deque(maxlen=_QUEUE)
        self.refusal: UserError | None = None
        self.trouble = "not started yet"
        self.counter = self.missed = self.cycles = self.overruns = self.overflow = 0
        self.lost_for_s = 0.0
        self._missed_in_row = 0
        self._lost_since_ns = 0
        self._late_ns: list[int] = []
        self._began_ns: list[int] = []
        self._asked = (0, 0, 0)
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._running = threading.Event()
        self._changing = threading.Lock()  # opening the bus, and looking after it
        self._threads = [
            threading.Thread(target=self._run, name="ethercat_cycle", daemon=True),
            threading.Thread(target=self._look_after, name="ethercat_watch", daemon=True),
        ]

    def start(self) -> None:
        """Begin; what happens is seen in the attributes."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End, and leave the devices in INIT."""
        self._stop.set()
        self._hurry.set()
        self._running.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(10.0)
        self._bus.close()

    def figures(self) -> dict[str, float]:
        """How cycles were kept since the last call.

        Returns
        -------
        cycles, missed, overruns
            Cycles; those whose working counter was not the one expected; instants left out because a cycle took too
            long.
        period_p50_us, period_p99_us, period_worst_us
            Between beginnings.
        jitter_p99_us, jitter_worst_us
            By which a cycle began after its instant.
        """
        late_ns, self._late_ns = self._late_ns, []
        began_ns, self._began_ns = self._began_ns, []
        before, self._asked = self._asked, (self.cycles, self.missed, self.overruns)
        found: dict[str, float] = {
            name: now - then
            for name, now, then in zip(("cycles", "missed", "overruns"), self._asked, before, strict=True)
        }
        shares = {"p50": 50, "p99": 99, "worst": 100}
        period_us, late_us = 1e-3 * np.diff(np.array(began_ns)).astype(np.float64), 1e-3 * np.array(late_ns)
        found |= {f"period_{name}_us": _percentile(period_us, share) for name, share in shares.items()}
        return found | {f"jitter_{name}_us": _percentile(late_us, shares[name]) for name in ("p99", "worst")}

    def _run(self) -> None:
        self._prepare_thread()
        while not self._stop.is_set():
            try:
                with self._changing:
                    trouble = self._bus.start()
                if not trouble:
                    self._begin()
                    self._cycles()
                    continue
            except UserError as error:
                self.refusal, self.trouble = error, str(error)
                return
            except Exception as error:  # of the library: this thread must not end without a word
                trouble = f"the bus failed and is opened anew: {error!r}"
            self._say(trouble)
            self._stop.wait(_AGAIN_S)

    def _begin(self) -> None:
        names = ", ".join(device.name for device in self._bus.devices)
        self._missed_in_row = 0
        self.trouble = ""
        self._tell(f"{names}: in operation, {1e9 / self._period_ns:g} cycles a second", False)
        self._running.set()

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._tell(trouble, True)

    def _prepare_thread(self) -> None:
        # Another thread keeps the interpreter for that long, by default for five cycles.
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        # The kernel may wake a thread late by its slack, 50 us by default.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
        if priority := self._chosen.realtime_priority:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
            except PermissionError:
                self._tell(
                    f"the cycle has no real-time priority, and other programs delay it: bus.realtime_priority "
                    f"{priority} is not allowed to you; an `rtprio` in /etc/security/limits.conf allows it",
                    False,
                )

    def _cycles(self) -> None:
        """Until the end, or until nothing has answered for long."""
        due_ns = time.monotonic_ns()
        while not self._stop.is_set():
            due_ns += self._period_ns
            now_ns = time.monotonic_ns()
            if now_ns > due_ns:  # what cannot be caught up is left out, instants stay where they are
                skipped = -(-(now_ns - due_ns) // self._period_ns)
                self.overruns += skipped
                due_ns += skipped * self._period_ns
            rest_ns = due_ns - now_ns - self._spin_ns
            if rest_ns > 0:
                time.sleep(1e-9 * rest_ns)
            while (began_ns := time.monotonic_ns()) < due_ns:
                pass
            self._late_ns.append(began_ns - due_ns)
            self._began_ns.append(began_ns)
            self._one(began_ns)
            if self.counter <= 0 and self._missed_in_row and began_ns - self._lost_since_ns > 1e9 * _REOPEN_S:
                return
            if len(self._late_ns) > _KEPT:  # nobody asks
                self._late_ns, self._began_ns = [], []

    def _one(self, began_ns: int) -> None:
        sent_ns = time.time_ns()
        counter = self._bus.exchange()
        stamp_ns = (sent_ns + time.time_ns()) // 2
        self.cycles += 1
        self.counter = counter
        whole = counter == self._bus.expected
        if whole:
            if self._missed_in_row:
                self._back(began_ns)
        else:
            self.missed += 1
            self._missing(counter, began_ns)
        # Of the others on the bus the data hold where only devices that are known to be gone are missing.
        partly = not whole and counter > 0 and counter == sum(device.counted for device in self._bus.devices)
        for device in self._bus.devices:
            if whole or (partly and device.is_operational):
                self.overflow += len(self.readings) == _QUEUE
                self.readings.append(Reading(device, stamp_ns, self._bus.inputs(device)))

    def _missing(self, counter: int, began_ns: int) -> None:
        self._missed_in_row += 1
        if self._missed_in_row == 1:
            self._lost_since_ns = began_ns
        gone_ns = time.monotonic_ns() - self._lost_since_ns
        # By time too: waiting for a frame that does not come takes longer than a cycle.
        if self._missed_in_row > 1 and gone_ns >= self._chosen.lost_after_cycles * self._period_ns and not self.trouble:
            found = "no frame came back" if counter < 0 else f"the working counter is {counter}"
            gone_ms = 1e-6 * gone_ns
            self._say(
                f"process data are lost: {found}, {self._bus.expected} expected, for {self._missed_in_row} cycles "
                f"({gone_ms:.0f} ms)"
            )
            self._hurry.set()

    def _back(self, began_ns: int) -> None:
        if self.trouble:
            self.lost_for_s = 1e-9 * (began_ns - self._lost_since_ns)
            self._tell(f"process data are back after {self.lost_for_s:.2f} s", False)
        self._missed_in_row = 0
        self.trouble = ""
        self._hurry.clear()

    def _look_after(self) -> None:
        """The other thread: states, and the way back."""
        self._running.wait()
        while not self._stop.is_set():
            try:
                if self.counter >= 0:  # else there is nobody to ask, and the asking would hold the cycle up
                    with self._changing:
                        self._bus.look_after()
            except Exception as error:  # of the library, on frames that a broken bus gives
                self._tell(f"looking after the bus failed: {error!r}", True)
            in_need = bool(self.trouble) or any(device.trouble for device in self._bus.devices)
            if in_need:
                self._stop.wait(_HURRY_S)
            else:
                self._hurry.wait(_LOOK_S)


def _percentile(values: NDArray[np.float64], share: float) -> float:
    return float(np.percentile(values, share)) if len(values) else math.nan
