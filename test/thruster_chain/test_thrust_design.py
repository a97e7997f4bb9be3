"""Designed pulses against square waves, in the prediction and in a filter."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from observed_chains import paper_chain, paper_noise, paper_prior, paper_state

from benchmarks.thruster_chain_observability import NOISE, QUICK, SQUARE_WAVES, configured, judge, paper_task, rows
from onboard_estimation.errors import UserError
from salp_estimation.thruster_chain.imu import ImuModel
from salp_estimation.thruster_chain.thrust_design import Task, cost, design


def task(slots: int = 9, **changes: object) -> Task:
    values = {
        "chain": paper_chain(ImuModel.PHYSICAL),
        "states": paper_state()[None],
        "prior_stddev": paper_prior(),
        "noise_density": np.zeros(17),
        "limit_n": 1.0,
        "slot_s": 0.1,
        "slots": slots,
        "rate_hz": 100.0,
    }
    return Task(**{**values, **changes})  # type: ignore[arg-type]


def test_designed_pulses_are_the_best_of_all_where_all_can_be_tried() -> None:
    small = task(slots=2, noise_density=paper_noise())
    patterns = [np.reshape(one, (2, 3)) for one in product((0, 1), repeat=6) if sum(one) <= 3]
    best = min(cost(small.deviations(one)) for one in patterns)
    found = design(small, [np.zeros((2, 3)), np.eye(3)[:2]], 3, np.random.default_rng(0))
    assert found.cost == pytest.approx(best)
    assert np.count_nonzero(found.pattern) <= 3
    assert found.tried < len(patterns) * 3


def test_design_beats_square_waves_with_as_many_pulses_in_a_filter() -> None:
    configuration = configured(ImuModel.PHYSICAL, NOISE["none"])
    whole = paper_task(configuration)
    found = design(whole, [SQUARE_WAVES], 9, np.random.default_rng(0), 400)
    assert found.tried <= 401
    assert np.count_nonzero(found.pattern) <= 9
    assert set(np.unique(found.pattern)) <= {0, 1}
    squares, designed = (judge(configuration, whole, one, 6) for one in (SQUARE_WAVES, found.pattern))
    assert designed.left < 0.5 * squares.left
    # What was predicted about the prior mean is what filters say on other truths.
    assert squares.left == pytest.approx(squares.predicted, rel=0.4)
    assert designed.left == pytest.approx(designed.predicted, rel=0.4)


def test_joints_stay_within_their_travel_and_thrusters_turn_only_if_they_can() -> None:
    tight = task(slots=4, joint_travel_rad=np.deg2rad(6.0))
    start = np.zeros((4, 3), dtype=int)
    start[0] = 1
    assert tight.deviations(start).min() > 1.0
    found = design(tight, [start], 4, np.random.default_rng(0), 300)
    assert (found.shares <= 1.0).all()
    turning = design(task(slots=3, reversible=True), [start[:3]], 3, np.random.default_rng(0), 200)
    assert turning.cost <= design(task(slots=3), [start[:3]], 3, np.random.default_rng(0), 200).cost + 0.5


def test_worst_of_several_states_counts() -> None:
    states = np.stack([paper_state(), paper_state(3)])
    alone = [task(states=states[k : k + 1]).deviations(SQUARE_WAVES) for k in range(2)]
    together = task(states=states).deviations(SQUARE_WAVES)
    np.testing.assert_array_equal(together, max(alone, key=lambda one: one.max()))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError, match="9 pulses does not fit 9 slots of 3 thrusters with 8 pulses"):
        design(task(), [SQUARE_WAVES], 8, np.random.default_rng(0))
    with pytest.raises(UserError, match="thrust of 0 N in 9 slots"):
        task(limit_n=0.0)


@pytest.mark.slow
def test_benchmark_reports_an_improvement_for_both_imus() -> None:
    found = [row for row in rows(QUICK) if "met" in row]
    assert len(found) == 4
    assert all(row["met"] for row in found if "noise: none" in row["case"])
