"""README.md and docs/: every command line can be typed, every file and link that they name is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import documents
import pytest
import typer.main
from documents import Line
from evaluation_samples import command

from onboard_estimation import cli
from onboard_estimation.base.errors import UserError
from onboard_estimation.commands.launch import planned, project_launch_files
from onboard_estimation.contract.robot import all_robots, find_robot, robot_names
from onboard_estimation.contract.simulated import Simulated
from onboard_estimation.contract.trained import Trained
from onboard_estimation.judging.options import EvaluateOptions, parse_overrides
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.launching.entities import LaunchContext
from onboard_estimation.launching.stand_in import served

REPOSITORY = Path(__file__).resolve().parents[2]
APP: Any = typer.main.get_command(cli.app)
LINES = documents.lines(REPOSITORY, set(APP.list_commands(None)))
# The reader's own robot is not installed here: `test_your_robot` types the lines of that page.
OURS = [line for line in LINES if line.words[0] == "onboard-estimation" and "your_robot" not in str(line.page)]
# A word that stands for something of the reader's: BAG, RUN_7, MY_FILTERS.json.
PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_]*(\.\w+)?")
QUICK = ("config", "gait", "robots", "simulate", "urdf")


def parsed(words: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """Command and values as the real parser has them; nothing is run. The parser's own exceptions."""
    found, rest = APP, list(words)
    while hasattr(found, "commands") and rest:
        name = rest.pop(0)
        if name in {option for parameter in APP.params for option in parameter.opts}:
            return found, {}  # the program's own: --version
        group, found = found, found.get_command(None, name)
        assert found is not None, f"there is no command {name}, but {group.list_commands(None)}"
    if hasattr(found, "commands"):
        return found, {}
    return found, dict(found.make_context(found.name, rest).params)


def as_written(line: Line) -> tuple[Any, dict[str, Any]]:
    try:
        return parsed(line.words[1:])
    except Exception as error:
        if type(error).__name__ == "MissingParameter" and not line.whole:
            return None, {}  # "`evaluate --beacon 30`": within a sentence the bag goes without saying
        if type(error).__name__ == "Exit":
            return None, {}  # an option that is answered at once: `convert --formats`
        raise AssertionError(f"{line}: {getattr(error, 'message', '') or error}") from error


def values(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


@pytest.mark.parametrize("line", OURS, ids=str)
def test_commands_options_and_values_exist(line: Line) -> None:
    found, given = as_written(line)
    if found is None or not given:
        return
    robots = [name for key in ("robot", "robots", "names") for name in values(given.get(key))]
    assert {name for name in robots if not PLACEHOLDER.fullmatch(name)} <= set(robot_names())
    some = [find_robot(name) for name in robots if name in robot_names()] or list(all_robots())
    scenarios = {name: one for robot in some if isinstance(robot, Simulated) for name, one in robot.scenarios.items()}
    if found.name in ("simulate", "campaign"):
        assert given["scenario"] is None or given["scenario"] in scenarios
        for variant in values(given["variant"]):
            assert any(variant in one.variants for one in scenarios.values()), line
    for estimator in values(given.get("estimator")):
        assert any(estimator in robot.estimators for robot in some), line
    if found.name == "train":
        assert given["form"] is None or any(
            isinstance(robot, Trained) and given["form"] in robot.training_forms for robot in some
        )
    for setting in values(given.get("overrides")):
        assert any(accepts(robot, setting) for robot in some), line


def accepts(robot: Any, setting: str) -> bool:
    try:
        load_configuration(robot, EvaluateOptions(overrides=parse_overrides([setting])))
    except UserError:
        return False
    return True


def test_files_are_there_or_named_as_outputs_by_an_earlier_line() -> None:
    assert len({line.page for line in OURS if line.whole}) >= 10  # the reader of pages itself
    missing, made = [], set()
    for line in OURS:
        found, given = as_written(line)
        if found is None or not line.whole:
            continue
        words = dict(word.split(":=") for word in given.get("words", ()) if ":=" in word)  # of a launch file
        needed = {words[name] for name in ("bag", "model", "config", "nodes") if name in words}
        made.add(words.get("record", ""))
        for parameter in found.params:
            paths = {str(value) for value in values(given.get(parameter.name)) if isinstance(value, Path)}
            paths -= set(robot_names()) if given.get("design") else set()  # in place of a bag
            if "--output" in parameter.opts:
                made |= {*paths, *(f"{path}/identified.yaml" for path in paths)}
            else:
                needed |= paths
        missing += [f"{line}: {file}" for file in needed if not (is_there(file) or file in made)]
        if found.name == "evaluate":
            made |= {f"runs/{given['bag'].name}-{name}" for name in robot_names()}
    assert missing == []


def is_there(file: str) -> bool:
    """Also what others recorded, whose place the page says."""
    return file.startswith("../shared/data/") or bool(PLACEHOLDER.fullmatch(file)) or (REPOSITORY / file).exists()


LAUNCHES = [line for line in LINES if line.words[1] == "launch" and len(line.words) > 2]


@pytest.mark.parametrize("line", LAUNCHES, ids=str)
def test_launch_files_declare_the_arguments(line: Line) -> None:
    (file,) = (word for word in line.words if word.endswith(".launch.py"))
    assert file in project_launch_files()
    context = LaunchContext({}, os.environ)
    with served():
        planned(project_launch_files()[file], context, only_declared=True)
    declared = context.declared
    for word in line.words:
        name, assigned, value = word.partition(":=")
        if assigned:
            assert name in declared, line
            choices = declared[name].choices
            assert choices is None or value in choices, line


def test_targets_of_make_and_executables_of_ros2_run_exist(repository: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (repository / "Makefile").read_text(), re.MULTILINE))
    scripts = {entry.name for entry in entry_points(group="console_scripts")}
    for line in LINES:
        if line.words[0] == "make":
            assert {word for word in line.words[1:] if "=" not in word} <= targets, line
        for start in (("ros2", "run", "onboard_estimation"), ("onboard-estimation", "run")):
            if line.words[: len(start)] == start:
                assert line.words[len(start)] in scripts, line


