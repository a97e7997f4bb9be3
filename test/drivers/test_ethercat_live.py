"""The EtherCAT node on a virtual cable, with emulated devices at its other end."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from emulated_slaves import EmulatedSlaves, emulated_slaves
from ethernet_cables import Cable, cable

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("pysoem") is None,
        reason="pysoem is not installed (pip install 'onboard_estimation[ethercat]')",
    ),
    pytest.mark.usefixtures("ros_domain"),
    pytest.mark.timeout(120),
]

PLAYED = (1.25, -2.5, -3.0, 0.125, -0.25, 0.0625)
COUNT = 1e-6
"""N, N m: one count of the emulated Axia80."""


class Running:
    """The node and a listener in this process."""

    def __init__(self, interface: str, *words: str) -> None:
        import rclpy

        from drivers.ethercat.node import EthercatWrenchNode

        parameters = [f"bus.interface:={interface}", "diagnostics_period_s:=0.2", *words]
        rclpy.init(args=["--ros-args", *(word for one in parameters for word in ("-p", one))])
        try:
            self.node = EthercatWrenchNode()
        except BaseException:
            rclpy.try_shutdown()  # a node that is refused must not leave its context to the tests that follow
            raise
        self.listener = rclpy.create_node("listener")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.executor.add_node(self.listener)

    def listen(self, kind: Any, topic: str) -> list[Any]:
        heard: list[Any] = []
        self.listener.create_subscription(kind, topic, heard.append, 5000)
        return heard

    def until(self, true: Callable[[], object], longest_s: float = 30.0) -> None:
        stop_s = time.monotonic() + longest_s
        while not true():
            assert time.monotonic() < stop_s
            self.executor.spin_once(timeout_sec=0.05)

    def call(self, name: str) -> Any:
        from std_srvs.srv import Trigger

        client = self.listener.create_client(Trigger, name)
        self.until(client.service_is_ready)
        future = client.call_async(Trigger.Request())
        self.until(future.done)
        return future.result()

    def close(self) -> None:
        import rclpy

        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture
def line() -> Iterator[Cable]:
    with cable() as made:
        yield made


@pytest.fixture
def running() -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def make(*words: str) -> Running:
        made.append(Running(*words))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def axia(line: Cable) -> Iterator[EmulatedSlaves]:
    with emulated_slaves(line.far, "ati_axia80") as slaves:
        slaves.do("values 0 " + " ".join(map(str, PLAYED)))
        yield slaves


def numbers(message: Any) -> np.ndarray:
    force, torque = message.wrench.force, message.wrench.torque
    return np.array([force.x, force.y, force.z, torque.x, torque.y, torque.z])


def reads(heard: list[Any], expected: Any) -> bool:
    """Whether the last message says that, to two counts: those under way may be of before."""
    return bool(heard) and np.allclose(numbers(heard[-1]), expected, rtol=0.0, atol=2 * COUNT)


def states(reports: list[Any]) -> dict[str, Any]:
    return {one.hardware_id: one for one in reports[-1].status} if reports else {}


@pytest.mark.slow
@pytest.mark.parametrize("sensor", ["ati_axia80", "ati_ft", "schunk_ft_axia", "bota_rokubi", "bota_sensone", "me_gsv8"])
def test_every_shipped_sensor_reads_what_is_played(line: Cable, running: Callable[..., Running], sensor: str) -> None:
    from geometry_msgs.msg import WrenchStamped

    with emulated_slaves(line.far, sensor) as slaves:
        slaves.do("values 0 " + " ".join(map(str, PLAYED)))
        one = running(line.near, f"bus.sensors:=[{sensor}]", "wrench.frame:=base_sensor", "frame_prefix:=softrobot")
        heard = one.listen(WrenchStamped, "wrench")
        one.until(lambda: len(heard) >= 300)
    np.testing.assert_allclose([numbers(message) for message in heard], [PLAYED] * len(heard), atol=0.51 * COUNT)
    assert heard[0].header.frame_id == "softrobot/base_sensor"
    stamps = np.array([message.header.stamp.sec * 10**9 + message.header.stamp.nanosec for message in heard])
    assert (np.diff(stamps) > 0).all()
    assert abs(time.time_ns() - stamps[-1]) < 60e9


def test_wrench_and_pressures_of_one_bus_and_what_a_broken_wire_reads(
    line: Cable, running: Callable[..., Running]
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray
    from geometry_msgs.msg import WrenchStamped
    from sensor_msgs.msg import FluidPressure

    with emulated_slaves(line.far, "ati_axia80", "beckhoff_el3104") as slaves:
        slaves.do("values 0 " + " ".join(map(str, PLAYED)))
        slaves.do("values 1 0.5 2.5 4.5 0 0 0 0 0")
        one = running(
            line.near,
            "bus.sensors:=[ati_axia80, beckhoff_el3104]",
            "pressure.chambers:=[chamber_1, '', chamber_3]",
            "pressure.volts:=[0.5, 4.5]",
            "pressure.pascals:=[0.0, 200000.0]",
            "pressure.offsets_pa:=[100.0, -100.0]",
            "pressure.ambient_pa:=100000.0",
        )
        heard = [one.listen(FluidPressure, f"pressure/chamber_{number}") for number in (1, 3)]
        wrenches = one.listen(WrenchStamped, "wrench")
        reports = one.listen(DiagnosticArray, "/diagnostics")
        one.until(lambda: all(len(each) > 50 for each in (*heard, wrenches)))
        step_pa = 10.0 / 32767 * 200000.0 / 4.0
        assert heard[0][-1].fluid_pressure == pytest.approx(99900.0, abs=0.51 * step_pa)
        assert heard[1][-1].fluid_pressure == pytest.approx(300100.0, abs=0.51 * step_pa)
        slaves.do("values 1 0.0 2.5 4.5 0 0 0 0 0")
        one.until(lambda: "pressure/chamber_1: " in states(reports)["Beckhoff EL3104 1"].message)
        assert "is a wire off?" in states(reports)["Beckhoff EL3104 1"].message
        count = len(heard[0])
        before = len(heard[1])
        one.until(lambda: len(heard[1]) > before + 100)
        assert len(heard[0]) <= count + 5


def test_a_tare_on_the_host_keeps_or_takes_the_weight(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running]
) -> None:
    from geometry_msgs.msg import WrenchStamped

    one = running(line.near, "wrench.mass_kg:=0.1", "wrench.centre_of_mass_m:=[0.01, 0.0, 0.05]", "wrench.tare_s:=0.1")
    heard = one.listen(WrenchStamped, "wrench")
    one.until(lambda: len(heard) > 10)
    answer = one.call("tare")
    assert answer.success, answer.message
    assert "tare_includes_weight false: the weight of 0.1 kg is read on (without_robot)" in answer.message
    assert "force 1.25, -2.5, -3.981 N" in answer.message
    # 0.1 kg along z, 10 mm off the axis in x: its torque is about -y.
    one.until(lambda: reads(heard, [0, 0, 0.980665, 0, -0.00980665, 0]))
    assert one.call("clear_tare").success
    one.until(lambda: reads(heard, PLAYED))


def test_a_tare_by_the_device_is_lost_with_its_power_and_said_to_be(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running]
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray
    from geometry_msgs.msg import WrenchStamped

    one = running(line.near, "wrench.tare_on_device:=true", "wrench.tare_s:=0.1")
    heard, reports = one.listen(WrenchStamped, "wrench"), one.listen(DiagnosticArray, "/diagnostics")
    one.until(lambda: len(heard) > 10)
    answer = one.call("tare")
    assert answer.success, answer.message
    assert "by the device's own bias" in answer.message
    one.until(lambda: reads(heard, np.zeros(6)))
    axia.do("power")
    one.until(lambda: "has lost its bias: call the service tare again" in states(reports)["ATI Axia80 0"].message)
    one.until(lambda: reads(heard, PLAYED))


def test_a_device_that_is_gone_for_two_seconds_is_stated_and_comes_back(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running], capfd: Any
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray
    from geometry_msgs.msg import WrenchStamped

    one = running(line.near)
    heard, reports = one.listen(WrenchStamped, "wrench"), one.listen(DiagnosticArray, "/diagnostics")
    one.until(lambda: len(heard) > 10 and states(reports) and states(reports)["bus"].level == b"\x00")
    starts = next(value.value for value in states(reports)["ATI Axia80 0"].values if value.key == "starts")
    axia.do("off")
    one.until(lambda: states(reports)["bus"].level == b"\x02")
    assert "process data are lost: no frame came back, 3 expected" in states(reports)["bus"].message
    stop_s = time.monotonic() + 2.0
    one.until(lambda: time.monotonic() > stop_s)
    heard.clear()
    axia.do("power")
    axia.do("on")
    one.until(lambda: len(heard) > 100 and states(reports)["bus"].level != b"\x02")
    np.testing.assert_allclose(numbers(heard[-1]), PLAYED, atol=COUNT)
    one.until(lambda: states(reports)["ATI Axia80 0"].message == "in operation")
    again = next(value.value for value in states(reports)["ATI Axia80 0"].values if value.key == "starts")
    assert (starts, int(again) >= 1) == ("1", True)
    said = "".join(capfd.readouterr())
    assert "process data are lost" in said


def test_a_pulled_cable_and_a_fallen_device_are_stated_and_mended(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running], capfd: Any
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray
    from geometry_msgs.msg import WrenchStamped

    one = running(line.near)
    heard, reports = one.listen(WrenchStamped, "wrench"), one.listen(DiagnosticArray, "/diagnostics")
    one.until(lambda: len(heard) > 10 and states(reports))
    line.pull()
    one.until(lambda: states(reports)["bus"].level == b"\x02")
    line.plug_in()
    heard.clear()
    one.until(lambda: len(heard) > 100 and states(reports)["bus"].level != b"\x02")
    axia.do("fall 0 0x1B")
    said: list[str] = []

    def is_told() -> bool:
        said.append("".join(capfd.readouterr()))
        return "ATI Axia80 at position 0: it fell to SAFEOP: Sync manager watchdog (0x001B)" in "".join(said)

    one.until(is_told)
    one.until(lambda: states(reports)["ATI Axia80 0"].level == b"\x00")


@pytest.mark.slow
def test_what_the_device_calls_out_of_range_is_not_published(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running]
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray
    from geometry_msgs.msg import WrenchStamped

    one = running(line.near)
    heard, reports = one.listen(WrenchStamped, "wrench"), one.listen(DiagnosticArray, "/diagnostics")
    one.until(lambda: len(heard) > 10)
    axia.do("status 0 overload")
    one.until(lambda: "overload: a force or torque is out of range" in states(reports)["ATI Axia80 0"].message)
    assert states(reports)["ATI Axia80 0"].level == b"\x02"
    one.until(lambda: one.executor.spin_once(timeout_sec=0.0) is None)
    heard.clear()
    refused = one.node._streams[0].refused
    one.until(lambda: one.node._streams[0].refused > refused + 100)
    assert heard == []
    answer = one.call("tare")
    assert answer.success or "readings" in answer.message


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """A description of the Axia80 with a change."""
    content = yaml.safe_load(resource("config/ethercat/ati_axia80.yaml").read_text())
    change(content)
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def refusal(one: Running) -> str:
    with pytest.raises(UserError) as caught:
        one.until(lambda: False)
    return str(caught.value)


def test_another_layout_is_refused_with_the_bytes(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running], tmp_path: Path
) -> None:
    path = changed(tmp_path, lambda content: content["inputs"][0]["entries"][0].update(type="int16"))
    said = refusal(running(line.near, f"bus.sensors:=[{path}]"))
    assert "0x1A00, byte 0: described is force_x, 0x6000:01 of 16 bits; the device has 0x6000:01 of 32 bits" in said


def test_another_size_is_refused(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running], tmp_path: Path
) -> None:
    path = changed(tmp_path, lambda content: content["inputs"][0]["entries"].pop())
    said = refusal(running(line.near, f"bus.sensors:=[{path}]"))
    assert "0x1A00: described are 224 bits, the device has 256" in said


def test_a_refused_object_is_named(line: Cable, axia: EmulatedSlaves, running: Callable[..., Running]) -> None:
    axia.do("forget 0 0x2021 0x37")
    said = refusal(running(line.near))
    assert "ATI Axia80 at position 0: object 0x2021:37, reading it: aborted with 0x06" in said


def test_another_device_is_named_with_those_there(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running]
) -> None:
    said = refusal(running(line.near, "bus.sensors:=[beckhoff_el3004]"))
    assert "Beckhoff EL3004 (vendor 0x2, product 0xBBC3052) is not on" in said
    assert "vendor 0x732, product 0x26483052" in said


def test_a_bus_without_devices_is_waited_for(line: Cable, running: Callable[..., Running]) -> None:
    from diagnostic_msgs.msg import DiagnosticArray
    from geometry_msgs.msg import WrenchStamped

    one = running(line.near)
    heard, reports = one.listen(WrenchStamped, "wrench"), one.listen(DiagnosticArray, "/diagnostics")
    one.until(lambda: states(reports) and "no device answers" in states(reports)["bus"].message)
    with emulated_slaves(line.far, "ati_axia80"):
        one.until(lambda: len(heard) > 10)


def test_readings_go_to_an_estimator_without_messages(
    line: Cable, axia: EmulatedSlaves, running: Callable[..., Running]
) -> None:
    one = running(line.near, "wrench.decimation:=8")
    assert one.node.measured_topics == {"wrench"}
    taken: list[Any] = []
    one.node.hand_to(lambda readings: taken.extend(readings) or 0.0, ["wrench"])
    one.until(lambda: len(taken) > 50)
    np.testing.assert_allclose([reading.value for reading in taken], [PLAYED] * len(taken), atol=COUNT)
    assert {reading.sensor for reading in taken} == {"wrench"}
    assert np.median(np.diff([reading.stamp_ns for reading in taken])) == pytest.approx(8e6, rel=0.2)


def test_an_interface_that_is_not_there_is_named(running: Callable[..., Running]) -> None:
    with pytest.raises(UserError, match=r"interface 'eth_none' is not there; there are .*lo"):
        running("eth_none")
