"""Options of `evaluate` are declared once, the line that repeats a run says each; a what-if changes what it says."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import typer
import typer.main
from evaluation_samples import salp_recording
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onboard_estimation.base.atomic_file import to_json
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.base.series import Fault, Series
from onboard_estimation.commands.arguments import taking, taking_all
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.judging import what_if as changes
from onboard_estimation.judging.options import (
    EvaluateOptions,
    JudgeSettings,
    Option,
    WhatIf,
    _changed,
    declared,
    from_typed,
    parse_fault,
    recalled,
    recorded,
    words,
)
from onboard_estimation.judging.what_if import changed_series


@cache
def clicked(command: Any) -> Any:
    app = typer.Typer()
    app.command()(command)
    return typer.main.get_command(app)


def typed(command: Any, *texts: str) -> dict[str, Any]:
    """What a command gets for what is typed, without doing anything."""
    return dict(clicked(command).make_context("evaluate", list(texts)).params)


@taking_all
def evaluate(options: Any = None) -> None:
    """All of them."""


NAMES_AND_PATHS = st.sampled_from(
    ["-x", "--set", "a b", "it's", '"', "\u00fc\u2603", "$HOME", "x\ny", "=", "a=b"]
) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["1e-3", "yes", "y", "null", "12:30", "010", ".inf", "-", "[1", "{a: b}", "", "#"])
    | NAMES_AND_PATHS
)
KEYS = st.from_regex(r"[a-z_./]+", fullmatch=True)


SIZES = {
    "offset": "{:+}", "scale": "*{}", "noise": "~{}", "drift": "drift {}", "clip": "clip {}", "late": "late {}s"
}  # fmt: skip
FAULTS = st.builds(
    lambda kind, size, times: Fault("imu.gyro_z", kind, size if kind in SIZES else 0.0, *times),
    st.sampled_from([*SIZES, "stuck", "silent"]),
    st.floats(-1e6, 1e6),
    st.floats(0.0, 1e4).map(lambda from_s: (from_s, math.inf)) | st.sampled_from([(-math.inf, math.inf), (1.5, 3.0)]),
)


def fault_text(fault: Fault) -> str:
    end = "" if fault.until_s == math.inf else f"..{fault.until_s}"
    times = f"@{fault.from_s}{end}" if fault.from_s >= 0.0 else ""
    return f"{fault.name}={SIZES.get(fault.kind, fault.kind).format(fault.size)}{times}"


def asked(name: str, it: Option, hint: Any) -> st.SearchStrategy[Any]:
    """What a user may ask for by an option, whatever its type."""
    hint = get_args(hint)[0] if NoneType in get_args(hint) else hint
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if name == "fault":
        return st.lists(FAULTS.map(fault_text)).map(tuple)
    if get_origin(hint) is tuple:
        return st.lists(NAMES_AND_PATHS).map(tuple)
    if get_origin(hint) is Mapping:
        values = {"overrides": SCALARS | st.lists(SCALARS), "topics": NAMES_AND_PATHS}
        return st.dictionaries(KEYS, values.get(name, st.floats(allow_nan=False, allow_infinity=False)))
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-(2**63) if it.minimum is None else it.minimum, 2**63),
        float: st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: accepts(it, number)),
        Path: NAMES_AND_PATHS.map(Path),
        str: st.permutations("xyz").map("".join) if name == "mirror_truth" else NAMES_AND_PATHS,
    }
    return kinds[hint]


def accepts(it: Option, number: float) -> bool:
    try:
        return it.value(number, None) == number
    except UserError:
        return False


HINTS = {name: hint for one in (EvaluateOptions, JudgeSettings, WhatIf) for name, hint in get_type_hints(one).items()}
DRAWN = st.fixed_dictionaries({}, optional={name: asked(name, it, HINTS[name]) for name, it, _ in declared()})


@settings(max_examples=60)
@given(DRAWN)
@example({"estimates_rate_hz": math.inf, "namespace": "all"})
@example({"estimates_rate_hz": 100.0 / 3.0, "overrides": {"a": 1e-5, "b": [5e-324, 1e16], "c": "\U0001f600\n"}})
def test_what_repeats_a_run_gives_its_options_again(values: dict[str, Any]) -> None:
    options = _changed(EvaluateOptions(), values)
    again = from_typed(typed(evaluate, *shlex.split(shlex.join(words(options)))))
    assert again == options
    assert repr(again.overrides) == repr(options.overrides)  # 1 is not 1.0, nor true
    assert words(EvaluateOptions()) == []  # nothing is said of what was not asked for
    # The configuration as it was resolved, with its model, lies beside the record.
    assert recalled(json.loads(to_json(recorded(options)))) == replace(options, config=None, model=None)


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
        ("--format", "bag", "must be tum, tum_ns, openvins, euroc, kitti, csv, motive or vicon"),
        ("--shift", "inf", "must be a time of at most 4e9 s"),
        ("--lag", "-1.0", "must be a time of 0 s or more"),
        ("--truth-gap", "inf", "must be a time of 0 s or more"),
        *(("--estimates-rate", text, "must be a rate in Hz above 0, or all") for text in ("0", "nan", "inf", "fast")),
        ("--topic", "imu", "write --topic NAME=TOPIC"),
        ("--set", "a=[", "the value is no YAML"),
        ("--set", "a={b: 1, b: 2}", "the value is no YAML: b: given twice, in lines 1 and 1"),
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


NAMES = ["actuators/command", "imu/link_1", "imu/link_2", "imu/link_3"]


@cache
def series() -> tuple[Series, ...]:
    return salp_recording(5.0).sensors


@cache
def loaded_recording() -> LoadedRecording:
    return from_simulator(salp_recording(5.0), ("link_1", "link_2", "link_3"))


IMU = "sensor_msgs/msg/Imu"


def changed(**options: Any) -> dict[str, Series]:
    """The changed series; the recording's own stay as they are."""
    before = [(one.stamps_ns.tobytes(), one.values.tobytes()) for one in series()]
    out = {one.channel.sensor: one for one in changed_series(series(), WhatIf(**options), seed=7)}
    assert [(one.stamps_ns.tobytes(), one.values.tobytes()) for one in series()] == before
    return out


