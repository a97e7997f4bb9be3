# ruff: noqa: F405  (the names of `__all__` come from `api`)
"""State, shape and parameter estimation for robots with sensors on board, live on ROS 2 or from recorded bags.

`import onboard_estimation as oe` offers the names of `__all__`, see docs/python.md; they load when they are first used,
so that a node does not load what only an evaluation needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onboard_estimation.base import kernel_cache

if TYPE_CHECKING:
    from onboard_estimation.api import *  # noqa: F403
    from onboard_estimation.base.errors import UserError
    from onboard_estimation.contract.trained import Learned
    from onboard_estimation.judging.options import JudgeSettings, TuningSettings, WhatIf

__all__ = [
    "JudgeSettings",
    "Learned",
    "Live",
    "LiveEstimate",
    "PartEstimate",
    "Recording",
    "Run",
    "Signal",
    "TuningSettings",
    "UserError",
    "WhatIf",
    "available_robots",
    "campaign",
    "compare",
    "evaluate",
    "identify",
    "inspect",
    "live_estimator",
    "load",
    "simulate",
    "train",
    "tune",
]

kernel_cache.configure_for_numba()


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
