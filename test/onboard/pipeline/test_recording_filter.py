"""A recording filtered at once gives what the pipeline gives message by message, or is left to the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tracking import by_steps

from onboard_estimation.base.measurement import Block, Channel, Estimate, FilteredBlock, Measurement, PhaseEvent
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reported import Reported
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.judging.replay import Replayed, at_once, replay
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.trajectories.written_estimates import MOST_ESTIMATES, thinned

Rows = NDArray[np.float64]
Integers = NDArray[np.int64]
SECOND = 1_000_000_000
START_NS = 1_700_000_000 * SECOND
SPACE = StateSpace(vector("height", ("z",), "m"))
SENSORS = ("command", "high", "low")
CHANNELS = tuple(Channel(name, "geometry_msgs/msg/PointStamped", name, command=name == "command") for name in SENSORS)
SHARE = {"command": 0.0, "high": 0.25, "low": 0.75}


class Mixed(NamedTuple):
    mean: float = -1.0
    command: float = 0.0


class Mixture(Estimator[Mixed]):
    """A state that depends on the order of all measurements; an event where it becomes positive."""

    space = SPACE
    phases = ("below", "above")

    def __init__(self, broken: bool = False) -> None:
        self._broken = broken

    def start(self, initial: Estimate | None) -> Mixed:
        return Mixed() if initial is None else Mixed(float(initial.mean[0]))

    def step(self, state: Mixed, measurement: Measurement) -> Step:
        if measurement.sensor == "command":
            return Step(Mixed(state.mean, measurement.value[0]))
        before, share = state.mean, SHARE[measurement.sensor]
        mean = (1.0 - share) * before + share * (measurement.value[0] + state.command)
        stamp = measurement.stamp_ns
        events = (PhaseEvent("rise", stamp - 1000, stamp, 0.001, 1),) if before <= 0.0 < mean else ()
        estimate = Estimate(stamp, np.array([mean]), np.array([[1.0 + mean**2]]))
        return Step(Mixed(mean, state.command), estimate, None, events)

    def filter_block(self, state: Mixed, block: Block) -> FilteredBlock | None:
        assert (np.diff(block.stamps_ns) >= 0).all()
        assert np.isfinite(block.values).all()
        found = by_steps(self, state, block)
        if found is not None and self._broken and len(found.means) > 1:
            found.means[len(found.means) // 2] = np.nan
        return found


@dataclass(frozen=True)
class Nothing:
    """No parameters."""


class MixtureRobot(Reported[Nothing]):
    name = "mixture"
    summary = "mixes what it is told"
    configuration_type = Nothing

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken

    def channels(self, configuration: Nothing) -> tuple[Channel, ...]:
        return CHANNELS

    def estimator(self, configuration: Nothing, name: str) -> Mixture:
        return Mixture(self.broken)

    def truth_specification(self, configuration: Nothing) -> TruthSpecification:
        return TruthSpecification(("body",))

    def true_parts(self, configuration: Nothing, bodies: Mapping[str, Rows]) -> dict[str, Rows]:
        return {"height": bodies["body"][:, 2:3]}


def recording_of(messages: Sequence[tuple[int, int, float]]) -> LoadedRecording:
    """From (stamp after the start in ms, number of the sensor, value) in the order of arrival."""
    series = []
    for number, channel in enumerate(CHANNELS):
        own = [(stamp, value) for stamp, sensor, value in messages if sensor == number]
        stamps = START_NS + 1_000_000 * np.array([stamp for stamp, _ in own], dtype=np.int64)
        values = np.array([[value, 0.0, 0.0] for _, value in own]).reshape(-1, 3)
        series.append(Series(channel, stamps, values))
    arrival = np.array([sensor for _, sensor, _ in messages], dtype=np.int64)
    times = np.arange(START_NS, START_NS + 20 * SECOND, SECOND // 100)
    poses = np.zeros((len(times), 7))
    poses[:, 6] = 1.0
    return LoadedRecording(tuple(series), arrival, {"body": BodyTrack("body", times, poses)}, simulated=False)


def both(recording: LoadedRecording, lag_s: float = 0.2, initial: Estimate | None = None) -> tuple[Replayed, Replayed]:
    """At once as far as possible, and message by message."""
    fast, slow = (
        replay(MixtureRobot(), Nothing(), "default", recording, initial, lag_s, bulk=bulk) for bulk in (True, False)
    )
    return fast, slow


def is_at_once(recording: LoadedRecording) -> bool:
    return at_once(Pipeline(Mixture(), CHANNELS), recording, 0.2, CHANNELS) is not None


def assert_same(fast: Replayed, slow: Replayed) -> None:
    np.testing.assert_array_equal(fast.record.stamps_ns, slow.record.stamps_ns)
    np.testing.assert_array_equal(fast.record.means.ravel(), slow.record.means.ravel())
    np.testing.assert_array_equal(fast.record.covariances.ravel(), slow.record.covariances.ravel())
    assert fast.events == slow.events
    assert fast.messages == slow.messages
    for sensor in {*fast.sensors, *slow.sensors}:
        for key, value in slow.sensors[sensor].items():
            assert fast.sensors[sensor][key] == pytest.approx(value, nan_ok=True), (sensor, key)


def in_turn(count: int = 200, seed: int = 0) -> list[tuple[int, int, float]]:
    """Both sensors with one stamp every 5 ms, and a command every 50 ms."""
    rng = np.random.default_rng(seed)
    messages = []
    for step in range(count):
        if step % 10 == 0:
            messages.append((5 * step, 0, float(rng.normal())))
        messages += [(5 * step, 2, float(rng.normal())), (5 * step, 1, float(rng.normal()))]
    return messages


moments = st.tuples(st.integers(0, 400), st.sampled_from([0, 1, 2]), st.sampled_from([-1.5, -0.5, 0.5, 2.0, np.nan]))


@given(
    st.lists(moments, min_size=1, max_size=60, unique_by=lambda one: one[:2]),
    st.integers(0, 200),
    st.none() | st.integers(-10, 410),
    st.randoms(),
)
@settings(max_examples=80)
def test_it_equals_the_pipeline_or_is_left_to_it(
    messages: list[tuple[int, int, float]], latest_ms: int, start_ms: int | None, random: Any
) -> None:
    """Messages late by up to a lag, some not finite. What comes before a start is left out, but for its command."""
    messages.sort(key=lambda one: one[0] + random.uniform(0.0, latest_ms))
    recording, initial = recording_of(messages), None
    if start_ms is not None:
        initial = Estimate(START_NS + 1_000_000 * start_ms, np.array([0.3]), np.eye(1))
    fast, slow = both(recording, 0.2, initial)
    for sensor, row in slow.sensors.items():
        assert fast.sensors[sensor] == pytest.approx(row, nan_ok=True)
    if len(slow.record.stamps_ns):
        assert_same(fast, slow)
        assert initial is None or slow.record.stamps_ns[0] >= initial.stamp_ns
    if not is_at_once(recording):
        assert not any(np.isfinite(one[2]) for one in messages) or any(row["too_late"] for row in slow.sensors.values())


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([(0, 1, 1.0), (500, 1, 1.0), (200, 2, 1.0)], "too_late"),
        ([(0, 1, 1.0), (5, 1, 1.0), (5, 1, 2.0), (9, 2, 1.0)], "duplicates"),
        ([(0, 1, 1.0), (30_000, 1, 1.0), (5, 1, 1.0), (10, 1, 1.0)], "stray"),
    ],
)
def test_what_needs_more_than_an_order_is_left_to_the_pipeline(
    messages: list[tuple[int, int, float]], why: str
) -> None:
    recording = recording_of(messages)
    assert not is_at_once(recording)
    fast, slow = both(recording)
    assert sum(row[why] for row in slow.sensors.values()) == 1
    assert_same(fast, slow)


def test_a_gap_that_the_pipeline_bridges_and_no_message() -> None:
    gap = [(0, 1, 1.0), (9_000, 1, 1.0), (9_005, 2, 1.0)]
    assert_same(*both(recording_of(gap)))
    assert not is_at_once(recording_of([]))


def test_a_kernel_that_gives_no_number_is_not_believed() -> None:
    recording = recording_of(in_turn())
    found = replay(MixtureRobot(broken=True), Nothing(), "default", recording, None, 0.2)
    assert_same(found, both(recording)[1])


def test_thinned_estimates_are_even_and_no_faster_than_asked() -> None:
    rng = np.random.default_rng(3)
    stamps = START_NS + np.cumsum(rng.integers(500_000, 2_000_000, 50_000))
    assert len(thinned(stamps[:9_000], None)) == 9_000
    assert len(thinned(stamps, np.inf)) == 50_000
    kept = thinned(stamps, 100.0)
    assert kept[0] == 0
    periods = (stamps[kept] - stamps[0]) // 10_000_000
    assert np.all(np.diff(periods) == 1)  # the first stamp of each hundredth of a second
    np.testing.assert_array_equal(thinned(stamps, None), kept)
    many = START_NS + np.arange(2 * MOST_ESTIMATES, dtype=np.int64) * 10_000_000
    assert np.all(np.diff(thinned(many, None)) == 2)
