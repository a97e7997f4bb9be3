"""`train softrobot`: tuned for the score, kept in a file, and where filters start from."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from grey_box_recordings import grey_box_recording

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.configuration import load, to_mapping
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.judging.judge import judge
from onboard_estimation.learning import model_file
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import HealthReport
from softrobot_estimation.estimators.filter_model import FilterModel
from softrobot_estimation.estimators.particle_estimator import ParticleEstimator
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.training.filter_tuning import Search
from softrobot_estimation.training.training import TrainedFilters, train

CONFIGURED_N_M, MOMENT_N_M = 0.1, 0.004
"""Moments that nobody knows: configured, far too large, and those that the robot really has."""
CONFIGURATION = load(
    SoftRobotConfiguration,
    {"learning.particles": 60, "learning.functions": 12, "filter.moment_stddev_n_m": CONFIGURED_N_M},
)
SEARCHES = {
    "ukf": Search((("filter.moment_stddev_n_m",),), 5, 6.0),
    "marginalized_pf": Search((("learning.length_scale_rad", "learning.length_scale_m"),), 3, 3.0),
}


@pytest.fixture(scope="module")
def recording() -> LoadedRecording:
    found = grey_box_recording(CONFIGURATION, 5.0, 4, disturbance_n_m=MOMENT_N_M)
    count = len(found.series)
    return replace(found, arrival=np.tile(np.arange(count), len(found.arrival) // count))  # as a bag would have it


@pytest.fixture(scope="module")
def trained(recording: LoadedRecording) -> TrainedFilters:
    return train(CONFIGURATION, {"monday": recording}, ["00"], searches=SEARCHES)


@pytest.fixture(scope="module")
def saved(trained: TrainedFilters, tmp_path_factory: pytest.TempPathFactory) -> SoftRobotConfiguration:
    path = tmp_path_factory.mktemp("model") / "mine.npz"
    trained.save(path)
    return with_model(path)


def with_model(path: Path) -> SoftRobotConfiguration:
    return load(SoftRobotConfiguration, to_mapping(CONFIGURATION), {"learning.model": str(path)})


def test_tuning_goes_towards_what_the_robot_has_as_far_as_it_may(trained: TrainedFilters) -> None:
    """Particles start from the noise of the other filter."""
    tuned, particles = trained.tuned["ukf"], trained.tuned["marginalized_pf"]
    assert tuned.at_bounds == ("filter.moment_stddev_n_m",)
    assert tuned.after["filter.moment_stddev_n_m"] == pytest.approx(0.1 * CONFIGURED_N_M)
    assert any("ukf: filter.moment_stddev_n_m went as far as the search may" in one for one in trained.sentences())
    assert tuned.score_after.log_density > tuned.score_before.log_density + 0.1
    assert tuned.evaluations <= SEARCHES["ukf"].evaluations
    assert trained.runs[0].delay_s == pytest.approx(0.005, abs=0.0021)
    assert trained.model.tuned["marginalized_pf"]["filter.moment_stddev_n_m"] == pytest.approx(0.1 * CONFIGURED_N_M)
    assert particles.before["learning.length_scale_rad"] == CONFIGURATION.learning.length_scale_rad
    assert particles.before["filter.moment_stddev_n_m"] == CONFIGURED_N_M
    assert particles.score_after.log_density > particles.score_before.log_density
    scores, parameters = trained.tables()
    assert len(scores.rows) == 4
    assert parameters.rows[0][:3] == ("ukf", "filter.moment_stddev_n_m", f"{CONFIGURED_N_M:g}")
    summary = trained.summary()
    assert summary["runs"]["monday"]["mean_effective_particles"] > 1.0
    assert summary["filters"]["ukf"]["score"]["within_three"] > 0.9


def test_without_anything_better_the_start_is_kept_and_said(recording: LoadedRecording) -> None:
    searches = {"ukf": replace(SEARCHES["ukf"], evaluations=1)}
    report = train(CONFIGURATION, {"monday": recording}, ["00"], "ukf", searches=searches)
    assert report.tuned["ukf"].after["filter.moment_stddev_n_m"] == CONFIGURED_N_M
    assert any("nothing better" in sentence for sentence in report.sentences())
    assert set(report.tuned) == {"ukf"}
    assert report.learned is None


def test_what_was_written_is_read_to_the_last_bit(trained: TrainedFilters, saved: SoftRobotConfiguration) -> None:
    path = Path(saved.learning.model)
    loaded = FilterModel.load(path, saved)
    assert loaded.tuned == trained.model.tuned
    assert loaded.stiffness is not None
    assert trained.learned is not None
    assert loaded.stiffness.basis == trained.learned.basis
    for name in ("weights", "covariances", "constants", "noise_stddevs"):
        np.testing.assert_array_equal(getattr(loaded.stiffness, name), getattr(trained.learned, name))
    ROBOT.check_model(path)
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    for name in ("ukf", "marginalized_pf"):
        configuration = ROBOT.estimator(saved, name).configuration  # type: ignore[attr-defined]
        for parameter, value in trained.model.tuned[name].items():
            assert attrgetter(parameter)(configuration) == value


def test_particles_start_from_the_learned_stiffness(
    trained: TrainedFilters, saved: SoftRobotConfiguration, recording: LoadedRecording
) -> None:
    """What the first particles know of it is its mean, and a deviation that is larger but below the prior's."""
    assert trained.learned is not None
    function, places = trained.learned, trained.path[200:700:50]
    estimator = ROBOT.estimator(saved, "marginalized_pf")
    assert isinstance(estimator, ParticleEstimator)
    pipeline = Pipeline(estimator, ROBOT.channels(saved))
    for measurement in islice(recording.measurements(), 3):
        pipeline.process(measurement)
    begun = estimator.learned(pipeline.state)
    fresh = ParticleEstimator(estimator.configuration)
    unknown = fresh.learned(
        pipeline.state._replace(filtered=fresh.begun(np.zeros(kernels.ROW), np.zeros(kernels.ROW), 0.1, 0.1))
    )
    assert begun is not None
    assert unknown is not None
    (mean, stddev), (learned, learned_stddev) = begun.predict(places), function.predict(places)
    _, prior_stddev = unknown.predict(places)
    assert np.abs(mean - learned).max() < 0.5 * prior_stddev.min()
    assert (stddev > 1.1 * learned_stddev).all()
    assert (stddev < 0.95 * prior_stddev).mean() > 0.8


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"segment.length_m": 0.15}, r"another robot: segment.length_m 0.128, here 0.15"),
        ({"stiffness.bending_n_m_per_rad": 0.2}, "0.15, here 0.2"),
        ({"learning.functions": 20}, "other learning.functions"),
    ],
)
def test_a_model_of_another_robot_is_refused(
    saved: SoftRobotConfiguration, changes: dict[str, float], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        ROBOT.estimator(load(SoftRobotConfiguration, to_mapping(saved), changes), "ukf")


def test_other_files_and_other_filters_are_refused(saved: SoftRobotConfiguration, tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    header, arrays = model_file.load(Path(saved.learning.model))

    def refused(said: str, **changed: np.ndarray | None) -> None:
        kept = {name: one for name, one in {**arrays, **changed}.items() if one is not None}
        model_file.save(path, header, kept)
        with pytest.raises(UserError, match=said):
            ROBOT.estimator(with_model(path), "marginalized_pf")

    place, of_particles = (
        "marginalized_pf/filter.place_share",
        [one for one in arrays if one.startswith("marginalized")],
    )
    refused("place_share: 7.0 is not allowed", **{place: np.array([7.0])})
    refused("2 numbers for filter.place_share", **{place: np.array([0.1, 0.1])})
    refused("unknown parameter", **{"marginalized_pf/filter.guess": np.array([0.1])})
    refused("its stiffness", weights=None)
    refused("trained for ukf, not for marginalized_pf; train it with --form", **dict.fromkeys(of_particles))
    assert ROBOT.estimator(with_model(path), "open_loop") is not None
    model_file.save(path, replace(header, kind="thruster_chain_calibration"), arrays)
    with pytest.raises(UserError, match="of the kind 'thruster_chain_calibration'"):
        ROBOT.check_model(path)


def test_the_report_of_a_run_shows_the_stiffness_and_says_whose_parameters_they_are(
    saved: SoftRobotConfiguration, recording: LoadedRecording
) -> None:
    result = judge(ROBOT, saved, "ukf", recording)
    assert any("in place of the configuration's: filter.moment_stddev_n_m" in note for note in result.notes)
    (section,) = ROBOT.report_sections(saved, recording.series, result)
    stiffness, bending = section.groups[0].panels
    np.testing.assert_array_equal(stiffness.lines["estimate"], result.mean[:, 6])
    assert (stiffness.lines["3 sigma above"] > stiffness.lines["3 sigma below"]).all()
    bent, off_axis = bending.lines["estimate"], np.hypot(result.mean[:, 0], result.mean[:, 1])
    assert np.corrcoef(bent, off_axis)[0, 1] > 0.99  # an arc's tip is half its angle off the axis
    settled = result.time_s >= ROBOT.settle_s
    held, ordered = result.mean[settled, 6], np.argsort(bent[settled])
    third = len(ordered) // 3
    low, high = np.median(held[ordered[:third]]), np.median(held[ordered[-third:]])
    assert f"{low:.3f} N m/rad, in that" in section.sentences[1]
    assert f"{high:.3f} N m/rad: {100.0 * (high / low - 1.0):+.0f} %." in section.sentences[1]
    lost = replace(result, metrics={**result.metrics, "run": {**result.metrics["run"], "times_lost": 2.0}})
    assert [note.verdict for note in ROBOT.notes(CONFIGURATION, (), lost)] == ["lost 2 times and found again"]


def test_effective_particles_and_losses_are_published(recording: LoadedRecording) -> None:
    """In the figures of a run, and live in the diagnostics."""
    result = judge(ROBOT, CONFIGURATION, "marginalized_pf", recording)
    assert not any("in place of" in note for note in result.notes)
    (section,) = ROBOT.report_sections(CONFIGURATION, recording.series, result)
    (picture,) = section.pictures
    assert picture.png.startswith(b"\x89PNG")
    figures = result.metrics["run"]
    assert 1.0 < figures["mean_effective_particles"] <= 60.0
    assert figures["times_lost"] == 0.0
    pipeline = Pipeline(ROBOT.estimator(CONFIGURATION, "marginalized_pf"), ROBOT.channels(CONFIGURATION))
    assert pipeline.health == {}
    for measurement in islice(recording.measurements(), 40):
        pipeline.process(measurement)
    report = HealthReport(new, "soft")(pipeline, (), 1, 1)
    shown = {value.key: value.value for status in report.status for value in status.values}
    assert {"effective_particles", "mean_effective_particles", "times_lost"} < set(shown)
    assert 1.0 < float(shown["effective_particles"]) <= 60.0
