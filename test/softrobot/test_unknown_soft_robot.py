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
from onboard_estimation.bags.writing import configuration_in
from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import truth_channel
from onboard_estimation.judging.simulated_bags import convert
from softrobot_estimation.model.channels import WRENCH, pressure_channel, pressure_command_channel
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.simulation.unknown_soft_robot import read_configuration, read_unknown_soft_robot

START_NS = 1_777_277_384_000_000_000
ROWS = 400
POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
AMBIENT_PA = 101325.0


def robot(chambers: int = 3) -> dict[str, Any]:
    return {
        "robot": {
            "length_m": 0.11,
            "diameter_m": 0.05,
            "mass_kg": 0.2,
            "tip_plate_thickness_m": 0.005,
            "tip_plate_mass_kg": 0.02,
            "attitude": "hanging",
            "gravity_m_s2": 9.8,
        },
        "chambers": {
            "count": chambers,
            "angles_deg": [30 + 360 / chambers * place for place in range(chambers)],
            "centre_radius_m": 0.014,
            "area_m2": 2e-4,
            "pressure_max_pa": 50000,
        },
        "nominal_stiffness": {"bending_nm_per_rad": 0.2, "axial_n_per_m": 1500, "note": "bench"},
        "force_torque_sensor": {
            "origin_in_base_m": [0, 0, -0.01],
            "angle_about_base_z_deg": 90,
            "sign": "load of the robot on the sensor",
            "noise_force_n": 0.02,
            "crosstalk_percent": 2,
            "zeroed": "with the base plate on, without the robot",
        },
        "pressure_sensors": {"noise_pa": 80, "offset_pa_typical": 300},
    }


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


