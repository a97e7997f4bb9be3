"""The parameter file of an IMU's errors: read back, every fault listed, nothing trusted; readings corrected."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.calibration.parameter_file import AccelerometerErrors, GyroErrors, ImuCalibration, load_calibration
from onboard_estimation.base.configuration import load, to_parameter_file
from onboard_estimation.base.errors import UserError

FINITE = st.floats(-50.0, 50.0)
NEAR = st.tuples(*(st.floats(one - 0.2, one + 0.2) for one in np.eye(3).ravel()))
TRIPLE = st.tuples(FINITE, FINITE, FINITE)
CALIBRATIONS = st.builds(
    ImuCalibration,
    st.builds(AccelerometerErrors, st.just("bias and matrix"), NEAR, st.just(()), TRIPLE, st.just((0.1, 0.1, 0.1))),
    st.builds(GyroErrors, st.just("bias and matrix"), NEAR, st.just(()), TRIPLE, st.just(())),
)


def read(text: str) -> ImuCalibration:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imu.yaml"
        path.write_text(text)
        return load_calibration(path)


@given(CALIBRATIONS, st.integers(0, 2**31))
@settings(max_examples=5)
def test_what_is_written_is_read_back_and_corrects_readings_row_by_row(one: ImuCalibration, seed: int) -> None:
    """As the equation says; a gyro that is not there stays so; the input is left alone."""
    assert read(to_parameter_file(one)) == one
    values = np.random.default_rng(seed).normal(size=(5, 6))
    values[2, :3] = np.nan
    before = values.copy()
    out = one.apply(values)
    np.testing.assert_array_equal(values, before)
    np.testing.assert_allclose(one.apply(values[0]), out[0], rtol=1e-12)
    np.testing.assert_array_equal(ImuCalibration().apply(values), values)
    gyro, accelerometer = (one.gyro, one.gyro.bias_rad_s), (one.accelerometer, one.accelerometer.bias_m_s2)
    for part, (errors, bias) in ((slice(0, 3), gyro), (slice(3, 6), accelerometer)):
        expected = (values[:, part] - np.array(bias)) @ np.reshape(errors.matrix, (3, 3)).T
        np.testing.assert_allclose(out[:, part], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("place", [0, 5])
def test_a_matrix_far_from_the_identity_is_refused(place: int) -> None:
    matrix = np.eye(3).ravel()
    matrix[place] += 0.21
    with pytest.raises(UserError, match=rf"gyro: matrix: element {place + 1} is .* are axes or units mixed up"):
        load(ImuCalibration, {"gyro": {"matrix": matrix.tolist()}})
