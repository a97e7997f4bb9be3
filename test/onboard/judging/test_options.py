"""Options of `evaluate` are declared once, the line that repeats a run says each; a what-if changes what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import typer.main
from evaluation_samples import salp_recording

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel
from onboard_estimation.base.series import Series
from onboard_estimation.commands.arguments import taking, taking_all
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.judging import what_if as changes
from onboard_estimation.judging.options import (
    EvaluateOptions,
    JudgeSettings,
    WhatIf,
    declared,
    from_typed,
    recalled,
    recorded,
    words,
)
from onboard_estimation.judging.what_if import changed_series

ALL = EvaluateOptions(
    config=Path("a b.yaml"),
    model=Path("m.npz"),
    overrides={"gyro.axis": "-z", "rates": [1.0, 2.0], "told": "yes"},
    topics={"imu/link_1/data_raw": "/my/imu", "imu/link_2/data_raw": "/other"},
    namespace="/salp",
    mirror_truth="yz",
    align_clock=True,
    what_if=WhatIf(("imu/link_2", "imu/link_3"), {"imu": 0.02}, {"imu.gyro_z": 1e-5}, {"imu.gyro": 1.0}, seed=7),
    settings=JudgeSettings("exact", 7, 0.25, 1.5, 0.0, "se3", 30.0, smooth=True, bulk=False),
    trajectory="/vio/odometry",
    truth=Path("a b.tum"),
    body="link_1",
    format="kitti",
    truth_format="motive",
    shift_s=-0.25,
    times=Path("times.txt"),
    estimates_rate_hz=math.inf,
)


def typed(command: Any, *texts: str) -> dict[str, Any]:
    """What a command gets for what is typed, without doing anything."""
    app = typer.Typer()
    app.command()(command)
    context = typer.main.get_command(app).make_context("evaluate", list(texts))
    return dict(context.params)


@taking_all
def evaluate(options: Any = None) -> None:
    """All of them."""


def test_every_option_is_set_in_the_example() -> None:
    for (name, _, value), (_, _, default) in zip(declared(ALL), declared(), strict=True):
        assert value != default, name


@pytest.mark.parametrize("options", [ALL, replace(ALL, estimates_rate_hz=20.0)])
def test_what_repeats_a_run_gives_its_options_again(options: EvaluateOptions) -> None:
    assert from_typed(typed(evaluate, *words(options))) == options
    assert words(EvaluateOptions()) == []  # nothing is said of what was not asked for


def test_a_record_gives_the_options_again() -> None:
    kept = json.loads(json.dumps(recorded(ALL)))
    assert kept["drop"] == ["imu/link_2", "imu/link_3"]
    assert kept["estimates_rate_hz"] == "all"
    # The configuration as it was resolved, with its model, lies beside the record.
    assert recalled(kept) == replace(ALL, config=None, model=None)
    with pytest.raises(KeyError):
        recalled({"seed": 3})


def test_a_command_takes_those_that_it_names() -> None:
    given: list[Any] = []

    @taking("drop", "overrides")
    def other(bag: str, options: Any = None, count: int = 1) -> None:
        given.append((bag, options, count))

    assert set(typed(other, "b")) == {"bag", "drop", "overrides", "count"}
    other(bag="b", count=2, drop=["imu"], overrides=["a=1"])
    assert given == [("b", EvaluateOptions(overrides={"a": 1}, what_if=WhatIf(drop=("imu",))), 2)]


@pytest.mark.parametrize(
    ("flag", "text", "said"),
    [
        ("--initial", "guessed", "must be drawn or exact"),
        ("--mirror-truth", "yy", "must be one or more of x, y, z"),
        ("--alignment", "sim3", "must be none, start, heading or se3"),
        ("--format", "bag", "must be tum, tum_ns, openvins, euroc, kitti, csv or motive"),
        ("--shift", "inf", "must be a time of at most 4e9 s"),
        ("--lag", "-1.0", "must be a time of 0 s or more"),
        ("--truth-gap", "inf", "must be a time of 0 s or more"),
        *(("--estimates-rate", text, "must be a rate in Hz above 0, or all") for text in ("0", "nan", "inf", "fast")),
        ("--topic", "imu", "write --topic NAME=TOPIC"),
        ("--set", "a=[", "the value is no YAML"),
        ("--delay", "imu=", "write --delay SENSOR=VALUE"),
        ("--delay", "imu=fast", "'fast' is no time; write 20ms"),
        # Twenty of what? Taken as seconds, a latency of 20 ms would be one of 20 s.
        ("--delay", "imu=20", "'20' has no unit; write 20ms, 20s or 20us"),
        ("--delay", "imu=20m", "'m' is no unit of time; write "),
        ("--bias", "imu.gyro_z=x", "'x' is no number"),
    ],
)
def test_a_text_that_is_no_value_is_refused(flag: str, text: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        from_typed(typed(evaluate, flag, text))
    assert str(refused.value).startswith(f"{flag} {text}: {said}")


def test_a_configuration_is_ones_own_or_the_installed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = Path("config") / "salp_ten_links.yaml"
    found = from_typed(typed(evaluate, "--config", str(shipped))).config
    assert found.is_absolute()
    assert found.is_file()
    shipped.parent.mkdir()
    shipped.touch()
    for own in (str(shipped), "config/mine.yaml", "salp.yaml"):
        assert from_typed(typed(evaluate, "--config", own)).config == Path(own)


@pytest.mark.parametrize("value", [True, 3, 0.001, "-z", "yes", "1.5", [1.0, 2.0], None, "it's"])
def test_overrides_in_the_line_read_back_as_they_were(value: Any) -> None:
    found = from_typed(typed(evaluate, *words(EvaluateOptions(overrides={"a.b": value})))).overrides["a.b"]
    assert found == value
    assert type(found) is type(value)


RECORDING = salp_recording(5.0)
LOADED = from_simulator(RECORDING, ("link_1", "link_2", "link_3"))
SERIES = RECORDING.sensors
NAMES = [one.channel.sensor for one in SERIES]


IMU = "sensor_msgs/msg/Imu"


def changed(**options: Any) -> dict[str, Series]:
    """The changed series; the recording's own stay as they are."""
    before = [(one.stamps_ns.tobytes(), one.values.tobytes()) for one in SERIES]
    out = {one.channel.sensor: one for one in changed_series(SERIES, WhatIf(**options, seed=7))}
    assert [(one.stamps_ns.tobytes(), one.values.tobytes()) for one in SERIES] == before
    return out


