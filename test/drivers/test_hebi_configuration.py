"""Parameters of the HEBI node, commands, and figures of a module: what needs no library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from drivers.hebi.feeds import Feedback, HebiConfiguration, Module, checked_imu, commanded_velocities, coverage
from drivers.hebi.log import converted
from onboard_estimation.base.configuration import ConfigurationError, load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource

THREE = {"names": ["a", "b", "c"], "families": ["F"]}
JOINTS = ("left", "middle", "right")


def feedback(second_us: int, received: bool = True, gyro_z: float = 0.0) -> Feedback:
    """Of two modules; the first may not have answered."""
    received_us = np.array([second_us * received, second_us + 20])
    return Feedback(
        received_us + 1_700_000_000_000_000 * (received_us > 1_000),
        np.array([second_us + 77, second_us + 5_000]),
        np.array([[0.0, 0.0, gyro_z], [0.0, 0.0, -gyro_z]]),
        np.tile([0.0, 0.0, 9.8], (2, 1)),
        np.full((2, 4), np.nan),
        np.zeros((3, 2)),
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"names": []}, "at least one module"),
        ({"names": ["a", "a", "b"]}, "each module once"),
        ({"names": ["a", "", "b"], "imu_names": ["x", "y", "z"]}, "one of them is empty"),
        ({"imu_names": ["x", "y", "z/.."]}, "can be no part of a topic's name"),
        ({"command_lifetime_ms": 0}, "command_lifetime_ms"),  # which means for ever
        ({"lookup_timeout_s": -1.0}, "lookup_timeout_s"),  # which the library takes for ever
        ({"source": "log"}, "name a .hebilog"),
    ],
)
def test_what_the_library_would_crash_or_hang_on_is_refused_before(change: dict[str, Any], words: str) -> None:
    load(HebiConfiguration, None, THREE)
    with pytest.raises(ConfigurationError, match=words):
        load(HebiConfiguration, None, {**THREE, **change})
    two = {"names": ["a", "a"], "families": ["F", "G"], "imu_names": ["x", "y"]}  # of one name, in two families
    assert load(HebiConfiguration, None, two).joints == ("x", "y")


def test_the_salps_modules_have_the_names_of_its_links() -> None:
    salp = yaml.safe_load(resource("config/salp.yaml").read_text())["/**"]["ros__parameters"]
    found = load(HebiConfiguration, resource("config/salp_hebi.yaml"))
    assert list(found.imus) == list(found.joints) == salp["chain"]["link_names"]


def test_commands_come_in_any_order_and_only_for_these_joints() -> None:
    def command(names: list[str], velocities: list[float]) -> Any:
        return commanded_velocities(SimpleNamespace(name=names, velocity=velocities), JOINTS, 10.0)

    assert command(["right", "left", "middle"], [3.0, 1.0, 2.0]).tolist() == [1.0, 2.0, 3.0]
    for names, velocities, words in (
        (["right", "left"], [3.0, 1.0], "not for left, middle, right"),
        (["right", "left", "left"], [3.0, 1.0, 2.0], "it is for the joints"),
        (list(JOINTS), [1.0, 2.0], "2 velocities for 3"),
        (list(JOINTS), [1.0, np.nan, 2.0], "not finite"),
        (list(JOINTS), [1.0, -10.1, 2.0], "beyond 10 rad/s"),
    ):
        assert words in command(names, velocities)


def test_a_part_that_is_no_measurement_is_absent_as_a_whole() -> None:
    nan = np.nan
    for orientation in ([nan, nan, nan, 0.0], [0.0] * 4, [0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 1.0]):
        told = feedback(0)._replace(gyro=np.array([[1.0, nan, 2.0]]), orientation_xyzw=np.array([orientation]))
        value = checked_imu(told, 0)
        assert np.isnan(value[:3]).all()
        assert value[3:6].tolist() == [0.0, 0.0, 9.8]
        assert np.isnan(value[6:]).all() or value[6:].tolist() == orientation == [0.0, 0.0, 0.0, 1.0]


def test_a_module_that_falls_silent_and_returns_is_told_of_once_each() -> None:
    module = Module("wheel", silent_s=0.5, latency_s=0.0)
    module.begin(10.0)
    assert module.stamp_ns(1_000_000, 500, 10.1) == 1_000_000_000
    assert module.stamp_ns(1_000_000, 500, 10.2) is None  # the same again
    assert module.stamp_ns(0, 0, 10.3) is None  # it did not answer
    assert module.change(10.55) == ""
    assert module.change(10.7) == "module wheel has been silent for 0.6 s, after 1 readings"
    assert module.change(11.0) == ""
    module.stamp_ns(2_900_000, 1_900_500, 12.0)
    assert module.change(12.1) == "module wheel answers again, after 1.9 s"
    well, words, values = module.report(12.1)
    assert not well
    assert words.endswith("2 lost")
    assert (values["received"], values["lost"]) == (2, 2)
    for received_us in (0, 2**31 * 10**6, 2**62):  # no stamp can hold it
        assert module.stamp_ns(received_us, 0, 0.0) is None
    assert Module("wheel", 0.5, 0.0).stamp_ns(1_000_000, 0, 0.0) == 1_000_000_000  # without a clock: by arrival


def test_recorded_feedback_is_converted_to_the_sample() -> None:
    rows = [feedback(10_000_000 + 5_000 * k, received=k != 40, gyro_z=0.01 * k) for k in range(400)]
    found = converted(rows, Path("x.hebilog"), as_recorded=False)
    first, second = found.recording.sensors
    assert [one.channel.topic for one in found.recording.sensors] == ["imu/module_1/data_raw", "imu/module_2/data_raw"]
    expected = 0.01 * np.arange(400)
    assert np.array_equal(second.values[:, 2], -expected)
    assert np.array_equal(first.values[:, 2], np.delete(expected, 40))
    assert np.abs(second.stamps_ns - (1_700_000_010_000_020_000 + 5_000_000 * np.arange(400))).max() < 1_000
    assert found.counts == {"feedbacks": 400, "modules": 2, "readings": 799, "missed": 1, "refused": 0}
    assert "400 of 400 expected in 1.99 s (100.0 %)" in found.notes[0]
    assert "imu/module_1: 1 feedbacks without it" in found.notes[1]
    assert coverage([5_000 * k for k in range(400) if not 100 <= k < 200]) == "300 of 400 expected in 1.99 s (75.0 %)"
    with pytest.raises(UserError, match="none with a reading"):
        converted([], Path("x.hebilog"), as_recorded=False)
    # Stamps of arrival, if asked for.
    as_recorded = converted(rows, Path("x.hebilog"), as_recorded=True).recording.sensors[1]
    assert as_recorded.stamps_ns[3] == 1_700_000_010_015_020_000


def test_without_the_library_one_line_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['hebi'] = None\n"
        "from drivers.main import hebi\n"
        "hebi(['--ros-args', '-p', 'names:=[a]', '-p', 'source:=imitation'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("error: hebi-py cannot be loaded")
    assert "onboard_estimation[hebi]" in ended.stderr
    assert "--no-deps" in ended.stderr