def original(name: str) -> Series:
    return series()[NAMES.index(name)]


@pytest.mark.parametrize(
    ("drop", "left"),
    [("imu/link_2", ["actuators/command", "imu/link_1", "imu/link_3"]), ("imu/link", ["actuators/command"])],
)
def test_drop_leaves_out_a_sensor_or_all_with_a_prefix(drop: str, left: list[str]) -> None:
    assert list(changed(drop=(drop,))) == left
    loaded = changes.changed(loaded_recording(), WhatIf(drop=(drop,)))
    assert {measurement.sensor for measurement in loaded.measurements()} == set(left)
    # The others arrive in the order in which they did before.
    kept = [(m.stamp_ns, m.sensor, m.value.tobytes()) for m in loaded_recording().measurements() if m.sensor in left]
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
    loaded = changes.changed(loaded_recording(), WhatIf(delay_s={"imu": 0.02}))
    assert [m.sensor for m in loaded.measurements()] == [m.sensor for m in loaded_recording().measurements()]


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


@given(FAULTS)
def test_a_fault_is_read_as_it_is_written(fault: Fault) -> None:
    assert parse_fault(fault_text(fault)) == fault


@pytest.mark.parametrize("change", ["+0.03", "*1.08", "~0.2", "drift 0.5", "clip 0.01", "stuck", "silent", "late 20ms"])
def test_a_fault_leaves_what_is_before_and_after_it_as_it_is(change: str) -> None:
    name = "imu/link_2" if change in ("silent", "late 20ms") else "imu/link_2.gyro_z"
    out = changed(fault=(f"{name}={change}@1..3",))
    before, after = original("imu/link_2"), out.pop("imu/link_2")
    for other, one in out.items():
        assert one.values.tobytes() == original(other).values.tobytes()
    inside = (before.stamps_ns >= NANOSECONDS_PER_SECOND) & (before.stamps_ns < 3 * NANOSECONDS_PER_SECOND)
    assert 0 < np.count_nonzero(inside) < len(inside)
    if change == "silent":
        np.testing.assert_array_equal(after.stamps_ns, before.stamps_ns[~inside])
        np.testing.assert_array_equal(after.values, before.values[~inside])
        loaded = changes.changed(loaded_recording(), WhatIf(fault=(f"{name}={change}@1..3",)))
        assert len(loaded.arrival) == sum(len(one.stamps_ns) for one in loaded.series)
        assert len(list(loaded.measurements())) == len(loaded.arrival)
        return
    shift = round(0.02 * NANOSECONDS_PER_SECOND) if change == "late 20ms" else 0
    np.testing.assert_array_equal(after.stamps_ns, before.stamps_ns + shift * inside)
    assert after.values[~inside].tobytes() == before.values[~inside].tobytes()
    assert np.delete(after.values, 2, axis=1).tobytes() == np.delete(before.values, 2, axis=1).tobytes()
    assert shift or not np.array_equal(after.values, before.values)


