"""Files of models: what is saved comes back, the same bytes each time; every kind of damage is one clear message."""

from __future__ import annotations

import io
import json
import os
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
    package_version="1.2.3",
    created_utc="2026-01-02T03:04:05+00:00",
)


def saved(folder: Path, header: ModelHeader = HEADER, /, **arrays: Any) -> Path:
    path = folder / "model.npz"
    model_file.save(path, header, arrays or ARRAYS)
    return path


def rewritten(path: Path, **changed: bytes | None) -> Path:
    """The same file with entries replaced, added or, where None, left out; without checksum, as of an older version."""
    changed = {"checksum": None, **changed}
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
        np.testing.assert_array_equal(arrays[name], value, strict=True)
    with np.load(path, allow_pickle=False) as peer:
        np.testing.assert_array_equal(peer["weights"], ARRAYS["weights"])
        assert json.loads(peer["header"].tobytes())["training"]["runs"] == ["forward.mcap", "left.mcap"]


def test_same_content_gives_the_same_bytes_and_another_replaces_them(tmp_path: Path) -> None:
    path = saved(tmp_path)
    first = path.read_bytes()
    assert saved(tmp_path, **dict(reversed(ARRAYS.items()))).read_bytes() == first
    changed = saved(tmp_path, replace(HEADER, robot="eel")).read_bytes()
    assert changed != first
    with pytest.raises(UserError, match="2 of 2 numbers of array weights are not finite"):
        saved(tmp_path, weights=np.array([np.nan, np.inf]))
    assert path.read_bytes() == changed
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match=r"model .*model\.npz: cannot be written: "):
        saved(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.npz"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"weights": np.ones(3, dtype=np.float32)}, "float32, float64 or int64"),
        ({f"a{k}": np.ones(1) for k in range(65)}, "65 arrays"),
        ({"weights": np.zeros(150_000)}, "fewer inducing points"),
    ],
)
def test_arrays_that_could_not_be_loaded_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(model_file, "LARGEST_FILE_BYTES", 1_000_000)
    with pytest.raises(UserError, match=message):
        saved(tmp_path, **arrays)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": npy(np.array([1.0, np.nan]))}, "1 of 2 numbers of array weights are not finite"),
        ({"weights": npy(np.array([{}]), allow_pickle=True)}, "array of type object"),
        ({"weights": npy(np.ones((2, 2)))[:-8]}, "with 24 bytes"),
        ({"weights": npy(np.ones(2)).replace(b"(2,), }          ", b"(9999999999,), }")}, "not a model, or damaged"),
        ({"weights": b"not an array"}, "not a model, or damaged"),
        ({"header": None}, "no header"),
        ({"header": npy(np.frombuffer(b"\xff\xfe", dtype=np.uint8))}, "header is damaged"),
        ({"header": npy(np.frombuffer(b"[" * 100_000, dtype=np.uint8))}, "header is damaged"),
        ({"header": npy(np.zeros(2_000_000, dtype=np.uint8))}, "header of 2.0 MB"),
        ({"header": header_with(format_version=2)}, "format version 2, this program reads 1"),
        ({"header": header_with(robot=3)}, "robot: 3 is not allowed; has to be a text"),
        ({"header": header_with(input_units=["rad"])}, "input_units 1, not 2"),
        (
            {"header": header_with(training=asdict(HEADER)["training"] | {"rate_hz": 10**400})},
            "rate_hz: 1000.* is not allowed",
        ),
    ],
)
def test_every_fault_of_a_file_is_named(tmp_path: Path, changed: dict[str, bytes | None], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        model_file.load(rewritten(saved(tmp_path), **changed))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "packed", "message"),
    [
        ({"weights.npy": bytes(2_000_000)}, zipfile.ZIP_DEFLATED, "unpacks to more than 1 MB"),
        ({"weights.npy": npy(np.ones(3))}, zipfile.ZIP_DEFLATED, "weights is compressed"),
        ({"run_me.py": b""}, zipfile.ZIP_STORED, r"'run_me\.py' is not an array"),
        ({f"{k}.npy": b"" for k in range(67)}, zipfile.ZIP_STORED, "67 arrays"),
    ],
)
def test_archives_that_unpack_to_much_or_hold_other_things_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: dict[str, bytes], packed: int, message: str
) -> None:
    monkeypatch.setattr(model_file, "LARGEST_FILE_BYTES", 1_000_000)
    with zipfile.ZipFile(tmp_path / "model.npz", "w", packed) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    with pytest.raises(UserError, match=message):
        model_file.load(tmp_path / "model.npz")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a model")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(70_000_000)
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("nothing.npz", r"no such file.*onboard-estimation train"),
        (".", "cannot be read"),
        ("text", "not a model, or damaged"),
        ("large", "has 70,000,000 bytes, more than the 67,108,864 that are read"),
        ("pipe", "cannot be read: it is a pipe, not a file"),
        ("/dev/zero", "cannot be read: it is a device, not a file"),
    ):
        with pytest.raises(UserError, match=message):
            model_file.load(tmp_path / name)


