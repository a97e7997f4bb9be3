"""The command line itself: help that teaches, JSON that is only JSON, progress, interruption, pipes, ways to start."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main
from evaluation_samples import command, refusal, salp_messages, write
from live_graph import LONGEST_WAIT_S, wait_until

from onboard_estimation import cli
from onboard_estimation.base import installed
from onboard_estimation.base.atomic_file import check_output
from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import output
from onboard_estimation.report import run_folder
from salp_estimation.model.configuration import SalpConfiguration

COMMANDS = ("demo", "robots", "simulate", "inspect", "evaluate", "compare", "campaign", "convert", "config")
MODULE = [sys.executable, "-m", "onboard_estimation"]


def run(*words: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MODULE, *map(str, words)],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def help_of(*words: str, columns: int = 100) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERMINAL_WIDTH", str(columns))
        outcome = command(*words, "--help")
    assert outcome.code == 0
    assert outcome.error == ""
    return outcome.out


def flat(text: str) -> str:
    """Words alone: without frames and line breaks."""
    return " ".join(re.sub(r"[╭╮╰╯│─]", " ", text).split())


def commands(group: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands with the words that call them, those of other packages among them."""
    for name in group.list_commands(None):
        one = group.get_command(None, name)
        yield from commands(one, *before, name) if hasattr(one, "list_commands") else [((*before, name), one)]


ALL = dict(commands(typer.main.get_command(cli.app)))
WRITING = [words for words, one in ALL.items() if any("--output" in parameter.opts for parameter in one.params)]


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_what_cannot_be_written_is_refused_before_anything_else(words: tuple[str, ...]) -> None:
    assert refusal(*words, "--output", "/proc/x.png").startswith("cannot write /proc/x.png: ")


@pytest.mark.parametrize("folder", [False, True])
def test_trying_a_place_leaves_nothing_there(folder: bool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file/x", "file/a/b", 300 * "x", f"{300 * 'x'}/x"):
        with pytest.raises(UserError, match=f"^cannot write {tmp_path / name}: "):
            check_output(tmp_path / name, folder)
    check_output(tmp_path / "a" / "b", folder)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


# Help.


def test_help_names_all_commands_and_where_to_begin() -> None:
    shown = flat(help_of())
    for name in COMMANDS:
        assert f" {name} " in shown
    assert " observability " in shown  # of the salp's package
    assert "Start with onboard-estimation demo" in shown
    nothing_asked = command()
    assert nothing_asked.code == 2
    assert "Start with" in nothing_asked.out
    assert command("--version").out == f"onboard-estimation {version('onboard_estimation')}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches(name: str) -> None:
    """What it does, examples that can be typed, what each option means; nothing wider than the terminal."""
    text = help_of(name)
    assert max(map(len, text.splitlines())) <= 100
    shown = flat(text)
    examples = re.findall(r"onboard-estimation (\S+)", shown.partition("Examples")[2])
    assert examples
    assert set(examples) == {name}
    # Every option of the table has words beside it.
    for line in text.splitlines():
        if found := re.match(r"│ \*?\s*(--[a-z-]+)", line):
            option = found[1]
            assert len(line.partition(option)[2].strip(" │").split()) >= 3, line


def test_a_command_that_does_not_load_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other packages: it says why when it is typed, and takes no name of ours."""
    broken = tmp_path / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    points = "frob = no_such_module:app\nwrong = json:dumps\nrobots = json:dumps\n"
    (broken / "entry_points.txt").write_text(f"[onboard_estimation.commands]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installed, "_points", installed._points.__wrapped__)  # not what was found before
    assert {"frob", "wrong", "observability", "evaluate"} <= set(flat(help_of()).split())
    assert "salp" in command("robots").out
    assert "command 'frob' cannot be loaded from 'no_such_module:app'" in refusal("frob", "BAG", "--deep")
    assert "entry point 'json:dumps' of command 'wrong' is no Typer but function" in refusal("wrong")


def examples() -> list[list[str]]:
    said = "".join(one.epilog or "" for one in cli.app.registered_commands if one.name in COMMANDS)
    return [shlex.split(line) for line in re.findall(r"`onboard-estimation ([^`]*)`", said)]


@pytest.mark.parametrize("words", examples(), ids=" ".join)
def test_examples_have_no_wrong_options(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are parsed as they stand; only the files that they name are missing, or little is done."""
    monkeypatch.chdir(tmp_path)
    if words[0] in ("demo", "campaign", "simulate"):
        # Too long to run here: wrong options would be told before the missing argument is.
        assert "frob" in refusal(*words, "--frob")
        return
    outcome = command(*words)
    assert outcome.code == 0 or re.match(r"error: (BAG|RUN|runs/|my_salp|cannot read)", outcome.error), outcome


# Wrong usage.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["evaluate"], "Missing argument 'BAG'"),
        (["evaluate", "b", "--sed", "3"], "No such option: --sed"),
        (["evaluate", "b", "--seed", "three"], "Invalid value for '--seed': "),
        (["evaluate", "b", "c"], "Got unexpected extra argument"),
    ],
)
def test_wrong_usage_is_one_line_that_leads_to_the_help(words: list[str], said: str) -> None:
    line = refusal(*words)
    assert line.startswith(said)
    assert re.search(r"; see .* --help$", line)
    if said.startswith("Missing"):
        assert line.endswith(f"; see onboard-estimation {words[0]} --help")