def test_an_offset_is_taken_back_and_pieces_are_changed_as_the_whole() -> None:
    both = changed(fault=("imu.gyro_z=+0.5@1..3", "imu.gyro_z=-0.5@1..3"))
    np.testing.assert_allclose(both["imu/link_1"].values, original("imu/link_1").values, atol=1e-15)
    short = changed(fault=("imu.accel_x=+2@1", "imu.linear_acceleration_y=+2@1"))["imu/link_1"]
    assert (short.values != original("imu/link_1").values).any(axis=0).tolist() == [False] * 3 + [True, True, False]
    stuck, held = [parse_fault("imu/link_1=stuck@1"), parse_fault("imu/link_2.gyro=drift 0.1@1")], dict[Any, Any]()
    whole = changed(fault=("imu/link_1=stuck@1", "imu/link_2.gyro=drift 0.1@1"))
    pieces = [[one.rows(slice(first, last)) for one in series()] for first, last in ((0, 30), (30, 60), (60, None))]
    found = [changes.with_faults(one, stuck, np.random.default_rng(7), 0, held) for one in pieces]
    for number, name in enumerate(NAMES):
        joined = np.concatenate([one[number][0].values for one in found])
        np.testing.assert_array_equal(joined, whole[name].values)


def test_noise_is_white_of_the_size_asked_for_and_repeatable() -> None:
    long = [replace(one, stamps_ns=np.arange(2000), values=np.tile(one.values[:1], (2000, 1))) for one in series()]
    what_if = WhatIf(noise={"imu.gyro": 0.02, "imu/link_1.accelerometer": 1.0})
    out, again = changed_series(long, what_if, 3), changed_series(long, what_if, 3)
    noise = out[1].values - long[1].values
    assert np.std(noise[:, :3]) == pytest.approx(0.02, rel=0.05)
    assert np.std(noise[:, 3:]) == pytest.approx(1.0, rel=0.05)
    assert abs(np.mean(noise[:, :3])) < 4.0 * 0.02 / np.sqrt(noise[:, :3].size)
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.1
    assert abs(np.corrcoef(noise[:, 0], (out[2].values - long[2].values)[:, 0])[0, 1]) < 0.1
    for one, same in zip(out, again, strict=True):
        np.testing.assert_array_equal(one.values, same.values)
    assert changes.changed(loaded_recording(), WhatIf(), 3) is loaded_recording()
    other = changed_series(long, what_if, 4)
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
        ({"fault": ("wheel_2=*0.7@3",)}, "--fault wheel_2: no such sensor; there are actuators/command, imu/link_1"),
        ({"fault": ("imu.gyro_z=silent@3",)}, "--fault imu.gyro_z: no such sensor"),
        ({"fault": ("imu/link_1=+1@3",)}, "--fault imu/link_1: say which component of imu/link_1: gyro_x"),
        ({"fault": ("imu.gyro_z=3@1",)}, "write --fault SENSOR.COMPONENT=CHANGE@FROM[..UNTIL]"),
        ({"fault": ("imu.gyro_z=stuck 3",)}, "write --fault SENSOR.COMPONENT=CHANGE@FROM[..UNTIL]"),
        ({"fault": ("imu=late 3@1",)}, "'3' has no unit; write 3ms, 3s or 3us"),
        ({"fault": ("imu=silent@5..3",)}, "must begin at 0 s or later, and before it ends"),
        ({"fault": ("imu.gyro_z=clip -1@1",)}, "a largest magnitude must be 0 or more"),
    ],
)
def test_what_cannot_be_done(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        changes.changed(loaded_recording(), WhatIf(**options))
    assert words in str(caught.value)
