"""Benchmarks of the hopper: peers have the same numbers, hands are no hops. Nothing is timed."""

from __future__ import annotations

from benchmarks.hopper.accuracy import judged_hands
from benchmarks.hopper.steps import Samples


def test_peers_of_the_step_have_our_numbers() -> None:
    Samples().require_agreement()


def test_hands_are_no_hops_and_what_follows_is_known() -> None:
    found = judged_hands("bounce", 7190)
    assert found.seconds > 100.0
    assert found.apexes == 0
    assert found.covered > 0.97
    assert found.covered_after > 0.95
    assert found.rms_after_m < 0.3
