"""Simulated recordings as ROS 2 bags."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from onboard_estimation.evaluation.bag_writing import BagWriter
from onboard_estimation.evaluation.message_factory import new
from onboard_estimation.robots import Robot, Series
from onboard_estimation.ros.sensor_messages import to_message

EPOCH_NS = 1_767_225_600 * 1_000_000_000
"""Stamp of a simulation's start (2026-01-01 UTC): fixed, so that a seed gives one bag; zero is no time in ROS."""


def simulate_to_bag(
    robot: Robot,
    configuration: Any,
    scenario: str,
    variant: str,
    duration_s: float,
    seed: int,
    path: Path,
    storage: str = "mcap",
    progress: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Simulate and write a bag; what was written, for a summary.

    The bag says in its metadata that it is simulated, and how (`custom_data`).
    """
    progress("motion and sensors")
    recording = robot.simulate(configuration, scenario, variant, duration_s, np.random.default_rng(seed))
    series = [*recording.sensors, *recording.truth]
    progress("writing")
    description = {
        "source": "simulated",
        "robot": robot.name,
        "scenario": scenario,
        "variant": variant,
        "seed": str(seed),
        "onboard_estimation": version("onboard_estimation"),
    }
    with BagWriter(path, cast(Literal["mcap", "sqlite3"], storage), custom_data=description) as writer:
        write_series(writer, series, f"/{robot.name}")
        count = writer.message_count
    return {**description, "path": str(path), "messages": count, "topics": len(series), "duration_s": duration_s}


def write_series(writer: BagWriter, series: list[Series], namespace: str, epoch_ns: int = EPOCH_NS) -> None:
    """Write all messages in the order of their stamps, each topic under the namespace."""
    stamps = np.concatenate([one.stamps_ns for one in series])
    numbers = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
    rows = np.concatenate([np.arange(len(one.stamps_ns)) for one in series])
    for index in np.argsort(stamps, kind="stable"):
        one = series[numbers[index]]
        stamp_ns = int(stamps[index]) + epoch_ns
        message = to_message(new, one.channel, stamp_ns, one.values[rows[index]])
        writer.write(f"{namespace}/{one.channel.topic}", one.channel.message_type, stamp_ns, message)
