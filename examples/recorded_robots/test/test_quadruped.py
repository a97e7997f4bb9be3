"""Reading and converting the quadruped's contact data: the real file, synthetic clocks, faulty files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.simulated_bags import convert
from recorded_robots.quadruped import fit_imu_clock, read_quadruped


def steps(rate_hz: float, offset_s: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Force at 500 Hz and readings (g, deg/s) of an IMU on another clock, of one walk of 8 s."""
    rng = np.random.default_rng(seed)
    swings = np.cumsum(rng.uniform(0.6, 0.8, 10))

    def swinging(times: np.ndarray) -> np.ndarray:
        return ((times[:, None] > swings) & (times[:, None] < swings + 0.25)).any(axis=1)

    force_times = np.arange(4000) / 500.0
    imu_times = offset_s + np.arange(int((8.0 - max(offset_s, 0.0)) * rate_hz)) / rate_hz
    force = np.where(swinging(force_times), 50.0, 400.0) + rng.normal(0.0, 5.0, 4000)
    imu = np.zeros((len(imu_times), 6))
    imu[:, 1] = -1.0
    imu[:, 5] = np.where(swinging(imu_times), 300.0, 10.0) + rng.normal(0.0, 5.0, len(imu_times))
    return force, imu


def saved(folder: Path, force: np.ndarray, imu: np.ndarray) -> Path:
    cells = [[f"{value:.6g}" for value in row] for row in imu] + [[""] * 6] * (len(force) - len(imu))
    lines = [",".join([f"{fz:.6g}", *row]) for fz, row in zip(force, cells, strict=True)]
    path = folder / "steps.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("rate_hz", "offset_s"), [(250.0, 0.0), (266.0, 0.21), (238.0, -0.15), (250.0, 0.4)])
def test_the_clock_of_the_imu_is_found(rate_hz: float, offset_s: float) -> None:
    force, imu = steps(rate_hz, offset_s)
    clock = fit_imu_clock(force, np.deg2rad(np.abs(imu[:, 5])))
    assert clock.rate_hz == pytest.approx(rate_hz, abs=1.5)
    assert clock.offset_s == pytest.approx(offset_s, abs=0.025)
    assert clock.correlation > 0.9


def test_units_and_stamps(tmp_path: Path) -> None:
    force, imu = steps(250.0, 0.0)
    content = read_quadruped(saved(tmp_path, force, imu), clocks_as_recorded=True)
    readings, counts = content.recording.sensors
    np.testing.assert_allclose(readings.values[:, 4], -9.80665)
    np.testing.assert_allclose(readings.values[:, 2], np.deg2rad(imu[:, 5]), rtol=1e-4)
    np.testing.assert_allclose(counts.values[:, 0], force, rtol=1e-4)
    assert (readings.stamps_ns[1], counts.stamps_ns[1]) == (4_000_000, 2_000_000)
    assert any("Clocks left as recorded" in note for note in content.notes)


def test_clocks_that_do_not_fit_are_left_and_said(tmp_path: Path) -> None:
    force, imu = steps(250.0, 0.0)
    imu[:, 3:] = np.random.default_rng(1).normal(0.0, 100.0, (len(imu), 3))
    content = read_quadruped(saved(tmp_path, force, imu))
    assert content.recording.sensors[0].stamps_ns[:2].tolist() == [0, 4_000_000]
    assert any("No clock" in note for note in content.notes)
    imu[:, 3:] = 0.0
    assert any("No clock" in note for note in read_quadruped(saved(tmp_path, force, imu)).notes)


def test_the_recording(shared_data: Path) -> None:
    content = read_quadruped(shared_data / "quadruped_foot" / "go1_slippery_surface.csv")
    imu, force = content.recording.sensors
    assert (len(force.values), len(imu.values)) == (4063, 2103)
    assert np.abs(imu.values[:, 3:]).max() == pytest.approx(4.0 * 9.80665, rel=1e-3)
    assert np.abs(imu.values[:, :3]).max() == pytest.approx(np.deg2rad(713.867), rel=1e-4)
    assert np.linalg.norm(imu.values[:40, 3:], axis=1).mean() == pytest.approx(9.8, abs=0.3)
    # Both sensors saw the same walk, so both end together.
    assert abs(imu.stamps_ns[-1] - force.stamps_ns[-1]) < 0.3e9
    text = " ".join(content.notes)
    for words in ("counts", "266 lines a second", "swings 0.70", "clipped near 4 g", "repeat"):
        assert words in text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Fz,ax,ay,az,gx,gy,gz", "1,0,0,1,0,0,0"], "line 1: 'Fz' is no number .*no header"),
        (["1,0,0,1,0,0,0", "1,0,0,1,0,0"], "line 2: 6 cells; it must be 7"),
        (["1,0,0,1,0,0,0", "1,0,,1,0,0,0"], "line 2: 5 of 6 cells"),
        (["1,0,0,1,0,0,0", "1,,,,,,", "1,0,0,1,0,0,0"], "line 3: readings of the IMU after they had ended in line 2"),
        (["1,0,0,1,0,0,0", "nan,0,0,1,0,0,0"], "line 2: 'nan' is no number"),
        (["1,0,0,1,0,0,0", "1,0,0,inf,0,0,0"], "line 2: 'inf' is no number"),
        (["1,,,,,,"] * 5, "5 lines, 0 with readings"),
        ([], "0 lines"),
        (["1,0,0,9.8,0,0,0"] * 9, "reads 9.8 in the median; in g it would be 0.5 to 2"),
    ],
)
def test_faulty_files_are_refused_with_the_line(tmp_path: Path, lines: list[str], message: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match=message):
        read_quadruped(path)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_quadruped(tmp_path / "missing.csv")
    (tmp_path / "steps.csv").write_bytes(b"\xff\xfe\x00\x01" * 50)
    with pytest.raises(UserError, match=r"steps\.csv"):
        read_quadruped(tmp_path / "steps.csv")


def test_bag(tmp_path: Path) -> None:
    summary = convert("quadruped", saved(tmp_path, *steps(266.0, 0.21)), tmp_path / "bag")
    assert summary["topics"] == 2
    with open_bag(tmp_path / "bag") as bag:
        assert {name: topic.message_type for name, topic in bag.topics.items()} == {
            "/imu/foot/data_raw": "sensor_msgs/msg/Imu",
            "/foot/contact_force": "sensor_msgs/msg/JointState",
        }
        force = bag.deserialize(next(bag.messages(["/foot/contact_force"])))
        assert list(force.name) == ["fz_counts"]
        assert force.effort[0] > 300.0
        assert bag.custom_data["format"] == "quadruped"
