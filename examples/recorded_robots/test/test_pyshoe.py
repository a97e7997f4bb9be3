"""Reading and converting recordings of the PyShoe set: real files, damaged files, files of something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import convert
from onboard_estimation.report.evaluate import evaluate_bag
from recorded_robots.pyshoe import read_pyshoe

NAME = "2017-11-22-11-48-35"
EPOCH_S = 1511351315  # 2017-11-22 11:48:35 UTC


def walk(count: int = 50, **changes: object) -> dict[str, np.ndarray]:
    """A small file's content: an IMU at rest with z down."""
    content: dict[str, object] = {
        "ts": (0.005 * np.arange(1, count + 1))[None],
        "imu": np.tile([0.1, 0.2, -9.8, 0.01, 0.02, 0.03], (count, 1)),
        "gt": np.tile([1.0, 2.0, 3.0], (count, 1)),
    }
    return {name: np.asarray(value) for name, value in (content | changes).items() if value is not None}


def saved(folder: Path, name: str = f"{NAME}.mat", **changes: object) -> Path:
    savemat(folder / name, walk(**changes))
    return folder / name


def test_units_order_and_handedness(tmp_path: Path) -> None:
    content = read_pyshoe(saved(tmp_path))
    (imu,), (truth,) = content.recording.sensors, content.recording.truth
    np.testing.assert_allclose(imu.values[0], [0.01, 0.02, 0.03, 0.1, 0.2, -9.8])
    np.testing.assert_allclose(truth.values[0], [1.0, -2.0, 3.0])
    assert imu.stamps_ns[0] == 5_000_000
    assert content.epoch_ns == EPOCH_S * 1_000_000_000
    as_recorded = read_pyshoe(saved(tmp_path), truth_as_recorded=True)
    np.testing.assert_allclose(as_recorded.recording.truth[0].values[0], [1.0, 2.0, 3.0])
    assert "left-handed" in as_recorded.notes[0]


@pytest.mark.parametrize("name", ["walk.mat", "2017-13-45-11-48-35.mat"])
def test_a_name_without_a_date_starts_at_one_second(tmp_path: Path, name: str) -> None:
    assert read_pyshoe(saved(tmp_path, name)).epoch_ns == 1_000_000_000


def test_rows_that_are_not_finite_are_left_out_and_said(tmp_path: Path) -> None:
    changed = walk()
    changed["gt"][3:7, 1], changed["imu"][9, 5] = np.nan, np.inf
    content = read_pyshoe(saved(tmp_path, gt=changed["gt"], imu=changed["imu"]))
    assert len(content.recording.sensors[0].values) == 49
    assert len(content.recording.truth[0].values) == 46
    assert any("4 of 50" in note for note in content.notes)
    assert any("1 of 50" in note for note in content.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gt": None}, "no array gt"),
        ({"ts": None, "imu": None}, "no array ts, imu"),
        ({"imu": np.zeros((50, 5))}, "imu is 50 x 5, it must be 50 x 6"),
        ({"gt": np.zeros((49, 3))}, "gt is 49 x 3, it must be 50 x 3"),
        ({"ts": np.zeros((5, 10))}, "ts is 5 x 10"),
        ({"ts": 0.005 * np.r_[1:20, 18:49]}, "does not increase at 1 of 49 steps, first from 0.095000 s to 0.090000 s"),
        ({"ts": np.r_[np.nan, 0.005 * np.arange(49)]}, "1 of 50 time stamps are not finite"),
        ({"imu": np.tile([0.0, 0, -1, 0, 0, 0], (50, 1))}, "reads 1 in the median"),
        ({"gt": np.full((50, 3), np.nan)}, "none of the 50 rows"),
        ({"imu": np.array(["text"] * 50)}, "not real numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_faulty_files_are_refused_with_numbers(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_pyshoe(saved(tmp_path, **changes))


def test_what_is_no_matlab_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_pyshoe(tmp_path / "missing.mat")
    with pytest.raises(UserError, match="cannot read"):
        read_pyshoe(tmp_path)
    for content in (b"", b"not a MATLAB file at all", b"x" * 1000):
        (tmp_path / "other.mat").write_bytes(content)
        with pytest.raises(UserError, match="no readable MATLAB file"):
            read_pyshoe(tmp_path / "other.mat")
    whole = saved(tmp_path).read_bytes()
    for length in (100, 300, len(whole) - 50):
        (tmp_path / "cut.mat").write_bytes(whole[:length])
        with pytest.raises(UserError):
            read_pyshoe(tmp_path / "cut.mat")
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x00" * 400)
    with pytest.raises(UserError, match="save it with -v7"):
        read_pyshoe(tmp_path / "new.mat")


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_bag_holds_what_was_recorded(tmp_path: Path, storage: str) -> None:
    summary = convert("pyshoe", saved(tmp_path), tmp_path / "bag", storage)
    assert summary["messages"] == 100
    with open_bag(tmp_path / "bag") as bag:
        assert {name: topic.message_type for name, topic in bag.topics.items()} == {
            "/imu/foot/data_raw": "sensor_msgs/msg/Imu",
            "/ground_truth/foot/position": "geometry_msgs/msg/PointStamped",
        }
        assert bag.custom_data["source"] == "recorded"


def test_an_existing_bag_is_not_overwritten(tmp_path: Path) -> None:
    path = saved(tmp_path)
    convert("pyshoe", path, tmp_path / "bag")
    with pytest.raises(UserError, match="exists already"):
        convert("pyshoe", path, tmp_path / "bag")


def test_a_recorded_walk_becomes_a_judged_estimate(shared_data: Path, tmp_path: Path) -> None:
    """From the file to the verdict; robot and topics are guessed from the bag."""
    path = shared_data / "pyshoe_vicon" / f"{NAME}.mat"
    convert("pyshoe", path, tmp_path / "bag")
    result = evaluate_bag(tmp_path / "bag", EvaluateOptions(), keep=None).result
    assert (result.robot, result.source) == ("strapdown", "recorded")
    time_s = loadmat(path)["ts"].ravel()
    assert result.stamps_ns[-1] == EPOCH_S * 1_000_000_000 + round(time_s[-1] * 1e9)
    assert result.metrics["position"]["position_ate_rmse_m"] < 0.07


def test_left_as_recorded_it_is_refused_with_the_way_out(shared_data: Path, tmp_path: Path) -> None:
    convert("pyshoe", shared_data / "pyshoe_vicon" / f"{NAME}.mat", tmp_path / "bag", as_recorded=True)
    with pytest.raises(UserError, match="--mirror-truth y"):
        evaluate_bag(tmp_path / "bag", EvaluateOptions(), keep=None)
    mirrored = evaluate_bag(tmp_path / "bag", EvaluateOptions(mirror_truth="y"), keep=None).result
    assert mirrored.metrics["position"]["position_ate_rmse_m"] < 0.07
