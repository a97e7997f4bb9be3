"""Trajectory files that are not as they should be: one line each, with the line's number; what can be read is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onboard_estimation.base.errors import UserError
from onboard_estimation.trajectories.files import format_of, read_trajectory
from onboard_estimation.trajectories.trajectory import Trajectory

GOOD = [f"1767225600.{k}00000001 {k} 0.5 {0.1 * k} 0 0 0.6 0.8" for k in range(10)]
START_NS = 1_767_225_600_000_000_001


def read(file: Path, times: Path | None = None, stamps_ns: object = None) -> Trajectory:
    return read_trajectory(file, format_of(file), times, stamps_ns)  # type: ignore[arg-type]


def written(folder: Path, name: str, lines: list[str]) -> Path:
    file = folder / name
    file.write_text("\n".join(lines) + "\n")
    return file


def refused(file: Path, times: Path | None = None, stamps_ns: object = None) -> str:
    with pytest.raises(UserError) as error:
        read(file, times, stamps_ns)
    assert "\n" not in str(error.value)
    return str(error.value)


def changed(line: int, to: str) -> list[str]:
    return [*GOOD[:line], to, *GOOD[line + 1 :]]


def test_stamps_are_exact(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a.tum", GOOD))
    assert found.stamps_ns.tolist() == [START_NS + 100_000_000 * k for k in range(10)]
    assert found.turns
    assert not found.planar
    np.testing.assert_allclose(found.poses[3], [3.0, 0.5, 0.3, 0.0, 0.0, 0.6, 0.8])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1767225601 1 2 3 0 0 0", "line 4 has 7 columns, not 8"),
        ("1767225601 1 2 x 0 0 0 1", "line 4: 'x' is no number"),
        ("1e400 1 2 3 0 0 0 1", "line 4: '1e400' is no time in seconds"),
        ("nan 1 2 3 0 0 0 1", "line 4: 'nan' is no time in seconds"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    assert said in refused(written(tmp_path, "a.tum", changed(3, line)))


@pytest.mark.parametrize(
    ("line", "left", "said"),
    [
        ("1767225600.35 nan 2 3 0 0 0 1", 9, "1 of 10 poses left out, not finite (the first in line 4)"),
        ("1767225600.35 1 2 3 0 0 0 2", 9, "1 of 10 poses left out, no unit quaternion (the first in line 4)"),
        ("1767225600.35 1 2 3 0 0 0 0", 9, "1 of 10 poses left out, no unit quaternion (the first in line 4)"),
        ("1767225609.5 1 2 3 0 0 0 1", 10, "sorted by stamps, which go back 1 times, first in line 5"),
        (GOOD[4], 9, "1 of 10 poses left out, their stamps repeat, the last one counts (the first in line 4)"),
    ],
)
def test_what_can_be_done_without_is_left_out_and_said(tmp_path: Path, line: str, left: int, said: str) -> None:
    found = read(written(tmp_path, "a.tum", changed(3, line)))
    assert len(found.stamps_ns) == left
    assert np.all(np.diff(found.stamps_ns) > 0)
    assert any(said in note for note in found.notes), found.notes


def test_files_that_are_none(tmp_path: Path) -> None:
    empty = tmp_path / "empty.tum"
    empty.write_text("# nothing\n")
    assert "holds no line with numbers" in refused(empty)
    binary = tmp_path / "binary.tum"
    binary.write_bytes(bytes(range(256)) * 100)
    assert "line 1 is no text" in refused(binary) or "more than" in refused(binary)
    long = tmp_path / "long.tum"
    long.write_text("1 " * 20_000)
    assert "line 1 has more than 10,000 characters" in refused(long)
    huge = tmp_path / "huge.tum"
    with huge.open("wb") as stream:
        stream.truncate(600_000_000)
    assert "600 MB" in refused(huge)
    assert "--format" in refused(written(tmp_path, "a.dat", ["1 2 3"]))
    assert "no pose that can be used" in refused(written(tmp_path, "none.tum", ["1 nan 0 0 0 0 0 1"]))


def test_a_kitti_file_needs_times(tmp_path: Path) -> None:
    poses = written(tmp_path, "00.txt", ["1 0 0 5 0 1 0 0 0 0 1 0"] * 3)
    assert "give its times with --times FILE" in refused(poses)
    assert "its 3 poses are not the truth's 2" in refused(poses, None, np.array([1, 2]))
    times = written(tmp_path, "times.txt", ["0.0", "1.036e-01"])
    assert "has 2 times for the 3 poses" in refused(poses, times)
    times = written(tmp_path, "times.txt", ["0.0", "1.036e-01", "2.0e-01"])
    assert read(poses, times).stamps_ns.tolist() == [0, 103_600_000, 200_000_000]
    assert read(poses, None, np.array([5, 6, 7])).stamps_ns.tolist() == [5, 6, 7]
    mirrored = written(tmp_path, "m.txt", ["1 0 0 5 0 1 0 0 0 0 -1 0", "1 0 0 5 0 1 0 0 0 0 1 0"])
    assert len(read(mirrored, None, np.array([5, 6])).stamps_ns) == 1


def test_euroc_takes_the_order_of_the_quaternion_from_the_header(tmp_path: Path) -> None:
    positions = "p_x [m], p_y [m], p_z [m]"
    row = "1403636580838555648,1,2,3,0.1,0.7,0.1,0.7"
    first = f"#timestamp, {positions}, q_w [], q_x [], q_y [], q_z []"
    last = f"#timestamp, {positions}, q_x, q_y, q_z, q_w"
    w_first = read(written(tmp_path, "a.csv", [first, row])).poses[0, 3:]
    w_last = read(written(tmp_path, "b.csv", [last, row])).poses[0, 3:]
    np.testing.assert_allclose(w_first, [0.7, 0.1, 0.7, 0.1])
    np.testing.assert_allclose(w_last, [0.1, 0.7, 0.1, 0.7])
    without = read(written(tmp_path, "c.csv", [row + ",0,0,0"]))
    np.testing.assert_allclose(without.poses[0, 3:], w_first)
    assert without.stamps_ns[0] == 1403636580838555648


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("x_m,y_m", "it has neither stamp_ns nor time_s"),
        ("time_s,x_m", "y_m is missing"),
        ("time_s,x_m,y_m,qx,qy,qz", "qw is missing"),
        ("time_s,stamp_ns,x_m,y_m", "it has both stamp_ns and time_s"),
        ("time_s,x,x_m,y_m", "x_m stands there 2 times"),
        ("time_s,x_m,y_m,heading,heading_deg", "it has more than one orientation"),
    ],
)
def test_a_wrong_header_answers_with_what_is_expected(tmp_path: Path, header: str, said: str) -> None:
    file = written(tmp_path, "a.csv", [header, ",".join("1" * (header.count(",") + 1))])
    with pytest.raises(UserError, match="expected: stamp_ns or time_s; x_m") as error:
        read_trajectory(file, "csv", None, None)
    assert said in str(error.value)


def test_tables_of_planar_poses_with_deviations(tmp_path: Path) -> None:
    header = "time_s, x, y, heading_deg, x_stddev_m, y_stddev_m, heading_stddev_rad, battery_v"
    found = read(written(tmp_path, "a.csv", [header, "1,2,3,90,0.1,0.2,0.3,12", "2,2,3,90,0.1,0.2,0.3,12"]))
    assert found.turns
    assert found.planar
    np.testing.assert_allclose(found.poses[0], [2.0, 3.0, 0.0, 0.0, 0.0, 0.5**0.5, 0.5**0.5])
    assert found.covariances is not None
    np.testing.assert_allclose(np.diag(found.covariances[0]), [0.01, 0.04, 0.0, 0.0, 0.0, 0.09])
    assert found.notes == ("a.csv: columns not read: battery_v.",)


CELLS = st.sampled_from(["1", "-2.5", "nan", "1e308", "", "x", "1_0", "0.5"])
HEADERS = ["", "#", "time_s,x,y", "stamp_ns,x,y,z,qx,qy,qz,qw", "#timestamp,p,p,p,q_w,q_x,q_y,q_z"]
TABLES = st.builds(
    lambda header, rows, separator: "\n".join([header, *(separator.join(row) for row in rows)]).encode(),
    st.sampled_from(HEADERS),
    st.lists(st.lists(CELLS, max_size=13), max_size=5),
    st.sampled_from([",", " "]),
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=300), TABLES),
    name=st.sampled_from(["a.csv", "a.tum", "a.txt", "a.kitti", "a.euroc"]),
)
def test_rubbish_and_rows_of_anything_are_read_or_refused_in_one_line(
    tmp_path: Path, content: bytes, name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    try:
        assert np.isfinite(read(file, None, np.arange(3)).poses).all()
    except UserError:
        refused(file, None, np.arange(3))
