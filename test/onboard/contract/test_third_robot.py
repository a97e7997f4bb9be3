"""A robot of another laboratory: installed from its own package, simulated, guessed and evaluated as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard_estimation.bags.bag import open_bag

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A folder to work in, with the package installed in `installed`."""
    folder = tmp_path_factory.mktemp("third")
    # A copy, because a build leaves its traces beside the sources.
    shutil.copytree(repository / "test" / "third_robot", folder / "package")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*pip, *offline, "--target", str(folder / "installed"), str(folder / "package")], check=True, timeout=100
    )
    return folder


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, with the package on the path as an installation has it."""
    path = os.pathsep.join([str(place / "installed"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "onboard_estimation", *words],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path, "ONBOARD_ESTIMATION_CACHE_DIR": str(place / "kernels")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,  # the kernels of its own folder are compiled first
    )


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def test_it_is_listed_with_the_others(place: Path) -> None:
    robots = {one["name"]: one for one in found(run(place, "robots", "--json"))["robots"]}
    assert {"salp", "strapdown", "turntable"} <= set(robots)
    assert robots["turntable"]["scenarios"] == {
        "swing": {"summary": "a rest, then to and fro", "variants": ["slow", "fast"]}
    }


@pytest.mark.slow
def test_it_is_simulated_guessed_and_judged(place: Path) -> None:
    words = [
        "simulate",
        "turntable",
        "--variant",
        "fast",
        "--duration",
        "20",
        "--seed",
        "4",
        "--output",
        "bag",
        "--json",
    ]
    assert found(run(place, *words))["topics"] == 2
    judged = found(run(place, "evaluate", "bag", "--output", "run", "--json"))
    assert judged["robot"] == "turntable"  # nobody said so
    assert judged["source"] == "simulated"
    assert judged["metrics"]["run"]["matched_ratio"] == 1.0
    heading = judged["metrics"]["heading"]
    # Drawn initial error of 2 deg; the bias is known to 0.002 / sqrt(200) rad/s after the rest.
    assert heading["heading_rmse_deg"] < 6.0
    assert heading["coverage_3_sigma"] > 0.95
    assert not judged["verdict"].startswith("overconfident")
    assert (place / "run" / "report.html").is_file()
    assert "--robot turntable" in judged["command"]
    estimates = (place / "run" / "estimates").iterdir()
    assert any(path.suffix == ".mcap" for path in estimates)


def test_its_own_command_is_one_of_all(place: Path) -> None:
    assert "Say how many turns of the table an angle is." in run(place, "--help").stdout
    assert run(place, "turns", "90").stdout == "0.25 turns\n"


@pytest.mark.slow
def test_its_own_logs_are_converted(place: Path) -> None:
    """By a function of its own package; what its sensor does not measure is said to be absent in the bag."""
    (place / "log.csv").write_text(
        "".join(f"{number / 100},{90.0 if number > 200 else 0.0}\n" for number in range(400))
    )
    assert "turntable_log: The controller's log: time in s" in run(place, "convert", "--formats").stdout
    written = found(run(place, "convert", "turntable_log", "log.csv", "--output", "log", "--json"))
    assert (written["messages"], written["duration_s"]) == (400, 3.99)
    assert written["notes"] == ["Sign of the rate changed: the controller counts clockwise."]
    with open_bag(place / "log") as bag:
        last = [bag.deserialize(raw) for raw in bag.messages()][-1]
    assert last.angular_velocity.z == pytest.approx(-np.pi / 2)
    assert (last.angular_velocity_covariance[0], last.linear_acceleration_covariance[0]) == (0.0, -1.0)
    refused = run(place, "convert", "frob", "log.csv", "--output", "other")
    assert refused.stderr.startswith("error: no format 'frob'; installed are: ")
    assert "turntable_log" in refused.stderr


@pytest.mark.live
@pytest.mark.slow
def test_its_launch_files_are_few_lines(place: Path, ros_domain: int) -> None:
    """A bag through its node, started by a launch file of its own package."""
    assert "['hardware', 'bag']" in run(place, "launch", "package/launch/turntable.launch.py", "--show-args").stdout
    assert run(place, "simulate", "turntable", "--duration", "3", "--output", "played").returncode == 0
    words = ["bag:=played", "rate:=0", "record:=replayed", "markers:=false"]
    done = run(place, "launch", "package/launch/turntable_replay.launch.py", *words)
    assert done.returncode == 0, done.stderr
    with open_bag(place / "replayed") as bag:
        assert bag.topics["/turntable/state"].count == 301, done.stderr
