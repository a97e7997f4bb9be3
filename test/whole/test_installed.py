"""A copy that `pip install` made of the wheel, far from the source tree: all that a stranger has."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest
from built_packages import TOP_LEVEL_PACKAGES, build
from packaging.requirements import Requirement

from onboard_estimation.base.ros2 import how_to_install, wheels_exist

LONGEST_WAIT_S = 180.0
# Where the code comes from. Prints as JSON: folders of the packages, entry points and their distribution's place.
WHENCE = """
import json
from importlib import import_module
from importlib.metadata import distribution, entry_points
print(json.dumps({
    "packages": [import_module(name).__path__[0] for name in NAMES],
    "robots": [
        robot.name for robot in entry_points(group="onboard_estimation.robots") if robot.module.split(".")[0] in NAMES
    ],
    "commands": [entry.name for entry in entry_points(group="console_scripts") if entry.name == "onboard-estimation"],
    "distribution": str(distribution("onboard_estimation").locate_file("")),
}))
"""


class Installation:
    """A new environment with the wheel, and the folder from which its command is used.

    What the project depends on comes from a folder, such as that of the environment of the tests, by a .pth file. The
    editable installation there works by a .pth file of its own, which counts only in folders of site-packages, as does
    the one by which wheels of ROS 2 are found: here the environment says where they are.
    """

    def __init__(self, repository: Path, folder: Path, dependencies: Path) -> None:
        self.folder = folder / "elsewhere"
        self.folder.mkdir()
        self.prefix = folder / "environment"
        venv.create(self.prefix, with_pip=False)
        self.site = next(self.prefix.glob("lib/python3*/site-packages"))
        (self.site / "dependencies.pth").write_text(str(dependencies))
        wheel = next(build(repository, folder / "build").glob("*.whl"))
        self.install(wheel)
        names = ("PATH", "ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE", "LD_LIBRARY_PATH", "AMENT_PREFIX_PATH")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        # Another place would have every kernel compiled anew: here it is about files, and Python finds the same ones.
        self.environment = {**kept, "HOME": str(folder), "NUMBA_DISABLE_JIT": "1", "MPLBACKEND": "Agg"}

    def install(self, wheel: Path) -> None:
        """Without what it depends on, which is there."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.prefix / "bin" / "python"), "install", "--quiet"]
        pip += ["--ignore-installed", "--no-deps", "--no-index", "--no-cache-dir", str(wheel)]
        subprocess.run(pip, check=True, cwd=self.folder)

    def python(self, *words: str) -> str:
        """Standard output of this environment's Python."""
        return self._run(self.prefix / "bin" / "python", *words).stdout

    def command(self, *words: str) -> str:
        """Standard output of `onboard-estimation`, which has to succeed."""
        done = self._run(self.prefix / "bin" / "onboard-estimation", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refusal(self, *words: str) -> str:
        """Standard error of `onboard-estimation`, which has to refuse."""
        done = self._run(self.prefix / "bin" / "onboard-estimation", *words)
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr

    def _run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_WAIT_S,
        )

    @contextmanager
    def running(self, *words: str) -> Iterator[Running]:
        """`onboard-estimation`, until it is interrupted at the end of the block; it has to end with 0."""
        log = self.folder / f"{words[0]}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [self.prefix / "bin" / "onboard-estimation", *words],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        one = Running(process, log)
        try:
            yield one
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(LONGEST_WAIT_S) == 0, one.output
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(LONGEST_WAIT_S)


class Running:
    """A command that is under way, with its output."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Until its output holds the pattern."""
        deadline = time.monotonic() + LONGEST_WAIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if found := re.search(pattern, self.output):
                return found
            time.sleep(0.1)
        raise AssertionError(f"not said: {pattern!r}; said was:\n{self.output}")


def base_dependencies(folder: Path) -> Path:
    """A folder with what `pip install onboard_estimation` installs beside it, and no more."""
    folder.mkdir()
    names, done = ["onboard_estimation"], set()
    while names:
        one = distribution(names.pop())
        if one.name in done:
            continue
        done.add(one.name)
        needed = [Requirement(text) for text in one.requires or []]
        names += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
        if one.name.replace("-", "_") == "onboard_estimation":  # as setuptools of some versions writes it
            continue
        for top in {path.parts[0] for path in one.files or []} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(one.locate_file(top))
    return folder


