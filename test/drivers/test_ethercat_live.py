"""The EtherCAT node on a virtual cable, with emulated devices at its other end."""

from __future__ import annotations

import importlib.util
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from emulated_slaves import EmulatedSlaves, emulated_slaves
from ethernet_cables import Cable, cable, ip
from live_graph import running as running_process
from live_graph import wait_until
from node_here import NodeHere, nodes_here

from drivers.ethercat.configuration import BusConfiguration
from drivers.ethercat.cycle import Bus, Cycle
from drivers.ethercat.description import find
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("pysoem") is None,
        reason="pysoem is not installed (pip install 'onboard_estimation[ethercat]')",
    ),
    pytest.mark.usefixtures("ros_domain"),
]

PLAYED = (1.25, -2.5, -3.0, 0.125, -0.25, 0.0625)
AXIA = "ATI Axia80 0"
Running = Callable[..., NodeHere]
COUNT = 1e-6
"""N, N m: one count of the emulated Axia80."""


@pytest.fixture
def line() -> Iterator[Cable]:
    with cable() as made:
        yield made


@pytest.fixture
def running() -> Iterator[Running]:
    def make() -> Any:
        from drivers.ethercat.node import EthercatWrenchNode

        return EthercatWrenchNode()

    with nodes_here(make) as here:
        yield lambda interface, *words: here(f"bus.interface:={interface}", "diagnostics_period_s:=0.2", *words)


def wrenches(one: NodeHere) -> list[Any]:
    from geometry_msgs.msg import WrenchStamped

    return one.listen(WrenchStamped, "wrench")


@pytest.fixture
def axia(line: Cable) -> Iterator[EmulatedSlaves]:
    with emulated_slaves(line.far, "ati_axia80") as slaves:
        slaves.do("values 0 " + " ".join(map(str, PLAYED)))
        yield slaves


def numbers(message: Any) -> np.ndarray:
    force, torque = message.wrench.force, message.wrench.torque
    return np.array([force.x, force.y, force.z, torque.x, torque.y, torque.z])


def stamp_s(message: Any) -> float:
    return float(message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec)


def reads(heard: list[Any], expected: Any) -> bool:
    """Whether the last message says that, to two counts: those under way may be of before."""
    return bool(heard) and np.allclose(numbers(heard[-1]), expected, rtol=0.0, atol=2 * COUNT)


def test_a_bus_is_waited_for_and_readings_go_to_topic_and_estimator(line: Cable, running: Running) -> None:
    sensor = "bota_rokubi"
    one = running(line.near, f"bus.sensors:=[{sensor}]", "wrench.decimation:=2", "frame_prefix:=softrobot")
    heard, taken = wrenches(one), list[Any]()
    assert one.node.measured_topics == {"wrench"}
    one.node.hand_to(lambda readings: taken.extend(readings) or 0.0, ["wrench"])
    one.until_said("no device answers", "bus")
    with emulated_slaves(line.far, sensor) as slaves:
        slaves.do("values 0 " + " ".join(map(str, PLAYED)))
        one.until(lambda: len(heard) >= 60 and len(taken) >= 60)
    for values in ([reading.value for reading in taken[30:]], [numbers(message) for message in heard[30:]]):
        np.testing.assert_allclose(values, [PLAYED] * len(values), atol=1.1 * COUNT)
    assert {reading.sensor for reading in taken} == {"wrench"}
    assert heard[0].header.frame_id.startswith("softrobot/")
    assert (np.diff([reading.stamp_ns for reading in taken]) > 0).all()
    assert abs(time.time() - stamp_s(heard[-1])) < 60.0


def test_wrench_and_pressures_of_one_bus_and_what_a_broken_wire_reads(line: Cable, running: Running) -> None:
    from sensor_msgs.msg import FluidPressure

    with emulated_slaves(line.far, "ati_axia80", "beckhoff_el3104") as slaves:
        slaves.do("values 0 " + " ".join(map(str, PLAYED)))
        slaves.do("values 1 0.5 2.5 4.5 0")
        one = running(
            line.near,
            "bus.sensors:=[ati_axia80, beckhoff_el3104]",
            "pressure.chambers:=[chamber_1, '', chamber_3]",
            "pressure.volts:=[0.5, 4.5]",
            "pressure.pascals:=[0.0, 200000.0]",
            "pressure.offsets_pa:=[100.0, -100.0]",
            "pressure.ambient_pa:=100000.0",
        )
        first, third = (one.listen(FluidPressure, f"pressure/chamber_{number}") for number in (1, 3))
        heard = wrenches(one)
        one.until(lambda: first and third and reads(heard, PLAYED))
        step_pa = 10.0 / 32767 * 200000.0 / 4.0
        assert first[-1].fluid_pressure == pytest.approx(99900.0, abs=1.51 * step_pa)
        assert third[-1].fluid_pressure == pytest.approx(300100.0, abs=0.51 * step_pa)
        slaves.do("values 1 0.0 2.5 4.5 0")
        one.until_said("pressure/chamber_1: ", "Beckhoff EL3104 1")
        assert "is a wire off?" in one.state("Beckhoff EL3104 1").message
        one.until(lambda: stamp_s(third[-1]) > stamp_s(first[-1]) + 0.1)  # the other is published, this one is not


