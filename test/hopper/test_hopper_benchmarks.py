"""Benchmarks of the hopper: filters go through every piece, peers have the same numbers. Nothing is timed."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.hopper import paper_filters
from benchmarks.hopper.accuracy import judged_hands
from benchmarks.hopper.paper_filters import Size, Subject
from benchmarks.hopper.steps import Samples


@pytest.mark.slow
def test_a_trained_filter_goes_through_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAINING_S", "TEST_S"):
        monkeypatch.setattr(paper_filters, name, {"1m": 9.0})
    size = Size(1, 1, 1, 0.0)
    subject = Subject("kf1", "kf1", "kf1", delays=False)
    entry, errors, within = paper_filters.judged(subject, 0, size)
    assert np.isfinite(errors).all()
    assert (within[..., 0] >= within[..., 2]).all()
    assert (within[..., 2] >= within[..., 1]).all()
    again = paper_filters.judged(subject, 0, size)
    assert again.errors == errors
    _, untrained, _ = paper_filters.judged(Subject("dr1", "", "dr1"), 0, size)
    assert untrained != errors
    m3, off_m = paper_filters.controlled(entry, 5950, "1m", 4.0)
    assert len(m3) == len(off_m) > 1
    monkeypatch.setattr(paper_filters, "GROUND_S", 9.0)
    uneven = paper_filters.ground_errors(entry, "uneven", 5950)
    assert {len(one) for one in uneven.values()} == {len(uneven["eq. (12)"])}
    assert all(one[0] == 0.0 and np.isfinite(one).all() for one in uneven.values())


def test_peers_of_the_step_have_our_numbers() -> None:
    Samples().require_agreement()


def test_hands_are_no_hops_and_what_follows_is_known() -> None:
    found = judged_hands("bounce", 7190)
    assert found.seconds > 100.0
    assert found.apexes == 0
    assert found.covered > 0.97
    assert found.covered_after > 0.95
    assert found.rms_after_m < 0.3
