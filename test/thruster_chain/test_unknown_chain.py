"""Converting runs of robots of unknown build: recorded folders, and folders with everything wrong that may be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from laboratory_folders import changed, lines, write

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.writing import configuration_in
from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.simulated_bags import convert
from thruster_chain_estimation.simulation.unknown_chain import read_configuration, read_unknown_chain

START_NS = 1_777_277_384_000_000_000
POSES = [[0.1, 0.2, 0.3], [0.35, 0.25, 0.1], [0.6, 0.3, -0.2], [0.85, 0.3, 0.0]]


def robot(count: int) -> dict[str, Any]:
    links = [
        {
            "name": f"link_{link + 1}",
            "length_m": 0.25 + 0.01 * link,
            "nominal_mass_kg": 0.5,
            "nominal_inertia_kg_m2": 0.0026,
            "thruster": {"place_m": [0.01, -0.002], "angle_rad": 1.2},
            "imu": {"place_m": [-0.02, 0.008], "orientation": "aligned_with_link"},
        }
        for link in range(count)
    ]
    return {
        "number_of_links": count,
        "tolerances": {"mass_fraction": 0.25, "imu_mounting_deg": 1.5},
        "thruster_limit_N": 1.5,
        "thruster_time_constant_s": [0.03, 0.05],
        "joint_travel_deg": 100.0,
        "gravity_m_s2": 9.807,
        "links": links,
    }


def run_folder(folder: Path, count: int = 2, truth: bool = True) -> Path:
    """A small run of a robot of so many links, at rest."""
    folder.mkdir()
    (folder / "robot.yaml").write_text(yaml.safe_dump(robot(count)))
    poses = [{"name": f"link_{k + 1}", "x_y_heading": POSES[k]} for k in range(count)]
    run = {"start_stamp_ns": START_NS, "robot_at_rest_until_s_at_least": 1.5, "initial_poses": poses}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    table(folder / "thrusters", ["stamp_ns", *(f"u{k + 1}" for k in range(count))], 20_000_000, [0.25] * count)
    for k in range(count):
        name = f"link_{k + 1}"
        table(
            folder / f"imu_{name}",
            ["stamp_ns", "gx", "gy", "gz", "ax", "ay", "az"],
            5_000_000,
            [0, 0, 0.01 * k, 0.1, 0.2, 9.8],
        )
        if truth:
            header = ["stamp_ns", "x", "y", "z", "qx", "qy", "qz", "qw"]
            table(folder / f"truth_{name}", header, 10_000_000, [*POSES[k][:2], 0.08, 0.0, 0.0, 0.0, 1.0], 5_000_000)
    if truth:
        weighed = [
            {"name": f"link_{k + 1}", "mass_kg": 0.4 + 0.1 * k, "inertia_about_com_kg_m2": 0.002} for k in range(count)
        ]
        (folder / "truth_parameters.yaml").write_text(yaml.safe_dump({"links": weighed}))
    return folder


def table(file: Path, header: list[str], period_ns: int, values: list[float], late_ns: int = 0) -> None:
    rows = [f"{START_NS + late_ns + k * period_ns},{','.join(map(str, values))}" for k in range(100)]
    write(file, [",".join(header), *rows])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_robots_of_any_length(tmp_path: Path, count: int) -> None:
    content = read_unknown_chain(run_folder(tmp_path / "run", count))
    configuration = content.configurations["thruster_chain"]
    assert configuration.chain.link_names == tuple(f"link_{k + 1}" for k in range(count))
    assert configuration.tolerances.mass_fraction == 0.25
    assert configuration.thruster.limit_n == 1.5
    assert configuration.initial.rest_s == 1.5
    np.testing.assert_allclose(configuration.initial.headings_rad, [pose[2] for pose in POSES[:count]])
    commands, *imus = content.recording.sensors
    assert commands.channel.names == configuration.chain.link_names
    assert len(imus) == count
    assert content.counts == {"links": count}


def test_capture_is_moved_back_by_its_latency(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    truth = {one.channel.topic: one for one in read_unknown_chain(folder).recording.truth}
    assert truth["ground_truth/link_1/pose"].stamps_ns[0] == START_NS
    as_recorded = read_unknown_chain(folder, True)
    late = {one.channel.topic: one for one in as_recorded.recording.truth}
    assert late["ground_truth/link_1/pose"].stamps_ns[0] == START_NS + 5_000_000
    assert any("left as recorded" in note for note in as_recorded.notes)
    changed(folder / "truth_parameters.yaml", lambda content: content.update(motion_capture_late_s=0.008))
    found = {one.channel.topic: one for one in read_unknown_chain(folder).recording.truth}
    assert found["ground_truth/link_1/pose"].stamps_ns[0] == START_NS - 3_000_000


def test_weighed_parameters_are_a_topic(tmp_path: Path) -> None:
    weighed, *_ = read_unknown_chain(run_folder(tmp_path / "run")).recording.truth
    assert weighed.channel.topic == "ground_truth/inertial_parameters"
    assert weighed.channel.names == ("masses.link_1", "masses.link_2", "inertias.link_1", "inertias.link_2")
    np.testing.assert_allclose(weighed.values, [[0.4, 0.5, 0.002, 0.002]])


def test_without_truth_there_are_sensors_and_a_note(tmp_path: Path) -> None:
    content = read_unknown_chain(run_folder(tmp_path / "run", truth=False))
    assert content.recording.truth == ()
    assert "There is no motion capture of link_1, link_2." in content.notes


def test_the_bag_holds_the_configuration_and_says_what_it_is(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    (tmp_path / "README.md").write_text("**These are simulated recordings**, made elsewhere.\n")
    content = read_unknown_chain(folder)
    assert content.simulated
    (tmp_path / "README.md").write_text("Our robot on an air table.\n")
    assert not read_unknown_chain(folder).simulated


def test_rows_that_are_lost_or_out_of_order_are_counted(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    rows = lines(folder / "imu_link_2")
    rows[5], rows[9], rows[20] = rows[9], rows[5], rows[20].rpartition(",")[0] + ",nan"
    write(folder / "imu_link_2", [*rows, rows[30]])
    content = read_unknown_chain(folder)
    imu = content.recording.sensors[2]
    assert len(imu.stamps_ns) == 99
    assert (np.diff(imu.stamps_ns) > 0).all()
    said = " ".join(content.notes)
    assert "imu_link_2.csv.gz: 1 of 101 rows left out, not finite." in said
    assert "1 rows left out, their stamps repeat" in said
    assert "rows sorted by their stamps" in said


def drop(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def in_yaml(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda folder: changed(folder / name, change)


def in_table(name: str, change: Callable[[list[str]], list[str]]) -> Callable[[Path], object]:
    return lambda folder: write(folder / name, change(lines(folder / name)))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (drop("robot.yaml"), "has no robot.yaml"),
        (drop("thrusters.csv.gz"), "has no thrusters.csv.gz"),
        (drop("imu_link_2.csv.gz"), "has no imu_link_2.csv.gz; robot.yaml has 2 links: link_1, link_2"),
        (lambda folder: (folder / "robot.yaml").write_text("links: [\n"), "robot.yaml"),
        (lambda folder: (folder / "robot.yaml").write_text("- 1\n"), "robot.yaml"),
        (lambda folder: (folder / "robot.yaml").write_text("a: &a [1]\nlinks: [*a, *a]\n"), "reads no aliases"),
        (in_yaml("robot.yaml", lambda it: it.update(number_of_links=5)), "number_of_links is 5, and links has 2"),
        (in_yaml("robot.yaml", lambda it: it["links"].pop()), "number_of_links is 2, and links has 1"),
        (in_yaml("robot.yaml", lambda it: it.update(links=[])), "links is []; it must be a list"),
        (in_yaml("robot.yaml", lambda it: it["links"][0].pop("length_m")), "length_m of link_1 is missing"),
        (in_yaml("robot.yaml", lambda it: it["links"][1].update(length_m=-0.2)), "chain.link_lengths_m: [0.25, -0.2]"),
        (in_yaml("robot.yaml", lambda it: it["links"][1].update(nominal_mass_kg=0)), "chain.masses_kg: [0.5, 0.0]"),
        (in_yaml("robot.yaml", lambda it: it["links"][1].update(nominal_mass_kg=float("nan"))), "nominal_mass_kg"),
        (in_yaml("robot.yaml", lambda it: it["links"][0]["imu"].update(place_m=[1.0])), "place_m of IMU of link_1"),
        (in_yaml("robot.yaml", lambda it: it["links"][0].update(thruster=None)), "link_1 has no thruster"),
        (in_yaml("robot.yaml", lambda it: it["links"][0]["imu"].update(orientation="up")), "only aligned_with_link"),
        (in_yaml("robot.yaml", lambda it: it["links"][0].update(name="../x")), "letters, digits and _ only"),
        (in_yaml("robot.yaml", lambda it: it.update(inertia_about="hinge")), "inertia_about is 'hinge'"),
        (in_yaml("run.yaml", lambda it: it["initial_poses"].pop()), "initial_poses has 1 entries"),
        (in_yaml("truth_parameters.yaml", lambda it: it["links"].pop()), "links has 1 entries (link_1)"),
        (in_table("thrusters", lambda rows: [row + ",0" for row in rows]), "its columns are stamp_ns, u1, u2, 0"),
        (in_table("imu_link_1", lambda rows: [*rows, "12,1"]), "line 102 has 2 cells, not 7"),
        (in_table("imu_link_1", lambda rows: [*rows, rows[1].replace("9.8", "x")]), "line 102: could not convert"),
        (in_table("imu_link_1", lambda rows: [*rows, "-5" + rows[1][19:]]), "line 102: -5 is no stamp"),
        (in_table("imu_link_1", lambda rows: rows[:2]), "1 of 1 rows can be used"),
        (in_table("imu_link_1", lambda rows: [row.replace("9.8", "1.0") for row in rows]), "reads 1.02 in the median"),
        (in_table("imu_link_1", lambda rows: [row.replace("17772", "17773") for row in rows]), "all outside of those"),
        (lambda folder: (folder / "imu_link_1.csv.gz").write_bytes(b"stamp_ns"), "is no whole gzip file"),
        (
            lambda folder: (folder / "imu_link_1.csv.gz").write_bytes((folder / "imu_link_1.csv.gz").read_bytes()[:90]),
            "is no whole gzip file",
        ),
        (
            lambda folder: shutil.copy(folder / "imu_link_1.csv.gz", folder / "imu_link_3.csv.gz"),
            "has tables imu_link_3, and robot.yaml only 2 links",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_numbers(tmp_path: Path, harm: Any, words: str) -> None:
    folder = run_folder(tmp_path / "run")
    harm(folder)
    with pytest.raises(UserError) as caught:
        read_unknown_chain(folder)
    assert words in str(caught.value), str(caught.value)


@pytest.mark.parametrize("file", ["robot.yaml", "run.yaml"])
def test_whatever_stands_in_the_files_there_is_no_other_error(tmp_path: Path, file: str) -> None:
    folder = run_folder(tmp_path / "run")
    text = (folder / file).read_text()
    said = []
    for place in places(yaml.safe_load(text)):
        for value in (None, [], {}, "x", -1, 1e308, True, [[1.0]], {"a": 1}, 10**30):
            content = yaml.safe_load(text)
            at = content
            for key in place[:-1]:
                at = at[key]
            at[place[-1]] = value
            (folder / file).write_text(yaml.safe_dump(content))
            try:
                read_configuration(folder)
            except UserError as error:
                said.append(str(error))
    assert len(said) > 100
    assert all(str(folder) in one for one in said)


def places(content: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to all that stands in a mapping or a list."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [way for key, value in inside for way in ((*above, key), *places(value, (*above, key)))]


def test_numbers_are_read_as_ros_2_reads_them(tmp_path: Path) -> None:
    """`2.5e-3`, and `5e-4` without a point, which YAML of other libraries takes for a text."""
    folder = run_folder(tmp_path / "run")
    text = (folder / "robot.yaml").read_text().replace("imu_mounting_deg: 1.5", "length_m: 5e-4")
    (folder / "robot.yaml").write_text(text)
    assert read_unknown_chain(folder).configurations["thruster_chain"].tolerances.length_m == 5e-4


def test_a_file_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder; a run is a folder with"):
        read_unknown_chain(tmp_path / "nothing")


def test_recorded_runs_become_bags(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shared_data / "unknown_thruster_chain" / "robot_b" / "run_3"
    if not run.is_dir():
        pytest.skip(f"no recorded thruster chain in {run}")
    monkeypatch.setattr("onboard_estimation.judging.simulated_bags.load", lambda *_: read_unknown_chain)
    written = convert("unknown-chain", run, tmp_path / "bag")
    assert written["source"] == "simulated"
    assert written["counts"] == {"links": 3}
    assert any("The thruster of link_1 was left unused." in note for note in written["notes"])
    assert configuration_in(tmp_path / "bag", "thruster_chain") is not None
    with open_bag(tmp_path / "bag") as bag:
        assert bag.custom_data["source"] == "simulated"
        assert {"/thrusters/command", "/imu/link_3/data_raw", "/ground_truth/inertial_parameters"} <= set(bag.topics)
