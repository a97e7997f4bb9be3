"""Converting runs of soft robots of unknown build: recorded folders, and folders with everything wrong that may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from laboratory_folders import changed, lines, write

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.simulated_bags import convert
from onboard_estimation.judging.sources import configuration_in
from softrobot_estimation.model.configuration import (
    WRENCH,
    SoftRobotConfiguration,
    pressure_channel,
    pressure_command_channel,
)
from softrobot_estimation.simulation.unknown_soft_robot import read_configuration, read_unknown_soft_robot

START_NS = 1_777_277_384_000_000_000
ROWS = 400
POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]


def robot(chambers: int = 3) -> dict[str, Any]:
    angles = [30 + 360 / chambers * place for place in range(chambers)]
    return yaml.safe_load(f"""
        robot: {{length_m: 0.11, diameter_m: 0.05, mass_kg: 0.2, tip_plate_thickness_m: 0.005, tip_plate_mass_kg: 0.02,
          attitude: hanging, gravity_m_s2: 9.8}}
        chambers: {{count: {chambers}, angles_deg: {angles}, centre_radius_m: 0.014, area_m2: 2.0e-4,
          pressure_max_pa: 50000}}
        nominal_stiffness: {{bending_nm_per_rad: 0.2, axial_n_per_m: 1500, note: bench}}
        force_torque_sensor: {{origin_in_base_m: [0, 0, -0.01], angle_about_base_z_deg: 90, noise_force_n: 0.02,
          sign: load of the robot on the sensor, crosstalk_percent: 2,
          zeroed: "with the base plate on, without the robot"}}
        pressure_sensors: {{noise_pa: 80, offset_pa_typical: 300}}
    """)  # type: ignore[no-any-return]


def run_folder(folder: Path, chambers: int = 3, truth: bool = True) -> Path:
    """A small run: at rest for 1.6 s, then under pressure."""
    folder.mkdir()
    (folder / "robot.yaml").write_text(yaml.safe_dump(robot(chambers)))
    columns = [f"p{place + 1}" for place in range(chambers)]
    gauge = [250.0 + 1000.0 * place for place in range(chambers)]
    table(folder / "pressure", columns, 8, lambda _: gauge, late_ns=3_000_000)
    table(folder / "pressure_command", columns, 8, lambda row: [0.0 if row < 200 else 9000.0] * chambers)
    wrench = [0.01, -0.02, 1.97, 0.001, -0.003, 0.0]
    table(folder / "wrench", ["fx", "fy", "fz", "tx", "ty", "tz"], 8, lambda row: [*wrench[:5], 0.0001 * row])
    if truth:
        table(folder / "truth_tip", POSE, 10, lambda row: [0.1, 0.2, 0.8 + 1e-5 * row, 1.0, 0.0, 0.0, 0.0], 9_000_000)
        table(folder / "truth_base", POSE, 10, lambda _: [0.1, 0.2, 0.95, 0.99, 0.1, 0.0, 0.0], 9_000_000)
    return folder


def table(
    file: Path, columns: list[str], period_ms: int, values: Callable[[int], list[float]], late_ns: int = 0
) -> None:
    stamps = (START_NS + late_ns + row * period_ms * 1_000_000 for row in range(ROWS))
    rows = [f"{stamp},{','.join(map(str, values(row)))}" for row, stamp in enumerate(stamps)]
    write(file, [",".join(["stamp_ns", *columns]), *rows])


@pytest.mark.parametrize("chambers", [3, 4])
def test_what_robot_yaml_says_is_the_configuration(tmp_path: Path, chambers: int) -> None:
    """What motion capture saw of the base is not in it; its stamps are left, and said to be late."""
    content = read_unknown_soft_robot(run_folder(tmp_path / "run", chambers))
    configuration = content.configurations["softrobot"]
    assert (configuration.segment.length_m, configuration.segment.mass_kg) == (0.11, 0.2)
    assert configuration.chambers.names == tuple(f"chamber_{place + 1}" for place in range(chambers))
    assert configuration.chambers.angles_deg[0] == 30.0
    assert configuration.stiffness.axial_n_per_m == 1500.0
    assert configuration.wrench.origin_in_base_m == (0.0, 0.0, -0.01)
    assert configuration.wrench.crosstalk_fraction == pytest.approx(0.02)
    assert configuration.wrench.force_stddev_n == 0.02
    assert configuration.pressure.offset_stddev_pa == 300.0
    assert configuration.gravity_m_s2 == 9.8
    assert configuration.mounting.tilt_deg == (0.0, 0.0)
    assert content.counts == {"chambers": chambers}
    said = " ".join(content.notes)
    assert "does not say force_torque_sensor.rate_hz, " in said
    assert "motion_capture.noise_deg: softrobot.yaml has usual values." in said
    assert "later than its exposure by an unknown delay" in said
    assert [one.stamps_ns[0] for one in content.recording.truth] == [START_NS + 9_000_000] * 2
    without = read_unknown_soft_robot(run_folder(tmp_path / "other", chambers, truth=False), True)
    assert without.configurations == content.configurations
    assert without.recording.truth == ()
    assert "There is no motion capture of tip, base." in without.notes
    assert "Nothing of such a run is mended: --as-recorded changes nothing." in without.notes


def test_a_bag_holds_what_the_tables_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_folder(tmp_path / "run")
    # As the command does it, whatever entry points are installed.
    monkeypatch.setattr("onboard_estimation.judging.simulated_bags.load", lambda *_: read_unknown_soft_robot)
    written = convert("unknown-soft-robot", folder, tmp_path / "bag")
    assert (written["topics"], written["messages"], written["next"]) == (9, 9 * ROWS, "evaluate")
    channels = {
        f"/{channel.topic}": channel
        for channel in (WRENCH, pressure_channel("chamber_2"), pressure_command_channel("chamber_3"))
    }
    with open_bag(tmp_path / "bag") as bag:
        assert {"/ground_truth/tip/pose", "/ground_truth/base/pose", "/pressure/chamber_1"} <= set(bag.topics)
        columns = read_channels(bag, channels)
    wrench, pressure, command = (columns[topic] for topic in channels)
    np.testing.assert_allclose(wrench.values[7], [0.01, -0.02, 1.97, 0.001, -0.003, 0.0007])
    np.testing.assert_allclose(pressure.values[:, 0], 101325.0 + 1250.0)
    assert pressure.stamps_ns[0] == START_NS + 3_000_000
    np.testing.assert_allclose(command.values[[0, -1], 0], [101325.0, 101325.0 + 9000.0])
    file = configuration_in(tmp_path / "bag", "softrobot")
    assert file is not None
    assert load(SoftRobotConfiguration, file) == read_configuration(folder)[0]


def test_the_resting_wrench_is_said_beside_the_weight_and_what_nobody_reads(tmp_path: Path) -> None:
    """Settled are the samples from 1 s to 1.6 s, when the pressures begin: 74 of them."""
    folder = run_folder(tmp_path / "run")
    content = read_unknown_soft_robot(folder)
    assert not content.simulated
    said = "At rest (74 samples) the sensor reads 0.01 -0.02 1.97 N; mass and mounting say 0.00 0.00 1.96 N."
    assert said in content.notes
    (tmp_path / "README.md").write_text("**These are simulated recordings**, made elsewhere.\n")
    changed(folder / "robot.yaml", lambda it: it["robot"].update(attitude="stands upright", payload_kg=0.03))
    rows = lines(folder / "wrench")
    rows[20] = rows[20].rpartition(",")[0] + ",nan"
    write(folder / "wrench", rows)
    content = read_unknown_soft_robot(folder)
    assert content.simulated
    assert len(content.recording.sensors[0].stamps_ns) == ROWS - 1
    assert f"wrench.csv.gz: 1 of {ROWS} rows left out, not finite." in content.notes
    assert "robot.yaml: nothing reads robot.payload_kg." in content.notes
    assert any("mass and mounting say 0.00 0.00 -1.96 N" in note for note in content.notes)
    changed(folder / "robot.yaml", lambda it: it["force_torque_sensor"].update(zeroed="with the robot"))
    assert any("mass and mounting say 0.00 0.00 0.00 N" in note for note in read_unknown_soft_robot(folder).notes)
    write(folder / "pressure_command", [row.replace(",0.0", ",1.0") for row in lines(folder / "pressure_command")])
    assert any("never rests" in note for note in read_unknown_soft_robot(folder).notes)
    (folder / "pressure_command.csv.gz").unlink()
    content = read_unknown_soft_robot(folder)
    assert "There are no set points of the pressures." in content.notes
    assert len(content.recording.sensors) == 4


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        ("robot", {"mass_kg": "heavy"}, "robot.mass_kg is 'heavy'; it must be a number"),
        ("robot", {"length_m": -0.1}, "segment.length_m: -0.1"),
        ("robot", {"attitude": "lying"}, "robot.attitude is 'lying'; it must say one of: hanging, upright"),
        ("chambers", {"count": 4}, "chambers.count is 4, and chambers.angles_deg has 3"),
        ("chambers", {"count": 2, "angles_deg": [0, 180]}, "2 chambers given; a segment that bends to every side"),
        ("chambers", {"angles_deg": [0, 120, 360]}, "two chambers at 0 deg"),
        ("robot", {"tip_plate_mass_kg": 0.3}, "0.3 kg, and the whole robot is 0.2 kg"),
        ("chambers", {"centre_radius_m": 0.03}, "0.03 m is outside of a segment of segment.diameter_m 0.05 m"),
        ("force_torque_sensor", {"origin_in_base_m": [0, 1]}, "it must be 3 numbers"),
        ("force_torque_sensor", {"sign": "as usual"}, "force_torque_sensor.sign is 'as usual'"),
        ("force_torque_sensor", {"zeroed": None}, "force_torque_sensor.zeroed is missing; it must be a text"),
    ],
)
def test_what_is_wrong_in_robot_yaml_is_said(tmp_path: Path, section: str, values: Any, words: str) -> None:
    content = robot()
    content[section].update(values)
    (tmp_path / "robot.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UserError) as caught:
        read_configuration(tmp_path)
    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("robot.yaml", None, "has no robot.yaml"),
        ("pressure.csv.gz", None, "has no pressure.csv.gz"),
        ("robot.yaml", b"robot: 3\n", "robot is 3, no section"),
        ("wrench.csv.gz", b"stamp_ns", "is no whole gzip file"),
        ("pressure", lambda rows: [row + ",0" for row in rows], "its columns are stamp_ns, p1, p2, p3, 0"),
        ("truth_tip", lambda rows: [*rows, "12,1"], f"line {ROWS + 2} has 2 cells, not 8"),
        ("wrench", lambda rows: [*rows, rows[1].replace("1.97", "x")], f"line {ROWS + 2}: could not"),
        ("wrench", lambda rows: rows[:2], "1 of 1 rows can be used"),
        ("wrench", lambda rows: [row.replace("17772", "17773") for row in rows], "all outside of those"),
        ("pressure", lambda rows: [row.replace(",250.0", ",99999") for row in rows], "gauge pressures in Pa"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_numbers(tmp_path: Path, name: str, change: Any, words: str) -> None:
    folder = run_folder(tmp_path / "run")
    if change is None:
        (folder / name).unlink()
    elif isinstance(change, bytes):
        (folder / name).write_bytes(change)
    else:
        write(folder / name, change(lines(folder / name)))
    with pytest.raises(UserError) as caught:
        read_unknown_soft_robot(folder)
    assert words in str(caught.value), str(caught.value)
    assert str(folder) in str(caught.value)
    with pytest.raises(UserError, match="is no folder; a run is a folder with"):
        read_unknown_soft_robot(tmp_path / "nothing")


def test_whatever_stands_in_robot_yaml_there_is_no_other_error(tmp_path: Path) -> None:
    said = []
    for section, entries in robot().items():
        for name in entries:
            for value in (None, [], "x", -1, 1e308, [[1.0]], {"a": 1}):
                content = robot()
                content[section][name] = value
                (tmp_path / "robot.yaml").write_text(yaml.safe_dump(content))
                try:
                    read_configuration(tmp_path)
                except UserError as error:
                    said.append(str(error))
    assert len(said) > 100
    assert all(str(tmp_path) in one for one in said)


@pytest.mark.data
def test_a_recorded_run_is_read_whole(shared_data: Path) -> None:
    content = read_unknown_soft_robot(shared_data / "unknown_soft_robot" / "run_3")
    assert content.simulated
    assert not [note for note in content.notes if "nothing reads" in note or "does not say" in note]
    configuration = content.configurations["softrobot"]
    assert configuration.segment.mass_kg == 0.156
    assert configuration.wrench.base_from_sensor[1, 0] == pytest.approx(0.5)
    counts = {one.channel.topic: len(one.stamps_ns) for one in (*content.recording.sensors, *content.recording.truth)}
    assert (counts["wrench"], counts["ground_truth/base/pose"]) == (5615, 4474)
