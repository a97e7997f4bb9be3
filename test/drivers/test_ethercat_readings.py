"""What becomes of readings of an EtherCAT sensor: compensation, zero, decimation, pressures; against hand and scipy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from drivers.ethercat.configuration import EthercatConfiguration, PressureConfiguration, WrenchConfiguration
from drivers.ethercat.description import find, shipped
from drivers.ethercat.device import conversion_of, dtype_of
from drivers.ethercat.stream import (
    MOST_FILLED,
    Decimator,
    Stream,
    Wrench,
    low_pass,
    mean_at_rest,
    pressure_readout,
)
from onboard_estimation.base.configuration import ConfigurationError, load
from onboard_estimation.base.errors import UserError

G = 9.80665
PERIOD_NS = 1_000_000


def compensation(**changes: object) -> Wrench:
    chosen = {f"wrench.{name}": value for name, value in changes.items()}
    return Wrench(load(EthercatConfiguration, None, chosen).wrench, 1000.0)


def test_weight_and_its_torque_by_hand() -> None:
    """2 kg hang 0.1 m below the sensor and 0.03 m towards x; down is z: the torque c x mg is about -y."""
    known = compensation(mass_kg=2.0, centre_of_mass_m=[0.03, 0.0, 0.1])
    np.testing.assert_allclose(known.weight, [0, 0, 2 * G, 0, -0.03 * 2 * G, 0])
    tilted = compensation(mass_kg=2.0, centre_of_mass_m=[0.03, 0.0, 0.1], gravity_direction=[-3.0, 0.0, 0.0])
    np.testing.assert_allclose(tilted.weight, [-2 * G, 0, 0, 0, -0.1 * 2 * G, 0], atol=1e-12)


def test_turn_and_lever_arm_are_scipys() -> None:
    rng = np.random.default_rng(1)
    for _ in range(3):
        angles, arm, readings = rng.uniform(-180, 180, 3), rng.normal(size=3), rng.normal(size=(5, 6))
        turn = Rotation.from_euler("xyz", angles, degrees=True)
        known = compensation(mounting_rpy_deg=angles.tolist(), lever_arm_m=arm.tolist(), sign="sensor_on_robot")
        found = known(readings)
        force, torque = readings[:, :3], readings[:, 3:]
        np.testing.assert_allclose(found[:, :3], -turn.apply(force), atol=1e-12)
        np.testing.assert_allclose(found[:, 3:], -turn.apply(torque - np.cross(arm, force)), atol=1e-12)


@pytest.mark.parametrize(
    ("compensates", "includes", "expected"),
    [(False, False, 1.0), (True, False, 0.0), (False, True, 0.0)],
    ids=["weight is read on", "weight is compensated", "weight is in the zero"],
)
def test_what_is_left_of_the_weight_after_a_tare(compensates: bool, includes: bool, expected: float) -> None:
    drift = np.array([0.3, -0.2, 0.1, 0.01, 0.02, -0.03])
    options = {"compensates_weight": compensates, "tare_includes_weight": includes}
    known = compensation(mass_kg=0.5, centre_of_mass_m=[0.02, 0.01, 0.1], **options)
    reading = known.weight + drift
    known.zero_at(reading)
    np.testing.assert_allclose(known(reading[None])[0], expected * known.weight, atol=1e-12)
    # And a force that comes on top is read in full.
    np.testing.assert_allclose(known(reading[None] + 1.0)[0], expected * known.weight + 1.0, atol=1e-12)


def device_of(description: Any, told: float) -> Any:
    """A started one, whose objects hold that, where nothing is expected of them."""
    conversion = conversion_of(description, description.fields, lambda one: one.expected or told)
    return SimpleNamespace(input_type=dtype_of(description.input_entries), conversion=conversion)


@settings(max_examples=50)
@given(data=st.data(), name=st.sampled_from(list(shipped())), told=st.floats(1e-30, 1e30))
def test_whatever_a_device_sends_only_finite_readings_within_its_range_come_out(
    data: st.DataObject, name: str, told: float
) -> None:
    device = device_of(description := find(name), told)
    size = device.input_type.itemsize
    records = data.draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=20))
    if description.has_wrench:
        readout = Wrench(WrenchConfiguration(), 1000.0).readout(description)
        middle, most = 0.0, np.array(description.largest)
    else:
        readout = pressure_readout(description, "voltage_1", PressureConfiguration(), 0.0, 1000.0)
        middle, most = 151325.0, 55001.0
    stream = Stream(description, {"": readout}, 1000.0)
    values = stream(device, range(10**18, 10**18 + len(records)), b"".join(records))[""].values
    assert (np.abs(values - middle) <= most).all()
    assert len(values) + readout.refused + stream.repeats.count == len(records)
    assert readout.beyond <= readout.refused


@pytest.mark.parametrize("rate_hz", [976.0, 488.0, 7812.0])
def test_a_sensor_of_another_rate_than_the_bus_keeps_the_pace_and_its_zero(rate_hz: float) -> None:
    description = find("ati_axia80")
    wrench, device = Wrench(WrenchConfiguration(decimation=8), 1000.0), device_of(description, 1.0)
    stream = Stream(description, {"": wrench.readout(description)}, 1000.0)
    records = np.zeros(4000, device.input_type)
    records["counter"] = rate_hz * 1e-3 * np.arange(4000)
    records["force_x"] = 1000 * records["counter"]
    stamps_ns = 10**18 + PERIOD_NS * np.arange(4000)
    batches = [
        stream(device, stamps_ns[at : at + 7].tolist(), records[at : at + 7].tobytes())[""] for at in range(0, 4000, 7)
    ]
    out_ns = np.concatenate([batch.stamps_ns for batch in batches])
    forces = np.concatenate([batch.values for batch in batches])[:, 0]
    assert (np.abs(np.diff(out_ns) - 8 * PERIOD_NS) <= 2).all()
    np.testing.assert_allclose(forces, 1e-12 * rate_hz * (out_ns - 10**18), atol=1.1e-3 * max(1.0, rate_hz / 1000))
    assert stream.repeats.count == 4000 - len(np.unique(records["counter"]))
    assert bool(stream.repeats.told("", "")) == (rate_hz < 800.0)
    assert stream.repeats.per_fresh == pytest.approx(max(1.0, 1000.0 / rate_hz), rel=1e-2)
    assert (len(out_ns) >= 480, len(wrench.raw)) == (True, 500)


def test_a_mean_is_refused_where_the_sensor_moves_drifts_or_is_short() -> None:
    rng = np.random.default_rng(2)
    still = np.ones(6) + rng.normal(scale=[0.02] * 3 + [0.001] * 3, size=(500, 6))
    np.testing.assert_allclose(mean_at_rest(still, 0.2, 0.01), still.mean(axis=0))
    with pytest.raises(UserError, match=r"vary by 0\.\d+ N and .* N m, at rest by at most 0.2 and 0.01"):
        mean_at_rest(still + 0.5 * np.sin(np.arange(500))[:, None] * np.eye(6)[0], 0.2, 0.01)
    with pytest.raises(UserError, match="not at rest"):
        mean_at_rest(still + np.linspace(0.0, 0.5, 500)[:, None] * np.eye(6)[2], 0.2, 0.01)
    with pytest.raises(UserError, match="10 readings, 20 are needed"):
        mean_at_rest(still[:10], 0.2, 0.01)
    with pytest.raises(UserError, match="not at rest"):
        mean_at_rest(np.full((30, 6), np.nan), 0.2, 0.01)


def played(decimator: Decimator, signal: np.ndarray, stamps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In batches of odd lengths."""
    out_stamps, out = [], []
    for first in range(0, len(signal), 7):
        found_stamps, found = decimator(stamps[first : first + 7].tolist(), signal[first : first + 7])
        out_stamps += found_stamps
        out.append(found)
    return np.array(out_stamps), np.concatenate(out)


