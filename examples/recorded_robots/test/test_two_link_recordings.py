"""Recordings of two jointed IMUs: reading them, damaged files, and the filter against their optical truth.

The bounds are the figures of a published multiplicative Kalman filter on the same recordings.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge
from recorded_robots.two_link.configuration import TwoLink
from recorded_robots.two_link.recordings import read_two_link_imu
from recorded_robots.two_link.robot import ROBOT
from recorded_robots.two_link.simulator import STYLES, simulate

Array = NDArray[np.float64]

PUBLISHED_DEG = {"1D_01": 4.2, "1D_02": 2.1, "1D_03": 1.9, "2D_01": 3.0, "3D_01": 4.1}
BODIES = ROBOT.truth_specification(TwoLink()).bodies
HINGES = ("1D_01", "1D_02", "1D_03")


@cache
def judged(folder: Path, name: str, kind: str) -> EvaluationResult:
    if not (folder / "two_link_imu").is_dir():
        pytest.skip(f"no two_link_imu in {folder}")
    content = read_two_link_imu(folder / "two_link_imu" / f"data_{name}.mat").recording
    return judge(ROBOT, load(TwoLink, None, {"joint.kind": kind}), "eskf", from_simulator(content, BODIES))


def rmse_deg(result: EvaluationResult) -> float:
    """Of the whole turn, over the whole recording from its first reading."""
    part = result.parts["relative_orientation"]
    return float(np.rad2deg(np.sqrt(np.mean(np.sum(part.error[part.matched] ** 2, axis=1)))))


@pytest.mark.parametrize("name", PUBLISHED_DEG)
def test_better_than_the_published_filter(shared_data: Path, name: str) -> None:
    """Nothing is given but the noise, which is one for all: neither lever arms nor axes, nor the kind of joint."""
    result = judged(shared_data, name, "free")
    print(f"recorded {name}: {rmse_deg(result):.2f} deg, published {PUBLISHED_DEG[name]}")
    assert result.matched_ratio > 0.99
    assert rmse_deg(result) < 0.75 * PUBLISHED_DEG[name]


@pytest.mark.parametrize("kind", ["free", "hinge"])
@pytest.mark.parametrize("name", HINGES)
def test_hinges_are_consistent(shared_data: Path, name: str, kind: str) -> None:
    metrics = judged(shared_data, name, kind).metrics["relative_orientation"]
    assert metrics["coverage_3_sigma"] >= 0.985
    assert metrics["coverage_1_sigma"] >= 0.6
    assert 0.1 < metrics["mean_nees_per_degree_of_freedom"] < 1.2


@pytest.mark.parametrize("name", HINGES)
def test_a_hinge_is_learned_and_surer(shared_data: Path, name: str) -> None:
    """The axis is y on both by the way the sensors were mounted, which nobody told the filter."""
    free, hinge = (judged(shared_data, name, kind) for kind in ("free", "hinge"))
    axes = hinge.mean[-1][-6:].reshape(2, 3)
    assert np.abs(axes[:, 1]).min() > 0.999
    assert rmse_deg(hinge) < 0.75 * PUBLISHED_DEG[name]
    volumes = [np.linalg.det(one.covariance[-1][:3, :3]) for one in (free, hinge)]
    assert volumes[1] < 0.5 * volumes[0]


@pytest.mark.parametrize("name", ["2D_01", "3D_01"])
def test_other_joints_are_not_taken_for_hinges(shared_data: Path, name: str) -> None:
    result = judged(shared_data, name, "hinge")
    assert not result.mean[-1][-6:].any()
    assert rmse_deg(result) < PUBLISHED_DEG[name]


def test_recordings_of_one_assembly_give_the_same_lever_arms(shared_data: Path) -> None:
    """The hinge recordings are of the same links: along them to 2 mm. Those in the files are 2 to 7 mm shorter."""
    space = ROBOT.estimator(TwoLink(), "eskf").space
    ends = [judged(shared_data, name, "free").mean[-1] for name in HINGES]
    for block, along in (("proximal_lever_arm", 0.120), ("distal_lever_arm", -0.153)):
        found = np.array([one[space.coordinates(block)][0] for one in ends])
        np.testing.assert_allclose(found, along, atol=0.002)


def written(path: Path, lag_s: float = 0.0, **changes: Any) -> Path:
    """A small recording, simulated, in the layout of the files; the IMUs lag its reference."""
    made = simulate(STYLES["swing"], True, 20.0, np.random.default_rng(1), truth_stddev_rad=0.0)
    (first, second), (pose_1, pose_2) = made.recording.sensors, made.recording.truth
    times = first.stamps_ns * 1e-9
    swapped = [np.hstack([one.values[:, 3:], one.values[:, :3]]) for one in (first, second)]
    moved = [[np.interp(times - lag_s, times, column) for column in one.T] for one in swapped]
    quaternions = [np.roll(one.values[:, 3:], 1, axis=1) for one in (pose_1, pose_2)]
    reference = np.hstack([*quaternions, pose_1.values[:, :3], pose_2.values[:, :3], np.zeros((len(times), 3))])
    content = {"rate": 50, "sensorData": np.hstack([np.column_stack(one) for one in moved]), "ref": reference}
    content = {name: value for name, value in (content | changes).items() if value is not None}
    savemat(path, {"data": content})
    return path


def test_order_units_and_frames(tmp_path: Path) -> None:
    made = simulate(STYLES["swing"], True, 20.0, np.random.default_rng(1), truth_stddev_rad=0.0)
    found = read_two_link_imu(written(tmp_path / "a.mat"), truth_as_recorded=True)
    for one, other in zip(
        (*found.recording.sensors, *found.recording.truth),
        (*made.recording.sensors, *made.recording.truth),
        strict=True,
    ):
        assert one.channel.topic == other.channel.topic
        np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
        np.testing.assert_allclose(one.values, other.values, atol=1e-12)
    assert found.counts == {"rows": 1001, "reference_rows": 1001}


@pytest.mark.parametrize("lag_s", [-0.008, 0.0, 0.015, 0.03])
def test_the_lag_is_found_and_said(tmp_path: Path, lag_s: float) -> None:
    found = read_two_link_imu(written(tmp_path / "a.mat", lag_s))
    delay_s = found.recording.truth[0].stamps_ns[0] * 1e-9
    np.testing.assert_allclose(delay_s, lag_s, atol=0.002)
    assert f"Reference delayed by {1000 * delay_s:.1f} ms" in found.notes[0]
    as_recorded = read_two_link_imu(tmp_path / "a.mat", truth_as_recorded=True)
    assert as_recorded.recording.truth[0].stamps_ns[0] == 0
    assert "left as recorded" in as_recorded.notes[0]


def test_rows_at_which_the_reference_turns_over_are_left_out(tmp_path: Path) -> None:
    written(tmp_path / "a.mat")
    poses = read_two_link_imu(tmp_path / "a.mat", truth_as_recorded=True).recording.truth
    turned = [one.values[:, 3:].copy() for one in poses]
    flip = Rotation.from_euler("x", 170.0, degrees=True)
    turned[0][300:306] = (Rotation.from_quat(turned[0][300:306]) * flip).as_quat()
    reference = np.hstack(
        [np.roll(one, 1, axis=1) for one in turned] + [one.values[:, :3] for one in poses] + [np.zeros((1001, 3))]
    )
    found = read_two_link_imu(written(tmp_path / "b.mat", ref=reference))
    left = set(range(1001)) - set(
        np.round((found.recording.truth[0].stamps_ns - found.recording.truth[0].stamps_ns[0]) / 2e7)
    )
    assert set(range(300, 306)) <= left <= set(range(298, 308))
    assert any(f"{len(left)} of 1001 rows left out" in note for note in found.notes)


def test_rows_that_are_not_finite_are_left_out_and_said(tmp_path: Path) -> None:
    sensors = np.tile([0.1, 0.2, 9.8, 0.01, 0.02, 0.03], (50, 2))
    reference = np.tile([1.0, 0, 0, 0, 1.0, 0, 0, 0, *np.zeros(9)], (50, 1))
    sensors[7, 3], reference[3:6, 0], reference[8, 4] = np.nan, np.inf, 0.0
    found = read_two_link_imu(written(tmp_path / "a.mat", sensorData=sensors, ref=reference))
    assert len(found.recording.sensors[0].values) == len(found.recording.sensors[1].values) == 49
    assert len(found.recording.truth[0].values) == 46
    assert any("sensorData: 1 of 50 rows" in note for note in found.notes)
    assert any("ref: 4 of 50 rows" in note for note in found.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ref": None}, "lacks ref"),
        ({"rate": None, "sensorData": None}, "lacks rate, sensorData"),
        ({"sensorData": np.zeros((1001, 6))}, "sensorData is 1001 x 6, it must be 1001 x 12"),
        ({"ref": np.zeros((1000, 17))}, "ref is 1000 x 17, it must be 1001 x 17"),
        ({"rate": 0.0}, "it must be one number in Hz"),
        ({"rate": [50.0, 50.0]}, "it must be one number in Hz"),
        ({"sensorData": np.tile([0.0, 0.0, 1.0], (1001, 4))}, "reads 1 in the median"),
        ({"sensorData": np.full((1001, 12), np.nan)}, "sensorData has 0 rows of 1001"),
        ({"ref": np.zeros((1001, 17))}, "ref has 0 rows of 1001"),
        ({"ref": np.array(["text"] * 17)}, "not real numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_faulty_files_are_refused_with_numbers(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        read_two_link_imu(written(tmp_path / "a.mat", **changes))
    assert message in str(refused.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        read_two_link_imu(tmp_path / "absent.mat")
    (tmp_path / "text.mat").write_text("no recording")
    with pytest.raises(UserError, match="no readable MATLAB file"):
        read_two_link_imu(tmp_path / "text.mat")
    savemat(tmp_path / "other.mat", {"imu": np.zeros(3)})
    with pytest.raises(UserError, match="lacks rate, sensorData, ref"):
        read_two_link_imu(tmp_path / "other.mat")
    savemat(tmp_path / "number.mat", {"data": 3.0})
    with pytest.raises(UserError, match="lacks rate, sensorData, ref"):
        read_two_link_imu(tmp_path / "number.mat")
