"""Converting markers of a soft arm: recorded files, and files that the library's own writer makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from marker_files import ARMS_M, write_markers
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import truth_channel
from onboard_estimation.judging.simulated_bags import convert
from recorded_robots.soft_arm import read_soft_arm

LABELS = ["Base - 1", "Base - 2", "Base - 3", "Tip - 1", "Tip - 2", "Tip - 3", "Loose"]
FRAMES = 40


def true_markers() -> NDArray[np.float64]:
    """(FRAMES, 7, 3) m: a base at rest, a tip that swings about x and moves along y, and a marker by itself."""
    turns = Rotation.from_rotvec(np.outer(np.linspace(0.0, 0.8, FRAMES), [1.0, 0.0, 0.0]))
    markers = np.empty((FRAMES, 7, 3))
    markers[:, :3] = ARMS_M + np.array([0.1, 0.2, 0.3])
    for frame, turn in enumerate(turns):
        markers[frame, 3:6] = turn.apply(ARMS_M) + np.array([0.1, 0.2 + 0.001 * frame, 0.1])
    markers[:, 6] = [0.0, 0.0, 0.01]
    return markers


def write(
    file: Path,
    markers: NDArray[np.float64],
    labels: list[str] = LABELS,
    unit: str = "m",
    hidden: tuple[tuple[int, int], ...] = (),
) -> Path:
    return write_markers(file, markers, labels, unit, hidden)


def test_markers_are_points_and_bodies_poses(tmp_path: Path) -> None:
    markers = true_markers()
    content = read_soft_arm(write(tmp_path / "200mbar_x.c3d", markers))
    truth = {one.channel.topic: one for one in content.recording.truth}
    assert set(truth) == {
        *(f"ground_truth/{body}_{place}/position" for body in ("base", "tip") for place in (1, 2, 3)),
        "ground_truth/loose/position",
        "ground_truth/base/pose",
        "ground_truth/tip/pose",
    }
    point, tip = truth["ground_truth/tip_2/position"], truth["ground_truth/tip/pose"]
    np.testing.assert_allclose(point.values, markers[:, 4], atol=1e-7)
    np.testing.assert_array_equal(point.stamps_ns, np.arange(FRAMES) * 10_000_000)
    np.testing.assert_allclose(tip.values[:, :3], markers[:, 3:6].mean(axis=1), atol=1e-7)
    turned = Rotation.from_quat(tip.values[:, 3:]).as_rotvec()
    np.testing.assert_allclose(turned, np.outer(np.linspace(0.0, 0.8, FRAMES), [1.0, 0.0, 0.0]), atol=1e-5)
    assert content.counts == {"markers": 7, "frames": FRAMES, "nominal_pressure_mbar": 200}
    assert "tip: pose of its 3 markers, which fit a rigid body within 0.00 mm RMS." in content.notes


def test_a_soft_body_is_said_to_be_none(tmp_path: Path) -> None:
    """Two of three markers 3 mm further apart from the second frame on: 1.5 mm each way, 0.2 mm less as it turns."""
    markers = true_markers()
    markers[1:, 1, 1] += 0.0015
    markers[1:, 2, 1] -= 0.0015
    notes = read_soft_arm(write(tmp_path / "a.c3d", markers)).notes
    misfit_mm = 1.5 * np.sqrt(2 / 3 * (FRAMES - 1) / FRAMES)
    assert f"base: pose of its 3 markers, which fit a rigid body within {misfit_mm:.2f} mm RMS." in notes


def test_hidden_markers_are_left_out_and_counted(tmp_path: Path) -> None:
    hidden = ((0, 4), (5, 4), (5, 6))
    content = read_soft_arm(write(tmp_path / "a.c3d", true_markers(), hidden=hidden))
    truth = {one.channel.topic: one for one in content.recording.truth}
    assert len(truth["ground_truth/tip_2/position"].stamps_ns) == FRAMES - 2
    assert len(truth["ground_truth/tip_1/position"].stamps_ns) == FRAMES
    np.testing.assert_array_equal(truth["ground_truth/tip/pose"].stamps_ns[:5], np.array([1, 2, 3, 4, 6]) * 10_000_000)
    assert f"tip_2: hidden in 2 of {FRAMES} frames." in content.notes
    assert not any("mbar" in note for note in content.notes)


def test_units_are_metres(tmp_path: Path) -> None:
    content = read_soft_arm(write(tmp_path / "a.c3d", 1000.0 * true_markers(), unit="mm"), True)
    np.testing.assert_allclose(content.recording.truth[0].values[0], [0.12, 0.2, 0.3], atol=1e-6)
    assert "Markers were in mm; they are in m." in content.notes
    assert "Nothing of such a file is mended: --as-recorded changes nothing." in content.notes


def test_markers_on_a_line_make_no_pose(tmp_path: Path) -> None:
    markers = true_markers()
    markers[:, :3] = [[0.0, 0.0, 0.0], [0.02, 0.0, 0.0], [0.05, 0.0003, 0.0]]
    content = read_soft_arm(write(tmp_path / "a.c3d", markers))
    assert "ground_truth/base/pose" not in {one.channel.topic for one in content.recording.truth}
    assert any(note.startswith("base: its markers are on a line within 0.") for note in content.notes)


@pytest.mark.parametrize(
    ("labels", "unit", "scale", "words"),
    [
        ([*LABELS[:6], "Tip 1"], "m", 1.0, "names of markers must be there and differ"),
        ([*LABELS[:6], "-"], "m", 1.0, "names of markers must be there and differ"),
        (LABELS, "inch", 1.0, "markers are in inch; known are m, cm, mm"),
        (LABELS, "m", 1000.0, "a marker is 300 m from the origin; its unit is said to be m"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, labels: list[str], unit: str, scale: float, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_soft_arm(write(tmp_path / "a.c3d", scale * true_markers(), labels, unit))
    assert words in str(caught.value)


def test_a_marker_that_is_never_seen(tmp_path: Path) -> None:
    hidden = tuple((frame, 6) for frame in range(FRAMES))
    with pytest.raises(UserError, match="loose can be seen in no frame"):
        read_soft_arm(write(tmp_path / "a.c3d", true_markers(), hidden=hidden))


def test_a_file_that_is_cut_says_so(tmp_path: Path) -> None:
    file = write(tmp_path / "a.c3d", true_markers())
    file.write_bytes(file.read_bytes()[:-2000])
    content = read_soft_arm(file)
    read = content.counts["frames"]
    assert 0 < read < FRAMES
    assert f"The file is cut: {read} of {FRAMES} frames can be read." in content.notes


def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    """Bytes of header, parameters and data changed, and files cut: content, or a sentence."""
    whole = write(tmp_path / "whole.c3d", true_markers()).read_bytes()
    random, file, said = np.random.default_rng(3), tmp_path / "damaged.c3d", []
    for case in range(150):
        content = bytearray(whole)
        if case % 3 == 0:
            del content[random.integers(len(content)) :]
        else:
            for place in random.integers(min(len(content), 2048), size=4):
                content[place] = random.integers(256)
        file.write_bytes(bytes(content))
        try:
            read_soft_arm(file)
        except UserError as error:
            said.append(str(error))
    assert len(said) > 40
    assert all(str(file) in one for one in said)
    with pytest.raises(UserError, match="cannot read"):
        read_soft_arm(tmp_path / "nothing.c3d")


@pytest.mark.parametrize(
    ("name", "deflection_mm"),
    [("100mbar_V3", 2.96), ("200mbar_V3", 7.51), ("300mbar_V3", 15.0), ("400mbar_V3", 36.0), ("450mbar_V3", 58.4)],
)
def test_tip_of_the_recorded_arm_moves_as_known(shared_data: Path, name: str, deflection_mm: float) -> None:
    """Plateaus by the README of the recordings; the mean over the last second before the valve opens."""
    file = shared_data / "soft_arm" / f"{name}.c3d"
    if not file.is_file():
        pytest.skip(f"no recorded soft arm in {file}")
    content = read_soft_arm(file)
    tip = next(one.values for one in content.recording.truth if one.channel.topic == "ground_truth/tip/pose")
    moved_mm = 1e3 * np.linalg.norm(tip[:, :3] - tip[0, :3], axis=1)
    vented = np.flatnonzero(moved_mm > 0.9 * moved_mm.max())[-1]
    assert np.mean(moved_mm[vented - 100 : vented]) == pytest.approx(deflection_mm, rel=0.06)


def test_recorded_beam_becomes_a_bag(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "soft_arm" / "beam_load52_V2_a.c3d"
    if not file.is_file():
        pytest.skip(f"no recorded beam in {file}")
    written = convert("soft-arm", file, tmp_path / "bag")
    assert written["source"] == "recorded"
    assert written["counts"] == {"markers": 6, "frames": 600}
    assert written["next"] == "inspect", "there is nothing that an estimator could run on"
    with open_bag(tmp_path / "bag") as bag:
        assert bag.custom_data["file"] == file.name
        poses = read_channels(bag, {"/ground_truth/tip/pose": truth_channel("tip")})["/ground_truth/tip/pose"]
    assert len(poses.stamps_ns) == 600
