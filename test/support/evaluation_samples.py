"""Simulated recordings as lists of messages to be spoilt, and the command line as a function."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bag_samples import Sample, write_rosbag2
from salp_recordings import simulate

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.series import Recording
from onboard_estimation.cli import main
from onboard_estimation.judging.simulated_bags import EPOCH_NS
from onboard_estimation.ros.sensor_messages import to_message
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gaits import GAITS

CONFIGURATION = SalpConfiguration()
LINKS = CONFIGURATION.chain.link_names


class Outcome(NamedTuple):
    """What a command gave back."""

    code: int
    out: str
    error: str


def command(*words: str | Path) -> Outcome:
    """Run `onboard-estimation` in this process."""
    out, error = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(error):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Outcome(code, out.getvalue(), error.getvalue())


def refusal(*words: str | Path) -> str:
    """The one line with which a command refuses: exit code 2, nothing on standard output, no traceback."""
    outcome = command(*words)
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    lines = outcome.error.splitlines()
    assert len(lines) == 1, outcome.error
    assert lines[0].startswith("error: ")
    return lines[0].removeprefix("error: ")


def within(said: str) -> dict[str, float]:
    """Errors of a verdict by part, in the units that it shows."""
    return {part: float(error) for part, error in re.findall(r"(\w+) within ([\d.e-]+) \w+", " ".join(said.split()))}


@cache
def salp_recording(duration_s: float = 10.0, gait: str = "forward", seed: int = 1) -> Recording:
    """A simulated LandSalp; not to be changed."""
    return simulate(CONFIGURATION.chain, GAITS[gait], duration_s, np.random.default_rng(seed))


def messages_of(recording: Recording, namespace: str = "/salp", epoch_ns: int = EPOCH_NS) -> list[Sample]:
    """A recording's messages in the order of their stamps, each logged at its stamp."""
    samples = [
        Sample(
            f"{namespace}/{one.channel.topic}",
            one.channel.message_type,
            stamp,
            to_message(new, one.channel, stamp, row),
        )
        for one in (*recording.sensors, *recording.truth)
        for stamp, row in zip((one.stamps_ns + epoch_ns).tolist(), one.values, strict=True)
    ]
    return sorted(samples, key=lambda sample: sample.log_time_ns)


def salp_messages(duration_s: float = 10.0, namespace: str = "/salp", seed: int = 1) -> list[Sample]:
    """Messages of a simulated LandSalp, made anew, so that a test may change them."""
    return messages_of(salp_recording(duration_s, seed=seed), namespace)


def spoilt(samples: Iterable[Sample], topic: str, change: Callable[[int, Any], None]) -> list[Sample]:
    """The messages, with `change(number, message)` applied to those of topics that end so."""
    samples = list(samples)
    for number, sample in enumerate(sample for sample in samples if sample.topic.endswith(topic)):
        change(number, sample.message)
    return samples


def write(path: Path, samples: list[Sample], **options: Any) -> Path:
    """A bag of the messages, written by `rosbags`."""
    return write_rosbag2(path, samples, **options)
