"""Masters of others against the emulator, over a cable into another network namespace; its node."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bag_samples
import pytest
from emulated_slaves import emulated_slaves
from ethercat_masters import ask
from ethernet_cables import cable
from live_graph import await_being_heard, listening_node, running, set_parameter, spin_until, wait_until

from drivers.ethercat.description import shipped
from onboard_estimation.base.errors import UserError
from onboard_estimation.live.messages import interface_class, new

WRENCH = (1.5, -2.25, 30.125, 0.25, -0.5, 0.125)
VOLTS = (1.0, -2.0, 3.0, 9.99)
THREE = ("ati_axia80", "bota_rokubi", "beckhoff_el3004")


def needs_graph(test: Any) -> Any:
    return pytest.mark.live(pytest.mark.usefixtures("ros_domain")(test))


@pytest.mark.slow
@pytest.mark.parametrize(("master", "sensors"), [("pysoem", (*THREE, *shipped())), ("kickcat", THREE)])
def test_two_masters_reach_op_and_read_each_device_of_a_cable(master: str, sensors: Sequence[str]) -> None:
    with cable(namespace=True) as line, emulated_slaves(line.far, *sensors, entering=line.entering) as slaves:
        for place, values in enumerate((WRENCH, WRENCH, VOLTS)):
            slaves.do(f"values {place} " + " ".join(map(str, values)))
        found = ask(master, line.near)
    assert found["states"] == [8] * len(sensors)
    axia, rokubi, terminal = (bytes.fromhex(one) for one in found["inputs"][-1][:3])
    assert struct.unpack("<6i", axia[:24]) == tuple(round(1e6 * value) for value in WRENCH)
    assert found["objects"][0] == struct.pack("<I", 0x732).hex() + b"ATI Axia80".hex()
    assert (struct.unpack("<6f", rokubi[5:29]), len(rokubi)) == (pytest.approx(WRENCH, abs=1.1e-6), 77)
    counts = [round(one * 32767 / 10) for one in VOLTS]
    assert [raw for _, raw in struct.iter_unpack("<Hh", terminal)] == pytest.approx(counts, abs=1)
    if master == "pysoem":
        # KickCAT 2.5 waits in vain for aborts: it wants them as responses, ETG.1000.6 has them as requests.
        assert found["abort"] == 0x0602_0000


# The node


def first_counts(found: dict[str, Any]) -> list[tuple[int, ...]]:
    """Of the first device, an Axia80."""
    return [struct.unpack("<6i", bytes.fromhex(one[0])[:24]) for one in found["inputs"]]


@needs_graph
@pytest.mark.slow
def test_the_node_measures_messages_to_the_count_and_fails_on_request(tmp_path: Path) -> None:
    words = ("bus.sensors:=[ati_axia80, beckhoff_el3104]", "pressure.chambers:=[left]")
    with cable() as here:
        arguments = [word for one in (f"bus.interface:={here.far}", *words) for word in ("-p", one)]
        with (
            running("ethercat_wrench_emulator", tmp_path, *arguments, namespace="/base") as emulator,
            listening_node(namespace="/base") as node,
        ):
            emulator.wait_for("ATI Axia80, Beckhoff EL3104 on ")
            assert len(set(first_counts(ask("pysoem", here.near, seconds=0.5)))) > 1  # made up
            emulator.wait_for("0, ATI Axia80: OP")
            publisher = node.create_publisher(interface_class(bag_samples.WRENCH), "emulated_wrench", 1)
            pressed = node.create_publisher(interface_class(bag_samples.PRESSURE), "emulated_pressure/left", 1)
            spin_until(node, lambda: publisher.get_subscription_count() > 0 < pressed.get_subscription_count())
            counts = tuple(round(1e6 * value) for value in WRENCH)

            def is_measured() -> bool:
                publisher.publish(message_of(WRENCH))  # again: a best-effort reader may not have met the writer yet
                pressed.publish(new(bag_samples.PRESSURE, fluid_pressure=120_000.0))
                found = ask("pysoem", here.near)
                volts = struct.unpack_from("<h", bytes.fromhex(found["inputs"][-1][1]), 2)[0] * 10.0 / 32767
                pressure_v = pytest.approx((120_000.0 - 101_325.0) / 10_000.0, abs=5e-4)
                return found["states"] == [8, 8] and first_counts(found)[-1] == counts and volts == pressure_v

            wait_until(is_measured)
            await_being_heard(node, "/base/ethercat_wrench_emulator")
            assert set_parameter(node, "/base/ethercat_wrench_emulator", "fault.overload", True).successful
            ill = ask("pysoem", here.near)
            assert bytes.fromhex(ill["inputs"][-1][0])[24:28] == struct.pack("<I", 0x4000_0000)
            refused = set_parameter(node, "/base/ethercat_wrench_emulator", "fault.slave", 2)
            assert "the last of 2 devices has the place 1" in refused.reason
    assert "frames came" in emulator.output
    assert "Traceback" not in emulator.output


def message_of(wrench: Sequence[float]) -> Any:
    vectors = [new("geometry_msgs/msg/Vector3", x=x, y=y, z=z) for x, y, z in (wrench[:3], wrench[3:])]
    return new(bag_samples.WRENCH, wrench=new("geometry_msgs/msg/Wrench", force=vectors[0], torque=vectors[1]))


@needs_graph
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bus.interface:=eth_none"], "interface 'eth_none' is not there; there are "),
        (["bus.sensors:=[no_such]"], "sensor 'no_such': not among ati_axia80"),
        (["fault.slave:=1"], "fault.slave: 1, but the last of 1 devices has the place 0"),
        (["pressure.chambers:=[left]"], "pressure.chambers: 1 for 0 analogue inputs"),
        (["fault.sdo_aborts:=[x]"], "index and subindex in hexadecimal digits"),
    ],
)
def test_what_cannot_be_emulated_is_said(words: list[str], sentence: str) -> None:
    import rclpy

    from drivers.emulators.ethercat_node import EthercatEmulatorNode

    arguments = [word for one in ("bus.interface:=lo", *words) for word in ("-p", one)]
    rclpy.init(args=["--ros-args", *arguments])
    try:
        with pytest.raises(UserError, match=re.escape(sentence)):
            EthercatEmulatorNode()
    finally:
        rclpy.try_shutdown()
