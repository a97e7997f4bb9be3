"""`onboard-estimation calibrate imu`: tables, bags, serial logs; the file it writes; its refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from calibration_logs import resting, session, truth, write_csv
from evaluation_samples import command, refusal
from serial_lines import SETTINGS

from drivers.calibration.logs import ImuLog
from drivers.calibration.parameter_file import load_calibration
from drivers.serial_imu.frames import Sample, encode_sample, encode_settings
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.series import Series, imu_channel
from onboard_estimation.judging.simulated_bags import write_series

EPOCH_NS = 1_700_000_000_000_000_000


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "onboard_estimation", "calibrate", "imu", *map(str, words)]
    return subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("calibration") / "session.csv", session(1))


def write_bag(path: Path, log: ImuLog) -> Path:
    stamps = np.round(log.time_s * 1e9).astype(np.int64)
    with BagWriter(path, "mcap", custom_data={}) as writer:
        write_series(writer, [Series(imu_channel(name), stamps, log.values) for name in ("a", "b")], "", EPOCH_NS)
    return path


def test_a_table_in_a_process_of_its_own(table: Path, tmp_path: Path) -> None:
    outcome = run(table, "--output", tmp_path / "imu.yaml")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr == ""
    assert "accelerometer bias" in outcome.stdout
    assert "random walk not told of x, y, z: no rise" in outcome.stdout
    found = load_calibration(tmp_path / "imu.yaml")
    stddev = np.array(found.accelerometer.bias_stddev_m_s2)
    assert np.all(np.abs(np.array(found.accelerometer.bias_m_s2) - truth(1).accelerometer_bias) < 4.0 * stddev)
    assert found.provenance.positions == 6
    assert found.provenance.turns == 3
    assert found.noise.gyro_density_rad_s_sqrt_hz == pytest.approx([1e-4] * 3, rel=0.3)
    assert "exists already" in refusal("calibrate", "imu", table, "--output", tmp_path / "imu.yaml")


def test_a_bag_and_a_long_rest(tmp_path: Path) -> None:
    log = session(1)
    bag = write_bag(tmp_path / "bag", log)
    seconds, rate = 600.0, 20.0
    columns = [resting(seconds, 1e-4, 0.0, seed, rate) for seed in range(3)]
    columns += [resting(seconds, 2e-3, 0.0, seed, rate) + 9.8 * (seed == 5) for seed in range(3, 6)]
    time_s = np.arange(len(columns[0])) / rate
    rest = write_csv(tmp_path / "rest.csv", ImuLog("rest", "imu", time_s, np.column_stack(columns)))
    outcome = command("calibrate", "imu", bag, "--topic", "imu/a/data_raw", "--json")
    assert outcome.code == 0, outcome.error
    found = json.loads(outcome.out)
    assert found["provenance"]["recorded"] == "2023-11-14T22:13:20+00:00"
    assert found["gyro"]["measured"] == "bias and matrix"
    assert "choose by --sensor: " in refusal("calibrate", "imu", bag)
    table = write_csv(tmp_path / "session.csv", log)
    found = json.loads(command("calibrate", "imu", table, "--rest", rest, "--json").out)
    assert found["noise_from_rest_s"] > 590.0
    assert found["noise"]["accelerometer_density_m_s2_sqrt_hz"] == pytest.approx([2e-3] * 3, rel=0.05)
    assert found["noise"]["gyro_random_walk_rad_s_sqrt_s"] == []


def test_a_rate_of_zero_is_no_gyro_and_readings_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    """As messages have it whose sender has none: no bias of zero is told."""
    log = session(1)
    values = log.values.copy()
    values[:, :3] = 0.0
    values[5::50, 3] = np.nan
    path = write_csv(tmp_path / "silent.csv", ImuLog("silent", "imu", log.time_s, values))
    found = json.loads(command("calibrate", "imu", path, "--json").out)
    assert (found["gyro"]["measured"], found["accelerometer"]["measured"]) == ("nothing", "bias and matrix")
    said = " ".join(found["not_allowed"])
    assert "taken for none" in said
    assert f"{len(values[5::50])} readings left out" in said


def test_a_serial_log(tmp_path: Path) -> None:
    """Raw bytes of the hopper's sensors: the high-g one by the low-g one's rests."""
    log = session(2)
    counts = np.hstack([log.values[:, 3:] / 9.80665 * 2048.0, np.rad2deg(log.values[:, :3]) * 16.4])
    high = np.round((log.values[:, 3:] + [5.0, -4.0, 3.0]) / 9.80665 / 0.049) * 16
    rows = np.clip(np.round(np.hstack([counts, high])), -32768, 32767).astype(int).tolist()
    wire = [encode_settings(SETTINGS)]
    for number, (time, row) in enumerate(zip(log.time_s, rows, strict=True), 1):
        one = Sample(number % 256, round(time * 1e6) + 100, (*row[:3],), (*row[3:6],), -521, (*row[6:],), 0)
        wire.append(encode_sample(one))
    path = tmp_path / "device.log"
    path.write_bytes(b"".join(wire))
    low = json.loads(command("calibrate", "imu", path, "--format", "serial_log", "--sensor", "imu/low_g", "--json").out)
    np.testing.assert_allclose(low["gyro"]["bias_rad_s"], truth(2).gyro_bias, atol=1e-3)
    high_g = command("calibrate", "imu", path, "--format", "serial_log", "--sensor", "imu/high_g", "--json")
    found = json.loads(high_g.out)
    assert found["gyro"]["measured"] == "nothing"
    expected = truth(2).accelerometer_bias + np.array([5.0, -4.0, 3.0])
    stddev = np.array(found["accelerometer"]["bias_stddev_m_s2"])
    assert np.all(np.abs(np.array(found["accelerometer"]["bias_m_s2"]) - expected) < 3.0 * stddev)
    assert any("the sensor has none" in one for one in found["not_allowed"])


def test_refusals(table: Path) -> None:
    for words, sentence in (
        (["--turn-deg", "5"], "--turn-deg 5.0: must be from 30 to 36000"),
        (["--tilt-deg", "nan"], "--tilt-deg nan: must be"),
        (["--gyro-unit", "rpm"], "must be rad/s or deg/s"),
        (["--sensor", "imu/link_1"], "has no imu/link_1; choose by --sensor: imu"),
        ([str(table), "--sections", str(table)], "--sections is of one log; 2 are given"),
    ):
        assert sentence in refusal("calibrate", "imu", str(table), *words)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("time_s,acc_x,acc_y,acc_z\n", "0 readings; a calibration needs 20"),
        ("acc_x,acc_y,acc_z\n1,2,3\n", "no column time_s; give --rate"),
        ("time_s,acc_x,acc_y,acc_z\n" + "".join(f"{t / 100},0,0,9.8\n" for t in range(400)), "1 of 6 positions"),
        (
            "time_s,acc_x,acc_y,acc_z\n" + "".join(f"{t / 90 + 1e9 * (t > 20)},0,0,9.8\n" for t in range(40)),
            "did its clock jump?",
        ),
        ("time_s,acc_x,acc_y,acc_z\n" + "".join(f"{10 * t},0,0,9.8\n" for t in range(40)), "Are its times in s?"),
        ("\0\1\2", "no column gyr_x"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert sentence in refusal("calibrate", "imu", path)
