"""The ROS 2 package and the Python distribution: metadata that agrees, and everything aboard that should be."""

from __future__ import annotations

import ast
import configparser
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path

import catkin_pkg.package
import pytest
import setuptools
from built_packages import TOP_LEVEL_PACKAGES, packaged_files
from packaging.requirements import Requirement

from onboard_estimation.base import kernel_cache
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource

# Imported only where ROS 2 is, and then declared in package.xml.
ROS_PACKAGES = {"ament_index_python", "launch", "launch_ros", "rclpy", "tf2_ros"}
# No key of rosdep is known for them.
PIP_ALONE = {"evo", "llvmlite", "mcap", "rosbags"}
IMPORTED = re.compile(r"^\s*(?:from (?=[\w.]+ import)|import )(\w+)|\boptional\(\"(\w+)", re.MULTILINE)
"""Top-level names of absolute imports, and of what is imported where it is installed."""


@pytest.fixture(scope="module")
def declared(repository: Path) -> configparser.ConfigParser:
    """setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(repository / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def package(repository: Path) -> catkin_pkg.package.Package:
    """package.xml."""
    return catkin_pkg.package.parse_package(str(repository / "package.xml"))


# Metadata


def test_package_xml_is_an_ament_python_package_without_faults_that_agrees_with_setup_cfg(
    repository: Path, package: catkin_pkg.package.Package, declared: configparser.ConfigParser
) -> None:
    warnings: list[str] = []
    package.validate(warnings=warnings)
    assert warnings == []
    assert package.get_build_type() == "ament_python"
    assert (repository / "resource" / package.name).read_bytes() == b""
    assert "Apache License" in (repository / package.licenses[0].file).read_text(encoding="utf-8")
    metadata, maintainer = declared["metadata"], package.maintainers[0]
    stated = (package.name, package.version, str(package.licenses[0]), maintainer.name, maintainer.email)
    assert stated == tuple(metadata[key] for key in ("name", "version", "license", "maintainer", "maintainer_email"))
    # Where `ros2 run` looks.
    folder = f"$base/lib/{package.name}"
    assert declared["develop"]["script_dir"] == declared["install"]["install_scripts"] == folder


def test_setup_py_names_every_folder_with_code_and_colcon_can_read_it(
    repository: Path, declared: configparser.ConfigParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """colcon reads the attributes of setuptools' distribution as literals; `python_requires` of setup.cfg is none."""
    given: dict = {}
    monkeypatch.chdir(repository)
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: given.update(arguments))
    runpy.run_path("setup.py")
    assert "python_requires" not in declared["options"]
    assert ast.literal_eval(repr(given)) == given
    folders = {str(Path(path).parent).replace(os.sep, ".") for path in packaged_files(repository, "*.py")}
    assert set(given["packages"]) == folders
    # The kernels' cache watches all of them.
    assert {name.partition(".")[0] for name in given["packages"]} <= {
        name.partition(".")[0] for name, _ in kernel_cache._modules()
    }


def test_packages_that_are_imported_are_declared(
    repository: Path, package: catkin_pkg.package.Package, declared: configparser.ConfigParser
) -> None:
    """Those of ROS in package.xml, as all that pip would install and rosdep knows; the others in setup.cfg."""
    launch_files = [path.relative_to(repository).as_posix() for path in (repository / "launch").glob("*.py")]
    found = {
        (path, name)
        for path in [*packaged_files(repository, "*.py"), *launch_files]
        for name in map("".join, IMPORTED.findall((repository / path).read_text(encoding="utf-8")))
        if name not in {*TOP_LEVEL_PACKAGES, *sys.stdlib_module_names}
    }
    assert {"numpy", "rclpy", "serial"} <= {name for _, name in found}
    of_ros = {name for _, name in found if name in ROS_PACKAGES or name.endswith(("_msgs", "_srvs", "_interfaces"))}
    base = {Requirement(line).name.lower() for line in declared["options"]["install_requires"].splitlines() if line}
    keys = {"pyyaml": "python3-yaml"}
    with_rosdep = {keys.get(name, f"python3-{name}") for name in base - PIP_ALONE}
    assert of_ros | with_rosdep <= {dependency.name for dependency in package.exec_depends}
    extras = "".join(declared["options.extras_require"].values())
    assert not set("@/") & set(declared["options"]["install_requires"] + extras)  # no addresses
    names = base | {Requirement(line).name.lower() for line in extras.splitlines() if line}
    names = {name.replace("-", "_") for name in names}
    # Of extras, which are not installed everywhere.
    distributions = {"hebi": ["hebi-py"], "serial": ["pyserial"], **packages_distributions()}
    missing = {
        f"{path}: {name}"
        for path, name in found
        if name not in of_ros
        and not path.startswith("launch/")
        and not names & {one.lower().replace("-", "_") for one in distributions.get(name, [name])}
    }
    assert missing == set()


# What is built


@pytest.mark.slow
def test_wheel_and_sdist_hold_all_that_is_needed_and_nothing_beside(repository: Path, built: Path) -> None:
    """Every file that an editable installation sees, whatever its kind: report's parts, definitions of messages."""
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    info = next(name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    names = {name for name in wheel.namelist() if not name.partition("/")[0].endswith((".dist-info", ".data"))}
    assert names == packaged_files(repository) >= {"onboard_estimation/py.typed"}
    share = {name.partition(".data/data/share/")[2] for name in wheel.namelist() if ".data/data/" in name}
    configured = {
        path.relative_to(repository).as_posix()
        for path in [*(repository / "config").rglob("*"), *(repository / "launch").glob("*.launch.py")]
        if path.is_file()
    }
    expected = configured | {"package.xml", "config/deep/robot.yaml", "launch/robot.launch.py"}
    assert share == {f"onboard_estimation/{name}" for name in expected} | {
        "ament_index/resource_index/packages/onboard_estimation"
    }
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(f"{info}/entry_points.txt").decode())
    assert entry_points["console_scripts"]["onboard-estimation"] == "onboard_estimation.__main__:main"
    assert set(entry_points["onboard_estimation.robots"]) == {
        *("salp", "hopper", "softrobot", "strapdown", "thruster_chain")
    }
    assert Parser().parsestr(wheel.read(f"{info}/METADATA").decode())["Requires-Python"] == ">=3.10"
    assert any(name.endswith("/LICENSE") for name in wheel.namelist() if name.startswith(info))
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {"package.xml", "setup.py", "setup.cfg", "pyproject.toml", "LICENSE", "resource/onboard_estimation"}
    assert packaged_files(repository) | files | expected <= names


def test_resource_of_the_source_tree_and_of_nowhere(repository: Path) -> None:
    assert resource("package.xml") == repository / "package.xml"
    with pytest.raises(UserError, match=r"resource config/no_such\.yaml not found; looked at .*config/no_such\.yaml$"):
        resource("config/no_such.yaml")


def test_make_says_which_python_it_needs(repository: Path, tmp_path: Path) -> None:
    shutil.copy(repository / "Makefile", tmp_path)
    for name in ("setup.py", "setup.cfg", "pyproject.toml"):
        (tmp_path / name).touch()
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    run = subprocess.run(["make", "demo", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert f"No Python 3.10 to 3.13 found; tried: {old}" in run.stderr
    assert not (tmp_path / ".venv").exists()
