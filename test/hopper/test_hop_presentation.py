"""What the report of a hopper begins with: phases by name, hops from apex to apex, a drawing over time, figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_samples import chain_result

from hopper_estimation.judging.report import hop_phases, phase_of, presented
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import (
    APEX,
    EVENTS,
    LIFTOFF,
    MAX_SQUAT,
    PHASE_AFTER,
    STANCE_DOWN,
    STARTUP,
    TOUCHDOWN,
)
from onboard_estimation.base.measurement import PhaseEvent
from onboard_estimation.contract.result import EvaluationResult, key_figures

# Flown up and dropped at 1 s, then three hops: the second apex was not seen.
HAPPENED = (
    (TOUCHDOWN, 1.5),
    (MAX_SQUAT, 1.53),
    (LIFTOFF, 1.57),
    (APEX, 2.0),
    (TOUCHDOWN, 2.5),
    (MAX_SQUAT, 2.53),
    (LIFTOFF, 2.57),
    (APEX, 3.0),
    (TOUCHDOWN, 3.5),
)
SEEN_LATER_S = 0.02
METRICS = {
    "height": {"z_rmse_m": 0.411, "coverage_1_sigma": 0.56, "coverage_3_sigma": 1.0},
    "vertical_velocity": {"vz_rmse_m_per_s": 0.589, "coverage_1_sigma": 0.28, "coverage_3_sigma": 1.0},
    "hopper": {
        "hops": {"hops": 9, "missed_hops": 1, "extra_hops": 2, "m3_apex_height_mape_percent": 12.9},
        "events": {"touchdown": {"seen_after_median_s": 0.002}},
    },
}


def hopper_result(count: int = 4001) -> EvaluationResult:
    time_s = np.linspace(0.0, 4.0, count)
    chain = chain_result(2)
    column = (0.2 + np.abs(np.sin(np.pi * time_s)))[:, None]
    part = replace(
        chain.parts["pose"],
        name="height",
        names=("z",),
        units=("m",),
        estimate=column,
        truth=column,
        error=0.0 * column,
        stddev=0.0 * column + 0.1,
        nees=np.zeros(count),
        matched=np.ones(count, dtype=bool),
    )
    start_ns = 1_700_000_000_000_000_000
    events = tuple(
        PhaseEvent(
            EVENTS[kind],
            start_ns + round(1e9 * at_s),
            start_ns + round(1e9 * (at_s + SEEN_LATER_S)),
            0.001,
            PHASE_AFTER[kind],
        )
        for kind, at_s in HAPPENED
    )
    return replace(
        chain,
        robot="hopper",
        time_s=time_s,
        stamps_ns=start_ns + np.round(1e9 * time_s).astype(np.int64),
        parts={
            "height": part,
            "vertical_velocity": replace(part, name="vertical_velocity", names=("vz",), units=("m/s",)),
        },
        metrics=METRICS,
        phase_events=events,
        drawing=None,
    )


def test_phases_are_named_and_lie_where_they_happened() -> None:
    phases = hop_phases(hopper_result())
    assert list(phases.spans) == ["drop", "stance down", "stance up", "rebound", "startup"]
    np.testing.assert_allclose(phases.spans["stance down"][:2], [[1.5, 1.53], [2.5, 2.53]], atol=0.0011)
    np.testing.assert_allclose(phases.spans["rebound"], [[1.57, 2.0], [2.57, 3.0]], atol=0.0011)
    np.testing.assert_allclose(phases.spans["drop"], [[2.0, 2.5], [3.0, 3.5]], atol=0.0011)
    np.testing.assert_allclose(phases.spans["startup"][0], [0.0, 1.5], atol=0.0011)
    assert phases.cycle == "hop"
    np.testing.assert_allclose(phases.cycles, [[2.0, 3.0]], atol=0.0011)


def test_a_stance_without_an_end_is_none_and_makes_no_hop() -> None:
    result = hopper_result()
    events = tuple(one for one in result.phase_events if one.stamp_ns - result.stamps_ns[0] <= 1.51e9)
    phase = phase_of(replace(result, phase_events=events))
    assert phase[np.searchsorted(result.time_s, 1.53)] == STANCE_DOWN
    assert phase[-1] == STARTUP
    assert hop_phases(replace(result, phase_events=())).cycles.shape == (0, 2)


def test_the_filter_knew_later() -> None:
    result = hopper_result()
    at = int(np.searchsorted(result.time_s, 1.5 + 0.5 * SEEN_LATER_S))
    assert phase_of(result)[at] == STARTUP
    assert phase_of(result, as_seen=False)[at] == STANCE_DOWN


def test_figures_and_drawing_of_a_hopper() -> None:
    result = presented(HopperConfiguration(), hopper_result())
    assert [(one.label, one.value) for one in key_figures(result)] == [
        ("Height: error", "41.1 cm"),
        ("Apex height: error", "12.9 %"),
        ("Hops found", "8 of 9"),
        ("Touchdown seen after", "2.0 ms"),
        ("Errors within 1 / 3 sigma", "28 % / 100 %"),
    ]
    assert key_figures(result)[2].note == "and 2 that were none"
    drawing = result.drawing
    assert drawing is not None
    assert drawing.over_time
    np.testing.assert_array_equal(drawing.centre, np.column_stack([result.time_s, result.parts["height"].estimate]))
    standing_m = HopperConfiguration().robot.standing_height_m
    feet = drawing.estimate[:, 0, 1]
    assert feet.min() == 0.0  # on level ground not below it
    assert feet.max() == pytest.approx(1.2 - standing_m)