# JSON.


# Configuration files.


def test_a_printed_configuration_can_be_used_and_changed(tmp_path: Path) -> None:
    file = tmp_path / "salp.yaml"
    assert f"evaluate BAG --config {file}" in command("config", "init", "salp", "--output", file).out
    assert load(SalpConfiguration, file, {}) == SalpConfiguration()
    about = [line for line in file.read_text().splitlines() if line.startswith("#")]
    assert "its unit in brackets" in about[0]
    assert about[-1] == f"# Use it:   onboard-estimation evaluate BAG --config {file}"
    printed = command("config", "salp", "--config", file, "--set", "gyro.axis=-z", "--set", "gate_probability=0.99").out
    (tmp_path / "changed.yaml").write_text(printed)
    changed = load(SalpConfiguration, tmp_path / "changed.yaml", {})
    assert (changed.gyro.axis, changed.gate_probability) == ("-z", 0.99)
    # Each parameter's line says what it means.
    lines = [line for line in printed.splitlines() if re.match(r"\s+\w+: \S", line)]
    assert len(lines) > 20
    assert all("#" in line for line in lines)


# People.


def test_tables_fit_sentences_are_whole_lines_and_names_are_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    bag = write(tmp_path / "[bold]a bag", salp_messages(2.0))
    lines = command("evaluate", bag, "--output", tmp_path / "run").out.splitlines()
    assert max(len(line) for line in lines if line.startswith(" ")) <= 100
    assert lines[0] == "salp (ukf) on [bold]a bag, recorded data"
    assert any(re.search(r"joint angles within [\d.]+ deg RMS[.;]", line) for line in lines)
    assert f"report: {tmp_path}/run/report.html" in lines
    again = next(line for line in lines if line.startswith("again:"))
    assert str(bag) in shlex.split(again.removeprefix("again:"))


