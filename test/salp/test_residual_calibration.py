"""How sure a filter with a trained model may be, by runs that were held out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from salp_models import a_model

from onboard_estimation.base.errors import UserError
from onboard_estimation.learning import model_file
from salp_estimation.estimators.residual_calibration import UNJUDGED_FACTOR, HeldOut, HeldOutErrors, inflation
from salp_estimation.estimators.residual_filter import ResidualFilter
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.training import residual_training

Array = NDArray[np.float64]


def judged(rng: np.random.Generator, runs: int, scale: float) -> list[HeldOutErrors]:
    """Runs of 400 errors each, so many times as large as stated; most of each is the same all through a run."""
    out = []
    for number in range(runs):
        common = rng.normal(size=(1, 2))
        ratios = scale * (np.sqrt(0.75) * common + 0.5 * rng.normal(size=(400, 2)))
        out.append(HeldOutErrors(f"run {number}", 0.01 * ratios, ratios, (ratios**2).mean(axis=1)))
    return out


@pytest.mark.parametrize("scale", [1.5, 4.0, 12.0])
def test_the_factor_is_that_by_which_errors_are_larger_than_stated(scale: float) -> None:
    found = inflation(judged(np.random.default_rng(1), 200, scale))
    assert found == pytest.approx(scale, rel=0.08)


def test_errors_as_large_as_stated_or_smaller_leave_the_filter_as_it_is() -> None:
    assert inflation(judged(np.random.default_rng(2), 200, 0.5)) == 1.0


def test_few_runs_are_trusted_less() -> None:
    few, many = (inflation(judged(np.random.default_rng(3), 200, 2.0)[:1] * count) for count in (4, 100))
    assert few / many == pytest.approx(np.sqrt((5.0 / 3.0) / (101.0 / 99.0)))
    assert inflation(judged(np.random.default_rng(3), 1, 2.0)) == UNJUDGED_FACTOR


def test_future_runs_are_covered_as_they_should_be() -> None:
    """Factors from five runs each, judged on others of the same kind: redrawn a hundred times."""
    rng = np.random.default_rng(4)
    inside = []
    for _ in range(100):
        factor = inflation(judged(rng, 5, 3.0))
        inside.append(np.mean([(np.abs(one.ratios) < 3.0 * factor).mean() for one in judged(rng, 10, 3.0)]))
    assert np.mean(inside) > 0.98


@pytest.mark.parametrize("count", [2, 3, 5, 13])
def test_each_run_is_judged_by_a_model_that_has_not_seen_it(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [SimpleNamespace(label=f"run {number}") for number in range(count)]
    judged: list[HeldOut] = []

    def learned(configuration: Any, form: str, some: Any) -> tuple[Any, None, list[str]]:
        return {run.label for run in some}, None, []

    def taken(configuration: Any, held_out: list[HeldOut], report: Any) -> list[HeldOutErrors]:
        judged.extend(held_out)
        return []

    monkeypatch.setattr(residual_training, "_learn", learned)
    monkeypatch.setattr(residual_training, "held_out_errors", taken)
    recordings: Any = [f"recording {number}" for number in range(count)]
    residual_training._judged(SalpConfiguration(), runs, recordings, a_model(), lambda done, text: None)  # type: ignore[arg-type]
    if count == 2:  # a model of one run says nothing of what differs between runs
        assert judged == []
        return
    assert [one.label for one in judged] == [run.label for run in runs]
    for one, recording in zip(judged, recordings, strict=True):
        seen: Any = one.model.population
        assert one.recording == recording
        assert one.label not in seen
        assert len(seen) >= count - -(-count // 5)


def test_the_factor_is_kept_with_the_model_and_scales_what_is_published_of_the_joints(tmp_path: Path) -> None:
    path, old = tmp_path / "model.npz", a_model()
    replace(old, inflation=2.5).save(path)
    model = ResidualModel.from_file(path)
    assert model.inflation == 2.5
    links = SalpConfiguration().chain.build().links
    spread = np.random.default_rng(5).normal(size=(8, 8))
    covariance = spread @ spread.T
    start = np.zeros(3), np.zeros(2), np.zeros(3), covariance
    plain, scaled = (ResidualFilter(links, one, 1e-4) for one in (old, model))
    (mean, found), (scaled_mean, scaled_found) = (one.published(one.start(*start)) for one in (plain, scaled))
    np.testing.assert_array_equal(mean, scaled_mean)
    factors = np.array([1.0, 1.0, 1.0, 2.5, 2.5, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(scaled_found, found * np.outer(factors, factors))


def test_a_file_without_a_factor_is_read_and_one_with_a_wrong_factor_is_not(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    a_model().save(path)
    header, arrays = model_file.load(path)
    model_file.save(path, header, {name: value for name, value in arrays.items() if name != "inflation"})
    assert ResidualModel.from_file(path).inflation == 1.0
    model_file.save(path, header, {**arrays, "inflation": np.array([0.5])})
    with pytest.raises(UserError, match="inflation that is no number from 1 on"):
        ResidualModel.from_file(path)
