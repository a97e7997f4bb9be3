"""Files of models: what is saved comes back, the same bytes each time; every kind of damage is one clear message."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard_estimation.base.errors import UserError
from onboard_estimation.learning import model_file, sparse
from onboard_estimation.learning.model_file import ModelHeader, TrainingConditions

ARRAYS = {"weights": np.linspace(-1.0, 1.0, 6).reshape(2, 3), "groups": np.array([0, 1]), "empty": np.empty((0, 4))}
CONDITIONS = TrainingConditions(
    rate_hz=5.0,
    duration_s=450.0,
    point_count=2250,
    runs=("forward.mcap", "left.mcap"),
    gaits=("forward", "left"),
    hashes=("ab" * 32, "cd" * 32),
    input_lowest=(-0.2, -0.1),
    input_highest=(0.2, 0.3),
)
HEADER = ModelHeader(
    kind="calibrated",
    robot="salp",
    sensors=("imu_1", "imu_2"),
    configuration_hash="12" * 32,
    input_names=("alpha_1", "u_1"),
    input_units=("rad", "m/s"),
    output_names=("gyro_1",),
    output_units=("rad/s",),
    training=CONDITIONS,
    created_utc="2026-01-02T03:04:05+00:00",
)


def saved(folder: Path, header: ModelHeader = HEADER, /, **arrays: Any) -> Path:
    path = folder / "model.npz"
    model_file.save(path, header, arrays or ARRAYS)
    return path


def rewritten(path: Path, **changed: bytes | None) -> Path:
    """The same file with entries replaced, added or, where None, left out."""
    with zipfile.ZipFile(path) as archive:
        entries: dict[str, bytes | None] = {name: archive.read(name) for name in archive.namelist()}
    entries |= {f"{name}.npy": content for name, content in changed.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            if content is not None:
                archive.writestr(name, content)
    return path


def npy(value: Any, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=allow_pickle)
    return buffer.getvalue()


def header_with(**changed: Any) -> bytes:
    text = json.dumps(asdict(HEADER) | changed).encode()
    return npy(np.frombuffer(text, dtype=np.uint8))


def test_what_is_saved_is_loaded_and_numpy_reads_it_without_pickle(tmp_path: Path) -> None:
    path = saved(tmp_path)
    header, arrays = model_file.load(path)
    assert header == HEADER
    assert set(arrays) == set(ARRAYS)
    for name, value in ARRAYS.items():
        assert np.array_equal(arrays[name], value)
        assert arrays[name].dtype == value.dtype
    with np.load(path, allow_pickle=False) as peer:
        assert np.array_equal(peer["weights"], ARRAYS["weights"])
        assert json.loads(peer["header"].tobytes())["training"]["runs"] == ["forward.mcap", "left.mcap"]


def test_same_content_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    first = saved(tmp_path).read_bytes()
    (tmp_path / "again").mkdir()
    assert saved(tmp_path / "again", **dict(reversed(ARRAYS.items()))).read_bytes() == first
    changed = saved(tmp_path / "again", replace(HEADER, robot="eel"))
    assert changed.read_bytes() != first


def test_saving_replaces_the_old_file_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = saved(tmp_path)
    saved(tmp_path, weights=np.ones(3))
    assert set(model_file.load(path)[1]) == {"weights"}
    with pytest.raises(UserError, match="2 of 2 numbers of array weights are not finite"):
        saved(tmp_path, weights=np.array([np.nan, np.inf]))
    assert np.array_equal(model_file.load(path)[1]["weights"], np.ones(3))
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.npz"]


def test_failed_writing_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "model.npz").mkdir()
    with pytest.raises(UserError, match=r"model .*model\.npz: cannot be written: "):
        saved(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.npz"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"weights": np.ones(3, dtype=np.float32)}, "float32, float64 or int64"),
        ({"weights": np.array(["a"], dtype=object)}, "object, float64 or int64"),
        ({"weights": np.ones((1, 1, 1, 1))}, "4 dimensions"),
        ({"header": np.ones(3)}, "taken by the header"),
        ({f"a{k}": np.ones(1) for k in range(65)}, "65 arrays"),
        ({"weights": np.zeros(9_000_000)}, "fewer inducing points"),
    ],
)
def test_arrays_that_could_not_be_loaded_are_not_saved(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        saved(tmp_path, **arrays)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": npy(np.array([1.0, np.nan]))}, "1 of 2 numbers of array weights are not finite"),
        ({"weights": npy(np.ones(2, dtype=np.float32))}, "array of type float32"),
        ({"weights": npy(np.array([{}]), allow_pickle=True)}, "array of type object"),
        ({"weights": npy(np.ones((2, 2)))[:-8]}, "with 24 bytes"),
        ({"weights": npy(np.ones((2, 2))) + b"more"}, "with 36 bytes"),
        ({"weights": npy(np.ones(2)).replace(b"(2,)", b"(9,)")}, r"shape \(9,\) with 16 bytes"),
        ({"weights": npy(np.ones(2)).replace(b"(2,), }          ", b"(9999999999,), }")}, "9999999999"),
        ({"weights": b"not an array"}, "not a model, or damaged"),
        ({"weights": npy(np.ones((1, 1, 1, 1)))}, "4 dimensions"),
        ({"header": None}, "no header"),
        ({"header": npy(np.ones(2))}, "no header"),
        ({"header": npy(np.frombuffer(b"{", dtype=np.uint8))}, "header is damaged"),
        ({"header": npy(np.frombuffer(b"[1]", dtype=np.uint8))}, "header is damaged"),
        ({"header": npy(np.frombuffer(b"\xff\xfe", dtype=np.uint8))}, "header is damaged"),
        ({"header": npy(np.frombuffer(b"[" * 100_000, dtype=np.uint8))}, "header is damaged"),
        ({"header": npy(np.zeros(2_000_000, dtype=np.uint8))}, "header of 2.0 MB"),
        ({"header": header_with(format_version=2)}, "format version 2, this program reads 1"),
        ({"header": header_with(robot=3)}, "robot in the header is '3', not str"),
        ({"header": header_with(colour="red")}, "colour"),
        ({"header": header_with(input_units=["rad"])}, "input_units 1, not 2"),
        ({"header": header_with(training=None)}, "does not say what it was trained with"),
        ({"header": header_with(training={})}, "lacks .*rate_hz"),
        ({"header": header_with(training=asdict(HEADER)["training"] | {"rate_hz": float("nan")})}, "NaN"),
        ({"header": header_with(training=asdict(HEADER)["training"] | {"rate_hz": 10**400})}, "401 digits"),
    ],
)
def test_every_fault_of_a_file_is_named(tmp_path: Path, changed: dict[str, bytes | None], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        model_file.load(rewritten(saved(tmp_path), **changed))
    assert "\n" not in str(caught.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such file.*onboard-estimation train"):
        model_file.load(tmp_path / "nothing.npz")
    with pytest.raises(UserError, match="cannot be read"):
        model_file.load(tmp_path)
    (tmp_path / "text").write_text("not a model")
    with pytest.raises(UserError, match="not a model, or damaged"):
        model_file.load(tmp_path / "text")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(70_000_000)
    with pytest.raises(UserError, match="70 MB, a model has at most 67"):
        model_file.load(tmp_path / "large")


def test_archives_that_unpack_to_much_or_hold_other_things_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.npy", bytes(80_000_000))
    with pytest.raises(UserError, match="unpacks to more than 67 MB"):
        model_file.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.npy", npy(np.ones(3)))
    with pytest.raises(UserError, match="weights is compressed"):
        model_file.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run_me.py", "")
    with pytest.raises(UserError, match=r"'run_me\.py' is not an array"):
        model_file.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(66):
            archive.writestr(f"{k}.npy", npy(np.ones(1)))
    with pytest.raises(UserError, match="66 arrays"):
        model_file.load(path)


def test_any_damage_is_a_clear_message_or_does_no_harm(tmp_path: Path) -> None:
    path = saved(tmp_path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for trial in range(400):
        damaged = bytearray(whole)
        if trial % 4 == 0:
            del damaged[int(rng.integers(len(whole))) :]
        else:
            for place in rng.integers(len(whole), size=trial % 4):
                damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            header, arrays = model_file.load(path)
        except UserError:
            refused += 1
        else:
            assert all(np.isfinite(value).all() for value in arrays.values())
            assert header.robot
    assert refused > 300


def trained() -> sparse.SparseGaussianProcesses:
    x = np.random.default_rng(0).normal(size=(60, 2))
    return sparse.fit(x, np.sin(x[:, :1]), inducing_points=10)


def test_sparse_model_predicts_the_same_after_loading(tmp_path: Path) -> None:
    model = trained()
    header, arrays = model_file.load(saved(tmp_path, **model.arrays()))
    loaded = sparse.SparseGaussianProcesses.from_arrays(arrays)
    points = np.random.default_rng(1).normal(size=(20, 2))
    for found, expected in zip(loaded.predict(points), model.predict(points), strict=True):
        assert np.array_equal(found, expected)
    assert header.output_names == ("gyro_1",)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weights", np.ones((1, 9)), r"weights \(1, 9\), not \(1, 10\)"),
        ("groups", np.array([1]), "must all be 0"),
        ("groups", np.array([[0]]), r"groups \(1, 1\)"),
        ("noise_variances", np.array([-1.0]), "not positive"),
        ("length_scales", np.array([[1.0, 0.0]]), "not positive"),
        ("weights", None, "no array weights"),
    ],
)
def test_sparse_model_with_arrays_that_do_not_fit_is_refused(
    tmp_path: Path, name: str, value: Any, message: str
) -> None:
    arrays = trained().arrays() | {name: value}
    path = saved(tmp_path, **{key: array for key, array in arrays.items() if array is not None})
    with pytest.raises(UserError, match=message):
        sparse.SparseGaussianProcesses.from_arrays(model_file.load(path)[1])


def test_model_of_another_robot_sensors_or_configuration_is_refused() -> None:
    right = ("salp", ("imu_1", "imu_2"), "12" * 32)
    HEADER.require(*right, "m")
    with pytest.raises(UserError, match="robot salp, not for eel"):
        HEADER.require("eel", *right[1:], "m")
    with pytest.raises(UserError, match="imu_1, imu_2, there are imu_1;"):
        HEADER.require(right[0], ("imu_1",), right[2], "m")
    with pytest.raises(UserError, match="hash 121212121212, here 343434343434"):
        HEADER.require(*right[:2], "34" * 32, "m")
