"""Converting runs of robots of unknown build: recorded folders, and folders with everything wrong that may be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from laboratory_folders import changed, lines, write

from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.tracks import HeldValues
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
        header = ["stamp_ns", "gx", "gy", "gz", "ax", "ay", "az"]
        table(folder / f"imu_{name}", header, 5_000_000, [0, 0, 0.01 * k, 0.1, 0.2, 9.8])
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


def test_robots_of_any_length(tmp_path: Path) -> None:
    count = 4
    content = read_unknown_chain(run_folder(tmp_path / "run", count))
    configuration, names = content.configurations["thruster_chain"], tuple(f"link_{k + 1}" for k in range(count))
    assert configuration.chain.link_names == names
    assert configuration.tolerances.mass_fraction == 0.25
    assert configuration.thruster.limit_n == 1.5
    assert configuration.initial.rest_s == 1.5
    np.testing.assert_allclose(configuration.initial.headings_rad, [pose[2] for pose in POSES[:count]])
    commands, *imus = content.recording.sensors
    assert commands.channel.names == names
    assert len(imus) == count
    weighed, *_ = content.recording.truth
    assert weighed.channel.topic == "ground_truth/inertial_parameters"
    assert weighed.channel.names == tuple(f"{what}.{name}" for what in ("masses", "inertias") for name in names)
    np.testing.assert_allclose(weighed.values[0, [0, 1, -1]], [0.4, 0.5, 0.002])


def test_capture_is_moved_back_by_its_latency(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")

    def first_late_ns(as_recorded: bool = False) -> int:
        truth = {one.channel.topic: one for one in read_unknown_chain(folder, as_recorded).recording.truth}
        return int(truth["ground_truth/link_1/pose"].stamps_ns[0]) - START_NS

    assert first_late_ns() == 0
    assert first_late_ns(as_recorded=True) == 5_000_000
    changed(folder / "truth_parameters.yaml", lambda content: content.update(motion_capture_late_s=0.008))
    assert first_late_ns() == -3_000_000


def test_without_truth_there_are_sensors_and_a_note_and_a_readme_says_what_it_is(tmp_path: Path) -> None:
    """Numbers are read as ROS 2 reads them: `5e-4` without a point, which YAML takes for a text."""
    folder = run_folder(tmp_path / "run", truth=False)
    text = (folder / "robot.yaml").read_text().replace("imu_mounting_deg: 1.5", "length_m: 5e-4")
    (folder / "robot.yaml").write_text(text)
    (tmp_path / "README.md").write_text("**These are simulated recordings**, made elsewhere.\n")
    content = read_unknown_chain(folder)
    assert content.configurations["thruster_chain"].tolerances.length_m == 5e-4
    assert content.recording.truth == ()
    assert "There is no motion capture of link_1, link_2." in content.notes
    assert content.simulated
    (tmp_path / "README.md").write_text("Our robot on an air table.\n")
    assert not read_unknown_chain(folder).simulated


def change(at_s: float = 0.5, **others: Any) -> dict[str, Any]:
    weighed = {"mass_after_kg": 0.7, "inertia_about_com_after_kg_m2": 0.003, "com_offset_after_m": [0.01, 0.0]}
    return {"at_s_after_start": at_s, "link": "link_2", **weighed, **others}


def test_what_changes_in_the_run_changes_in_the_truth(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    changed(folder / "truth_parameters.yaml", lambda it: it.update(change=change(by="Ann")))
    content = read_unknown_chain(folder)
    weighed, *_ = content.recording.truth
    held = HeldValues.clean(weighed.stamps_ns, weighed.values)
    before, after = held.at(START_NS + np.array([499_999_999, 500_000_000]))
    np.testing.assert_array_equal(before, [0.4, 0.5, 0.002, 0.002])
    np.testing.assert_array_equal(after, [0.4, 0.7, 0.002, 0.003])
    said = "From 0.5 s on link_2 has 0.7 kg and 0.003 kg m^2, until then 0.5 kg and 0.002 kg m^2"
    assert any(note.startswith(said) for note in content.notes)
    assert "truth_parameters.yaml: nothing reads change.by." in content.notes
    changed(folder / "truth_parameters.yaml", lambda it: it.update(change=[change(), change(0.8, mass_after_kg=0.5)]))
    weighed, *_ = read_unknown_chain(folder).recording.truth
    assert weighed.values[:, 1].tolist() == [0.5, 0.7, 0.5]


def test_what_nobody_reads_is_named_by_its_file(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    assert not [note for note in read_unknown_chain(folder).notes if "nothing reads" in note]
    changed(folder / "robot.yaml", lambda it: (it.update(payload={"kg": 1}), it["links"][1]["imu"].update(kind="x")))
    changed(folder / "robot.yaml", lambda it: it["tolerances"].update(hinge_m=0.1))
    changed(folder / "run.yaml", lambda it: it["initial_poses"][0].update(hour=3))
    notes = read_unknown_chain(folder).notes
    names = "links.imu.kind, payload, tolerances.hinge_m"  # as they stand in the file
    assert f"robot.yaml: nothing reads {names}." in notes
    assert "run.yaml: nothing reads initial_poses.hour." in notes


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


def in_truth(**more: Any) -> Callable[[Path], object]:
    return in_yaml("truth_parameters.yaml", lambda content: content.update(more))


def in_robot(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Callable[[Path], object]:
    """`change` gets the content of robot.yaml and its first link."""
    return in_yaml("robot.yaml", lambda content: change(content, content["links"][0]))


def in_table(name: str, change: Callable[[list[str]], list[str]]) -> Callable[[Path], object]:
    return lambda folder: write(folder / name, change(lines(folder / name)))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (shutil.rmtree, "is no folder; a run is a folder with"),
        (drop("imu_link_2.csv.gz"), "has no imu_link_2.csv.gz; robot.yaml has 2 links: link_1, link_2"),
        (lambda folder: (folder / "robot.yaml").write_text("- 1\n"), "robot.yaml"),
        (lambda folder: (folder / "robot.yaml").write_text("a: &a [1]\nlinks: [*a, *a]\n"), "reads no aliases"),
        (in_robot(lambda it, link: it.update(number_of_links=5)), "number_of_links is 5, and links has 2"),
        (in_robot(lambda it, link: link.pop("length_m")), "length_m of link_1 is missing"),
        (in_robot(lambda it, link: link.update(length_m=-0.2)), "chain.link_lengths_m: [-0.2, 0.26]"),
        (in_robot(lambda it, link: link.update(thruster=None)), "link_1 has no thruster"),
        (in_robot(lambda it, link: link["imu"].update(orientation="up")), "only aligned_with_link"),
        (in_robot(lambda it, link: link.update(name="../x")), "letters, digits and _ only"),
        (in_robot(lambda it, link: it.update(inertia_about="hinge")), "inertia_about is 'hinge'"),
        (in_yaml("run.yaml", lambda it: it["initial_poses"].pop()), "initial_poses has 1 entries"),
        (in_truth(change=3), "change is 3, no names with values"),
        (in_truth(change=change(link="link_9")), "link of change is 'link_9'; robot.yaml has link_1, link_2"),
        (in_truth(change=change(-1.0)), "at_s_after_start of change is -1; it must be 0 or more"),
        (in_truth(change=change(mass_after_kg="x")), "mass_after_kg of change is 'x'; it must be a number"),
        (in_table("thrusters", lambda rows: [row + ",0" for row in rows]), "its columns are stamp_ns, u1, u2, 0"),
        (in_table("imu_link_1", lambda rows: [*rows, rows[1].replace("9.8", "x")]), "line 102: could not convert"),
        (in_table("imu_link_1", lambda rows: [*rows, "-5" + rows[1][19:]]), "line 102: -5 is no stamp"),
        (in_table("imu_link_1", lambda rows: [row.replace("9.8", "1.0") for row in rows]), "reads 1.02 in the median"),
        (in_table("imu_link_1", lambda rows: [row.replace("17772", "17773") for row in rows]), "all outside of those"),
        (lambda folder: (folder / "imu_link_3.csv.gz").write_bytes(b""), "has tables imu_link_3, and robot.yaml"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_numbers(tmp_path: Path, harm: Any, words: str) -> None:
    folder = run_folder(tmp_path / "run")
    harm(folder)
    with pytest.raises(UserError) as caught:
        read_unknown_chain(folder)
    assert words in str(caught.value), str(caught.value)


def test_whatever_stands_in_the_files_there_is_no_other_error(tmp_path: Path) -> None:
    folder, said = run_folder(tmp_path / "run"), []
    for file in (folder / "robot.yaml", folder / "run.yaml"):
        text = file.read_text()
        whole = yaml.safe_load(text)
        for place in places(whole):
            if place[1:2] == (1,):
                continue  # the second link is as the first
            for value in (None, "x", {"a": 1}, 10**30):
                content = at = deepcopy(whole)
                for key in place[:-1]:
                    at = at[key]
                at[place[-1]] = value
                file.write_text(json.dumps(content))  # which is YAML, too
                try:
                    read_configuration(folder)
                except UserError as error:
                    said.append(str(error))
        file.write_text(text)
    assert len(said) > 100
    assert all(str(folder) in one for one in said)


def places(content: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to all that stands in a mapping or a list."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [way for key, value in inside for way in ((*above, key), *places(value, (*above, key)))]
