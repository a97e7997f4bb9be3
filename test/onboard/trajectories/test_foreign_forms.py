"""Trajectories in the forms that filters and laboratories write: told from the file, read as they are, or named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from evaluation_samples import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.bags.other_poses import possible_truth
from onboard_estimation.bags.topics import truth_channels
from onboard_estimation.base.errors import UserError
from onboard_estimation.trajectories.files import format_of, read_trajectory
from onboard_estimation.trajectories.trajectory import as_record

pytestmark = pytest.mark.usefixtures("without_pictures")
Rows = NDArray[np.float64]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("openvins.txt", (), ("read as openvins", "are taken about the body's axes", "Mean NEES")),
        ("orbslam3_int_ns.txt", (), ("read as tum_ns", "looks the same and is --format euroc")),
        ("g6_stamps.txt", (), ("397 of 400 poses have the stamp of another pose: digits were lost",)),
        ("us.txt", (), ("in another unit: multiplied by 1000 they are those of the truth",)),
        ("us.txt", ("--format", "tum"), ("(in microseconds it would be one: multiply stamps by 1e-06)",)),
        ("mm.tum", (), ("most likely mm.tum is in millimetres (multiply its positions by 0.001)",)),
        ("semicolon.csv", (), ("read as csv",)),
        ("kitti_13.txt", (), ("is of the format kitti, which has no stamps",)),
        ("motive_export.csv", (), ("(--shift 52484435.877 where both start at once)",)),
        ("motive_export.csv", ("--shift", "52484435.877"), ("rigid body foot, turned from y up to z up",)),
        ("motive_export.csv", ("--body", "hand"), ("no such rigid body; it has --body foot",)),
    ],
)
def test_files_as_people_have_them(
    tmp_path: Path,
    shared_data: Path,
    name: str,
    words: tuple[str, ...],
    said: list[str],
) -> None:
    files = shared_data / "practitioners" / "trajectories"
    outcome = command("evaluate", files / name, "--truth", files / "truth.tum", *words, "--output", tmp_path / "run")
    text = " ".join((outcome.out + outcome.error).split())
    for one in said:
        assert one in text
    assert outcome.code != 0 or "attitude within 0 deg RMS" in text


def motive(stamps_ns: list[int], poses: Rows) -> str:
    """Two rigid bodies and a marker, in mm, y up."""
    kinds = [
        ("Rigid Body", "left", "Rotation", 4),
        ("Rigid Body", "left", "Position", 3),
        ("Marker", "m", "Position", 3),
    ]
    kinds += [("Rigid Body", "right", kind, count) for _, _, kind, count in kinds[:2]]
    columns = [(type, name, kind, "XYZW"[axis]) for type, name, kind, n in kinds for axis in range(n)]
    heads = [list(one) for one in zip(*columns, strict=True)]
    rows = [
        ["", "Type", *heads[0]],
        ["", "Name", *heads[1]],
        ["", "", *heads[2]],
        ["Frame", "Time (Seconds)", *heads[3]],
    ]
    for k, (stamp, (x, y, z, qx, qy, qz, qw)) in enumerate(zip(stamps_ns, poses.tolist(), strict=True)):
        one = [qx, qz, -qy, qw, 1e3 * x, 1e3 * z, -1e3 * y]
        rows.append([str(k), decimal(stamp - stamps_ns[0]), *map(repr, one), "", "", "", *7 * [""]])
    lines = "\n".join(",".join(row) for row in rows)
    first = "Format Version,1.23,Capture Start Time,2001-09-09 01.46.40.25 PM,Rotation Type,Quaternion"
    return f"{first},Length Units,Millimeters\n\n{lines}"


def vicon(stamps_ns: list[int], poses: Rows, quaternions: bool) -> str:
    """A force plate, two bodies and a marker, that has a hole, in mm and deg, at 1 Hz."""
    turns = Rotation.from_quat(poses[:, 3:])
    places, rest = 1e3 * poses[:, :3], turns.as_quat() if quaternions else np.rad2deg(turns.as_rotvec())
    axes = ["RX", "RY", "RZ", *["RW"] * quaternions, "TX", "TY", "TZ"]
    units = [*([""] * 4 if quaternions else ["deg"] * 3), "mm", "mm", "mm"]
    gaps = len(axes) * ","
    text = "Devices\n1000\n,,plate,,\nFrame,Sub Frame,Fx,Fy\n,,N,N\n1,0,1,2\n1,1,1,2\n\nObjects\n1\n"
    text += f",,left{gaps}right{gaps}\nFrame,Sub Frame,{','.join(2 * axes)}\n,,{','.join(2 * units)}\n"
    for stamp, row in zip(stamps_ns, np.hstack([rest, places]).tolist(), strict=True):
        text += f"{stamp // 10**9},0,{','.join(map(repr, row))}{gaps}\n"
    text += "\nTrajectories\n1\n,,toe,,\nFrame,Sub Frame,X,Y,Z\n,,mm,mm,mm\n"
    for stamp, row in zip(stamps_ns[:-1], places[:-1].tolist(), strict=True):
        text += f"{stamp // 10**9},0,{','.join(map(repr, row))}\n"
    return text + f"{stamps_ns[-1] // 10**9},0,,,\n"


def decimal(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9:09d}"


FORMS = "tum tum_ns openvins euroc kitti kitti-13 csv csv; csv;, motive vicon vicon-w".split()  # noqa: SIM905
"""Formats, and what else is particular: a frame's number, semicolons, commas as decimal points, quaternions."""
NAMES = "time_s,x_m,y_m,z_m,qx,qy,qz,qw"


