"""The ROS 2 package and the Python distribution: metadata that agrees, and everything aboard that should be."""

from __future__ import annotations

import ast
import configparser
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path

import catkin_pkg.package
import pytest
import setuptools
from built_packages import TOP_LEVEL_PACKAGES, build, packaged_files
from packaging.requirements import Requirement

from onboard_estimation.base import kernel_cache

# Imported only where ROS 2 is, and then declared in package.xml.
ROS_PACKAGES = {"ament_index_python", "launch", "launch_ros", "rclpy", "tf2_ros"}


@pytest.fixture(scope="module")
def declared(repository: Path) -> configparser.ConfigParser:
    """setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(repository / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def set_up(repository: Path) -> dict:
    """What setup.py gives to setuptools."""
    given: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repository)
        patch.setattr(setuptools, "setup", lambda **arguments: given.update(arguments))
        runpy.run_path("setup.py")
    return given


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist and with the wheel that is built from it."""
    return build(repository, tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def imports(path: Path) -> Iterator[str]:
    """First parts of the names of all modules that a file imports, inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def is_of_ros(module: str) -> bool:
    return module in ROS_PACKAGES or module.endswith(("_msgs", "_srvs", "_interfaces"))


def test_package_xml_is_an_ament_python_package_without_faults(repository: Path) -> None:
    warnings: list[str] = []
    package = catkin_pkg.package.parse_package(str(repository / "package.xml"), warnings=warnings)
    package.validate(warnings=warnings)
    assert warnings == []
    assert package.get_build_type() == "ament_python"
    assert (repository / "resource" / package.name).read_bytes() == b""
    assert "Apache License" in (repository / package.licenses[0].file).read_text(encoding="utf-8")


def test_package_xml_and_setup_cfg_agree(repository: Path, declared: configparser.ConfigParser) -> None:
    package = catkin_pkg.package.parse_package(str(repository / "package.xml"))
    metadata = declared["metadata"]
    assert (metadata["name"], metadata["version"]) == (package.name, package.version)
    assert metadata["license"] == package.licenses[0]
    assert (metadata["maintainer"], metadata["maintainer_email"]) == (
        package.maintainers[0].name,
        package.maintainers[0].email,
    )


def test_executables_are_where_ros2_looks(declared: configparser.ConfigParser) -> None:
    folder = f"$base/lib/{declared['metadata']['name']}"
    assert declared["develop"]["script_dir"] == declared["install"]["install_scripts"] == folder


def test_colcon_can_read_the_settings(repository: Path, set_up: dict) -> None:
    """colcon reads the attributes of setuptools' distribution as literals; `python_requires` of setup.cfg is none."""
    declared = configparser.ConfigParser()
    declared.read(repository / "setup.cfg")
    assert "python_requires" not in declared["options"]
    assert ast.literal_eval(repr(set_up)) == set_up


def test_every_folder_with_code_is_a_package(repository: Path, set_up: dict) -> None:
    folders = {str(Path(path).parent).replace(os.sep, ".") for path in packaged_files(repository, "*.py")}
    assert set(set_up["packages"]) == folders


def test_kernel_cache_watches_every_package(set_up: dict) -> None:
    assert {name.partition(".")[0] for name in set_up["packages"]} <= {
        name.partition(".")[0] for name, _ in kernel_cache._modules()
    }


def test_ros_packages_that_are_imported_are_declared(repository: Path) -> None:
    package = catkin_pkg.package.parse_package(str(repository / "package.xml"))
    paths = [repository / name for name in packaged_files(repository, "*.py")] + list(
        (repository / "launch").glob("*.py")
    )
    imported = {name for path in paths for name in imports(path)}
    assert set(filter(is_of_ros, imported)) <= {dependency.name for dependency in package.exec_depends}


def test_package_xml_has_what_pip_would_install(repository: Path, declared: configparser.ConfigParser) -> None:
    """With rosdep, which has no key for some."""
    package = catkin_pkg.package.parse_package(str(repository / "package.xml"))
    lines = [line for line in declared["options"]["install_requires"].splitlines() if line]
    keys = {"pyyaml": "python3-yaml"}
    names = {Requirement(line).name.lower() for line in lines}
    wanted = {keys.get(name, f"python3-{name}") for name in names - {"evo", "llvmlite", "mcap", "rosbags"}}
    assert wanted <= {dependency.name for dependency in package.exec_depends}


def test_python_packages_that_are_imported_are_declared(repository: Path, declared: configparser.ConfigParser) -> None:
    lines = declared["options"]["install_requires"] + "".join(declared["options.extras_require"].values())
    names = {Requirement(line).name.lower().replace("-", "_") for line in lines.splitlines() if line}
    # Of extras, which are not installed everywhere.
    distributions = {
        "hebi": ["hebi-py"],
        "serial": ["pyserial"],
        **packages_distributions(),
    }
    own = {*TOP_LEVEL_PACKAGES, *sys.stdlib_module_names}
    missing = {
        f"{path}: {name}"
        for path in sorted(packaged_files(repository, "*.py"))
        for name in set(imports(repository / path)) - own
        if not is_of_ros(name)
        and not names & {distribution.lower().replace("-", "_") for distribution in distributions.get(name, [name])}
    }
    assert missing == set()


def test_no_requirement_holds_an_address(repository: Path, declared: configparser.ConfigParser) -> None:
    everything = declared["options"]["install_requires"] + "".join(declared["options.extras_require"].values())
    assert "://" not in everything
    assert "@" not in everything


def test_wheel_holds_the_packages_and_nothing_beside(repository: Path, wheel: zipfile.ZipFile) -> None:
    """Every file that an editable installation sees, whatever its kind: report's parts, definitions of messages."""
    names = {name for name in wheel.namelist() if not name.partition("/")[0].endswith((".dist-info", ".data"))}
    assert names == packaged_files(repository)


def test_wheel_holds_what_ament_needs(repository: Path, wheel: zipfile.ZipFile) -> None:
    share = {name.partition(".data/data/")[2] for name in wheel.namelist() if ".data/data/" in name}
    configured = {
        f"share/onboard_estimation/{path.relative_to(repository).as_posix()}"
        for path in [*(repository / "config").rglob("*"), *(repository / "launch").glob("*.launch.py")]
        if path.is_file()
    }
    assert share == configured | {
        "share/ament_index/resource_index/packages/onboard_estimation",
        "share/onboard_estimation/package.xml",
        "share/onboard_estimation/config/deep/robot.yaml",
        "share/onboard_estimation/launch/robot.launch.py",
    }


def test_wheel_brings_command_robots_types_and_licence(wheel: zipfile.ZipFile) -> None:
    info = next(name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(f"{info}/entry_points.txt").decode())
    assert entry_points["console_scripts"]["onboard-estimation"] == "onboard_estimation.__main__:main"
    assert dict(entry_points["onboard_estimation.robots"]) == {
        "salp": "salp_estimation.robot:ROBOT",
        "hopper": "hopper_estimation.robot:ROBOT",
        "softrobot": "softrobot_estimation.robot:ROBOT",
        "strapdown": "strapdown_estimation.robot:ROBOT",
        "thruster_chain": "thruster_chain_estimation.robot:ROBOT",
    }
    metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert metadata["Requires-Python"] == ">=3.10"
    assert "onboard_estimation/py.typed" in wheel.namelist()
    assert any(name.endswith("/LICENSE") for name in wheel.namelist() if name.startswith(info))


def test_sdist_builds_a_package_of_ros2(repository: Path, built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert packaged_files(repository) <= names
    assert {"package.xml", "setup.py", "setup.cfg", "pyproject.toml", "LICENSE"} <= names
    assert {"resource/onboard_estimation", "config/deep/robot.yaml", "launch/robot.launch.py"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--prefix", "--target"])
def test_resources_of_an_installed_wheel_are_found(built: Path, tmp_path: Path, way: str) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed"]
    subprocess.run([*install, way, str(tmp_path), str(next(built.glob("*.whl")))], check=True)
    purelib = sysconfig.get_path("purelib", "posix_prefix", {"base": str(tmp_path)})
    if way == "--target":
        purelib = str(tmp_path)
    code = (
        "import onboard_estimation.base.installed as r; print(r.__file__); print(r.resource('config/deep/robot.yaml'))"
    )
    environment = {**os.environ, "PYTHONPATH": purelib, "ONBOARD_ESTIMATION_CACHE_DIR": str(tmp_path / "cache")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    module, found = map(Path, run.stdout.splitlines())
    assert module.is_relative_to(tmp_path)
    assert found == tmp_path / "share" / "onboard_estimation" / "config" / "deep" / "robot.yaml"


def test_resource_of_the_source_tree_and_of_nowhere(repository: Path) -> None:
    from onboard_estimation.base.errors import UserError
    from onboard_estimation.base.installed import resource

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
