"""What `import onboard_estimation` offers: the notebook runs, the page lists all of it, and nothing else is used."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import nbformat
import numpy as np
import pytest
from bag_samples import Sample
from evaluation_samples import command, salp_messages, write
from nbclient import NotebookClient

import onboard_estimation as oe
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.atomic_file import to_json
from onboard_estimation.base.measurement import neutral_value
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings
from onboard_estimation.judging.simulated_bags import EPOCH_NS
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.launching.stand_in import served
from onboard_estimation.ros.sensor_messages import to_message

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "python.md").read_text(encoding="utf-8")


def printed(notebook: Any) -> list[str]:
    """What each cell prints, in however many pieces."""
    return ["".join(one.get("text", "") for one in cell.get("outputs", [])) for cell in notebook.cells]


@pytest.mark.slow
def test_the_notebook_runs() -> None:
    notebook = nbformat.read(DOCS / "python.ipynb", as_version=4)
    NotebookClient(notebook, timeout=100, kernel_name="python3").execute()  # an exception of a cell is one here
    shown = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    assert not [one for one in shown if one.get("name") == "stderr"]
    kept = nbformat.read(DOCS / "python.ipynb", as_version=4)
    assert printed(kept) == printed(notebook)  # what it shows is what it gives


def test_the_page_lists_all_that_is_public() -> None:
    assert set(re.findall(r"`oe\.(\w+)", PAGE)) == set(oe.__all__)
    assert all(getattr(oe, name) is not None for name in oe.__all__)
    assert {"salp", "hopper", "softrobot", "strapdown", "thruster_chain"} <= set(oe.available_robots())
    assert set(oe.__all__) <= set(dir(oe))
    # A module of that name would take its place as soon as anything imports it.
    modules = {one.name for one in iter_modules(oe.__path__)}
    assert not modules & set(oe.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'judge'"):
        oe.judge  # noqa: B018


LISTED = dict(re.findall(r"^\| `(onboard_estimation[\w.]*)` \| (.+?) \|", PAGE, re.M))
"""Modules for those who bring a robot, with their names."""


def used() -> Iterator[tuple[str, str]]:
    """Every page, notebook and example, and its code."""
    for page in sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"]):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            yield page.name, block.replace("    ...\n", "")
    for cell in nbformat.read(DOCS / "python.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            yield "python.ipynb", re.sub("^%.*$", "", cell.source, flags=re.M)
    for folder in ("test/third_robot", "examples/recorded_robots/recorded_robots"):
        for path in sorted((DOCS.parent / folder).rglob("*.py")):
            yield str(path), path.read_text(encoding="utf-8")


def test_pages_and_examples_import_nothing_that_is_not_listed_and_all_that_is_listed_is_there() -> None:
    for where, code in used():
        for node in ast.walk(ast.parse(code)):
            assert not isinstance(node, ast.Import) or not node.names[0].name.startswith("onboard_estimation."), where
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "onboard_estimation":
                missing = [one.name for one in node.names if f"`{one.name}`" not in LISTED.get(node.module or "", "")]
                assert not missing, f"{where} imports {missing} from {node.module}"
    with served():  # launch, where ROS 2 is not
        for module, names in LISTED.items():
            for name in re.findall(r"`(\w+)`", names):
                assert hasattr(import_module(module), name), f"{module} has no {name}"


def test_importing_it_loads_little() -> None:
    """A node imports it: what only evaluations need comes with its first use."""
    code = "import onboard_estimation, sys; print(sorted({'rosbags', 'evo', 'matplotlib', 'dask'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def recording() -> oe.Recording:
    return oe.simulate("salp", duration_s=6.0, seed=3)


@pytest.mark.usefixtures("without_pictures")
def test_a_bag_from_python_is_that_of_the_command(tmp_path: Path) -> None:
    bag = write(tmp_path / "bag", salp_messages(6.0))
    run = oe.evaluate(bag, parameters={"gyro.noise_stddev_rad_s": 0.02}, settings=JudgeSettings(seed=4))
    words = ("--set", "gyro.noise_stddev_rad_s=0.02", "--seed", "4", "--output", tmp_path / "run")
    assert command("evaluate", bag, *words).code == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == run.metrics
    assert run.save(tmp_path / "saved") == tmp_path / "saved"
    for file in ("metrics.json", "config.yaml"):
        assert (tmp_path / "saved" / file).read_bytes() == (tmp_path / "run" / file).read_bytes()
    with pytest.raises(oe.UserError, match="is not empty"):
        run.save(tmp_path / "saved")
    loaded = oe.load(bag)
    assert (loaded.robot, loaded.name, loaded.simulated) == ("salp", "bag", False)


def test_a_recording_is_read_for_the_estimator_that_is_asked_for(tmp_path: Path) -> None:
    robot: Any = find_robot("hopper")
    configuration = load_configuration(robot, EvaluateOptions())
    messages = [
        Sample(f"/hopper/{one.topic}", one.message_type, stamp, to_message(new, one, stamp, neutral_value(one)))
        for stamp in range(EPOCH_NS, EPOCH_NS + 400_000_000, 10_000_000)
        for one in robot.channels(configuration)
    ]
    bag = write(tmp_path / "bag", messages)
    loaded = oe.load(bag)
    for name in robot.estimators:
        wanted = {one.sensor for one in robot.listened_channels(configuration, name)}
        assert set(oe.load(bag, estimator=name).sensors) == wanted
        asked = loaded.source.asked(loaded.source.options, name)
        assert {one.channel.sensor for one in asked.recording.series} == wanted
    assert loaded.source.asked(loaded.source.options, None).recording is loaded.source.recording


def summary_of(*words: str | Path) -> dict[str, Any]:
    done = command(*words, "--json")
    assert done.code == 0, done.error
    return dict(json.loads(done.out))


PLACES = ("folder", "file", "model", "page", "config", "picture", "figures", "training_s")
"""What differs between two runs of one command, or is measured of the computer."""


@pytest.mark.slow
def test_the_page_runs_and_its_functions_are_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for bag, gait in (("BAG", "forward"), ("OTHER", "left")):
        summary_of("simulate", "salp", "--scenario", "ideal", "--gait", gait, "--duration", "24", "--output", bag)
    page: dict[str, Any] = {}
    exec("".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), page)  # noqa: S102 (our own page)
    changes = ("--estimator", "ukf", "--delay", "imu=20ms", "--bias", "imu/link_3.gyro_z=0.01")
    search = ("--parameter", "process.link_rate_error_rad_s=0.01..1", "--evaluations", "20", "--workers", "0")
    bags, config = ("BAG", "OTHER"), ("--config", "drag/identified.yaml")
    for found, words in (
        (oe.inspect("BAG"), ("inspect", "BAG")),
        (page["late"], ("evaluate", "BAG", *changes, "--output", "run")),
        (oe.compare("as_recorded", "late"), ("compare", "as_recorded", "late")),
        (page["drag"], ("identify", "salp", *bags, "--output", "drag_2")),
        (page["model"], ("train", "salp", *bags, *config, "--output", "salp_2.npz")),
        (page["noise"], ("tune", "salp", "BAG", *search, "--output", "tuned_2.yaml")),
    ):
        ours, theirs = json.loads(to_json(found.summary())), summary_of(*words)
        assert ours | dict.fromkeys(PLACES) == theirs | dict.fromkeys(PLACES)
    assert Path("tuned.yaml").read_text() == Path("tuned_2.yaml").read_text()


def test_arrays_have_names_and_units(recording: oe.Recording) -> None:
    imu = recording.sensors["imu/link_2"]
    assert (imu.names[0], imu.units[0], imu.names[5], imu.units[5]) == ("gyro_x", "rad/s", "accelerometer_z", "m/s^2")
    assert imu.values.shape == (len(imu.time_s), 6)
    assert recording.truth["link_1"].names[:3] == ("x", "y", "z")
    run = oe.evaluate(recording)
    joints = run["joint_angles"]
    columns = run.columns()
    np.testing.assert_array_equal(columns["joint_angles.alpha_2 (rad)"], joints.estimate[:, 1])
    np.testing.assert_array_equal(columns["joint_angles.alpha_2.stddev (rad)"], joints.stddev[:, 1])
    np.testing.assert_array_equal(columns["joint_angles.nees"], joints.nees)
    assert {len(column) for column in columns.values()} == {len(run.time_s)}
    assert "pose.heading.truth (rad)" in columns
    assert run.verdict in repr(run)
    assert "<table>" in run._repr_html_()
    assert run.plot("errors_joint_angles").axes


def test_another_configuration_is_another_filter_of_the_same_recording(recording: oe.Recording) -> None:
    plain, other = oe.evaluate(recording), oe.evaluate(recording, parameters={"gyro.noise_stddev_rad_s": 0.5})
    assert other["joint_angles"].stddev[-1, 0] > 1.2 * plain["joint_angles"].stddev[-1, 0]
    biased = oe.evaluate(recording, what_if=oe.WhatIf(bias={"imu/link_3.gyro_z": 0.05}))
    assert biased.metrics["joint_angles"]["rmse_deg"] > 1.5 * plain.metrics["joint_angles"]["rmse_deg"]
    noisy, settings = oe.WhatIf(noise={"imu.gyro": 0.1}), [JudgeSettings(initial="exact", seed=seed) for seed in (0, 1)]
    drawn = [oe.evaluate(recording, what_if=noisy, settings=one)["joint_angles"].estimate for one in settings]
    assert not np.array_equal(*drawn)


def test_live_is_the_replay(recording: oe.Recording) -> None:
    """Fed from the recording, the live pipeline gives the estimates that a replay gives."""
    live = oe.live_estimator("salp")
    last: Any = None
    for one in recording.source.recording.measurements():
        last = live.feed(one.sensor, one.stamp_ns, list(one.value)) or last
    run = oe.evaluate(recording, settings=JudgeSettings(initial="exact"))
    assert last.stamp_ns == run.stamps_ns[-1]
    assert last["joint_angles"].names == run["joint_angles"].names
    assert last["joint_angles"].stddev == pytest.approx(run["joint_angles"].stddev[-1], rel=0.2)
    assert live.statistics()["imu/link_1"]["used"] == len(recording.sensors["imu/link_1"].stamps_ns)
    live.feed("imu/link_1", last.stamp_ns + 1_000_000, [1e9, 0, 0, 0, 0, 0])
    assert live.statistics()["imu/link_1"]["out_of_range"] == 1
    assert any("imu/link_1" in message for message in live.messages)


def test_what_is_wrong_is_said(recording: oe.Recording, tmp_path: Path) -> None:
    live, run = oe.live_estimator("salp"), oe.evaluate(recording)
    for said, call in (
        ("no scenario 'sea'", lambda: oe.simulate("salp", scenario="sea")),
        ("gyro.axis", lambda: oe.evaluate(recording, parameters={"gyro.axis": "w"})),
        ("listens to", lambda: oe.evaluate(recording, parameters={"chain.link_names": ["a", "b", "c"]})),
        ("no such sensor", lambda: oe.evaluate(recording, what_if=oe.WhatIf(drop=("imu/x",)))),
        ("no part 'shape' in the state of salp; there are pose", lambda: run["shape"]),
        ("no plot 'map' of this run; there are errors_pose", lambda: run.plot("map")),
        ("no sensor 'imu'; there are", lambda: live.feed("imu", 0, [0.0])),
        ("imu/link_1 takes 6 values", lambda: live.feed("imu/link_1", 0, [0.0])),
        (str(tmp_path), lambda: oe.load(tmp_path)),
        ("cannot be read", lambda: oe.campaign(tmp_path / "none.yaml", tmp_path / "out")),
        ("cannot write /proc/m", lambda: oe.train("salp", tmp_path, "/proc/m")),
        ("cannot write /proc/m", lambda: oe.tune("salp", tmp_path, "/proc/m")),
        ("cannot write /proc/m", lambda: oe.identify("salp", tmp_path, "/proc/m")),
        ("cannot write /proc/m", lambda: oe.campaign(tmp_path / "none.yaml", "/proc/m")),
        ("cannot write /proc/m", lambda: run.save("/proc/m")),
        ("--initial guessed: must be drawn or exact", lambda: JudgeSettings(initial="guessed")),  # type: ignore[arg-type]
        ("--evaluations 1: must be 20 or more", lambda: oe.TuningSettings(evaluations=1)),
    ):
        with pytest.raises(oe.UserError, match=re.escape(said)):
            call()
    with pytest.raises(TypeError, match="align_clock"):  # heeded by `load` and `tune` alone
        oe.train("salp", tmp_path, tmp_path / "m", align_clock=True)
    with pytest.raises(TypeError, match="model"):
        oe.identify("salp", tmp_path, tmp_path / "m", model="m.npz")
