"""An EtherCAT bus: its master, and its cycle in a thread of its own, at absolute instants; how well these are kept."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from drivers.ethercat.configuration import BusConfiguration
from drivers.ethercat.description import SensorDescription
from drivers.ethercat.device import Device
from drivers.ethercat.interface import flags_kept, hear_all, raw_socket, refuse_unless_own
from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.installed import optional

# Master of an EtherCAT bus: from opening it to operation, one cycle, and the way back of devices that were lost.
#
# A cycle and the looking-after run in two threads: a device that starts anew is written its objects, for which it may
# take long, while the others want their process data every millisecond. SOEM, below pysoem, is made for that.

_MAILBOX_US = 200_000
_SAFEOP_US = 2_000_000
_OPERATION_S = 3.0
_RECOVER_US = 20_000
_RECONFIGURE_US = 100_000
_STATES = {0: "no answer", 1: "INIT", 2: "PREOP", 3: "BOOT", 4: "SAFEOP", 8: "OP"}


def pysoem_library() -> Any:
    """The module `pysoem`, with the GIL given up in its calls; UserError with the way to get it where it is missing."""
    library = optional("pysoem", "pysoem", "ethercat")
    # Off by default: the whole process would stand still while a frame is under way.
    library.settings.always_release_gil = True
    library.settings.timeouts.tx_mailbox = _MAILBOX_US  # 20 ms by default, in which a busy computer may not get round
    return library


class Bus:
    """Devices on one interface.

    Parameters
    ----------
    chosen
        The interface, for this bus alone, and for how long a frame is waited for.
    descriptions
        Of the devices that are read, in their order on the bus; others may stand between.
    tell
        Takes sentences on what changes, with whether they are bad news; from any thread.

    Attributes
    ----------
    devices
        Those that are read, once `start` has found them.

    Raises
    ------
    UserError
        pysoem is not there; the interface is not there, may not be used, or has a network on it.
    """

    def __init__(
        self, chosen: BusConfiguration, descriptions: Sequence[SensorDescription], tell: Callable[[str, bool], object]
    ) -> None:
        self._interface, self._timeout_us = chosen.interface, chosen.receive_timeout_us
        self._descriptions, self._tell = tuple(descriptions), tell
        self._library = pysoem_library()
        if not (chosen.beside_network and chosen.interface):
            refuse_unless_own(self._interface)
        self._raw = raw_socket(self._interface)
        # Held all the time: else each try to open a bus on which nothing answers would write to the kernel's log.
        hear_all(self._raw, self._interface)
        self._master: Any = None
        self.devices: list[Device] = []

    @property
    def expected(self) -> int:
        """Working counter of a cycle that every device took part in."""
        return int(self._master.expected_wkc) if self._master is not None else 0

    def start(self) -> str:
        """Find the devices and bring them into operation; a sentence where that failed and may be tried again.

        Raises
        ------
        UserError
            They are not those described, map other data, or refuse an object.
        """
        self._leave()
        library = self._library
        self._master = library.Master()
        try:
            with flags_kept(self._interface):
                self._master.open(self._interface)
        except OSError as error:  # ConnectionError is one
            self._master = None
            return f"{self._interface} cannot be opened: {error}"
        if self._master.config_init() <= 0:
            return f"no device answers on {self._interface}: is the cable in, and has the device power?"
        self.devices = self._found()
        for device in self.devices:
            device.slave.config_func = device.start
        try:
            self._master.config_map()
        except library.ConfigMapError as error:  # of any device, also of one that is not read
            told = "; ".join(" ".join(str(part) for part in one) for one in error.args[0])
            self._tell(f"while process data were mapped, a device told errors: {printable(told[:300])}", True)
        if fault := next((device.fault for device in self.devices if device.fault is not None), None):
            raise fault
        for device in self.devices:
            device.check_sizes()
        return self._into_operation()

    def exchange(self) -> int:
        """One cycle; the working counter, -1 where no frame came back."""
        for device in self.devices:
            if device.outputs:
                device.slave.output = device.outputs
        self._master.send_processdata()
        return int(self._master.receive_processdata(self._timeout_us))

    def look_after(self) -> None:
        """See how the devices fare, and take each one step nearer to operation; may block for a while."""
        library, master = self._library, self._master
        if master is None:
            return
        master.read_state()
        for device in self.devices:
            slave = device.slave
            state = device.state = slave.state
            if state == library.OP_STATE:
                self._change(device, "")
            elif state & library.STATE_ERROR:
                self._change(device, f"it fell to {_STATES.get(state & 15, state)}: {self._reason(slave)}")
                _ask_for(slave, (state & 15) | library.STATE_ACK)
            elif state == library.SAFEOP_STATE:
                self._change(device, device.trouble or "it fell to SAFEOP")
                _ask_for(slave, library.OP_STATE)
            elif state == library.NONE_STATE:
                self._change(device, "it does not answer: no power, or no cable")
                slave.recover(_RECOVER_US)
            else:
                self._change(device, device.trouble or f"it fell to {_STATES.get(state, state)}")
                # From INIT; one that was without power has no address any more, and tells its state to broadcasts only.
                slave.recover(_RECOVER_US)
                slave.reconfig(_RECONFIGURE_US)
                if device.fault is not None:  # the library goes on; the device must not, without its objects
                    self._change(device, f"it came back and cannot be started: {device.fault}")
                    _ask_for(slave, library.INIT_STATE)

    def close(self) -> None:
        """Take the devices back to INIT, in which they heed no outputs, and give the interface back as it was."""
        try:
            self._leave()
        finally:
            self._raw.close()

    def _leave(self) -> None:
        master, self._master, self.devices = self._master, None, []
        if master is None:
            return
        try:
            if master.slaves:
                _ask_for(master, self._library.INIT_STATE)
        finally:
            master.close()

    def _found(self) -> list[Device]:
        """Devices by description, in their order."""
        slaves = self._master.slaves
        devices, rest = list[Device](), iter(enumerate(slaves))
        for place, description in enumerate(self._descriptions):
            position = next((each for each, slave in rest if _is_described(description, slave)), None)
            if position is None:
                there = ", ".join(f"{_name(one)} (vendor 0x{one.man:X}, product 0x{one.id:X})" for one in slaves)
                products = " or ".join(f"0x{one:X}" for one in description.product_ids) or "any"
                vendor = "any" if description.vendor_id is None else f"0x{description.vendor_id:X}"
                raise UserError(
                    f"{description.name} (vendor {vendor}, product {products}) is not on {self._interface}, or not in "
                    f"this order; there are {there}: correct bus.sensors"
                )
            devices.append(Device(description, place, slaves[position], position, self._library))
        return devices

    def _into_operation(self) -> str:
        library, master = self._library, self._master
        if master.state_check(library.SAFEOP_STATE, _SAFEOP_US) != library.SAFEOP_STATE:
            return self._states("SAFEOP")
        for _ in range(3):  # a device wants valid outputs before it goes into operation
            self.exchange()
        _ask_for(master, library.OP_STATE)
        until_s = time.monotonic() + _OPERATION_S
        while time.monotonic() < until_s:
            self.exchange()
            if master.state_check(library.OP_STATE, 1000) == library.OP_STATE:
                for device in self.devices:
                    device.state, device.trouble = library.OP_STATE, ""
                return ""
        return self._states("OP")

    def _states(self, wanted: str) -> str:
        self._master.read_state()
        told = []
        for slave in self._master.slaves:
            reason = f": {self._reason(slave)}" if slave.al_status else ""
            told.append(f"{_name(slave)} is in {_STATES.get(slave.state & 15, slave.state)}{reason}")
        return f"{wanted} was not reached; {', '.join(told)}"

    def _reason(self, slave: Any) -> str:
        return f"{self._library.al_status_code_to_string(slave.al_status)} (0x{slave.al_status:04X})"

    def _change(self, device: Device, trouble: str) -> None:
        """Say it once."""
        before, device.trouble = device.trouble, trouble
        if trouble and trouble != before:
            self._tell(f"{device.name}: {trouble}", True)
        elif before and not trouble:
            self._tell(f"{device.name}: in operation again", False)


def _ask_for(one: Any, state: int) -> None:
    """Ask a slave, or all of them by the master, to go to a state."""
    one.state = state
    one.write_state()


def _name(slave: Any) -> str:
    """As the device's EEPROM has it, which may be anything."""
    try:
        return printable(slave.name)
    except UnicodeDecodeError:
        return "a device whose name is no text"


