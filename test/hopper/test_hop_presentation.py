"""What the report of a hopper begins with: phases by name, hops from apex to apex, a drawing over time, figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hopper_samples_for_tests import CONFIGURATION, ROBOT, STANDING_M, hopping, judged

from hopper_estimation.judging.report import hop_phases, phase_of, presented
from hopper_estimation.model.phases import REBOUND, STANCE_UP
from onboard_estimation.contract.result import EvaluationResult, key_figures

SAMPLE_S = 1.0 / 840.0


@pytest.fixture(scope="module")
def result() -> EvaluationResult:
    return judged(hopping(), "bounce")


def test_phases_are_named_and_lie_where_they_happened_and_the_filter_knew_later(result: EvaluationResult) -> None:
    happened: dict[str, list[float]] = {}
    for event in result.phase_events:
        happened.setdefault(event.name, []).append(np.interp(event.stamp_ns, result.stamps_ns, result.time_s))
    phases = hop_phases(result)
    assert list(phases.spans) == ["drop", "stance down", "stance up", "rebound", "startup"]
    for name, begins, ends in (("stance down", "touchdown", "max_squat"), ("rebound", "liftoff", "apex")):
        count = len(phases.spans[name]) - 1
        assert count >= 5
        np.testing.assert_allclose(phases.spans[name][:count, 0], happened[begins][:count], atol=SAMPLE_S)
        np.testing.assert_allclose(phases.spans[name][:count, 1], happened[ends][:count], atol=SAMPLE_S)
    assert phases.cycle == "hop"
    apexes = np.array(happened["apex"])
    np.testing.assert_allclose(phases.cycles[-5:], np.column_stack([apexes[:-1], apexes[1:]])[-5:], atol=SAMPLE_S)
    liftoff = next(event for event in result.phase_events if event.name == "liftoff")
    at = np.searchsorted(result.stamps_ns, liftoff.stamp_ns)
    assert (phase_of(result)[at], phase_of(result, as_seen=False)[at]) == (STANCE_UP, REBOUND)


def test_figures_and_drawing_of_a_hopper(result: EvaluationResult) -> None:
    hops = {"hops": 9, "missed_hops": 1, "extra_hops": 2, "m3_apex_height_mape_percent": 12.94}
    hopper = {"hops": hops, "events": {"touchdown": {"seen_after_median_s": 0.002}}}
    shown = presented(CONFIGURATION, (), replace(result, metrics={**result.metrics, "hopper": hopper}))
    figures = {one.label: (one.value, one.note) for one in key_figures(shown)}
    assert figures["Apex height: error"][0] == "12.9 %"
    assert figures["Hops found"] == ("8 of 9", "and 2 that were none")
    assert figures["Touchdown seen after"][0] == "2 ms"
    assert figures["Height: error"][0].endswith(" cm")
    drawing, height_m = shown.drawing, result.parts["height"].estimate[:, 0]
    assert drawing is not None
    assert drawing.over_time
    np.testing.assert_array_equal(drawing.centre, np.column_stack([result.time_s, height_m]))
    # On level ground the foot does not go below it.
    np.testing.assert_array_equal(drawing.estimate[:, 0, 1], np.maximum(height_m - STANDING_M, 0.0))


def test_the_ground_is_told_wrong_by_what_it_is_off_from_the_simulators() -> None:
    uneven = replace(CONFIGURATION, ground_changes=True)
    simulation: Any = ROBOT.simulation(uneven, "uneven", "1m", np.random.default_rng(3))
    result = judged(simulation.advance(14 * 10**9), "bounce", uneven)
    told = [one.height_m - STANDING_M for one in result.phase_events if one.name == "touchdown"]
    ground = result.metrics["hopper"]["ground"]
    assert ground["touchdowns"] == len(told) >= 5
    wrong_m = told[-1] - simulation._grounds[len(told) - 1]
    assert ground["ground_height_final_error_m"] == pytest.approx(wrong_m, abs=0.01)
    assert np.ptp(simulation._grounds[: len(told)]) > 0.03
