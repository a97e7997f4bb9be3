"""What one datagram may do to a stream, and what a network that loses may: numbers, repeats, answers of a server."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drivers.motion_capture.optitrack_answers import HOLDS_S, Answers
from drivers.motion_capture.stream import StreamHealth

PERIOD_NS, STEP_S = 4_000_000, 0.05


def report(health: StreamHealth) -> tuple[bytes, ...]:
    """Levels of the statuses of the stream and its bodies."""
    return tuple(health.statuses(lambda part, level, text, values: level, "", None, {}))


def fed(health: StreamHealth, numbers: list[int]) -> list[int]:
    """Those that are taken of numbers that come at 250 Hz; the exposure is told for each as its place in the list."""
    return [number for place, number in enumerate(numbers) if health.follows(number, float(place), place * PERIOD_NS)]


@settings(max_examples=25)
@given(st.sets(st.integers(2, 80), max_size=40), st.integers(0, 60), st.integers(-(2**31), 2**31 - 1))
def test_one_forged_number_costs_five_frames_at_most_and_no_count(lost: set[int], at: int, forged: int) -> None:
    clean, health = StreamHealth(100.0, lambda *_: None), StreamHealth(100.0, lambda *_: None)
    sent = [number for number in range(1000, 1100) if number - 1000 not in lost]
    assert fed(clean, sent) == sent
    assert clean.counts["lost"] == sent[-1] - sent[0] + 1 - len(sent)
    if forged in sent:
        return
    taken = fed(health, [*sent[:at], forged, *sent[at:]])
    assert set(sent) - set(taken) <= set(sent[at : at + 4])
    assert taken[-1] == sent[-1]
    assert at == 0 or health.counts["lost"] == clean.counts["lost"]  # the first of all follows none
    assert health.counts["frames"] == len(sent) + 1


@settings(max_examples=25)
@given(st.integers(1000, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_numbers_that_are_counted_anew_are_confirmed_by_five_and_none_is_lost(before: int, after: int) -> None:
    health = StreamHealth(100.0, lambda *_: None)
    if -100 <= after - before <= 200:
        return
    taken = fed(health, [*range(before, before + 20), *range(after, after + 20)])
    assert taken == [*range(before, before + 20), *range(after + 4, after + 20)]
    assert (health.counts["lost"], health.counts["doubted"]) == (0, 4)


@pytest.mark.parametrize("device_time", [None, 7.0], ids=["number", "time"])
def test_a_frame_that_is_sent_again_and_again_is_left_out_and_told(device_time: float | None) -> None:
    said: list[str] = []
    health = StreamHealth(100.0, lambda sentence, is_bad: said.append(sentence))
    for number in range(5):
        assert health.follows(number, None if device_time is None else float(number), 0)
    again = [health.follows(4 if device_time is None else number, device_time, 0) for number in range(5, 105)]
    assert sum(again) == (device_time is not None)
    report(health)
    assert not any(health.follows(4 if device_time is None else 5, device_time, 0) for _ in range(9))
    assert report(health) == (b"\1",)
    assert len(said) == 1  # though it lasts
    assert "repeat the one before" in said[0]
    assert [health.follows(number, float(number), 0) for number in range(200, 240)][-1]
    report(health)
    assert said[-1] == "the stream gives new frames again"


def test_a_body_that_keeps_its_pose_to_the_last_digit_is_left_out_and_told_and_one_too_far_is_none() -> None:
    said: list[str] = []
    health = StreamHealth(100.0, lambda sentence, is_bad: said.append(sentence))
    rng, names = np.random.default_rng(1), ("live", "lost", "far")
    tracked, turns = np.ones(3, dtype=np.bool_), np.tile([0.0, 0.0, 0.0, 1.0], (3, 1))
    seen = []
    for instant in range(50):
        assert health.follows(instant, None, 0)
        positions = np.tile([[1e-6 * rng.standard_normal()], [0.2], [58.0 * (instant % 2)]], 3)
        poses = np.hstack([positions, turns])
        seen.append(health.placed(instant, instant, names, None, poses, tracked).tracked.tolist())
    assert np.sum(seen, axis=0).tolist() == [50, 11, 25]  # the same in ten in a row may be by chance
    assert (health.counts["frozen_poses"], health.counts["invalid_poses"]) == (39, 25)
    assert report(health) == (b"\1", b"\0", b"\1", b"\1")
    report(health)
    assert [one.partition(" to")[0] for one in said] == ["lost: the same position"]  # once


@settings(max_examples=25)
@example(changes=[8.0], drops=[False] * 5 + [True] * 35, forged_s=0.0, flagged=False)
@given(
    changes=st.lists(st.floats(1.0, 40.0), max_size=3),
    drops=st.lists(st.booleans(), min_size=40, max_size=40),
    forged_s=st.floats(0.0, 40.0),
    flagged=st.booleans(),
)
def test_what_holds_was_true_at_most_so_long_ago_whatever_is_lost_and_with_one_forged_answer(
    changes: list[float], drops: list[bool], forged_s: float, flagged: bool
) -> None:
    """In steps of a loop; an answer comes in the next one."""
    answers: Answers[int] = Answers(2.0)
    truth: Callable[[float], int] = lambda at_s: sum(one <= at_s for one in changes)  # noqa: E731
    held, asked, is_forged, coming = -1, 0, False, None
    for now_s in np.arange(0.0, 60.0, STEP_S).tolist():
        if not is_forged and now_s >= forged_s:
            is_forged = True
            assert not (answers.take(99, now_s) and answers.is_certain(now_s))
        if coming is not None and answers.take(coming, now_s) and answers.is_certain(now_s):
            held = coming
        coming = None
        if flagged and truth(now_s) != truth(now_s - STEP_S):
            answers.doubt(now_s)
            assert not answers.is_certain(now_s)
        if answers.is_due(now_s):
            coming = None if asked < len(drops) and drops[asked] else truth(now_s)
            asked += 1
        if answers.is_certain(now_s):
            assert held in {truth(now_s), truth(now_s - HOLDS_S - STEP_S)} | {
                truth(one) for one in changes if now_s - HOLDS_S <= one <= now_s
            }
    assert answers.is_certain(59.9)
    assert held == truth(60.0)
    assert asked < 120  # not asked all the time


def test_a_frame_behind_a_newer_one_is_left_out_as_late() -> None:
    health = StreamHealth(100.0, lambda *_: None)
    assert fed(health, [1, 2, 4, 3, 5]) == [1, 2, 4, 5]
    assert (health.counts["late"], health.counts["doubted"]) == (1, 0)