def test_files_and_links_in_the_text_are_there(repository: Path) -> None:
    missing = []
    folders = "|".join(path.name for path in repository.iterdir() if path.is_dir() and not path.name.startswith("."))
    for page in documents.pages(repository):
        for number, code in documents.inline_code(page):
            if re.fullmatch(rf"(?:{folders})/[\w./-]*\w/?", code) and not is_there(code.removesuffix("/")):
                missing.append(f"{page.name}:{number}: {code}")
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
            place = page.parent / target if target else page
            if not place.exists() or (anchor and anchor not in set(anchors(place))):
                missing.append(f"{page.name}: {target}#{anchor}")
    assert missing == []


def anchors(page: Path) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_each_line_of_what_happens_when_is_shown_by_tests(repository: Path) -> None:
    files = (repository / "test").rglob("test_*.py")
    names = [name for file in files for name in re.findall(r"def test_(\w+)", file.read_text(encoding="utf-8"))]
    texts = [(repository / "docs" / page).read_text(encoding="utf-8") for page in ("drivers.md", "live.md")]
    tables = [table for text in texts for table in re.findall(r"\| what happens .*\n\|[-|]+\n((?:\|.*\n)+)", text)]
    assert len(tables) == 5
    for row in (row for table in tables for row in table.splitlines()):
        begins = re.findall(r"`(\w+)`", row.split(" | ")[-1])
        assert begins, row
        assert all(any(name.startswith(begin) for name in names) for begin in begins), row


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.slow
def test_quick_commands_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page in a folder beside the shipped configurations, as after `cd` into a clone."""
    ran = 0
    for line in OURS:
        quick = line.words[1] in QUICK or {"--show-args", "--design"} & set(line.words)
        # The scenario `hardware` has kernels that nothing else in the tests' first minute needs.
        if not line.whole or not quick or "hardware" in line.words:
            continue
        folder = tmp_path / Path(line.page).stem
        if not folder.exists():
            folder.mkdir()
            (folder / "config").symlink_to(REPOSITORY / "config")
        monkeypatch.chdir(folder)
        outcome = command(*line.words[1:], *(("--duration", "2") if line.words[1] == "simulate" else ()))
        assert outcome.code == 0, f"{line}\n{outcome.error}"
        ran += 1
    assert ran >= 10