def converted(folder: Path, bag: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """As the command does it, whatever entry points are installed."""
    monkeypatch.setattr("onboard_estimation.judging.simulated_bags.load", lambda *_: read_unknown_soft_robot)
    return convert("unknown-soft-robot", folder, bag)


@pytest.mark.parametrize("chambers", [3, 4])
def test_what_robot_yaml_says_is_the_configuration(tmp_path: Path, chambers: int) -> None:
    content = read_unknown_soft_robot(run_folder(tmp_path / "run", chambers))
    configuration = content.configurations["softrobot"]
    assert configuration.segment.length_m == 0.11
    assert configuration.segment.mass_kg == 0.2
    assert configuration.chambers.names == tuple(f"chamber_{place + 1}" for place in range(chambers))
    assert configuration.chambers.angles_deg[0] == 30.0
    assert configuration.stiffness.axial_n_per_m == 1500.0
    assert configuration.wrench.origin_in_base_m == (0.0, 0.0, -0.01)
    assert configuration.wrench.crosstalk_fraction == pytest.approx(0.02)
    assert configuration.wrench.force_stddev_n == 0.02
    assert configuration.pressure.offset_stddev_pa == 300.0
    assert configuration.gravity_m_s2 == 9.8
    assert content.counts == {"chambers": chambers}
    said = " ".join(content.notes)
    assert "does not say force_torque_sensor.rate_hz, " in said
    assert "motion_capture.noise_deg: softrobot.yaml has usual values." in said


def test_a_bag_holds_what_the_tables_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = converted(run_folder(tmp_path / "run"), tmp_path / "bag", monkeypatch)
    assert written["topics"] == 9
    assert written["next"] == "evaluate"
    assert written["messages"] == 9 * ROWS
    channels = {
        f"/{channel.topic}": channel
        for channel in (WRENCH, pressure_channel("chamber_2"), pressure_command_channel("chamber_3"))
    }
    with open_bag(tmp_path / "bag") as bag:
        assert {"/ground_truth/tip/pose", "/ground_truth/base/pose", "/pressure/chamber_1"} <= set(bag.topics)
        columns = read_channels(bag, channels)
    wrench, pressure, command = (columns[topic] for topic in channels)
    np.testing.assert_allclose(wrench.values[7], [0.01, -0.02, 1.97, 0.001, -0.003, 0.0007])
    np.testing.assert_allclose(pressure.values[:, 0], AMBIENT_PA + 1250.0)
    assert pressure.stamps_ns[0] == START_NS + 3_000_000
    np.testing.assert_allclose(command.values[[0, -1], 0], [AMBIENT_PA, AMBIENT_PA + 9000.0])
    file = configuration_in(tmp_path / "bag", "softrobot")
    assert file is not None
    assert load(SoftRobotConfiguration, file) == read_configuration(tmp_path / "run")[0]


def test_stamps_of_the_capture_are_left_and_said_to_be_late(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    for as_recorded in (False, True):
        content = read_unknown_soft_robot(folder, as_recorded)
        assert [one.channel.topic for one in content.recording.truth] == [
            "ground_truth/tip/pose",
            "ground_truth/base/pose",
        ]
        assert all(one.stamps_ns[0] == START_NS + 9_000_000 for one in content.recording.truth)
        assert any("later than its exposure by an unknown delay" in note for note in content.notes)
    assert "Nothing of such a run is mended: --as-recorded changes nothing." in content.notes


def test_what_the_capture_saw_of_the_base_is_not_in_the_configuration(tmp_path: Path) -> None:
    with_truth = read_unknown_soft_robot(run_folder(tmp_path / "run"))
    without = read_unknown_soft_robot(run_folder(tmp_path / "other", truth=False))
    assert with_truth.configurations == without.configurations
    assert without.recording.truth == ()
    assert "There is no motion capture of tip, base." in without.notes
    assert with_truth.configurations["softrobot"].mounting.tilt_deg == (0.0, 0.0)


def test_the_resting_wrench_is_said_beside_the_weight(tmp_path: Path) -> None:
    """Settled are the samples from 1 s to 1.6 s, when the pressures begin: 74 of them."""
    folder = run_folder(tmp_path / "run")
    said = "At rest (74 samples) the sensor reads 0.01 -0.02 1.97 N; mass and mounting say 0.00 0.00 1.96 N."
    assert said in read_unknown_soft_robot(folder).notes
    changed(folder / "robot.yaml", lambda it: it["robot"].update(attitude="stands upright"))
    assert any("mass and mounting say 0.00 0.00 -1.96 N" in note for note in read_unknown_soft_robot(folder).notes)
    write(folder / "pressure_command", [row.replace(",0.0", ",1.0") for row in lines(folder / "pressure_command")])
    assert any("never rests" in note for note in read_unknown_soft_robot(folder).notes)
    (folder / "pressure_command.csv.gz").unlink()
    content = read_unknown_soft_robot(folder)
    assert "There are no set points of the pressures." in content.notes
    assert [one.channel.topic for one in content.recording.sensors] == [
        "wrench",
        "pressure/chamber_1",
        "pressure/chamber_2",
        "pressure/chamber_3",
    ]


def test_rows_left_out_and_entries_nobody_reads_are_said(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    rows = lines(folder / "wrench")
    rows[20] = rows[20].rpartition(",")[0] + ",nan"
    write(folder / "wrench", rows)
    changed(folder / "robot.yaml", lambda it: it["robot"].update(payload_kg=0.03))
    content = read_unknown_soft_robot(folder)
    assert len(content.recording.sensors[0].stamps_ns) == ROWS - 1
    assert f"wrench.csv.gz: 1 of {ROWS} rows left out, not finite." in content.notes
    assert "robot.yaml: nothing reads robot.payload_kg." in content.notes


def test_simulated_only_where_the_readme_says_so(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    assert not read_unknown_soft_robot(folder).simulated
    (tmp_path / "README.md").write_text("**These are simulated recordings**, made elsewhere.\n")
    assert read_unknown_soft_robot(folder).simulated


def drop(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def in_yaml(section: str, **values: Any) -> Callable[[Path], object]:
    return lambda folder: changed(folder / "robot.yaml", lambda it: it[section].update(values))


def in_table(name: str, change: Callable[[list[str]], list[str]]) -> Callable[[Path], object]:
    return lambda folder: write(folder / name, change(lines(folder / name)))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (drop("robot.yaml"), "has no robot.yaml"),
        (drop("pressure.csv.gz"), "has no pressure.csv.gz"),
        (drop("wrench.csv.gz"), "has no wrench.csv.gz"),
        (lambda folder: (folder / "robot.yaml").write_text("robot: [\n"), "robot.yaml"),
        (lambda folder: (folder / "robot.yaml").write_text("robot: 3\n"), "robot is 3, no section"),
        (in_yaml("robot", mass_kg="heavy"), "robot.mass_kg is 'heavy'; it must be a number"),
        (in_yaml("robot", length_m=-0.1), "segment.length_m: -0.1"),
        (in_yaml("robot", tip_plate_mass_kg=0.3), "0.3 kg, and the whole robot is 0.2 kg"),
        (in_yaml("robot", attitude="lying"), "robot.attitude is 'lying'; it must say one of: hanging, upright"),
        (in_yaml("chambers", count=4), "chambers.count is 4, and chambers.angles_deg has 3"),
        (in_yaml("chambers", count=2, angles_deg=[0, 180]), "2 chambers given; a segment that bends to every side"),
        (in_yaml("chambers", angles_deg=[0, 120, 360]), "two chambers at 0 deg"),
        (in_yaml("chambers", angles_deg=[]), "chambers.angles_deg is []; it must be a list"),
        (in_yaml("chambers", centre_radius_m=0.03), "0.03 m is outside of a segment of segment.diameter_m 0.05 m"),
        (in_yaml("nominal_stiffness", axial_n_per_m=0), "stiffness.axial_n_per_m: 0.0"),
        (in_yaml("force_torque_sensor", origin_in_base_m=[0, 1]), "it must be 3 numbers"),
        (in_yaml("force_torque_sensor", sign="as usual"), "force_torque_sensor.sign is 'as usual'"),
        (in_yaml("force_torque_sensor", zeroed=None), "force_torque_sensor.zeroed is missing; it must be a text"),
        (in_table("pressure", lambda rows: [row + ",0" for row in rows]), "its columns are stamp_ns, p1, p2, p3, 0"),
        (in_table("truth_tip", lambda rows: [*rows, "12,1"]), f"line {ROWS + 2} has 2 cells, not 8"),
        (in_table("wrench", lambda rows: [*rows, rows[1].replace("1.97", "x")]), f"line {ROWS + 2}: could not"),
        (in_table("wrench", lambda rows: rows[:2]), "1 of 1 rows can be used"),
        (in_table("wrench", lambda rows: [row.replace("17772", "17773") for row in rows]), "all outside of those"),
        (
            in_table("pressure", lambda rows: [row.replace(",250.0", ",99999") for row in rows]),
            "gauge pressures in Pa",
        ),
        (lambda folder: (folder / "wrench.csv.gz").write_bytes(b"stamp_ns"), "is no whole gzip file"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_numbers(tmp_path: Path, harm: Any, words: str) -> None:
    folder = run_folder(tmp_path / "run")
    harm(folder)
    with pytest.raises(UserError) as caught:
        read_unknown_soft_robot(folder)
    assert words in str(caught.value), str(caught.value)
    assert str(folder) in str(caught.value)


def test_whatever_stands_in_robot_yaml_there_is_no_other_error(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    said = []
    for section, entries in robot().items():
        for name in entries:
            for value in (None, [], {}, "x", -1, 1e308, True, [[1.0]], {"a": 1}, 10**30):
                content = robot()
                content[section][name] = value
                (folder / "robot.yaml").write_text(yaml.safe_dump(content))
                try:
                    read_configuration(folder)
                except UserError as error:
                    said.append(str(error))
    assert len(said) > 100
    assert all(str(folder) in one for one in said)


def test_a_file_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder; a run is a folder with"):
        read_unknown_soft_robot(tmp_path / "nothing")


def test_recorded_runs_become_bags(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shared_data / "unknown_soft_robot" / "run_3"
    if not run.is_dir():
        pytest.skip(f"no recorded soft robot in {run}")
    written = converted(run, tmp_path / "bag", monkeypatch)
    assert written["source"] == "simulated"
    assert not [note for note in written["notes"] if "nothing reads" in note or "does not say" in note]
    file = configuration_in(tmp_path / "bag", "softrobot")
    assert file is not None
    configuration = load(SoftRobotConfiguration, file)
    assert configuration.segment.mass_kg == 0.156
    assert configuration.wrench.base_from_sensor[1, 0] == pytest.approx(0.5)
    with open_bag(tmp_path / "bag") as bag:
        assert bag.custom_data["source"] == "simulated"
        columns = read_channels(bag, {f"/{one.topic}": one for one in (WRENCH, truth_channel("base"))})
    assert [len(one.stamps_ns) for one in columns.values()] == [5615, 4474]