def test_changed_numbers_are_told_by_the_checksum_and_files_from_before_are_read(tmp_path: Path) -> None:
    changed = npy(ARRAYS["weights"] * 1.001)
    assert model_file.load(rewritten(saved(tmp_path), weights=changed))[0] == HEADER
    path = saved(tmp_path)
    with np.load(path) as entries:
        checksum = npy(entries["checksum"])
    for entries in ({"weights": changed}, {"header": header_with(robot="eel")}, {"empty": None}):
        with pytest.raises(UserError, match="not that of its checksum: it was changed or damaged"):
            model_file.load(rewritten(saved(tmp_path), checksum=checksum, **entries))


@pytest.mark.parametrize(
    ("covariance", "said"),
    [
        (np.zeros((2, 3, 3)), "all zero, as if nothing were in doubt"),
        (np.diag([1.0, 1.0, -1e-3]), "an eigenvalue is -0.001"),
        (np.triu(np.ones((3, 3))), "not symmetric"),
    ],
)
def test_what_is_no_covariance_is_refused(covariance: np.ndarray, said: str) -> None:
    model_file.refuse_no_covariance(np.diag([1e-12, 0.0, 1.0]), "m")
    with pytest.raises(UserError, match=said):
        model_file.refuse_no_covariance(covariance, "m")


def test_any_damage_is_a_clear_message_or_does_no_harm(tmp_path: Path) -> None:
    path = saved(tmp_path)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for trial in range(160):
        damaged = bytearray(whole)
        if trial % 4 == 0:
            del damaged[int(rng.integers(len(whole))) :]
        for place in rng.integers(len(damaged), size=trial % 4):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            header, arrays = model_file.load(path)
        except UserError:
            refused += 1
        else:
            assert header == HEADER
            assert all(np.array_equal(arrays[name], value) for name, value in ARRAYS.items())
    assert refused > 120


@pytest.fixture(scope="module")
def trained() -> sparse.SparseGaussianProcesses:
    x = np.random.default_rng(0).normal(size=(60, 2))
    return sparse.fit(x, np.sin(x[:, :1]), inducing_points=10)


def test_sparse_model_predicts_the_same_after_loading(tmp_path: Path, trained: sparse.SparseGaussianProcesses) -> None:
    _, arrays = model_file.load(saved(tmp_path, **trained.arrays()))
    loaded = sparse.SparseGaussianProcesses.from_arrays(arrays)
    points = np.random.default_rng(1).normal(size=(20, 2))
    for found, expected in zip(loaded.predict(points), trained.predict(points), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_sparse_model_with_arrays_that_do_not_fit_is_refused(trained: sparse.SparseGaussianProcesses) -> None:
    for name, value, message in (
        ("weights", np.ones((1, 9)), r"weights \(1, 9\), not \(1, 10\)"),
        ("groups", np.array([1]), "must all be 0"),
        ("noise_variances", np.array([-1.0]), "not positive"),
    ):
        with pytest.raises(UserError, match=message):
            sparse.SparseGaussianProcesses.from_arrays(trained.arrays() | {name: value})


def test_model_of_another_robot_sensors_or_configuration_is_refused() -> None:
    right = ("salp", ("imu_1", "imu_2"), "12" * 32)
    HEADER.require(*right, "m")
    with pytest.raises(UserError, match="robot salp, not for eel"):
        HEADER.require("eel", *right[1:], "m")
    with pytest.raises(UserError, match="imu_1, imu_2, there are imu_1;"):
        HEADER.require(right[0], ("imu_1",), right[2], "m")
    with pytest.raises(UserError, match="hash 121212121212, here 343434343434"):
        HEADER.require(*right[:2], "34" * 32, "m")
