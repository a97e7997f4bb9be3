"""docs/your_robot.md: the files in it make a robot, its commands run, and the robot keeps the contract."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from catkin_pkg.package import parse_package
from evaluation_samples import command, refusal

FILE = re.compile(r"```python\n# (cart/[\w/]+\.py)\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```bash\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "your_robot.md").read_text()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader has written the package."""
    folder = tmp_path_factory.mktemp("cart")
    assert command("new", "robot", "cart", "--output", folder / "cart").code == 0
    return folder


@pytest.fixture(scope="module")
def place(written: Path) -> Path:
    """The same, with the package installed."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(written / "installed")]
    subprocess.run([*pip, *offline, str(written / "cart")], check=True, timeout=600)
    return written


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(place / "installed"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    # The cart compiles nothing of its own: the kernels are those of the suite.
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=place, env=environment, capture_output=True, text=True, timeout=600
    )


def test_the_page_shows_what_is_written(page: str, written: Path) -> None:
    shown = FILE.findall(page)
    assert {name for name, _ in shown} >= {"cart/setup.py", "cart/cart_estimation/robot.py", "cart/test/test_cart.py"}
    for name, text in shown:
        assert (written / name).read_text() == text, name


@pytest.mark.slow
def test_what_is_written_is_in_order(place: Path) -> None:
    """Names everywhere, files that parse, the parameters' defaults, and ament's and colcon's files."""
    texts = {
        path: path.read_text() for path in (place / "cart").rglob("*") if path.suffix in (".py", ".xml", ".yaml", ".md")
    }
    assert not [path for path, text in texts.items() if "$" in text]
    assert max(len(line) for text in texts.values() for line in text.splitlines()) <= 130
    package = parse_package(str(place / "cart" / "package.xml"))
    assert (package.name, package.get_build_type()) == ("cart_estimation", "ament_python")
    share = place / "installed" / "share"
    assert (share / "ament_index" / "resource_index" / "packages" / "cart_estimation").is_file()
    assert (share / "cart_estimation" / "launch" / "cart.launch.py").is_file()
    written = place / "init.yaml"
    done = run(place, "onboard_estimation", "config", "init", "cart", "--output", str(written))
    assert done.returncode == 0, done.stderr
    parameters = [line for line in written.read_text().splitlines() if not line.startswith("#")]
    kept = (share / "cart_estimation" / "config" / "cart.yaml").read_text().splitlines()
    assert [line for line in kept if not line.startswith("#")] == parameters
    checked = run(place, "onboard_estimation", "config", "cart", "--config", str(written))
    assert checked.stdout.splitlines() == parameters


def test_another_name_makes_another_robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("new", "robot", "sea_snake_2")
    assert done.code == 0, done.error
    assert "pip install --editable sea_snake_2" in done.out
    assert "sea_snake_2 exists already" in refusal("new", "robot", "sea_snake_2")
    for path in (tmp_path / "sea_snake_2").rglob("*.py"):
        compile(path.read_text(), path, "exec")
    monkeypatch.syspath_prepend(tmp_path / "sea_snake_2")
    robot = import_module("sea_snake_2_estimation.robot").ROBOT
    assert (robot.name, type(robot).__name__) == ("sea_snake_2", "SeaSnake2Robot")
    (tmp_path / "file").touch()
    assert "cannot write" in refusal("new", "robot", "crawler", "--output", tmp_path / "file" / "crawler")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["file", "sea_snake_2"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Crawler", "a robot cannot be called 'Crawler': small letters"),
        ("class", "cannot be called 'class'"),
        ("../x", "cannot be called '../x'"),
        ("a" * 25, "24 characters at most"),
        ("salp", "there is a robot salp already"),
        ("numpy", "a package numpy is installed already"),
    ],
)
def test_names_that_no_robot_can_have(name: str, said: str, tmp_path: Path) -> None:
    assert said in refusal("new", "robot", name, "--output", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_commands_run_the_bag_is_judged_and_the_contract_kept(page: str, place: Path) -> None:
    (lines,) = COMMANDS.findall(page)
    commands = [shlex.split(line) for line in lines.splitlines() if line.startswith("onboard-estimation")]
    assert [words[1] for words in commands] == ["robots", "simulate", "evaluate", "campaign"]
    said = []
    for words in commands:
        alone = ["--workers", "0"] if words[1] == "campaign" else []  # each of several would load all of it anew
        done = run(place, "onboard_estimation", *words[1:], *alone)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "cart" in said[0]
    assert "Consistent" in said[2]
    assert "cart-rail: 10 runs, simulated" in said[3]
    assert (place / "run" / "report.html").is_file()
    done = run(place, "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(place), "cart/test")
    assert done.returncode == 0, done.stdout
