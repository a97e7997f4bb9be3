"""Errors of an IMU from six positions and three turns: a real session, known truth, and what a log does not allow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibration_logs import G, session, truth
from numpy.typing import NDArray
from scipy.optimize import least_squares

from drivers.calibration.logs import POSITIONS, UP, ImuLog, Section, find_rests, read_log, read_sections
from drivers.calibration.procedure import Procedure
from drivers.calibration.session import Found, calibrate, fit_accelerometer
from onboard_estimation.base.errors import UserError

Array = NDArray[np.float64]


def of(log: ImuLog, sections: list[Section] | None = None, **settings: float) -> Found:
    return calibrate([log], Procedure(**settings), sections)


def square(values: tuple[float, ...]) -> Array:
    return np.reshape(values, (3, 3))


@pytest.fixture
def folder(shared_data: Path) -> Path:
    return shared_data / "imu_calibration"


@pytest.fixture
def recorded(folder: Path) -> ImuLog:
    return read_log(folder / "example_ferraris_session.csv", None, Procedure(rate_hz=102.4, gyro_unit="deg/s"))["imu"]


@pytest.mark.data
def test_recorded_session_has_the_published_figures(recorded: ImuLog) -> None:
    """Those of the data's README, to 1 % or its last digit: biases, gains and turns; sections are found, not given."""
    found = of(recorded)
    high, low = np.array([10.31, 9.22, 10.44]), np.array([-9.24, -10.45, -9.64])
    gains = np.diag(np.linalg.inv(square(found.accelerometer.matrix)))
    np.testing.assert_allclose(found.accelerometer.bias_m_s2, (high + low) / 2.0, rtol=0.01, atol=0.005)
    np.testing.assert_allclose(gains, (high - low) / 2.0 / G, rtol=0.01)
    np.testing.assert_allclose(np.rad2deg(found.gyro.bias_rad_s), [-0.60, -0.37, 0.06], rtol=0.01, atol=0.005)
    angles = {one.axis: np.rad2deg(one.angle_rad) for one in found.turns}
    np.testing.assert_allclose([angles[axis] for axis in "xyz"], [-370.1, -353.7, -359.4], rtol=0.01)
    assert found.residual_before_m_s2 > 0.5
    assert found.residual_after_m_s2 is not None
    assert found.residual_after_m_s2 < 0.01
    assert set(found.positions) == set(POSITIONS)


@pytest.mark.data
def test_recorded_session_agrees_with_imucal(folder: Path, recorded: ImuLog) -> None:
    """Which takes the positions for exact: equal to a tenth of a percent where the tilts hardly matter."""
    imucal = pytest.importorskip("imucal")
    pandas = pytest.importorskip("pandas")
    path = folder / "example_ferraris_session_list.json"
    table = pandas.read_csv(folder / "example_ferraris_session.csv").set_index("n_samples")
    regions = imucal.ferraris_regions_from_section_list(table, pandas.DataFrame(json.loads(path.read_text())).T)
    theirs = imucal.FerrarisCalibration(grav=G).compute(regions, 102.4, from_acc_unit="m/s^2", from_gyr_unit="deg/s")
    ours = of(recorded, read_sections(path, recorded))
    matrix = np.linalg.inv(theirs.K_a @ theirs.R_a)
    np.testing.assert_allclose(square(ours.accelerometer.matrix), matrix, atol=1e-3)
    np.testing.assert_allclose(ours.accelerometer.bias_m_s2, theirs.b_a, atol=2e-3)
    np.testing.assert_allclose(square(ours.gyro.matrix), np.linalg.inv(theirs.K_g @ theirs.R_g), atol=1e-3)
    np.testing.assert_allclose(np.rad2deg(ours.gyro.bias_rad_s), theirs.b_g, atol=1e-3)


def test_accelerometer_against_least_squares_with_free_tilts() -> None:
    """The same posterior, maximised over errors and twelve tilt angles by SciPy."""
    means = np.array([of_rest.mean[3:] for of_rest in by_position(of(session(3))).values()])
    noise, tilt = np.full((6, 3), 2e-3), np.deg2rad(2.0)
    fit = fit_accelerometer(means, noise, G, tilt)
    free = UP == 0.0

    def residual(unknown: Array) -> Array:
        gain, bias, tilts = unknown[:9].reshape(3, 3), unknown[9:12], unknown[12:]
        directions = UP.copy()
        directions[free] = np.sin(tilts)
        directions[~free] *= np.sqrt(1.0 - np.sum(np.where(free, directions, 0.0) ** 2, axis=1))
        return np.concatenate([((G * directions @ gain.T + bias - means) / noise).ravel(), tilts / tilt])

    start = np.concatenate([np.eye(3).ravel(), np.zeros(15)])
    best = least_squares(residual, start, x_scale="jac", xtol=1e-14, ftol=1e-14).x
    np.testing.assert_allclose(fit.matrix, np.linalg.inv(best[:9].reshape(3, 3)), atol=2e-4)
    np.testing.assert_allclose(fit.bias, best[9:12], atol=2e-3)


