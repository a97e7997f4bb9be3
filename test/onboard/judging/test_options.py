"""Options of `evaluate`: declared once, the line that repeats a run and the run's record say each of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from onboard_estimation.base.errors import UserError
from onboard_estimation.commands.arguments import taking, taking_all
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

ALL = EvaluateOptions(
    config=Path("a b.yaml"),
    model=Path("m.npz"),
    overrides={"gyro.axis": "-z", "rates": [1.0, 2.0], "told": "yes"},
    topics={"imu/link_1/data_raw": "/my/imu", "imu/link_2/data_raw": "/other"},
    namespace="/salp",
    mirror_truth="yz",
    align_clock=True,
    what_if=WhatIf(("imu/link_2", "imu/link_3"), ("imu=20ms",), ("imu.gyro_z=0.01",), ("imu.gyro=1",), seed=7),
    settings=JudgeSettings("exact", 7, 0.25, 1.5, 0.0, "se3", 30.0, smooth=True, bulk=False),
    trajectory="/vio/odometry",
    truth=Path("a b.tum"),
    body="link_1",
    format="kitti",
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
        ("--format", "bag", "must be tum, kitti, euroc or csv"),
        ("--lag", "-1.0", "must be a time of 0 s or more"),
        ("--truth-gap", "inf", "must be a time of 0 s or more"),
        *(("--estimates-rate", text, "must be a rate in Hz above 0, or all") for text in ("0", "nan", "inf", "fast")),
        ("--topic", "imu", "write --topic NAME=TOPIC"),
        ("--set", "a=[", "the value is no YAML"),
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
