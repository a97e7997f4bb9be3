"""Files of the hopper's trained filters: what is written is read, and what is damaged is said in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import command, refusal
from hopper_samples_for_tests import ROBOT, plain_model

from hopper_estimation.estimators.filter_model import (
    PARAMETERS,
    TRAINED,
    FilterEntry,
    FilterModel,
    filters_of,
    load_filters,
)
from hopper_estimation.model import phases
from onboard_estimation.base.errors import UserError
from onboard_estimation.campaigns.training import check_output


def drawn_entry(rng: np.random.Generator) -> FilterEntry:
    """All numbers within their bounds, none like another."""
    plain = plain_model().entries["kf1"]
    drawn = {
        one.name: rng.uniform(0.2, 0.9, size=np.shape(getattr(plain, one.name)))
        for one in fields(FilterEntry)
        if one.name != "touchdown_stddev_m"
    }
    lower, upper = (np.array([getattr(one, name) for one in PARAMETERS]) for name in ("lower", "upper"))
    drawn["parameters"] = lower + (upper - lower) * rng.random(len(PARAMETERS))
    drawn["start_covariance"] = np.array([0.03, -0.01, 0.2])
    return replace(plain, **drawn, touchdown_stddev_m=0.0123456789)


def test_round_trip_is_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    entries = {name: drawn_entry(rng) for name in TRAINED}
    path = tmp_path / "model.json"
    FilterModel(entries, {"hops": 12, "recordings": {"a": "0" * 64}}).save(path)
    found = load_filters(path)
    assert list(found.entries) == list(TRAINED)
    assert found.training == {"hops": 12, "recordings": {"a": "0" * 64}}
    for name, entry in entries.items():
        for one in fields(FilterEntry):
            np.testing.assert_array_equal(getattr(found.entries[name], one.name), getattr(entry, one.name))
    assert [one.name for one in tmp_path.iterdir()] == ["model.json"]


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    """A node and an evaluation take what is there when they start."""
    import os

    path = tmp_path / "model.json"
    plain_model().save(path)
    first = filters_of(str(path))
    assert filters_of(str(path)) is first
    entry = replace(plain_model().entries["kf1"], touchdown_stddev_m=0.5)
    FilterModel({"kf1": entry}).save(path)
    os.utime(path, ns=(1, 1))
    assert filters_of(str(path)).entries["kf1"].touchdown_stddev_m == 0.5


def test_a_file_from_before_stance_times_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    plain_model().save(path)
    content = json.loads(path.read_text())
    for entry in content["estimators"].values():
        del entry["parameters"]["stance_time_s"]
    path.write_text(json.dumps(content))
    found = load_filters(path).entries["kf1"].parameters
    assert found[phases.STANCE_TIME] == 0.07


def test_estimators_without_parameters_of_their_own() -> None:
    model = plain_model()
    assert model.entry("kf3_kf1") is model.entries["kf1"]
    assert model.entry("ba1").height_scale.tolist() == [1.0] * 5
    only = FilterModel({"kf2": model.entries["kf2"]})
    with pytest.raises(
        UserError, match=r"this model has no parameters of kf1, which kf3_kf1 needs; it has kf2 .*--form kf1"
    ):
        only.entry("kf3_kf1")


Damage = Callable[[dict[str, Any]], Any]


def put(*path: str, value: Any) -> Damage:
    def change(content: dict[str, Any]) -> Any:
        place = content
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        return content

    return change


KF1 = ("estimators", "kf1")
DAMAGES: dict[str, tuple[Damage | bytes, str]] = {
    "empty": (b"", "not a model of the hopper, or damaged"),
    "cut off": (b'{"format": "hopper_filters", "vers', "or damaged"),
    "no text": (b"\x93NUMPY\x01\x00\xff\xfe\x00", "or damaged"),
    "very deep": (b"[" * 100_000, "or damaged"),
    "a list": (lambda content: [content], "not a model of"),
    "another format": (put("format", value="salp"), "not a model of"),
    "another version": (put("version", value=99), "version 99, this program reads 1"),
    "no version": (put("version", value=None), "version None"),
    "no estimators": (put("estimators", value={}), "holds no estimators"),
    "estimators are a number": (put("estimators", value=3), "holds no estimators"),
    "an estimator unknown": (put("estimators", "kf9", value={}), "kf9 are not known; known are bounce, kf1, kf2"),
    "an entry is a list": (put(*KF1, value=[1]), "kf1: no mapping"),
    "a parameter missing": (put(*KF1, "parameters", "switching_g", value=None), "parameters must have state_cutoff_hz"),
    "a parameter too many": (put(*KF1, "parameters", "other", value=1.0), "parameters must have"),
    "a parameter out of bounds": (
        put(*KF1, "parameters", "phase_cutoff_hz", value=4000.0),
        "phase_cutoff_hz is 4000, must be between 5 and 400",
    ),
    "a parameter in words": (put(*KF1, "parameters", "phase_cutoff_hz", value="fast"), "no finite number"),
    "a parameter true": (put(*KF1, "parameters", "velocity_fit_0", value=True), "no finite number"),
    "a parameter of no size": (put(*KF1, "parameters", "velocity_fit_0", value=10**400), "no finite number"),
    "a parameter not a number": (put(*KF1, "parameters", "velocity_fit_0", value=float("nan")), "no finite number"),
    "an infinite scale": (put(*KF1, "height_scale", "drop", value=float("inf")), "no finite number"),
    "a negative scale": (put(*KF1, "velocity_scale", "drop", value=-1.0), "a scale or floor is not between"),
    "a floor of zero": (put(*KF1, "height_floor_m", "rebound", value=0.0), "a scale or floor is not between"),
    "no floors": (put(*KF1, "height_floor_m", value=None), "height_floor_m must have drop, stance_down"),
    "a covariance that is none": (put(*KF1, "start_covariance", "height_height_m2", value=-1.0), "is none"),
    "a correlation beyond one": (put(*KF1, "start_covariance", "height_velocity_m2_s", value=5.0), "is none"),
    "an event before it happens": (put(*KF1, "event_delay_s", "apex", value=-0.1), "delays of events"),
    "an event much too late": (put(*KF1, "event_delay_s", "apex", value=3.0), "delays of events"),
    "an event of no spread": (put(*KF1, "event_stddev_s", "apex", value=0.0), "delays of events"),
    "a correction out of bounds": (put(*KF1, "touchdown", "constant_m", value=50.0), "out of bounds"),
    "no correction": (put(*KF1, "touchdown", value=None), "touchdown must have constant_m"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_said_in_one_sentence(what: str, tmp_path: Path) -> None:
    damage, said = DAMAGES[what]
    path = tmp_path / "model.json"
    plain_model().save(path)
    if isinstance(damage, bytes):
        path.write_bytes(damage)
    else:
        path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(UserError) as raised:
        load_filters(path)
    sentence = str(raised.value)
    assert said in sentence, sentence
    assert sentence.startswith(f"model {path}")
    assert "\n" not in sentence
    assert len(sentence) < 500 + len(str(path))


def test_files_that_are_none(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "nowhere.json", "there is no such file; make one with `onboard-estimation train hopper`"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "big.json", "1000001 bytes, a hopper's filters have less than 1000000"),
    ):
        if path.name == "big.json":
            path.write_bytes(b" " * 1_000_001)
        with pytest.raises(UserError, match=said):
            load_filters(path)


def test_through_the_command(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    words = ["simulate", "hopper", "--gait", "1m", "--duration", "0.5", "--output", bag]
    assert command(*words).code == 0
    path = tmp_path / "model.json"
    path.write_text("{}")
    assert refusal("evaluate", bag, "--model", path, "--output", tmp_path / "run") == (
        f"model {path}: not a model of `onboard-estimation train hopper`"
    )
    FilterModel({"kf2": plain_model().entries["kf2"]}).save(path)
    said = refusal("evaluate", bag, "--model", path, "--output", tmp_path / "run")
    assert "has no parameters of bounce, which bounce needs; it has kf2" in said
    assert command("evaluate", bag, "--model", path, "--estimator", "kf2", "--output", tmp_path / "run").code == 0


def test_nothing_but_a_model_is_written_over(tmp_path: Path) -> None:
    model, other = tmp_path / "model.json", tmp_path / "thesis.json"
    plain_model().save(model)
    check_output(model, ROBOT)
    check_output(tmp_path / "new.json", ROBOT)
    other.write_text('{"chapters": 7}')
    with pytest.raises(UserError, match="exists and is no model that may be replaced; name another file"):
        check_output(other, ROBOT)
    with pytest.raises(UserError, match=r"a folder; a model is a file, e\.g\. .*model\.json"):
        check_output(tmp_path, ROBOT)
    assert other.read_text() == '{"chapters": 7}'


def test_a_place_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "model.json"
    folder.mkdir()
    (folder / "kept").touch()
    for path in (folder, tmp_path / "nowhere" / "model.json"):
        with pytest.raises(UserError, match="cannot be written"):
            plain_model().save(path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model.json"]


def test_the_packages_own_filters_are_all_there() -> None:
    model = filters_of("")
    assert set(model.entries) == set(TRAINED)
    for name in ROBOT.estimators:
        model.entry(name)
