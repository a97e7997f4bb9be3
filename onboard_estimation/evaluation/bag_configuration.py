"""A robot's configuration in the folder of a bag: what is known of that very robot, beside what it recorded.

A converter writes `<robot>.yaml` there; `evaluate`, `train` and all others that read bags take it in the place of the
robot's default file. A parameter file that the user names goes before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onboard_estimation.atomic_file import write_atomically
from onboard_estimation.configuration import to_parameter_file


def configuration_in(bag: Path, robot: str) -> Path | None:
    """The robot's parameter file in the folder of a bag; None where there is none."""
    file = bag / f"{robot}.yaml"
    return file if file.is_file() else None


def write_configuration(bag: Path, robot: str, configuration: Any) -> Path:
    """Write a robot's configuration into the folder of a bag; the file."""
    file = bag / f"{robot}.yaml"
    write_atomically(file, to_parameter_file(configuration).encode(), f"configuration {file}")
    return file
