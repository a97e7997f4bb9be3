"""The parameter file of an IMU's errors: read back, every fault listed, nothing trusted; readings corrected."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.calibration.parameter_file import AccelerometerErrors, GyroErrors, ImuCalibration, load_calibration
from onboard_estimation.base.configuration import load, to_mapping, to_parameter_file
from onboard_estimation.base.errors import UserError

FINITE = st.floats(-50.0, 50.0)
NEAR = st.tuples(*(st.floats(one - 0.2, one + 0.2) for one in np.eye(3).ravel()))
TRIPLE = st.tuples(FINITE, FINITE, FINITE)
CALIBRATIONS = st.builds(
    ImuCalibration,
    st.builds(AccelerometerErrors, st.just("bias and matrix"), TRIPLE, st.just((0.1, 0.1, 0.1)), NEAR),
    st.builds(GyroErrors, st.just("bias and matrix"), TRIPLE, st.just(()), NEAR),
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(["accelerometer", "gyro", "noise", "provenance", "bias_m_s2", "matrix", "measured", "x"])


def read(text: str | bytes) -> ImuCalibration:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imu.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_calibration(path)


@given(CALIBRATIONS)
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read_back(one: ImuCalibration) -> None:
    assert read(to_parameter_file(one)) == one


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, ANY, max_size=4) | ANY, max_size=4))
@settings(max_examples=150, deadline=None)
def test_whatever_a_file_holds_is_read_or_refused(content: dict[str, Any]) -> None:
    try:
        found = read(yaml.safe_dump({"/**": {"ros__parameters": content}}))
    except UserError:
        return
    assert np.isfinite(found.apply(np.ones(6))).all()


@given(st.binary(max_size=80))
@settings(max_examples=60, deadline=None)
def test_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read(data)
    except UserError:
        return


def test_all_faults_are_listed() -> None:
    with pytest.raises(UserError) as caught:
        read(
            "/**:\n  ros__parameters:\n    accelerometer:\n      bias_m_s2: [1.0, .nan, 0.0]\n"
            "      matrix: [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\n    gyro: {bias_rad_s: [0.0, 0.0], biass: 1.0}\n"
        )
    text = str(caught.value)
    for part in ("accelerometer.bias_m_s2", "accelerometer.matrix", "gyro.bias_rad_s", "gyro.biass"):
        assert part in text
    assert "list of 9 numbers" in text


@pytest.mark.parametrize("place", range(9))
def test_a_matrix_far_from_the_identity(place: int) -> None:
    matrix = np.eye(3).ravel()
    matrix[place] += 0.21
    with pytest.raises(UserError, match=rf"gyro: matrix: element {place + 1} is .* are axes or units mixed up"):
        load(ImuCalibration, {"gyro": {"matrix": matrix.tolist()}})


def test_standard_deviations_are_three_or_none() -> None:
    with pytest.raises(UserError, match="bias_stddev_m_s2: 2 numbers; has to be 3, or none"):
        load(ImuCalibration, {"accelerometer": {"bias_stddev_m_s2": [1.0, 2.0]}})


@given(CALIBRATIONS, st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_apply(one: ImuCalibration, seed: int) -> None:
    """Row by row as the equation says; a gyro that is not there stays so; the input is left alone."""
    values = np.random.default_rng(seed).normal(size=(5, 6))
    values[2, :3] = np.nan
    before = values.copy()
    out = one.apply(values)
    np.testing.assert_array_equal(values, before)
    assert np.isnan(out[2, :3]).all()
    assert np.isfinite(out[2, 3:]).all()
    for row, value in zip(out, values, strict=True):
        np.testing.assert_allclose(one.apply(value), row, rtol=1e-12)
        for part, errors in ((slice(0, 3), one.gyro), (slice(3, 6), one.accelerometer)):
            bias = np.array(list(vars(errors).values())[1])
            expected = np.reshape(errors.matrix, (3, 3)) @ (value[part] - bias)
            np.testing.assert_allclose(row[part], expected, rtol=1e-9, atol=1e-12)


def test_without_a_file_nothing_changes() -> None:
    value = np.arange(6.0)
    np.testing.assert_array_equal(ImuCalibration().apply(value), value)
    assert to_mapping(ImuCalibration())["gyro"]["measured"] == "nothing"
