"""The marginalised particle filter on the soft segment against the same written in NumPy: the very same particles."""

from __future__ import annotations

import pytest

from benchmarks.softrobot.steps import (
    COMPARED_STEPS,
    GAINS,
    SEGMENT,
    TOLERANCE,
    Course,
    NumpyFilter,
    agreement,
    tracker,
)


@pytest.mark.slow
def test_particles_are_those_of_the_filter_in_numpy() -> None:
    filter_, course = tracker(200), Course(COMPARED_STEPS)
    assert agreement(filter_, NumpyFilter(filter_, SEGMENT, GAINS), course) < TOLERANCE