def original(name: str) -> Series:
    return SERIES[NAMES.index(name)]


@pytest.mark.parametrize(
    ("drop", "left"),
    [("imu/link_2", ["actuators/command", "imu/link_1", "imu/link_3"]), ("imu/link", ["actuators/command"])],
)
def test_drop_leaves_out_a_sensor_or_all_with_a_prefix(drop: str, left: list[str]) -> None:
    assert list(changed(drop=(drop,))) == left
    loaded = changes.changed(LOADED, WhatIf(drop=(drop,)))
    assert {measurement.sensor for measurement in loaded.measurements()} == set(left)
    # The others arrive in the order in which they did before.
    kept = [(m.stamp_ns, m.sensor, m.value.tobytes()) for m in LOADED.measurements() if m.sensor in left]
    assert [(m.stamp_ns, m.sensor, m.value.tobytes()) for m in loaded.measurements()] == kept
    assert f"What if: left out {drop}." in loaded.notes


def test_a_prefix_ends_at_a_boundary_of_the_name() -> None:
    ten = replace(original("imu/link_1"), channel=Channel("imu/link_10/data_raw", IMU, "imu/link_10"))
    out = changed_series([original("imu/link_1"), ten], WhatIf(drop=("imu/link_1",)))
    assert [one.channel.sensor for one in out] == ["imu/link_10"]


