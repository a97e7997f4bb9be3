"""Calibration of a chain from its own runs, and the file that it is kept in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.filtering.moments import Moments, part
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.learning import model_file
from thruster_chain_estimation.estimators.robust_estimator import RobustEstimator
from thruster_chain_estimation.model.calibration import Calibration
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.inertial_layout import lasting, prior_stddev
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.training.training import WIDENED, CalibrationReport, train

CONFIGURATION = ThrusterChainConfiguration()
CONFIGURATION = replace(
    CONFIGURATION,
    gyro=replace(CONFIGURATION.gyro, range_rad_s=17.453),
    initial=replace(CONFIGURATION.initial, rest_s=1.4, heading_stddev_rad=0.005),
)
SIZE = 7  # lasting parts of an IMU, its gyro's scale first


@pytest.fixture(scope="module")
def recording() -> LoadedRecording:
    """A laboratory's run of 10 s."""
    return simulated_recording(ROBOT, CONFIGURATION, "hardware", "mixed", 10.0, 31)


@pytest.fixture(scope="module")
def report(recording: LoadedRecording) -> CalibrationReport:
    return train(CONFIGURATION, {"monday": recording}, ["00"])


def test_motion_capture_tells_the_gyros_scales(report: CalibrationReport, recording: LoadedRecording) -> None:
    assert any("scale in common that no run can show" in sentence for sentence in report.sentences())
    assert report.summary()["links"]["link_2"]["mass_kg"]["stddev"] > 0.0
    assert len(report.tables()[0].rows) == 3 * 6
    scales = report.calibration.imus.mean[::SIZE]
    stddev = np.sqrt(np.diag(report.calibration.imus.covariance))[::SIZE]
    assert (stddev < 0.25 * CONFIGURATION.gyro.scale_fraction / np.sqrt(3.0)).all()
    for link, name in enumerate(CONFIGURATION.chain.link_names):
        turned, read = _turned(recording, name)
        scale = 1.0 - turned @ read / (read @ read)  # least squares over the headings, the bias taken off
        assert abs(scales[link] - scale) < 4.0 * np.hypot(stddev[link], 0.0015)


def test_deviations_are_kept_larger(report: CalibrationReport) -> None:
    short = simulated_recording(ROBOT, CONFIGURATION, "hardware", "mixed", 2.0, 31)
    again = train(CONFIGURATION, {"monday": short}, [""])
    # In two seconds, hardly more than rest, nothing is learned: what was known before is kept, but for the factor.
    before = prior_stddev(CONFIGURATION)[lasting(3)]
    after = np.sqrt(np.diag(again.calibration.imus.covariance))
    assert (after[::SIZE] > 0.7 * WIDENED * before[::SIZE]).all()
    assert (np.sqrt(np.diag(report.calibration.imus.covariance)) < after + 1e-12).all()


def test_it_is_the_start_of_the_next_run(report: CalibrationReport, tmp_path: Path) -> None:
    """By its file, which says when it is of another robot."""
    report.save(tmp_path / "chain.npz")
    ROBOT.check_model(tmp_path / "chain.npz")
    estimator = RobustEstimator(replace(CONFIGURATION, calibration=str(tmp_path / "chain.npz")))
    state = estimator.start(None)
    kept = part(Moments(state.navigation.mean, state.navigation.covariance), lasting(3))
    np.testing.assert_array_equal(kept.mean, report.calibration.imus.mean)
    np.testing.assert_array_equal(kept.covariance, report.calibration.imus.covariance)
    loaded = Calibration.load(tmp_path / "chain.npz", CONFIGURATION)
    np.testing.assert_array_equal(loaded.parameters.mean, report.calibration.parameters.mean)
    np.testing.assert_array_equal(loaded.parameters.covariance, report.calibration.parameters.covariance)
    for changed, said in (
        ({"masses_kg": (0.5, 0.5, 0.6)}, "another configuration of thruster_chain"),
        ({"link_names": ("a", "b", "c")}, "imu/link_1, imu/link_2, imu/link_3, there are imu/a, imu/b, imu/c"),
    ):
        other = replace(CONFIGURATION, chain=replace(CONFIGURATION.chain, **changed))
        with pytest.raises(UserError, match=said):
            Calibration.load(tmp_path / "chain.npz", other)
    header, arrays = model_file.load(tmp_path / "chain.npz")
    others = np.arange(len(arrays["imus_mean"])) != 3
    for name, value, said in (
        ("imus_mean", 0.0 * arrays["imus_mean"], "all 21 numbers of imus_mean are zero"),
        ("parameters_covariance", 0.0 * arrays["parameters_covariance"], "parameters_covariance is all zero"),
        ("imus_covariance", arrays["imus_covariance"] * np.outer(others, others), "1 of 21 variances of imus are zero"),
    ):
        model_file.save(tmp_path / "chain.npz", header, arrays | {name: value})
        with pytest.raises(UserError, match=said):
            Calibration.load(tmp_path / "chain.npz", CONFIGURATION)


def test_without_motion_capture_one_run_at_a_time(recording: LoadedRecording) -> None:
    unseen = replace(recording, tracks={})
    with pytest.raises(UserError, match="2 of 2 runs lack motion capture"):
        train(CONFIGURATION, {"monday": unseen, "tuesday": unseen}, ["", ""])


def _turned(recording: LoadedRecording, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Headings since the start by motion capture, and by the gyro with its bias at rest taken off."""
    track = recording.tracks[name]
    heading = np.unwrap(2.0 * np.arctan2(track.values[:, 5], track.values[:, 6]))
    series = next(one for one in recording.series if one.channel.sensor == f"imu/{name}")
    at_s, rate = series.stamps_ns * 1e-9, series.values[:, 2]
    rate = rate - rate[at_s < at_s[0] + 1.3].mean()
    read = np.concatenate([[0.0], np.cumsum(0.5 * (rate[1:] + rate[:-1]) * np.diff(at_s))])
    return heading - heading[:50].mean(), np.interp(track.stamps_ns * 1e-9, at_s, read)
