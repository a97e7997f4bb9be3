"""What launch files make of their arguments, as plain data: by the small launcher, and by ROS 2's own launch.

`python launch_plans.py` reads cases, `[[file, {argument: value}], ...]`, from standard input and prints what the real
launch makes of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Case = tuple[str, Mapping[str, str]]
ENVIRONMENT = {"PATH": os.defpath, "HOME": "/"}


def small(file: str, arguments: Mapping[str, str]) -> Any:
    """By the small launcher."""
    from onboard_estimation.launching import stand_in
    from onboard_estimation.launching.entities import LaunchContext, LogInfo, Process, Shutdown, plan, read
    from onboard_estimation.launching.running import words_of

    find = stand_in._program
    stand_in._program = lambda package, executable: [f"{package}/{executable}" if package else executable]
    context = LaunchContext(arguments, ENVIRONMENT)
    made: list[Any] = []
    with stand_in.served(), tempfile.TemporaryDirectory() as folder:
        try:
            steps = plan(read(Path(file)), context)
        except Exception as error:
            return _fault(ValueError() if context.faults else error)
        finally:
            stand_in._program = find
        if context.faults:
            return _fault(ValueError())
        for step in steps:
            if isinstance(step, LogInfo):
                made.append(["said", step.msg])
            elif isinstance(step, Shutdown):
                made.append(["ended", step.reason])
            else:
                assert isinstance(step, Process)
                words = words_of(step, Path(folder))
                respawn = [step.respawn, step.respawn_delay_s]
                made.append(_process(step.name, words, step.environment, step.cwd, respawn, step.on_exit))
    return made


def real(file: str, arguments: Mapping[str, str]) -> Any:
    """By ROS 2's."""
    from launch import LaunchContext, LaunchDescription
    from launch.actions import IncludeLaunchDescription, LogInfo, Shutdown
    from launch.actions.execute_local import ExecuteLocal
    from launch.launch_description_sources import PythonLaunchDescriptionSource
    from launch.utilities import perform_substitutions, visit_all_entities_and_collect_futures
    from launch_ros.substitutions import ExecutableInPackage

    made: list[Any] = []

    def record(action: Any, context: Any) -> None:
        action.prepare(context)
        described = action.process_description
        own = {name.rpartition("__")[2]: value for name, value in vars(action).items()}
        respawn = [own["respawn"], own["respawn_delay"] or 0.0]
        name, words = described.final_name, described.final_cmd
        environment = dict(described.final_env or os.environ)
        made.append(_process(name, words, environment, described.final_cwd, respawn, own["on_exit"]))

    def find(executable: Any, context: Any) -> str:
        package, name = (perform_substitutions(context, one) for one in (executable.package, executable.executable))
        return f"{package}/{name}"

    ExecuteLocal.execute = record
    ExecutableInPackage.perform = find
    LogInfo.execute = lambda log, context: made.append(["said", perform_substitutions(context, log.msg)])
    Shutdown.execute = lambda end, context: made.append(["ended", end.event.reason])
    context = LaunchContext(argv=[])
    source = PythonLaunchDescriptionSource(file)
    include = IncludeLaunchDescription(source, launch_arguments=list(arguments.items()))
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    try:
        visit_all_entities_and_collect_futures(LaunchDescription([include]), context)
    except Exception as error:
        return _fault(error)
    return made


def _fault(error: Exception) -> list[str]:
    """Sentences of our own launch files are the same; launch's own are worded by each."""
    return ["fault", str(error) if type(error) is RuntimeError and "argument" not in str(error).lower() else ""]


def _process(
    name: str, words: list[str], environment: Mapping[str, str], cwd: str | None, respawn: list[Any], on_exit: Any
) -> dict[str, Any]:
    own = {one: value for one, value in environment.items() if ENVIRONMENT.get(one) != value}
    for one in ("PYTHONUNBUFFERED", "NUMBA_CACHE_DIR"):  # of the small one, and of `import onboard_estimation`
        own.pop(one, None)
    temporary = tempfile.gettempdir()
    return {
        "name": name.rpartition("-")[0],
        "cwd": cwd,
        "words": [_content(one) if one.startswith(f"{temporary}{os.sep}") else one for one in words],
        "environment": {one: Path(value).name if value.startswith(temporary) else value for one, value in own.items()},
        "respawn": respawn,
        "on_exit": _handler(on_exit),
    }


def _content(path: str) -> Any:
    """Of a temporary file, which has another name each time."""
    # ROS 2 writes lists as Python tuples, a tag that nodes pass over.
    return yaml.safe_load(Path(path).read_text().replace("!!python/tuple", ""))


def _handler(on_exit: Any) -> str:
    if on_exit is None or callable(on_exit):
        return type(on_exit).__name__
    reason = on_exit.event.reason if hasattr(on_exit, "event") else on_exit.reason
    return f"{type(on_exit).__name__}: {reason}"


if __name__ == "__main__":
    sys.path[:0] = [one for one in [os.environ.get("ONBOARD_ESTIMATION_LAUNCH_PACKAGES")] if one]
    with contextlib.redirect_stdout(sys.stderr):  # launch logs to standard output
        plans = [real(*case) for case in json.load(sys.stdin)]
    json.dump(plans, sys.stdout)
