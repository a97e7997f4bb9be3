"""Figures against direct formulas and against evo's own commands; units in the keys; the settling time left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from evo import main_ape, main_rpe
from evo.core.metrics import PoseRelation, Unit
from evo.core.trajectory import PoseTrajectory3D
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from scipy.stats import chi2

from onboard_estimation.contract.result import PartResult
from onboard_estimation.judging.metrics import part_metrics

Rows = NDArray[np.float64]
TIMES = np.arange(0.0, 30.0, 0.05)


def part(
    name: str,
    names: tuple[str, ...],
    units: tuple[str, ...],
    truth: Rows,
    error: Rows,
    stddev: Rows | float = 0.1,
    estimate: Rows | None = None,
) -> PartResult:
    stddev = np.array(np.broadcast_to(stddev, error.shape))
    estimate = truth + error if estimate is None else estimate
    nees, matched = np.sum((error / stddev) ** 2, axis=1), np.isfinite(error).all(axis=1)
    return PartResult(name, names, units, estimate, truth, error, stddev, nees, matched)


def position(rng: np.random.Generator, times: Rows = TIMES) -> PartResult:
    truth = np.column_stack([np.cos(0.3 * times), np.sin(0.4 * times), 0.1 * np.sin(times)])
    error = np.cumsum(rng.normal(0.0, 0.005, truth.shape), axis=0)
    return part("position", ("x", "y", "z"), ("m",) * 3, truth, error)


def trajectory(positions: Rows, times: Rows, heading: Rows | None = None) -> PoseTrajectory3D:
    xyz, turn = np.zeros((2, len(positions), 3))
    xyz[:, : positions.shape[1]] = positions
    turn[:, 2] = 0.0 if heading is None else heading
    return PoseTrajectory3D(xyz, np.roll(Rotation.from_rotvec(turn).as_quat(), 1, axis=1), times)


def by_evo(part: PartResult, times: Rows, frames: int, heading: bool = False) -> tuple[Any, Any]:
    """ATE and RPE as the commands `evo_ape` and `evo_rpe` compute them, RPE from a pose every tenth of a second."""
    d = 2 if heading else 3
    reference, estimate = (
        trajectory(values[:, :d], times, values[:, 2] if heading else None) for values in (part.truth, part.estimate)
    )
    absolute = main_ape.ape(reference, estimate, PoseRelation.translation_part).stats
    for path in (reference, estimate):
        path.reduce_to_ids(np.arange(0, len(times), 2))
    relative = main_rpe.rpe(
        reference, estimate, PoseRelation.translation_part, delta=frames, delta_unit=Unit.frames, all_pairs=True
    ).stats
    return absolute, relative


def planar(rng: np.random.Generator) -> PartResult:
    truth = np.column_stack([np.cos(0.3 * TIMES), np.sin(0.4 * TIMES), 0.5 * TIMES])
    estimate = truth + np.cumsum(rng.normal(0.0, 0.01, truth.shape), axis=0)
    return part("pose", ("x", "y", "heading"), ("m", "m", "rad"), truth, estimate - truth, 0.1, estimate)


@pytest.mark.parametrize("make", [position, planar])
def test_path_figures_are_those_of_evo(make: Callable[[np.random.Generator], PartResult]) -> None:
    """Displacements are seen from the body, so that a wrong heading is an error of the displacement too."""
    one = make(np.random.default_rng(1))
    found = part_metrics(one, TIMES, 0.0)
    absolute, relative = by_evo(one, TIMES, 10, heading=make is planar)
    assert found["position_ate_rmse_m"] == pytest.approx(absolute["rmse"], rel=1e-12)
    assert found["position_ate_max_m"] == pytest.approx(absolute["max"], rel=1e-12)
    assert found["position_rpe_1s_rmse_m"] == pytest.approx(relative["rmse"], rel=1e-9)
    assert ("position_vertical_rmse_m" in found) == (make is position)


def test_path_figures_that_evo_does_not_have() -> None:
    one = position(np.random.default_rng(3))
    found = part_metrics(one, TIMES, 0.0)
    e = one.error
    length = np.linalg.norm(np.diff(one.truth[::2], axis=0), axis=1).sum()
    expected = {
        "position_horizontal_rmse_m": np.sqrt(np.mean(e[:, 0] ** 2 + e[:, 1] ** 2)),
        "position_vertical_rmse_m": np.sqrt(np.mean(e[:, 2] ** 2)),
        "final_position_error_m": np.linalg.norm(e[-1]),
        "final_position_error_percent_of_path": 100.0 * np.linalg.norm(e[-1]) / length,
        "true_path_length_m": length,
        "y_rmse_m": np.sqrt(np.mean(e[:, 1] ** 2)),
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-9)


def test_uneven_stamps_change_neither_displacements_nor_path() -> None:
    """Three gyros stamped a little apart give three estimates in a bunch; and a truth's noise is no path."""
    rng = np.random.default_rng(9)
    uneven = np.sort(np.concatenate([TIMES, TIMES + 0.012, TIMES + 0.03]))
    even, bunched = position(rng), position(rng, uneven)
    for one, times in ((even, TIMES), (bunched, uneven)):
        drift = 0.02 * times[:, None] * np.ones(3)
        found = part_metrics(part("position", one.names, one.units, one.truth, drift), times, 0.0)
        assert found["position_rpe_1s_rmse_m"] == pytest.approx(0.02 * np.sqrt(3.0), rel=1e-9)
        smooth = np.column_stack([np.cos(0.3 * uneven), np.sin(0.4 * uneven), 0.1 * np.sin(uneven)])
        length = np.linalg.norm(np.diff(smooth, axis=0), axis=1).sum()
        assert found["true_path_length_m"] == pytest.approx(length, rel=5e-3)