def test_a_tare_on_the_host_keeps_the_weight_and_readings_out_of_range_are_not_published(
    line: Cable, axia: EmulatedSlaves, running: Running
) -> None:
    one = running(line.near, "wrench.mass_kg:=0.1", "wrench.centre_of_mass_m:=[0.01, 0.0, 0.05]", "wrench.tare_s:=0.1")
    heard = wrenches(one)
    one.until(lambda: reads(heard, PLAYED))
    answer = one.call("tare")
    assert answer.success, answer.message
    assert "the weight of 0.1 kg is read on (without_robot)" in answer.message
    assert "force 1.25, -2.5, -3.981 N" in answer.message
    # 0.1 kg along z, 10 mm off the axis in x: its torque is about -y.
    one.until(lambda: reads(heard, [0, 0, 0.980665, 0, -0.00980665, 0]))
    assert one.call("clear_tare").success
    one.until(lambda: reads(heard, PLAYED))
    axia.do("status 0 overload")
    since_s = time.time()
    one.until_said("overload: a force or torque is out of range", AXIA)
    assert one.state(AXIA).level == b"\x02"
    readout = one.node._streams[0].readouts["wrench"]
    refused = readout.refused
    one.until(lambda: readout.refused > refused + 200)
    assert all(stamp_s(message) < since_s for message in heard)


def test_what_is_lost_is_stated_and_comes_back(line: Cable, axia: EmulatedSlaves, running: Running, capfd: Any) -> None:
    one = running(line.near, "wrench.tare_s:=0.1")
    heard, said = wrenches(one), list[str]()

    def is_lost() -> None:
        one.until(lambda: one.state("bus").level == b"\x02")
        assert "process data are lost: no frame came back, 3 expected" in one.state("bus").message

    def is_back(expected: Any) -> None:
        heard.clear()
        one.until(lambda: one.state("bus").level != b"\x02" and len(heard) > 50 and reads(heard, expected))

    one.until(lambda: reads(heard, PLAYED))
    answer = one.call("tare")
    assert answer.success, answer.message
    is_back(np.zeros(6))
    line.pull()
    is_lost()
    line.plug_in()
    is_back(np.zeros(6))
    axia.do("fall 0 0x1B")

    def is_told() -> bool:
        said.append("".join(capfd.readouterr()))
        return "ATI Axia80 at position 0: it fell to SAFEOP: Sync manager watchdog (0x001B)" in "".join(said)

    one.until(is_told)
    is_back(np.zeros(6))
    # Without power for a while, and not to be started at first: it does not go on with what it was not told.
    axia.do("off")
    is_lost()
    axia.do("power")
    axia.do("forget 0 0x2021 0x37")
    axia.do("on")
    one.until_said("it came back and cannot be started: ATI Axia80 at position 0: object 0x2021:37", AXIA)
    axia.do("remember 0")
    is_back(np.zeros(6))


@pytest.mark.parametrize("sensor", ["ati_axia80", "bota_rokubi"], ids=["by its counter", "by its values"])
def test_readings_of_a_frozen_device_are_left_out_counted_and_said(
    line: Cable, running: Running, sensor: str, capfd: Any
) -> None:
    with emulated_slaves(line.far, sensor) as slaves:
        one = running(line.near, f"bus.sensors:=[{sensor}]", "wrench.decimation:=4", "wrench.tare_s:=0.2")
        name, heard = f"{find(sensor).name} 0", wrenches(one)
        one.until(lambda: len(heard) > 50 and one.state(name).level == b"\x00")
        assert one.call("tare").success
        slaves.do("freeze 0")
        one.until_said("reads the same all the time", name)
        heard.clear()
        assert "0 of 200 readings came for the tare" in one.call("tare").message
        assert (heard, one.state(name).level) == ([], b"\x01")
        slaves.do("thaw 0")
        one.until(lambda: len(heard) > 50 and one.state(name).level == b"\x00")
    said = "".join(capfd.readouterr())
    assert said.index("reads the same all the time, ") < said.index("readings are fresh again")


