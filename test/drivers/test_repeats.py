"""Frozen readings, by counter and by values; side tasks that fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.repeats import CountedRepeats
from onboard_estimation.pipeline.aside import Aside


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(0, 3), st.integers(1, 60))
def test_blocks_and_single_readings_find_the_same_repeats(counters: list[int], by_chance: int, block: int) -> None:
    values = np.array([[one, np.nan] for one in counters], dtype=np.float64).reshape(-1, 2)
    blocks, whole = CountedRepeats(by_chance), CountedRepeats(by_chance)
    found = [kept for start in range(0, len(values), block) for kept in blocks.fresh(values[start : start + block])]
    runs, run = [], 0
    for before, now in zip([None, *counters], counters, strict=False):
        run = run + 1 if before == now else 0
        runs.append(run <= by_chance)
    assert found == whole.fresh(values).tolist() == runs
    assert blocks.count == len(counters) - sum(runs)


@pytest.mark.parametrize(
    ("fresh", "repeated", "said"), [(0, 1000, "all the time"), (600, 400, "400 of"), (990, 10, "")]
)
def test_a_frozen_sensor_is_told_and_one_read_a_little_often_is_not(fresh: int, repeated: int, said: str) -> None:
    repeats = CountedRepeats()
    repeats.fresh(np.array([0]))
    assert not repeats.told("imu", "power it off and on")
    repeats.fresh(np.concatenate((np.arange(1, fresh + 1), np.full(repeated, fresh))))
    told = repeats.told("imu", "power it off and on")
    assert (said in told) if said else not told
    assert not repeats.per_fresh  # it stood still for longer than between others
    assert not repeats.told("imu", "power it off and on")


def test_a_task_on_a_full_disk_is_given_up_once_and_the_main_one_goes_on() -> None:
    told: list[str] = []
    aside = Aside("raw_log", told.append)
    with Path("/dev/full").open("wb", buffering=0) as full:
        assert [aside(full.write, b"sample") for _ in range(3)] == [False, False, False]
    assert told == ["raw_log has ended: No space left on device; all else goes on"]
    assert aside.trouble == told[0]