def wheel_of(package: Path, folder: Path) -> Path:
    """Built from a copy, for a build leaves its traces beside the sources."""
    shutil.copytree(package, folder / "source")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(folder / "source")], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_base_installation_says_what_brings_ros2_and_the_example(repository: Path, tmp_path: Path) -> None:
    base = base_dependencies(tmp_path / "base")
    installed = Installation(repository, tmp_path, base)
    for name in ("LD_LIBRARY_PATH", "AMENT_PREFIX_PATH"):
        installed.environment.pop(name, None)
    assert {path.name for path in installed.site.glob("*.pth")} == {"dependencies.pth"}
    assert not [path.name for path in base.iterdir() if path.suffix == ".pth" or path.name.startswith(("rcl", "ros_"))]
    installed.command("simulate", "hopper", "--duration", "4", "--output", "hops")
    assert "report: run/report.html" in installed.command("evaluate", "hops", "--output", "run")
    for words in (("topic", "list"), ("record", "--all"), ("run", "salp_estimator"), ("launch", "salp.launch.py")):
        said = installed.refusal(*words)
        assert said == f"error: ROS 2 is not here: {how_to_install()}\n", words
    if wheels_exist():
        assert "pip install 'onboard_estimation[ros]'" in said

    said = installed.refusal("convert", "pyshoe", "walk.mat", "--output", "walk")
    example = "; it comes with: pip install ./examples/recorded_robots; installed are: hebi_log"
    assert said.startswith(f"error: no format 'pyshoe'{example}")
    assert "two_link" not in installed.command("robots")
    installed.install(wheel_of(repository / "examples" / "recorded_robots", tmp_path / "example"))
    listed = {one["name"] for one in json.loads(installed.command("robots", "--json"))["robots"]}
    assert listed >= {"pendulum", "two_link", "strapdown"}
    installed.command("simulate", "two_link", "--duration", "2", "--output", "links")


@pytest.mark.live
@pytest.mark.usefixtures("ros_domain")
@pytest.mark.timeout(400)
@pytest.mark.slow
def test_an_installed_wheel_does_all_that_the_source_tree_does(repository: Path, tmp_path: Path) -> None:
    """In one test, because each step needs what the one before made."""
    installed = Installation(repository, tmp_path, Path(sysconfig.get_path("purelib")))
    whence = json.loads(installed.python("-c", WHENCE.replace("NAMES", repr(TOP_LEVEL_PACKAGES))))
    assert whence["packages"] == [str(installed.site / name) for name in TOP_LEVEL_PACKAGES]
    robots = ["hopper", "salp", "softrobot", "strapdown", "thruster_chain"]
    assert (sorted(whence["robots"]), len(whence["commands"])) == (robots, 1)
    assert whence["distribution"] == str(installed.site)

    assert installed.command("--version").startswith("onboard-estimation ")
    for number in (1, 2):
        installed.command("simulate", "salp", "--duration", "22", "--seed", str(number), "--output", f"bag_{number}")
    assert "written: m.npz" in installed.command("train", "salp", "bag_1", "bag_2", "--form", "local", "-o", "m.npz")
    installed.command("simulate", "hopper", "--duration", "4", "--output", "hops")
    assert "report: run/report.html" in installed.command("evaluate", "hops", "--output", "run")
    report = (installed.folder / "run" / "report.html").read_text(encoding="utf-8")
    assets = installed.site / "onboard_estimation" / "report" / "assets"
    parts = [*assets.glob("*.js"), assets / "page.css"]
    assert len(parts) > 2
    assert all(part.read_text(encoding="utf-8").strip() in report for part in parts)
    installed.command("campaign", "hops", "--output", "many")
    assert "hops" in (installed.folder / "many" / "report.html").read_text(encoding="utf-8")
    installed.command("new", "robot", "crawler")
    assert (installed.folder / "crawler" / "package.xml").is_file()
    installed.command("config", "init", "salp", "-o", "salp.yaml")

    with installed.running("launch", "salp.launch.py", "model:=m.npz"):
        installed.command("topic", "echo", "/salp/odometry", "--once")
        with installed.running("view", "--no-browser") as view:
            address = view.wait_for(r"picture: (http://\S+)")[1]
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open(address, timeout=LONGEST_WAIT_S) as page:
                assert "<html" in page.read().decode().lower()

    style = assets / "page.css"
    style.unlink()
    shutil.rmtree(installed.folder / "run")
    said = installed.refusal("evaluate", "hops", "--output", "run")
    assert (
        said == f"error: this installation of onboard_estimation is incomplete: {style} is missing; install it anew\n"
    )
