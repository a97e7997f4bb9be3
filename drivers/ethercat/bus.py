"""Master of an EtherCAT bus: from opening it to operation, one cycle, and the way back of devices that were lost.

A cycle and the looking-after run in two threads: a device that starts anew is written its objects, for which it may
take long, while the others want their process data every millisecond. SOEM, below pysoem, is made for that.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from drivers.ethercat.configuration import BusConfiguration
from drivers.ethercat.description import SensorDescription
from drivers.ethercat.device import Device
from onboard_estimation.errors import UserError

# Whether raw Ethernet frames may be sent on an interface, and what to do where not.

_EVERY_PROTOCOL = 0x0003


def missing_capability() -> str:
    """The sentence for a process that may not open raw sockets; both ways were tried, neither runs anything as root."""
    return (
        "raw Ethernet needs the capability CAP_NET_RAW, which this process has not. Without running as root: "
        f"`sudo setpriv --reuid {os.getuid()} --regid {os.getgid()} --init-groups --inh-caps +net_raw "
        f"--ambient-caps +net_raw -- {sys.argv[0] or sys.executable} ...`; or for good, in an environment of its own "
        "(`python3 -m venv --copies ENVIRONMENT`): `sudo setcap cap_net_raw+ep ENVIRONMENT/bin/python3`"
    )


def check_interface(interface: str) -> None:
    """Refuse an interface that is not there, is down, or may not be used.

    Raises
    ------
    UserError
        With the interfaces that are there, or with the capability that is missing and the way to it.
    """
    known = sorted(name for _, name in socket.if_nameindex())
    if interface not in known:
        raise UserError(f"interface {interface!r} is not there; there are {', '.join(known)}: set bus.interface")
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL)) as raw:
            raw.bind((interface, _EVERY_PROTOCOL))
    except PermissionError as error:
        raise UserError(f"interface {interface}: {error.strerror}; {missing_capability()}") from error
    except OSError as error:
        raise UserError(f"interface {interface}: {error.strerror}") from error
    if not _is_up(interface):
        raise UserError(f"interface {interface} is down: sudo ip link set {interface} up")


def _is_up(interface: str) -> bool:
    try:
        flags = int(Path(f"/sys/class/net/{interface}/flags").read_text(), 16)
    except (OSError, ValueError):  # no sysfs here, or that of another namespace: the library will tell
        return True
    return bool(flags & 1)


_SAFEOP_US = 2_000_000
_OPERATION_S = 3.0
_RECOVER_US = 20_000
_RECONFIGURE_US = 100_000
_STATES = {0: "no answer", 1: "INIT", 2: "PREOP", 3: "BOOT", 4: "SAFEOP", 8: "OP"}


def pysoem_library() -> Any:
    """The module `pysoem`, with the GIL given up in its calls; UserError with the way to get it where it is missing."""
    try:
        library = import_module("pysoem")
    except (ImportError, OSError) as error:
        raise UserError(f"pysoem cannot be loaded ({error}): pip install 'onboard_estimation[ethercat]'") from error
    # Off by default: the whole process would stand still while a frame is under way.
    library.settings.always_release_gil = True
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
        pysoem is not there; the interface is not there, or may not be used.
    """

    def __init__(
        self, chosen: BusConfiguration, descriptions: Sequence[SensorDescription], tell: Callable[[str, bool], object]
    ) -> None:
        self._interface, self._timeout_us = chosen.interface, chosen.receive_timeout_us
        self._descriptions, self._tell = tuple(descriptions), tell
        self._library = pysoem_library()
        check_interface(self._interface)
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
        self.close()
        library = self._library
        self._master = library.Master()
        try:
            self._master.open(self._interface)
        except ConnectionError as error:
            self._master = None
            return f"{self._interface} cannot be opened: {error}"
        if self._master.config_init() <= 0:
            return f"no device answers on {self._interface}: is the cable in, and has the device power?"
        self.devices = self._found()
        for device in self.devices:
            self._master.slaves[device.position].config_func = device.start
        try:
            self._master.config_map()
        except library.ConfigMapError as error:  # of any device, also of one that is not read
            told = "; ".join(" ".join(str(part) for part in one) for one in error.args[0])
            self._tell(f"while process data were mapped, a device told errors: {told[:300]}", True)
        for device in self.devices:
            if device.fault is not None:
                raise device.fault
        for device in self.devices:
            device.check_sizes()
        return self._into_operation()

    def exchange(self) -> int:
        """One cycle; the working counter, -1 where no frame came back."""
        for device in self.devices:
            if device.outputs:
                self._master.slaves[device.position].output = device.outputs
        self._master.send_processdata()
        return int(self._master.receive_processdata(self._timeout_us))

    def inputs(self, device: Device) -> bytes:
        """What the device sent in the last cycle."""
        return bytes(self._master.slaves[device.position].input)

    def look_after(self) -> None:
        """See how the devices fare, and take each one step nearer to operation; may block for a while."""
        library, master = self._library, self._master
        if master is None:
            return
        master.read_state()
        for device in self.devices:
            slave = master.slaves[device.position]
            state = slave.state
            device.state = state
            if state == library.OP_STATE:
                self._change(device, "")
            elif state & library.STATE_ERROR:
                code = slave.al_status
                reason = library.al_status_code_to_string(code)
                self._change(device, f"it fell to {_STATES.get(state & 15, state)}: {reason} (0x{code:04X})")
                slave.state = (state & 15) | library.STATE_ACK
                slave.write_state()
            elif state == library.SAFEOP_STATE:
                self._change(device, device.trouble or "it fell to SAFEOP")
                slave.state = library.OP_STATE
                slave.write_state()
            elif state == library.NONE_STATE:
                self._change(device, "it does not answer: no power, or no cable")
                slave.recover(_RECOVER_US)
            else:
                self._change(device, device.trouble or f"it fell to {_STATES.get(state, state)}")
                self._start_again(device, slave)

    def _start_again(self, device: Device, slave: Any) -> None:
        """From INIT, with its objects written again."""
        # One that was without power has no address any more, and tells its state to broadcasts only.
        slave.recover(_RECOVER_US)
        slave.reconfig(_RECONFIGURE_US)
        if device.fault is not None:
            self._change(device, f"it came back and cannot be started: {device.fault}")

    def close(self) -> None:
        """Take the devices back to INIT and give the interface back."""
        master, self._master, self.devices = self._master, None, []
        if master is None:
            return
        try:
            if master.slaves:
                master.state = self._library.INIT_STATE
                master.write_state()
        finally:
            master.close()

    def _found(self) -> list[Device]:
        """Devices by description, in their order."""
        slaves = self._master.slaves
        devices, position = [], 0
        for place, description in enumerate(self._descriptions):
            while position < len(slaves) and not _fits(description, slaves[position]):
                position += 1
            if position == len(slaves):
                there = ", ".join(f"{one.name} (vendor 0x{one.man:X}, product 0x{one.id:X})" for one in slaves)
                products = " or ".join(f"0x{one:X}" for one in description.product_ids) or "any"
                vendor = "any" if description.vendor_id is None else f"0x{description.vendor_id:X}"
                raise UserError(
                    f"{description.name} (vendor {vendor}, product {products}) is not on {self._interface}, or not in "
                    f"this order; there are {there}: correct bus.sensors"
                )
            devices.append(Device(description, place, slaves[position], position, self._library))
            position += 1
        return devices

    def _into_operation(self) -> str:
        library, master = self._library, self._master
        if master.state_check(library.SAFEOP_STATE, _SAFEOP_US) != library.SAFEOP_STATE:
            return self._states("SAFEOP")
        for _ in range(3):  # a device wants valid outputs before it goes into operation
            self.exchange()
        master.state = library.OP_STATE
        master.write_state()
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
            code = slave.al_status
            reason = f": {self._library.al_status_code_to_string(code)} (0x{code:04X})" if code else ""
            told.append(f"{slave.name} is in {_STATES.get(slave.state & 15, slave.state)}{reason}")
        return f"{wanted} was not reached; {', '.join(told)}"

    def _change(self, device: Device, trouble: str) -> None:
        """Say it once."""
        before, device.trouble = device.trouble, trouble
        if trouble and trouble != before:
            self._tell(f"{device.name}: {trouble}", True)
        elif before and not trouble:
            self._tell(f"{device.name}: in operation again", False)


def _fits(description: SensorDescription, slave: Any) -> bool:
    vendor = description.vendor_id is None or description.vendor_id == slave.man
    return vendor and (not description.product_ids or slave.id in description.product_ids)