def test_consistency_of_one_run() -> None:
    rng = np.random.default_rng(5)
    error = rng.normal(size=(200_000, 2)) * [0.1, 0.2]
    times = np.arange(len(error)) * 0.01
    one = part("joint_angles", ("a", "b"), ("rad", "rad"), np.zeros_like(error), error, np.array([0.1, 0.2]))
    found = part_metrics(one, times, 0.0)
    assert found["mean_nees_per_degree_of_freedom"] == pytest.approx(1.0, abs=0.01)
    assert found["coverage_1_sigma"] == pytest.approx(0.6827, abs=0.003)
    assert found["coverage_3_sigma"] == pytest.approx(0.9973, abs=0.0005)
    assert found["nees_in_band_ratio"] == pytest.approx(0.95, abs=0.002)
    low, high = chi2.ppf([0.025, 0.975], 2)
    assert found["nees_in_band_ratio"] == np.mean((one.nees >= low) & (one.nees <= high))
    degrees = np.rad2deg(error)
    assert found["rmse_deg"] == pytest.approx(np.sqrt(np.mean(degrees**2)))  # of both together, and one by one
    assert found["max_abs_deg"] == pytest.approx(np.abs(degrees).max())
    assert found["b_rmse_deg"] == pytest.approx(np.sqrt(np.mean(degrees[:, 1] ** 2)))


def test_the_settling_time_is_left_out() -> None:
    error = np.where(TIMES[:, None] < 6.0, 10.0, 0.01) * np.ones((len(TIMES), 2))
    one = part("joint_angles", ("a", "b"), ("rad", "rad"), np.zeros_like(error), error)
    late = TIMES + 100.0  # the settling time counts from the first estimate
    assert part_metrics(one, late, 6.0)["rmse_deg"] == pytest.approx(np.rad2deg(0.01))
    assert part_metrics(one, late, 5.9)["rmse_deg"] > 10.0
    assert part_metrics(one, TIMES, 0.0)["max_abs_deg"] == pytest.approx(np.rad2deg(10.0))
    assert part_metrics(one, TIMES, 100.0) == part_metrics(one, TIMES, 0.0)  # as the verdict does


def test_displacements_over_one_second_are_not_taken_across_holes() -> None:
    rng = np.random.default_rng(6)
    times = np.concatenate([np.arange(0.0, 5.0, 0.05), np.arange(50.0, 50.5, 0.05), np.arange(80.0, 84.0, 0.05)])
    one = position(rng, times)
    jump = np.where(times < 20.0, 0.0, np.where(times < 70.0, 5.0, -7.0))[:, None]
    one = part("position", one.names, one.units, one.truth, one.error + jump)
    pieces = [(values[20:] - values[:-20])[::2] for values in (one.error[:100], one.error[110:])]
    expected = np.sqrt(np.mean(np.sum(np.vstack(pieces) ** 2, axis=1)))
    assert part_metrics(one, times, 0.0)["position_rpe_1s_rmse_m"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 20, 21])
def test_runs_too_short_for_a_displacement(count: int) -> None:
    one = position(np.random.default_rng(7), TIMES[:count])
    found = part_metrics(one, TIMES[:count], 0.0)
    assert ("position_rpe_1s_rmse_m" in found) == (count > 20)
    assert ("final_position_error_percent_of_path" in found) == (count > 2)  # shorter than the grid
