"""The score that filters are tuned for: a proper one, at the delay of motion capture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from grey_box_recordings import grey_box_recording
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.replay import EstimateSeries
from softrobot_estimation.judging.ground_truth import covariances
from softrobot_estimation.model.configuration import SETTLE_S, SoftRobotConfiguration
from softrobot_estimation.training.filter_tuning import JudgedRun

CONFIGURATION = SoftRobotConfiguration()
CLAIMED = np.diag([4e-6, 1e-6, 2.5e-7]) + 3e-7
LATE_S = 0.007


@pytest.fixture(scope="module")
def run() -> JudgedRun:
    recording = grey_box_recording(CONFIGURATION, 10.0, 3, capture_late_s=LATE_S)
    found = JudgedRun.of(CONFIGURATION, "monday", recording)
    assert found.delay_s == pytest.approx(LATE_S, abs=3e-4)
    return replace(found, delay_s=LATE_S)


def claiming(run: JudgedRun, factor: float, errors: NDArray[np.float64] | None = None) -> EstimateSeries:
    """Estimates at the true instants of the frames, off by draws of what is claimed and of motion capture's noise."""
    rng, count = np.random.default_rng(5), len(run.frames_ns)
    if errors is None:
        noise = CLAIMED + covariances(CONFIGURATION)["position"]
        errors = rng.multivariate_normal(np.zeros(3), noise, count)
    means = np.hstack([run.places + errors, np.zeros((count, 4))])
    claims = np.zeros((count, 7, 7))
    claims[:, :3, :3] = factor * CLAIMED
    return EstimateSeries(run.frames_ns - round(LATE_S * 1e9), means, claims)


def test_a_filter_as_sure_as_it_should_be_has_the_score_of_its_noise_and_any_other_less(run: JudgedRun) -> None:
    record = claiming(run, 1.0)
    score = run.score(CONFIGURATION, record)
    noise = CLAIMED + covariances(CONFIGURATION)["position"]
    judged = run.frames_ns >= run.frames_ns[0] + SETTLE_S * 1e9
    expected = -0.5 * np.linalg.slogdet(2.0 * np.pi * np.e * noise)[1]
    assert score.log_density == pytest.approx(expected, abs=4.0 * np.sqrt(1.5 / judged.sum()))
    assert score.nees == pytest.approx(3.0, abs=4.0 * np.sqrt(6.0 / judged.sum()))
    assert score.within_one == pytest.approx(0.683, abs=0.04)
    assert score.within_three > 0.99
    errors = (record.means[judged, :3] - run.places[judged]) ** 2
    assert score.rmse_m == pytest.approx(np.sqrt(errors.sum(axis=1).mean()))
    for factor in (0.3, 3.0):
        assert run.score(CONFIGURATION, claiming(run, factor)).log_density < score.log_density - 0.1
    nothing = EstimateSeries(np.zeros(0, dtype=np.int64), np.zeros((0, 7)), np.zeros((0, 7, 7)))
    for empty in (nothing, replace(record, stamps_ns=run.frames_ns + round(1e12))):
        assert run.score(CONFIGURATION, empty).log_density == -np.inf


def test_a_run_without_motion_capture_is_refused(run: JudgedRun) -> None:
    deaf = replace(run.recording, tracks={"base": run.recording.tracks["base"]})
    with pytest.raises(UserError, match="tuesday: 0 frames of the tip and 1000 of the base"):
        JudgedRun.of(CONFIGURATION, "tuesday", deaf)