def test_it_starts_with_the_repository_around_it_and_says_what_to_type_next(repository: Path, tmp_path: Path) -> None:
    """In whose root are folders `launch` and `test`; and letters that the output cannot show."""
    done = run(
        "config", "salp", "--output", file := tmp_path / "größe.yaml", folder=repository, PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0, done.stderr
    shown = str(file).replace("öß", r"\xf6\xdf")
    assert done.stdout.startswith(f"{shown}: ")
    assert f"-m onboard_estimation evaluate BAG --config '{shown}'" in done.stdout
    assert file.is_file()


def on_a_terminal(*words: str | Path, folder: Path, columns: int = 100) -> tuple[str, str]:
    """Standard output through a pipe, standard error on a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    with subprocess.Popen(
        [*MODULE, *map(str, words)], cwd=folder, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
        out, _ = process.communicate()
    assert process.returncode == 0
    return out, shown.decode()


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_in_a_log_and_not_beside_json(tmp_path: Path) -> None:
    """On a terminal a bar, in a log lines; the result on standard output alone."""
    words = ["campaign", "salp", "--seeds", "2", "--duration", "2", "--gait", "forward", "--workers", "0"]
    out, shown = on_a_terminal(*words, folder=tmp_path)
    assert "2 of 2 runs" in shown
    assert "2 of 2 runs" not in out
    logged = command(*words, "--output", tmp_path / "again")
    assert logged.error.splitlines()[0] == "salp-ideal: 2 runs, this process"
    assert "2 of 2 runs" not in logged.out
    out, shown = on_a_terminal("simulate", "salp", "--duration", "1", "--output", "bag", "--json", folder=tmp_path)
    assert json.loads(out)["messages"] > 0
    assert shown == ""


def test_interruption(tmp_path: Path) -> None:
    """Ctrl-C in the middle of the work: a word, the code of a shell, no traceback, no leftovers."""
    process = subprocess.Popen(
        [*MODULE, "simulate", "salp", "--duration", "3600", "--output", "b"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    ticks, status = os.sysconf("SC_CLK_TCK"), Path(f"/proc/{process.pid}/stat")

    def past_all_imports() -> bool:
        used = map(int, status.read_text().rpartition(")")[2].split()[11:13])
        return sum(used) > 2.5 * ticks or process.poll() is not None

    wait_until(past_all_imports)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=LONGEST_WAIT_S)
    assert (process.returncode, out, error.strip()) == (130, "", "interrupted")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*MODULE, "robots", "salp"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode != 0


# Completion by the shell.


def in_bash(script: str, home: Path) -> str:
    """Output of a script in which `onboard-estimation` is on PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ntrue"],  # not the last line, for which bash would make room
        env={**os.environ, "PATH": path, "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_bash_completes_commands_options_robots_and_launch_files(tmp_path: Path) -> None:
    script = """
        eval "$(onboard-estimation --show-completion bash)"
        type() {
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            _onboard_estimation_completion "$1"
            echo "${COMPREPLY[@]}"
        }
        type onboard-estimation eval
        type onboard-estimation obs
        type onboard-estimation evaluate --estimat
        type onboard-estimation simulate ""
        type onboard-estimation launch salp
        type onboard-estimation launch salp.launch.py ""
        complete -p onboard-estimation
    """
    *completed, rule = in_bash(script, tmp_path).splitlines()
    assert completed == [
        "evaluate",
        "observability",
        "--estimator --estimates-rate",
        "hopper pendulum salp softrobot strapdown thruster_chain two_link",
        "salp.launch.py salp_replay.launch.py",
        "",
    ]
    assert "-o default" in rule  # paths, of bags too, are the shell's own business


# Starting.


def test_help_completion_and_commands_of_the_live_graph_need_no_numerics() -> None:
    """Quick, because nothing heavy is imported."""
    code = """
import os, sys
from onboard_estimation.cli import main
def run(*words):
    try:
        main(words)
    except SystemExit:
        pass
def loaded(*names):
    return sorted(set(names) & set(sys.modules))
for words in (["evaluate", "--help"], ["--help"], ["observability", "--help"]):
    run(*words)
os.environ.update(_ONBOARD_ESTIMATION_COMPLETE="complete_bash", COMP_WORDS="x launch s", COMP_CWORD="2")
run()
print(loaded("numba", "numpy", "scipy", "matplotlib", "rosbags", "evo", "yaml"), file=sys.stderr)
from onboard_estimation.live import by_hand, discovery, session
print(loaded("numba", "scipy", "matplotlib", "pandas"), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "salp.launch.py" in done.stdout
    assert done.stderr.split("\n")[-3:] == ["[]", "[]", ""]


def test_linear_algebra_has_one_thread_unless_the_user_asks_for_more() -> None:
    code = """
import os, sys
from onboard_estimation.__main__ import main
sys.argv[1:] = ["--version"]
try:
    main()
finally:
    print([os.environ[f"{library}_NUM_THREADS"] for library in ("OPENBLAS", "OMP")], "numpy" in sys.modules)
"""
    others = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment = {**others, "OMP_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("['1', '3'] False\n")


def test_commands_are_declared_as_the_oldest_typer_takes_them() -> None:
    """Typer 0.12 has no Literal, and click before 8.2 no default of what may be repeated without a flag."""
    for one in cli.app.registered_commands:
        assert one.callback is not None
        for name, parameter in inspect.signature(one.callback, eval_str=True).parameters.items():
            assert "Literal[" not in str(parameter.annotation), (one.name, name)
            is_flag = "ArgumentInfo" not in str(parameter.annotation)
            assert is_flag or not isinstance(parameter.default, list), (one.name, name)


@pytest.mark.parametrize(
    ("typed", "found", "shown"),
    [
        ("/somewhere/onboard_estimation/__main__.py", None, f"{sys.executable} -m onboard_estimation"),
        (".venv/bin/onboard-estimation", None, ".venv/bin/onboard-estimation"),
        ("/usr/bin/onboard-estimation", "/usr/bin/onboard-estimation", "onboard-estimation"),
    ],
)
def test_hints_name_the_program_as_it_was_typed(
    typed: str, found: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [typed])
    monkeypatch.setattr(output.shutil, "which", lambda _: found)
    assert output.program() == shown
