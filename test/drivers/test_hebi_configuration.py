"""Parameters of the HEBI node, commands, and figures of a module: what needs no library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from drivers.hebi.feeds import HebiConfiguration, commanded_velocities
from drivers.hebi.library import Feedback
from drivers.hebi.log import converted, read_feedback, read_hebi_log
from drivers.hebi.modules import Module, Reading, checked_imu, joint_values
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


def said_of(
    module: Module, received_us: int, hardware_us: int, now_s: float, gyro_z: float | None = None
) -> Reading | None:
    """Of the second of two modules; a rate that no other reading has."""
    one = feedback(0, gyro_z=1e-6 * received_us if gyro_z is None else gyro_z)
    times = np.array([0, received_us]), np.array([0, hardware_us])
    return module.reading(one._replace(received_us=times[0], hardware_us=times[1]), 1, now_s)


def test_a_module_that_falls_silent_and_returns_is_told_of_once_each() -> None:
    module = Module("wheel", silent_s=0.5, latency_s=0.0)
    module.begin(10.0)
    first = said_of(module, 1_000_000, 500, 10.1)
    assert first is not None
    assert first.stamp_ns == 1_000_000_000
    assert said_of(module, 1_000_000, 500, 10.2) is None  # the same again
    assert said_of(module, 0, 0, 10.3) is None  # it did not answer
    assert module.state(10.55)[0] == ""
    assert module.state(10.7) == ("module wheel has been silent for 0.6 s, after 1 readings", "")
    assert module.state(11.0) == ("module wheel has been silent for 0.9 s, after 1 readings", "")
    said_of(module, 2_900_000, 1_900_500, 12.0)
    assert module.state(12.1) == ("", "module wheel answers again, after 1.9 s")
    well, words, values = module.report(12.1)
    assert not well
    assert words.endswith("2 lost")
    assert (values["received"], values["lost"]) == (2, 2)
    for received_us in (0, 2**31 * 10**6, 2**62):  # no stamp can hold it
        assert said_of(module, received_us, 0, 0.0) is None
    without_clock = said_of(Module("wheel", 0.5, 0.0), 1_000_000, 0, 0.0)
    assert without_clock is not None  # by its arrival
    assert without_clock.stamp_ns == 1_000_000_000


@pytest.mark.parametrize("its_clock_stands", [True, False])
def test_a_module_that_freezes_is_left_out_counted_and_said(its_clock_stands: bool) -> None:
    """By its clock, or by an IMU that reads the same while the clock goes on."""
    module = Module("wheel", silent_s=0.5, latency_s=0.0)
    module.begin(0.0)
    frozen, published, said = range(200, 600), [], []
    for k in range(800):
        at = 200 if k in frozen else k
        readings = [
            None,
            said_of(module, 10**6 + 5_000 * k, 1 + 5_000 * (at if its_clock_stands else k), 0.005 * k, at),
        ]
        if readings[1] is not None and readings[1].stamp_ns is not None and readings[1].is_new:
            published.append(k)
        # A joint is as old as its module's clock says.
        assert (joint_values(feedback(0), readings) is None) == (its_clock_stands and k in frozen[1:])
        trouble, over = module.state(0.005 * k)
        if bool(trouble) != len(said) % 2:
            said.append(trouble or over)
        if k == 500:
            well, words, values = module.report(0.005 * k)
            assert not well
            assert f"wheel: {module.repeated} of 501 readings repeat the one before" in words
    chance = 0 if its_clock_stands else 20  # so many may be alike
    assert published == [k for k in range(800) if k not in frozen[1 + chance :]]
    assert module.repeated == values["repeated"] + 99 == 399 - chance
    assert len(said) == 2
    assert "has given the same reading for 0.5 s" in said[0]
    assert said[1].startswith("module wheel gives new readings again, after ")


STAND_IN = """
import os, resource, signal, time, types
import numpy as np