def test_delay_moves_stamps_later_and_nothing_else() -> None:
    out = changed(delay_s={"imu": 0.015, "imu/link": 0.005, "actuators/command": -0.5})
    for name in NAMES:
        shift = -500_000_000 if name == "actuators/command" else 20_000_000
        np.testing.assert_array_equal(out[name].stamps_ns - original(name).stamps_ns, shift)
        np.testing.assert_array_equal(out[name].values, original(name).values)
    # What arrives first still does: nobody knows of the delay.
    loaded = changes.changed(LOADED, WhatIf(delay_s={"imu": 0.02}))
    assert [m.sensor for m in loaded.measurements()] == [m.sensor for m in LOADED.measurements()]


def test_bias_adds_a_constant_to_one_component_or_to_those_with_a_prefix() -> None:
    out = changed(bias={"imu/link_3.gyro_z": 0.03, "actuators/command.link_2": -1.5})
    difference = out["imu/link_3"].values - original("imu/link_3").values
    np.testing.assert_allclose(difference, np.tile([0.0, 0.0, 0.03, 0.0, 0.0, 0.0], (len(difference), 1)), atol=1e-15)
    difference = out["actuators/command"].values - original("actuators/command").values
    np.testing.assert_allclose(difference, np.tile([0.0, -1.5, 0.0], (len(difference), 1)), atol=1e-15)
    np.testing.assert_array_equal(out["imu/link_1"].values, original("imu/link_1").values)
    out = changed(bias={"imu.gyro": 0.04, "imu/link.gyro": 0.06, "imu.accelerometer_y": 2.0})
    for name in NAMES[1:]:
        difference = out[name].values - original(name).values
        expected = np.tile([0.1, 0.1, 0.1, 0.0, 2.0, 0.0], (len(difference), 1))
        np.testing.assert_allclose(difference, expected, atol=1e-14)


def test_noise_is_white_of_the_size_asked_for_and_repeatable() -> None:
    long = [replace(one, stamps_ns=np.arange(2000), values=np.tile(one.values[:1], (2000, 1))) for one in SERIES]
    what_if = WhatIf(noise={"imu.gyro": 0.02, "imu/link_1.accelerometer": 1.0}, seed=3)
    out, again = changed_series(long, what_if), changed_series(long, what_if)
    noise = out[1].values - long[1].values
    assert np.std(noise[:, :3]) == pytest.approx(0.02, rel=0.05)
    assert np.std(noise[:, 3:]) == pytest.approx(1.0, rel=0.05)
    assert abs(np.mean(noise[:, :3])) < 4.0 * 0.02 / np.sqrt(noise[:, :3].size)
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.1
    assert abs(np.corrcoef(noise[:, 0], (out[2].values - long[2].values)[:, 0])[0, 1]) < 0.1
    for one, same in zip(out, again, strict=True):
        np.testing.assert_array_equal(one.values, same.values)
    assert changes.changed(LOADED, WhatIf(seed=3)) is LOADED
    other = changed_series(long, replace(what_if, seed=4))
    assert not np.array_equal(out[1].values, other[1].values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop": ("imu/link_9",)}, "--drop imu/link_9: no such sensor; there are actuators/command, imu/link_1"),
        ({"drop": ("imu", "actuators")}, "--drop leaves no sensor"),
        ({"delay_s": {"imu": 1e300}}, "must be at most 3600 s"),
        ({"delay_s": {"gps": 1.0}}, "--delay gps: no such sensor"),
        ({"bias": {"imu": 1.0}}, "say which component of imu/link_1: gyro_x, gyro_y"),
        ({"bias": {"imu.gyro_z": math.inf}}, "--bias imu.gyro_z=inf: must be finite"),
        ({"bias": {"actuators.gyro_z": 1.0}}, "say which component of actuators/command: link_1, link_2, link_3"),
        ({"bias": ("imu.gyro_z=1",)}, "a what-if takes numbers by name, as in bias={'imu.gyro_z': 0.01}, not ('imu"),
        ({"noise": {"imu.gyro_z": -0.1}}, "a standard deviation must be 0 or more"),
    ],
)
def test_what_cannot_be_done(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        changes.changed(LOADED, WhatIf(**options))
    assert words in str(caught.value)