def test_a_sensor_slower_than_the_bus_is_no_fault_and_said_once(
    line: Cable, axia: EmulatedSlaves, running: Running, capfd: Any
) -> None:
    axia.do("halve 0")
    one, said = running(line.near), list[str]()
    one.until(lambda: bool(said.append("".join(capfd.readouterr()))) or "readings a second" in "".join(said))
    stream = one.node._streams[0]
    enough = stream.received + 2000
    one.until(lambda: stream.received > enough)
    told = "".join([*said, *capfd.readouterr()])
    assert re.findall(r"(\w+).*: ATI Axia80 gives [45]\d\d readings a second, bus.cycle_hz asks for 1000", told) == [
        "INFO"
    ]
    assert ("repeat the one before" in told, one.state(AXIA).level) == (False, b"\x00")


def test_readings_go_on_without_the_report_and_where_looking_after_the_bus_fails(
    line: Cable, axia: EmulatedSlaves, running: Running, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.delattr(Bus, "look_after")
    one = running(line.near)
    heard = wrenches(one)
    one.until(lambda: len(heard) > 50)
    one.node.destroy_publisher(one.node._diagnostics)
    heard.clear()
    one.until(lambda: len(heard) > 1500)
    said = "".join(capfd.readouterr())
    assert said.count("publishing /diagnostics has ended: InvalidHandle") == 1
    assert said.count("looking after the bus failed: AttributeError") == 1


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_an_interface_is_never_left_promiscuous_and_devices_are_left_in_init(
    line: Cable, axia: EmulatedSlaves, tmp_path: Path, ending: signal.Signals
) -> None:
    flags = Path(f"/sys/class/net/{line.near}/flags")
    before = flags.read_text()
    with running_process("ethercat_wrench", tmp_path, "-p", f"bus.interface:={line.near}") as node:
        node.wait_for("in operation")
        axia.do("is 0 OP")
        node.stop(ending)
        assert flags.read_text() == before
        axia.do("is 0 INIT" if ending == signal.SIGTERM else "is 0 OP")  # whose watchdog looks at the next frame


def test_an_interface_with_a_network_on_it_is_taken_on_request_only(line: Cable) -> None:
    def refusal(**chosen: Any) -> str:
        with pytest.raises(UserError) as caught:
            Bus(BusConfiguration(**chosen), [find("ati_axia80")], print)
        return str(caught.value)

    said = refusal()  # other tests' cables may be there too
    assert said.startswith("bus.interface is not set, and EtherCAT wants one for itself; there are ")
    assert f"{line.far} (has a link and no address: may be it)" in said
    ip("address", "add", "192.168.77.1/24", "dev", line.near)
    assert f"{line.near} has a network on it (address 192.168.77.1)" in refusal(interface=line.near)
    Bus(BusConfiguration(line.near, beside_network=True), [find("ati_axia80")], print).close()


def test_devices_other_than_described_are_refused(line: Cable, axia: EmulatedSlaves, tmp_path: Path) -> None:
    def refusal(sensor: str, change: Callable[[dict[str, Any]], object] = bool) -> str:
        content = yaml.safe_load(resource(f"config/ethercat/{sensor}.yaml").read_text())
        change(content)
        path = tmp_path / "changed.yaml"
        path.write_text(yaml.safe_dump(content))
        cycle = Cycle(Bus(BusConfiguration(line.near), [find(str(path))], print), BusConfiguration(line.near), print)
        cycle.start()
        wait_until(lambda: cycle.refusal is not None)
        cycle.close()
        return str(cycle.refusal)

    said = refusal("ati_axia80", lambda content: content["inputs"][0]["entries"][0].update(type="int16"))
    assert "0x1A00, byte 0: described is force_x, 0x6000:01 of 16 bits; the device has 0x6000:01 of 32 bits" in said
    said = refusal("ati_axia80", lambda content: content["inputs"][0]["entries"].pop())
    assert "0x1A00: described are 224 bits, the device has 256" in said
    said = refusal("beckhoff_el3004")
    assert "Beckhoff EL3004 (vendor 0x2, product 0xBBC3052) is not on" in said
    assert "vendor 0x732, product 0x26483052" in said
    axia.do("forget 0 0x2021 0x37")
    said = refusal("ati_axia80")
    assert "ATI Axia80 at position 0: object 0x2021:37, reading it: aborted with 0x06" in said


def test_a_refusal_ends_the_node_and_one_that_is_not_told_again_was_a_late_answer(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"interface 'eth_none' is not there; there are .*lo"):
        running("eth_none")
    told = iter(["object 1: no answer", "maps 4 bytes", "object 2: no answer", "is not on it", "is not on it"])

    def start(_: Bus) -> str:
        raise UserError(next(told))

    monkeypatch.setattr(Bus, "start", start)
    one = running("lo", "bus.beside_network:=true")
    with pytest.raises(UserError, match="is not on it"):
        one.until(lambda: False)
    assert list(told) == []
