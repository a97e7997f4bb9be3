"""EtherCAT masters of others, each in a process of its own: `ethercat_masters.py MASTER INTERFACE` prints JSON.

What is found: `inputs` (hexadecimal, by device), `states`, `objects` read, `abort` of an object that is not there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import pytest

MODULES = {"pysoem": "pysoem", "kickcat": "kickcat"}
_OP, _SAFEOP = 8, 4
_TRIES = 40


def ask(master: str, interface: str, seconds: float = 0.0) -> dict[str, Any]:
    """What a master finds on the bus; its process data for so long. Skips the test where it is not installed."""
    pytest.importorskip(MODULES[master], reason=f"the EtherCAT master {MODULES[master]} is not installed")
    found = subprocess.run(
        [sys.executable, __file__, master, interface, str(seconds)],
        capture_output=True,
        text=True,
        timeout=300.0,
        check=False,
    )
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
    answer: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return answer


def by_pysoem(interface: str, seconds: float) -> dict[str, Any]:
    import pysoem

    limits = pysoem.settings.timeouts  # of 2 and 20 ms by default: the other end may have to wait for a processor
    limits.ret = limits.safe = limits.eeprom = limits.tx_mailbox = 200_000
    bus = pysoem.Master()
    bus.open(interface)
    assert bus.config_init() > 0
    bus.config_map()
    assert bus.state_check(_SAFEOP, 2_000_000) == _SAFEOP

    def exchange() -> int:
        bus.send_processdata()
        return int(bus.receive_processdata(200_000))

    exchange()
    bus.state = _OP
    bus.write_state()
    for _ in range(_TRIES):
        exchange()
        if bus.state_check(_OP, 20_000) == _OP:
            break
    bus.read_state()
    inputs, missed = [], 0
    end_s = time.monotonic() + seconds
    while not inputs or time.monotonic() < end_s:
        missed += exchange() != bus.expected_wkc
        inputs.append([bytes(one.input).hex() for one in bus.slaves])
        time.sleep(0.001)
    states = [one.state for one in bus.slaves]
    objects = [one.sdo_read(0x1018, 1).hex() + one.sdo_read(0x1008, 0).hex() for one in bus.slaves]
    try:
        bus.slaves[0].sdo_read(0x5000, 1)
        abort = 0
    except pysoem.SdoError as error:
        abort = error.abort_code
    found = {"names": [one.name for one in bus.slaves], "ids": [(one.man, one.id) for one in bus.slaves]}
    bus.close()
    return {"inputs": inputs, "missed": missed, "states": states, "objects": objects, "abort": abort, **found}


def by_kickcat(interface: str, _: float) -> dict[str, Any]:
    for _ in range(_TRIES - 1):  # it gives up on a single frame that is late
        try:
            return _by_kickcat_once(interface)
        except RuntimeError as error:
            print(error, file=sys.stderr)
    return _by_kickcat_once(interface)


def _by_kickcat_once(interface: str) -> dict[str, Any]:
    import kickcat

    link = kickcat.create_link(interface, "")
    link.set_timeout(timedelta(milliseconds=100))
    bus = kickcat.Bus(link)
    second = timedelta(seconds=1)
    bus.init(timedelta(seconds=2))
    objects = [
        bus.read_sdo(one, 0x1018, 1, kickcat.PARTIAL, 4, second).hex()
        + bus.read_sdo(one, 0x1008, 0, kickcat.PARTIAL, 64, second).rstrip(b"\0").hex()
        for one in bus.slaves()
    ]
    bus.create_mapping(4096)
    bus.request_state(kickcat.State.SAFE_OP)
    bus.wait_for_state(kickcat.State.SAFE_OP, second)
    for one in bus.slaves():
        if one.output_size:
            one.set_output_bytes(bytes(one.output_size))
    bus.process_data()
    bus.request_state(kickcat.State.OPERATIONAL)
    bus.wait_for_state(kickcat.State.OPERATIONAL, second, bus.process_data_no_check)
    bus.process_data()
    states = [_OP if bus.get_state(one) == kickcat.State.OPERATIONAL else 0 for one in bus.slaves()]
    return {"inputs": [[bytes(one.input_data).hex() for one in bus.slaves()]], "states": states, "objects": objects}


if __name__ == "__main__":
    known = {"pysoem": by_pysoem, "kickcat": by_kickcat}
    print("\n" + json.dumps(known[sys.argv[1]](sys.argv[2], float(sys.argv[3]))))