def written(form: str, folder: Path, stamps_ns: list[int], poses: Rows) -> Path:
    """A file of that form under a name that many have, and `times.txt`."""
    (folder / "times.txt").write_text("\n".join(map(decimal, stamps_ns)))
    if form.startswith(("motive", "vicon")):
        text = motive(stamps_ns, poses) if form == "motive" else vicon(stamps_ns, poses, form == "vicon-w")
        (folder / "a.csv").write_text(text)
        return folder / "a.csv"
    values, firsts, separator = poses, list(map(decimal, stamps_ns)), "," if form[:3] in ("csv", "eur") else " "
    if form in ("tum_ns", "euroc"):
        firsts = list(map(str, stamps_ns))
    if form == "euroc":
        values = poses[:, [0, 1, 2, 6, 3, 4, 5]]
    if form == "openvins":
        values = np.hstack(
            [poses, np.tile([1e-4, 0.0, 0.0, 4e-4, 0.0, 9e-4, 1.0, 0.1, 0.2, 2.0, 0.3, 3.0], (len(poses), 1))]
        )
    if form.startswith("kitti"):
        turns = Rotation.from_quat(poses[:, 3:]).as_matrix()
        values = np.concatenate([turns, poses[:, :3, None]], axis=2).reshape(-1, 12)
        firsts = [str(k) for k in range(len(poses))]
    rows = [[first, *map(repr, row)] for first, row in zip(firsts, values.tolist(), strict=True)]
    rows = [row[1:] for row in rows] if form == "kitti" else rows
    text = "\n".join(separator.join(row) for row in rows)
    text = f"{NAMES}\n{text}" if form.startswith("csv") else text
    text = text.replace(",", ";") if ";" in form else text
    file = folder / ("a.csv" if separator == "," else "a.txt")
    file.write_text(text.replace(".", ",") if form == "csv;," else text)
    return file


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FORMS), st.integers(0, 2**32 - 1), st.integers(2, 20))
def test_a_trajectory_written_in_any_form_is_read_back(tmp_path: Path, form: str, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    start = 1_000_043_200_250_000_000  # that of the capture
    stamps_ns = [start + int(ns) for ns in np.cumsum(rng.integers(1, 10**9, count))]
    stamps_ns[0] = start
    if form.startswith("vicon"):
        stamps_ns = [(5 + k) * 10**9 for k in range(count)]
    turns = Rotation.from_rotvec(rng.normal(0.0, 1.0, (count, 3)))
    poses = np.hstack([rng.normal(0.0, 100.0, (count, 3)), turns.as_quat()])
    file = written(form, tmp_path, stamps_ns, poses)
    body = "left" if form.startswith(("motive", "vicon")) else None
    found = read_trajectory(file, format_of(file), tmp_path / "times.txt", None, body)
    assert format_of(file) == form.rstrip(";,").partition("-")[0]
    assert found.stamps_ns.tolist() == stamps_ns
    np.testing.assert_allclose(found.poses[:, :3], poses[:, :3], rtol=1e-12)
    assert (Rotation.from_quat(found.poses[:, 3:]) * turns.inv()).magnitude().max() < 1e-7
    if form == "openvins":
        _, record, _ = as_record(found, "pose")
        np.testing.assert_allclose(
            record.covariances[:, 3:, 3:], np.tile(np.diag([1e-4, 4e-4, 9e-4]), (count, 1, 1)), atol=1e-12
        )
        np.testing.assert_allclose(record.covariances[0, 0, :3], [1.0, 0.1, 0.2])


def test_bodies_of_an_export_are_chosen_and_lost_ones_are_left_out(tmp_path: Path) -> None:
    poses = np.hstack([np.eye(3), np.tile([0.0, 0.0, 0.0, 1.0], (3, 1))])
    file = written("motive", tmp_path, [0, 10**9, 2 * 10**9], poses)
    with pytest.raises(UserError, match="has 2 rigid bodies; choose: --body left, --body right"):
        read_trajectory(file, "motive")
    with pytest.raises(UserError, match="no pose that can be used"):
        read_trajectory(file, "motive", body="right")
    for header, said in (("Quaternion", "its Rotation Type is XYZ"), ("Millimeters", "its Length Units are XYZ")):
        other = tmp_path / "b.csv"
        other.write_text(file.read_text().replace(header, "XYZ"))
        with pytest.raises(UserError, match=said):
            read_trajectory(other, "motive", body="left")
    with pytest.raises(UserError, match="its header is not that of a CSV export of Motive"):
        read_trajectory(written("tum", tmp_path, [0, 10**9, 2 * 10**9], poses), "motive")
    vicon = written("vicon", tmp_path, [0, 10**9, 2 * 10**9], poses)
    assert len(read_trajectory(vicon, "vicon", body="toe").stamps_ns) == 2
    with pytest.raises(UserError, match="no such rigid body; it has --body left, --body right, --body toe"):
        read_trajectory(vicon, "vicon", body="hand")
    with pytest.raises(UserError, match="has 2 rigid bodies; choose: --body left, --body right"):
        read_trajectory(vicon, "vicon")


def test_frames_have_their_places_in_longer_times(tmp_path: Path) -> None:
    file, times = tmp_path / "a.txt", tmp_path / "times.txt"
    file.write_text("\n".join(f"{frame} 1 0 0 5 0 1 0 0 0 0 1 0" for frame in (1, 3)))
    times.write_text("0\n1\n2\n3\n")
    assert read_trajectory(file, "kitti", times).stamps_ns.tolist() == [10**9, 3 * 10**9]


@pytest.mark.parametrize(
    ("header", "separator", "factors", "order", "said"),
    [
        ("# t x y z qw qx qy qz\n", " ", (1.0, 1.0), [3, 0, 1, 2], "attitude within 0 deg"),
        ("", ";", (1.0, 1.0), [0, 1, 2, 3], "a.csv: read as tum"),
        ("", ",", (1e3, 1.0), [0, 1, 2, 3], "its stamps are in another unit: multiplied by 0.001"),
        ("", ",", (1e-3, 1.0), [0, 1, 2, 3], "its stamps are in another unit: multiplied by 1000"),
        ("", ",", (1.0, 1e-3), [0, 1, 2, 3], "the truth is in millimetres (multiply its positions by 0.001)"),
        ("", ",", (1.0, 1e2), [0, 1, 2, 3], "a.csv is in centimetres (multiply its positions by 0.01)"),
        ("", ",", (1.0, 1.0), [3, 0, 1, 2], "most likely a.csv has w first, or the truth w last"),
    ],
)
def test_other_units_and_orders_are_followed_or_proposed(
    tmp_path: Path,
    header: str,
    separator: str,
    factors: tuple[float, float],
    order: list[int],
    said: str,
) -> None:
    t = 0.1 * np.arange(1, 100)
    turns = Rotation.from_euler("zyx", np.column_stack([0.4 * t, 0.1 * np.sin(t), 0.2 * np.cos(t)])).as_quat()
    true = np.column_stack([t, np.sin(t), np.cos(2.0 * t), 0.1 * t, turns])
    other = np.column_stack([factors[0] * t, factors[1] * true[:, 1:4], turns[:, order]])
    for name, rows, between, first in (("truth.tum", true, " ", ""), ("a.csv", other, separator, header)):
        text = "\n".join(between.join(map(repr, row)) for row in rows.tolist())
        (tmp_path / name).write_text(first + text)
    outcome = command("evaluate", tmp_path / "a.csv", "--truth", tmp_path / "truth.tum", "--output", tmp_path / "run")
    text = " ".join((outcome.out + outcome.error).split())
    assert said in text or re.search(said, text)
    assert "ask for --alignment" not in outcome.out


def test_estimates_that_stop_cover_a_share_of_the_truth(tmp_path: Path) -> None:
    rows = [f"{0.1 * k:.1f} {np.sin(0.1 * k)} {np.cos(0.2 * k)} 0 0 0 0 1" for k in range(101)]
    for name, kept in (("truth.tum", rows), ("a.tum", rows[:41])):
        (tmp_path / name).write_text("\n".join(kept))
    outcome = command("evaluate", tmp_path / "a.tum", "--truth", tmp_path / "truth.tum", "--output", tmp_path / "run")
    assert "from its first to its last pose 40 % of the truth's time" in " ".join(outcome.out.split())


@pytest.mark.data
def test_transforms_are_the_same_at_once_and_one_by_one(shared_data: Path) -> None:
    with open_bag(shared_data / "practitioners" / "truth_as_transform" / "vicon_bridge.mcap.zstd") as one:
        assert "--topic ground_truth/BODY/transform=/vicon/foot/foot" in possible_truth(one)
        channels = {"/vicon/foot/foot": truth_channels("foot")[1]}
        both = [read_channels(one, channels, bulk=bulk)["/vicon/foot/foot"] for bulk in (True, False)]
    np.testing.assert_array_equal(both[0].values, both[1].values)
    assert len(both[0].values) == 1401


@pytest.mark.parametrize("column", ["9" * 5000, "a\x1b[2Jb"])
def test_names_of_columns_are_said_short_and_without_control_characters(tmp_path: Path, column: str) -> None:
    file = tmp_path / "poses.csv"
    file.write_text(f"time_s,x_m,y_m,{column}\n" + "".join(f"{0.1 * row},{row},0,0\n" for row in range(5)))
    (note,) = [one for one in read_trajectory(file, "csv").notes if "columns not read" in one]
    assert note.isprintable()
    assert len(note) < 200