def test_a_slow_signal_comes_out_at_its_own_stamps_and_an_alias_does_not() -> None:
    stamps = 10**18 + PERIOD_NS * np.arange(4000)
    seconds = 1e-3 * np.arange(4000)
    slow = np.sin(2 * np.pi * 10.0 * seconds)
    fast = np.sin(2 * np.pi * 120.0 * seconds)  # 125 Hz would show it as 5 Hz
    decimator = Decimator(8, 1e-3)
    found_stamps, found = played(decimator, np.column_stack([slow, fast]), stamps)
    assert (np.diff(found_stamps) == 8 * PERIOD_NS).all()
    expected = np.sin(2 * np.pi * 10.0 * 1e-9 * (found_stamps - 10**18))
    np.testing.assert_allclose(found[:, 0], expected, atol=0.003)
    assert np.abs(found[:, 1]).max() < 0.002
    assert decimator.delay_s == pytest.approx(1e-3 * (len(low_pass(8)) - 1) / 2)
    assert found_stamps[0] - stamps[0] == round(1e9 * decimator.delay_s)


def test_missing_readings_are_bridged_and_more_begin_anew() -> None:
    stamps = 10**18 + PERIOD_NS * np.arange(2000)
    line = 1e-3 * np.arange(2000.0)[:, None]
    kept = np.ones(2000, dtype=bool)
    kept[500:505] = False
    decimator = Decimator(4, 1e-3)
    found_stamps, found = played(decimator, line[kept], stamps[kept])
    np.testing.assert_allclose(found[:, 0], 1e-9 * (found_stamps - 10**18), atol=1e-4)
    assert (np.abs(np.diff(found_stamps) - 4 * PERIOD_NS) <= 1).all()
    kept[1000 : 1000 + MOST_FILLED + 1] = False
    decimator = Decimator(4, 1e-3)
    found_stamps, found = played(decimator, line[kept], stamps[kept])
    assert np.count_nonzero(np.diff(found_stamps) > 5 * PERIOD_NS) == 1
    np.testing.assert_allclose(found[:, 0], 1e-9 * (found_stamps - 10**18), atol=1e-4)
    assert np.diff(found_stamps).max() > 2e9 * decimator.delay_s


def test_volts_become_absolute_pascals() -> None:
    gauge = PressureConfiguration(volts=(0.5, 4.5), pascals=(0.0, 200e3))
    found = gauge.absolute(np.array([[0.5, 0.5], [2.5, 4.5]]), np.array([0.0, 250.0]))
    np.testing.assert_allclose(found, [[101325.0, 101075.0], [201325.0, 301075.0]])
    absolute = PressureConfiguration(volts=(10.0, 0.0), pascals=(0.0, 100e3), reference="absolute")
    np.testing.assert_allclose(absolute.absolute(np.array([[10.0], [2.5]]), np.zeros(1)), [[0.0], [75e3]])
    assert gauge.beyond(np.array([[0.0, 0.31], [4.69, 4.71]])).tolist() == [[True, False], [False, True]]


def test_a_weight_that_would_be_taken_off_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="would take the weight off twice"):
        compensation(mass_kg=1.0, compensates_weight=True, tare_includes_weight=True)
