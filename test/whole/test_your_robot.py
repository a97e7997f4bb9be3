"""docs/your_robot.md: the files in it make a robot, its commands run, and the robot keeps the contract."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

FILE = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```bash\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "your_robot.md").read_text()


@pytest.fixture(scope="module")
def place(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a reader has made, its package installed."""
    folder = tmp_path_factory.mktemp("cart")
    for name, text in FILE.findall(page):
        (folder / name).write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder / "installed")]
    subprocess.run([*pip, *offline, str(folder)], check=True, timeout=100)
    return folder


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(place / "installed"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    # The cart compiles nothing of its own: the kernels are those of the suite.
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=place, env=environment, capture_output=True, text=True, timeout=110
    )


def test_the_files_are_there(place: Path) -> None:
    assert {"setup.py", "cart.py", "test_cart.py"} <= {path.name for path in place.glob("*.py")}


@pytest.mark.slow
def test_the_commands_run_and_the_bag_is_judged(page: str, place: Path) -> None:
    (lines,) = COMMANDS.findall(page)
    commands = [shlex.split(line) for line in lines.splitlines() if line.startswith("onboard-estimation")]
    assert [words[1] for words in commands] == ["robots", "simulate", "evaluate", "campaign"]
    said = []
    for words in commands:
        done = run(place, "onboard_estimation", *words[1:])
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "cart" in said[0]
    assert "Consistent" in said[2]
    assert "cart, scenario rail" in said[3]
    assert (place / "run" / "report.html").is_file()


@pytest.mark.slow
def test_it_keeps_the_contract(place: Path) -> None:
    done = run(place, "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(place), "test_cart.py")
    assert done.returncode == 0, done.stdout