def by_position(found: Found) -> dict[str, Any]:
    return {name: found.positions[name] for name in POSITIONS}


def test_standard_deviations_cover_the_truth() -> None:
    """Tilts by hand up to 5 degrees, turns of 360 to within 2: 24 errors in each of 12 sessions."""
    scores = []
    for seed in range(1000, 1012):
        log, errors = session(seed), truth(seed)
        found = of(log)
        for part, bias, matrix in (
            (found.accelerometer, errors.accelerometer_bias, errors.accelerometer_matrix),
            (found.gyro, errors.gyro_bias, errors.gyro_matrix),
        ):
            values = vars(part)
            names = [name for name in values if name.startswith("bias")]
            scores.append((np.array(values[names[0]]) - bias) / values[names[1]])
            scores.append((np.array(part.matrix) - matrix.ravel()) / part.matrix_stddev)
    score = np.concatenate(scores)
    assert np.mean(np.abs(score) < 2.0) > 0.92  # normal: 0.954
    assert 0.55 < np.mean(np.abs(score) < 1.0) < 0.85  # 0.683; uniform tilts are narrower than normal ones
    assert np.abs(score).max() < 4.5


def test_a_missing_position_is_said_and_nothing_invented() -> None:
    found = of(session(1, positions=("+x", "+y", "-y", "+z", "-z")))
    assert found.accelerometer.measured == "nothing"
    assert found.residual_after_m_s2 is None
    assert any("5 of 6 positions, -x missing; bias and gain of x cannot" in one for one in found.sentences)
    assert found.gyro.measured == "bias and matrix"


def test_a_missing_turn_leaves_the_bias() -> None:
    found = of(session(2, turns="xz"))
    assert found.gyro.measured == "bias"
    assert found.gyro.matrix_stddev == ()
    assert any("no turn of 360 deg about y" in one for one in found.sentences)
    np.testing.assert_allclose(found.gyro.bias_rad_s, truth(2).gyro_bias, atol=5e-4)


def test_turns_of_another_angle() -> None:
    log = session(4, turn_deg=720.0)
    assert of(log).gyro.measured == "bias"
    assert of(log, turn_deg=720.0).gyro.measured == "bias and matrix"
    nearly = of(session(4, turn_deg=270.0))
    assert any("not 360 to within 15 %" in one for one in nearly.sentences)


def test_a_turn_beyond_the_range_or_with_missing_readings_is_not_used() -> None:
    log = session(5)
    values = log.values.copy()
    values[:, 2] = np.clip(values[:, 2], -2.5, 2.5)  # the turns go up to 3.1 rad/s
    found = of(replace(log, values=values))
    assert found.gyro.measured == "bias"
    assert any("the end of its range; turn more slowly" in one for one in found.sentences)
    turn = [one.section for one in of(log).turns if not one.fault][1]
    kept = np.abs(log.time_s - (turn.start_s + turn.end_s) / 2.0) > 0.2
    found = of(replace(log, time_s=log.time_s[kept], values=log.values[kept]))
    assert any("ms of readings are missing" in one for one in found.sentences)


def test_logs_that_cannot_be_right_are_refused(tmp_path: Path) -> None:
    log = session(1)
    for other, said in (
        (session(1, rest_s=1.0), r"no rest of 1\.5 s in .* put the sensor down for 5 s"),
        (replace(log, values=log.values / np.repeat([1.0, G], 3)), "looks like g"),
        (replace(log, values=log.values * np.repeat([180.0 / np.pi, 1.0], 3)), "is its unit deg/s"),
    ):
        with pytest.raises(UserError, match=said):
            of(other)
    with pytest.raises(UserError, match=r"section -y from .* gravity says \+x"):
        of(log, [replace(find_rests(log)[0], label="-y")])
    path = tmp_path / "sections.json"
    path.write_text('{"+x": {"start_s": 0.5, "end_s": 3.5}, "turn_z": {"start_s": 4, "end_s": 9}}')
    assert read_sections(path, log) == [Section(0.5, 3.5, "+x"), Section(4.0, 9.0, "turn z")]
    for text, said in (
        ("{", "no JSON object"),
        ('{"q": {"start": 1, "end": 2}}', "expected x_p"),
        ('{"x_p": 5}', "expected x_p"),
        ('{"x_p": {"start": 1e999, "end": 2}}', "is not in the log"),
        ('{"x_p": {"start": 5, "end": 2}}', "is not in the log"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=said):
            read_sections(path, log)