def load_log(path, load):
    def feedbacks():
        for number, word in enumerate(open(path).read().split()):
            if word == "abort":
                os.abort()
            if word == "time":
                os.kill(os.getpid(), signal.SIGXCPU)
            if word == "stuck":
                signal.alarm(1)
                time.sleep(1000.0)
            if word == "memory":
                bytearray(2**30)
            if word == "fault":
                raise IOError("no such field")
            ones = np.full((2, 3), 0.1 * number)
            yield types.SimpleNamespace(
                receive_time_us=np.full(2, 10**15 + 5000 * number),
                hardware_transmit_time_us=np.full(2, 5000 * number + 9),
                gyro=ones, accelerometer=ones, orientation=np.ones((2, 4)),
                position=ones[:, 0], velocity=ones[:, 1], effort=np.array([np.nan, 1.0]),
            )
    print("what the library says")
    return types.SimpleNamespace(number_of_modules=2, feedback_iterate=feedbacks())
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a b c d abort e", "is damaged: after 4 feedbacks HEBI's library ended by SIGABRT"),
        ("a b c d memory", "after 4 feedbacks it asks for more than 256 MiB of memory"),
        ("a b c d time", "after 4 feedbacks HEBI's library took too much processor time"),
        ("a b c d fault", "after 4 feedbacks HEBI's library cannot read it: no such field"),
        ("abort", "is damaged: HEBI's library ended by SIGABRT"),
        ("stuck", "HEBI's library did not go on for too long"),
    ],
)
def test_whatever_a_log_does_to_the_library_ends_in_a_sentence_and_what_came_before_is_kept(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hebi").mkdir()
    (tmp_path / "hebi/__init__.py").write_text("")
    (tmp_path / "hebi/util.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "x.hebilog"
    file.write_text(words)
    if words.startswith("a b"):
        found = read_hebi_log(file)
        *imus, joints = found.recording.sensors
        assert said in found.notes[0]
        assert found.notes[0].startswith(str(file))
        assert [len(one.stamps_ns) for one in (*imus, joints)] == [4, 4, 4]
        assert np.array_equal(imus[1].values[:, 0], 0.1 * np.arange(4))
        assert np.array_equal(joints.values[2], [0.2, 0.2, 0.2, 0.2, np.nan, 1.0], equal_nan=True)
        assert joints.channel.names == ("module_1", "module_2")
    else:
        with pytest.raises(UserError, match=said):
            read_hebi_log(file)


def test_a_log_that_is_none_is_not_given_to_the_library(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, said in ((tmp_path / "pipe", "it is a pipe"), (Path("/dev/zero"), "a device"), (tmp_path, "a folder")):
        with pytest.raises(UserError, match=said):
            next(read_feedback(path))


def test_recorded_feedback_is_converted_to_the_sample() -> None:
    rows = [feedback(10_000_000 + 5_000 * k, received=k != 40, gyro_z=0.01 * k) for k in range(400)]
    found = converted(rows, Path("x.hebilog"), as_recorded=False)
    first, second, joints = found.recording.sensors
    topics = ["imu/module_1/data_raw", "imu/module_2/data_raw", "joint_states"]
    assert [one.channel.topic for one in found.recording.sensors] == topics
    assert np.isnan(joints.values[40]).tolist() == [True, False] * 3  # the first had not answered
    expected = 0.01 * np.arange(400)
    assert np.array_equal(second.values[:, 2], -expected)
    assert np.array_equal(first.values[:, 2], np.delete(expected, 40))
    assert np.abs(second.stamps_ns - (1_700_000_010_000_020_000 + 5_000_000 * np.arange(400))).max() < 1_000
    assert found.counts == {"feedbacks": 400, "modules": 2, "readings": 799, "missed": 1, "refused": 0, "repeated": 0}
    assert "400 in 1.99 s" in found.notes[0]
    assert "imu/module_1: 1 feedbacks without it" in found.notes[1]
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
