"""What functions are given in Python, as options of the commands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings, from_typed

PathLike = str | os.PathLike[str]


def options_of(
    config: PathLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: PathLike | None = None,
    topics: Mapping[str, str] | None = None,
    namespace: str | None = None,
    mirror_truth: str | None = None,
    align_clock: bool = False,
    robot: str | None = None,
    estimator: str | None = None,
    settings: JudgeSettings | None = None,
) -> EvaluateOptions:
    """Options of `evaluate`; UserError where a value is none."""
    plain = {"namespace": namespace, "mirror_truth": mirror_truth, "align_clock": align_clock}
    files = {name: None if path is None else Path(path) for name, path in {"config": config, "model": model}.items()}
    options = replace(from_typed({**files, **plain}), robot=robot, estimator=estimator)
    mappings = {"overrides": dict(parameters or {}), "topics": dict(topics or {})}
    return replace(options, settings=settings or options.settings, **mappings)


def paths_of(bags: PathLike | Sequence[PathLike]) -> list[Path]:
    """One bag, or several; UserError where there is none."""
    found = [Path(bags)] if isinstance(bags, (str, os.PathLike)) else [Path(bag) for bag in bags]
    if not found:
        raise UserError("no bag is given")
    return found