def _is_described(description: SensorDescription, slave: Any) -> bool:
    vendor = description.vendor_id is None or description.vendor_id == slave.man
    return vendor and (not description.product_ids or slave.id in description.product_ids)


_QUEUE, _KEPT = 20_000, 100_000
_AGAIN_S = 0.5
_LOOK_S = 0.25
_HURRY_S = 0.005
_REOPEN_S = 3.0
"""After so long without any device the bus is opened anew: its interface may have been taken away and come back."""
_PR_SET_TIMERSLACK, _LOCK_CURRENT, _LOCK_ON_FAULT = 29, 1, 4
_SWITCH_S = 0.0001
_SHARES = {"p50": 50, "p99": 99, "worst": 100}


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
        self._missed_in_row = self._whole_ns = 0
        self._late_ns: list[int] = []  # by which cycles began after they were due
        self._asked = np.zeros(3, dtype=np.int64)
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
        jitter_p50_us, jitter_p99_us, jitter_worst_us
            By which a cycle began after its instant.
        """
        late_us, self._late_ns = 1e-3 * np.array(self._late_ns, dtype=np.float64), []
        totals = np.array([self.cycles, self.missed, self.overruns])
        since, self._asked = totals - self._asked, totals
        return dict(zip(("cycles", "missed", "overruns"), since.tolist(), strict=True)) | {
            f"jitter_{share}_us": float(np.percentile(late_us, percent)) if len(late_us) else math.nan
            for share, percent in _SHARES.items()
        }

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
                trouble = str(error)
                if trouble == self.trouble:  # told twice, it is so, and no answer that came too late
                    self.refusal = error
                    return
            except Exception as error:  # of the library: this thread must not end without a word
                trouble = f"the bus failed and is opened anew: {error!r}"
            self._say(trouble)
            self._stop.wait(_AGAIN_S)

    def _begin(self) -> None:
        names = ", ".join(device.name for device in self._bus.devices)
        self._missed_in_row, self._whole_ns, self.trouble = 0, time.monotonic_ns(), ""
        self._tell(f"{names}: in operation, {1e9 / self._period_ns:g} cycles a second", False)
        self._running.set()

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._tell(trouble, True)

    def _prepare_thread(self) -> None:
        # Another thread keeps the interpreter for that long, by default for five cycles.
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        with contextlib.suppress(OSError, AttributeError):
            system = ctypes.CDLL(None)
            # The kernel may wake a thread late by its slack, 50 us by default.
            system.prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
            # What was used once stays in memory, where the limit on locked memory allows it; what was not takes none.
            system.mlockall(_LOCK_CURRENT | _LOCK_ON_FAULT)
        if priority := self._chosen.realtime_priority:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
            except OSError as error:
                self._tell(
                    f"the cycle has no real-time priority, and other programs delay it: bus.realtime_priority "
                    f"{priority}: {error.strerror}; an `rtprio` in /etc/security/limits.conf allows it, 0 does without",
                    True,
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
            if len(self._late_ns) > _KEPT:  # nobody asks
                self._late_ns = []
            self._late_ns.append(began_ns - due_ns)
            self._one(began_ns)
            if self.counter <= 0 and began_ns - self._whole_ns > 1e9 * _REOPEN_S:
                return

    def _one(self, began_ns: int) -> None:
        sent_ns = time.time_ns()
        counter = self.counter = self._bus.exchange()
        stamp_ns = (sent_ns + time.time_ns()) // 2
        self.cycles += 1
        whole = counter == self._bus.expected
        if whole:
            self._keep(began_ns)
        else:
            self._miss()
        # Of the others on the bus the data hold where only devices that are known to be gone are missing.
        partly = not whole and counter > 0 and counter == sum(device.counted for device in self._bus.devices)
        for device in self._bus.devices:
            if whole or (partly and device.is_operational):
                self.overflow += len(self.readings) == _QUEUE
                self.readings.append(Reading(device, stamp_ns, bytes(device.slave.input)))

    def _miss(self) -> None:
        self.missed += 1
        self._missed_in_row += 1
        gone_ns = time.monotonic_ns() - self._whole_ns
        # By time too: waiting for a frame that does not come takes longer than a cycle.
        if self._missed_in_row > 1 and gone_ns > self._chosen.lost_after_cycles * self._period_ns and not self.trouble:
            found = "no frame came back" if self.counter < 0 else f"the working counter is {self.counter}"
            lasting = f"for {self._missed_in_row} cycles ({1e-6 * gone_ns:.0f} ms)"
            self._say(f"process data are lost: {found}, {self._bus.expected} expected, {lasting}")
            self._hurry.set()

    def _keep(self, began_ns: int) -> None:
        if self.trouble:
            self.lost_for_s = 1e-9 * (began_ns - self._whole_ns)
            self._tell(f"process data are back after {self.lost_for_s:.2f} s", False)
            self._hurry.clear()
        self._missed_in_row, self._whole_ns, self.trouble = 0, began_ns, ""

    def _look_after(self) -> None:
        """The other thread: states, and the way back."""
        said = ""
        self._running.wait()
        while not self._stop.is_set():
            try:
                if self.counter >= 0:  # else there is nobody to ask, and the asking would hold the cycle up
                    with self._changing:
                        self._bus.look_after()
            except Exception as error:  # of the library, on frames that a broken bus gives
                before, said = said, f"looking after the bus failed: {error!r}"
                if said != before:
                    self._tell(said, True)
            if self.trouble or any(device.trouble for device in self._bus.devices):
                self._stop.wait(_HURRY_S)
            else:
                self._hurry.wait(_LOOK_S)
