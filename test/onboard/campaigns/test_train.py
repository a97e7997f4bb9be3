"""Training from bags, evaluation with a trained model, motion capture as a beacon: as commands and as functions."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import command, refusal
from salp_recordings import on_hardware

from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.filtering.planar import planar_covariance, planar_pose
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings
from onboard_estimation.judging.simulated_bags import write_series
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.judging.what_if import with_beacon
from onboard_estimation.report import run_folder
from onboard_estimation.report.run_folder import content_hashes
from salp_estimation.estimators.paper_filter import read_model
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT
from salp_estimation.training import residual_training

SECONDS = 14.0
GAITS = ("forward", "backward", "left", "turning")
LINKS = ("link_1", "link_2", "link_3")
CONFIGURATION = SalpConfiguration()


def write(recording: Recording, path: Path, without: tuple[str, ...] = (), renamed: Mapping[str, str] = {}) -> Path:
    """A bag of a recording, some topics left out or called otherwise."""
    series = [one for one in (*recording.sensors, *recording.truth) if one.channel.topic not in without]
    series += [
        replace(one, channel=replace(one.channel, topic=renamed[one.channel.topic]))
        for one in series
        if one.channel.topic in renamed
    ]
    with BagWriter(path, custom_data={"source": "simulated"}) as writer:
        write_series(writer, series, "/salp")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bags by the names of the gaits, `unseen` of a run that nothing was trained with, and `model.npz` with its
    `model.json`."""
    path = tmp_path_factory.mktemp("training")
    for number, gait in enumerate(GAITS):
        write(on_hardware(gait, 300 + number, SECONDS), path / gait)
    write(on_hardware("left", 7, 9.0), path / "unseen")
    bags = [path / gait for gait in GAITS]
    outcome = command("train", "salp", *bags, "--form", "local", "--output", path / "model.npz", "--json")
    assert outcome.code == 0, outcome
    (path / "model.json").write_text(outcome.out)
    return path


def recorded(gait: str, seed: int, duration_s: float) -> LoadedRecording:
    return from_simulator(on_hardware(gait, seed, duration_s), LINKS)


# Training.


def test_training_says_what_it_found_and_with_what(folder: Path) -> None:
    said = json.loads((folder / "model.json").read_text())
    assert said["form"] == "local"
    assert said["points"] == sum(run["points"] for run in said["runs"].values())
    hashes = content_hashes({gait: folder / gait for gait in GAITS})
    assert {name: run["sha256"] for name, run in said["runs"].items()} == hashes
    found = {one["name"]: one for one in said["parameters"]}
    # The scenario draws dry friction of wheels and joints, a harness and a lag: all act against the motion.
    for name in ("dry friction along", "dry friction across", "harness stiffness", "dry friction of the joint"):
        values, stddevs = np.array(found[name]["values"]), np.array(found[name]["standard_deviations"])
        assert (values > 2.0 * stddevs).all(), found[name]
    assert len(said["inputs"]) == 5
    assert said["flipped_frames_left_out"] == dict.fromkeys(LINKS, 0)
    model = read_model(folder / "model.npz")
    assert isinstance(model, ResidualModel)
    assert model.header.training.hashes == tuple(hashes.values())
    page = Path(said["page"]).read_text()
    assert page.count("<table>") == 5
    assert all(text in page for text in (*hashes.values(), *GAITS, "SIMULATED", "dry friction across"))
    # Every run was held out, and the filter without a model, commands and a straight chain stand beside it.
    assert [one["run"] for one in said["held_out"]] == [GAITS[int(k)] for k in model.held_out[:, 0]]
    assert set(GAITS) == {one["run"] for one in said["held_out"]}
    lost = [one["run"] for one in said["held_out"] if one["assumed_straight_rmse_deg"] < one["trained_rmse_deg"]]
    words = f"on {len(lost)} than a chain assumed straight"
    assert any(words in note for note in said["notes"]) == bool(lost)


@pytest.mark.slow
def test_an_interrupted_training_gives_the_model_of_an_uninterrupted_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after two of the trainings without some of the runs."""
    monkeypatch.setenv("ONBOARD_ESTIMATION_CACHE_DIR", str(tmp_path / "cache"))
    learn, calls = residual_training.fit_population, []

    def interrupted(*words: Any) -> Any:
        calls.append(words)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return learn(*words)

    monkeypatch.setattr(residual_training, "fit_population", interrupted)
    bags = [folder / gait for gait in GAITS]
    for code in (130, 0):
        assert command("train", "salp", *bags, "--form", "local", "--output", tmp_path / "model.npz").code == code
    assert len(calls) == 1 + len(GAITS) + 1
    models = [np.load(path / "model.npz") for path in (folder, tmp_path)]
    for name in set(models[0]) - {"header", "checksum"}:
        np.testing.assert_array_equal(*(model[name] for model in models))


def test_the_model_helps_with_a_run_that_it_has_not_seen_which_can_be_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    model = folder / "model.npz"
    outcome = command("evaluate", folder / "unseen", "--model", model, "--output", folder / "learned", "--json")
    learned = json.loads(outcome.out)
    plain = judge(ROBOT, CONFIGURATION, "ukf", recorded("left", 7, 9.0))
    assert learned["metrics"]["joint_angles"]["rmse_deg"] < plain.metrics["joint_angles"]["rmse_deg"]
    assert any("Residual model of the form local" in note for note in learned["notes"])
    run = json.loads((folder / "learned" / "run.json").read_text())
    assert run["inputs_sha256"]["model"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert f"--model {shlex.quote(str(model))}" in learned["command"]
    configuration = load_configuration(ROBOT, EvaluateOptions(config=folder / "learned" / "config.yaml"))
    assert configuration.residual_model == str(model.absolute())


# Bad input.


def train_refusal(folder: Path, *words: str | Path) -> str:
    return refusal("train", "salp", *words, "--output", folder / "refused.npz")


LONGER = {one.format(3): one.format(4) for one in ("imu/link_{}/data_raw", "ground_truth/link_{}/pose")}


@pytest.mark.parametrize(
    ("without", "renamed", "said"),
    [
        (("ground_truth/link_2/pose",), {}, "no ground truth of link_2"),
        (("actuators/command",), {}, "actuators/command missing"),
        ((), LONGER, "the bag also holds IMU and ground truth of link_4"),
    ],
)
def test_bags_that_do_not_do_are_named(
    without: tuple[str, ...], renamed: Mapping[str, str], said: str, folder: Path, tmp_path: Path
) -> None:
    bad = write(on_hardware("left", 1, 2.0), tmp_path / "bad", without, renamed)
    refused = train_refusal(folder, folder / "forward", bad)
    assert refused.startswith(str(bad))
    assert said in refused
    assert not (folder / "refused.npz").exists()


@pytest.mark.parametrize("command", ["train", "identify"])
def test_truth_that_contradicts_a_gyro_teaches_nothing(command: str, tmp_path: Path) -> None:
    turning = on_hardware("turning", 1, SECONDS)
    for one in turning.truth:
        one.values[:, 3:] = [0.0, 0.0, 0.0, 1.0]
    bad = write(turning, tmp_path / "bad")
    refused = refusal(command, "salp", bad, "--output", tmp_path / "refused.npz")
    assert refused.startswith(f"{bad}: The orientation of ground_truth/link_")
    assert "it never changes, while the gyro turns" in refused
    assert not (tmp_path / "refused.npz").exists()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (".", "is a folder; name a file in it"),
        ("thesis.txt", "exists and is no model"),
        ("thesis.txt/m.npz", "thesis.txt is no folder"),
    ],
)
def test_places_where_no_model_can_be_written(place: str, said: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    words = ("train", "salp", folder / "forward", folder / "left", "--output")
    assert said in refusal(*words, tmp_path / place)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["forward"], "of 1 runs at 5 Hz: at least 200 points of 2 runs are needed, 40 s of motion"),
        (["forward", "left"], "points of 2 runs at 5 Hz: at least 200"),
        (["forward", "forward"], "forward is given twice"),
        (["forward", "nothing"], "nothing does not exist"),
        (["forward", "left", "--form", "gp"], "--form gp: salp has calibrated, local, paper"),
        (["forward", "left", "--mirror-truth", "y"], "gyros and motion capture turn against each other"),
    ],
)
def test_training_refuses(words: list[str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert said in train_refusal(folder, *words)


def test_a_model_that_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    model, evaluating = folder / "model.npz", ("evaluate", folder / "unseen", "--output", tmp_path / "run")
    said = refusal(*evaluating, "--model", model, "--set", "chain.wheel_radius_m=0.04")
    assert "trained for another configuration of salp" in said
    renamed: tuple[str, ...] = ("--set", "chain.link_names=[link_1, link_2, tail]")
    renamed += ("--topic", "imu/tail/data_raw=/salp/imu/link_3/data_raw")
    said = refusal(*evaluating, "--model", model, *renamed)
    assert "trained for the sensors imu/link_1, imu/link_2, imu/link_3, there are imu/link_1, imu/link_2, imu/t" in said
    assert "no such file" in refusal(*evaluating, "--model", tmp_path / "nope.npz").lower()
    (tmp_path / "text.npz").write_text("not a model")
    assert "not a model, or damaged" in refusal(*evaluating, "--model", tmp_path / "text.npz")
    assert "give one of them" in refusal(*evaluating, "--model", model, "--set", "residual_model=other.npz")
    assert "strapdown takes no trained model" in refusal(*evaluating, "--model", model, "--robot", "strapdown")


# Outside the training data.


def evaluated(model: Path, **settings: Any) -> EvaluationResult:
    configuration = load_configuration(ROBOT, EvaluateOptions(model=model))
    return judge(ROBOT, configuration, "ukf", recorded("left", 7, SECONDS), JudgeSettings(**settings))


@pytest.fixture(scope="module")
def outside(folder: Path) -> EvaluationResult:
    """Of a model that says it was trained as if alpha_2 had hardly been moved."""
    model = read_model(folder / "model.npz")
    assert isinstance(model, ResidualModel)
    training = model.header.training
    lowest, highest = list(training.input_lowest), list(training.input_highest)
    lowest[1], highest[1] = -0.02, 0.02
    narrow = replace(training, input_lowest=tuple(lowest), input_highest=tuple(highest))
    replace(model, header=replace(model.header, training=narrow)).save(folder / "narrow.npz")
    return evaluated(folder / "narrow.npz")


def test_a_run_outside_the_training_data_is_named_in_the_verdict(outside: EvaluationResult) -> None:
    angle = outside.parts["joint_angles"].estimate[:, 1]
    share = np.mean(np.abs(angle) > 0.02 + 0.05 * 0.04)
    assert outside.verdict.endswith(f"; {100.0 * share:.2g} % of the run is outside the training data (alpha_2)")
    assert any(f"outside its training data: alpha_2 {100.0 * share:.3g} %" in note for note in outside.notes)


# Motion capture as a beacon.


def test_a_beacon_bounds_the_drift(folder: Path, outside: EvaluationResult) -> None:
    bounded = evaluated(folder / "model.npz", beacon_s=2.0)
    heading = [np.rad2deg(np.abs(one.parts["pose"].error[one.time_s > 2.1, 2])).max() for one in (outside, bounded)]
    assert heading[1] < 0.5 < heading[0]  # an initial error of degrees, which nothing else can take away
    pose, after = bounded.parts["pose"], bounded.time_s > 2.1
    assert (np.abs(pose.error[after]) < 4.0 * pose.stddev[after]).mean() > 0.98
    assert "Motion capture as a beacon: the pose every 2 s, 6 times." in bounded.notes
    assert bounded.sensors["set_pose"]["received"] == 6


def test_a_beacon_is_the_truth_with_its_noise_in_the_order_of_stamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of motion capture that sees the robot better from the side than from behind."""
    noise = np.array([[4e-4, 1e-5, 0.0], [1e-5, 1e-6, 2e-6], [0.0, 2e-6, 1e-4]])
    uneven = replace(ROBOT.truth_specification(CONFIGURATION), covariances={"pose": noise})
    monkeypatch.setattr(type(ROBOT), "truth_specification", lambda *_: uneven)
    plain = recorded("turning", 3, 3.0)
    found = with_beacon(ROBOT, CONFIGURATION, plain, 0.5, 0.1)
    beacon = found.series[-1]
    first_ns = np.median([one.stamps_ns.min() for one in plain.series])
    np.testing.assert_array_equal(beacon.stamps_ns, first_ns + 500_000_000 * np.arange(1, len(beacon.stamps_ns) + 1))
    assert len(beacon.stamps_ns) >= 5
    heard = [(one.stamp_ns, one.sensor) for one in found.measurements()]
    assert len(heard) == len(plain.arrival) + len(beacon.stamps_ns)
    assert [stamp for stamp, _ in heard] == sorted(stamp for stamp, _ in heard)
    links = {link: plain.tracks[link].at(beacon.stamps_ns, 0.1)[0] for link in LINKS}
    true = ROBOT.true_parts(CONFIGURATION, links)["pose"]
    np.testing.assert_allclose(planar_pose(beacon.values[:, :7]), true, atol=1e-12)
    for value, heading in zip(beacon.values, true[:, 2], strict=True):
        np.testing.assert_allclose(planar_covariance(value[7:], heading), noise, atol=1e-15)
        assert not value[7:].reshape(6, 6)[2:5].any()  # unknown


def test_beacons_that_cannot_be() -> None:
    plain = recorded("forward", 3, 1.0)
    early = {link: replace(t, stamps_ns=t.stamps_ns[:5], values=t.values[:5]) for link, t in plain.tracks.items()}
    for recording, period_s, said in (
        *((plain, period_s, r"must be a period of 0\.01 s or more") for period_s in (0.0, -1.0, np.nan, np.inf)),
        (plain, 30.0, r"the run has 1\.0 s only"),
        (replace(plain, tracks={}), 0.5, "which of link_1, link_2, link_3 is not in the recording"),
        (replace(plain, tracks=early), 0.5, r"none of the 1 instants for it in 1\.0 s has a ground truth"),
    ):
        with pytest.raises(UserError, match=said):
            with_beacon(ROBOT, CONFIGURATION, recording, period_s, 0.1)
    assert with_beacon(ROBOT, CONFIGURATION, plain, None, 0.1) is plain
    strapdown = find_robot("strapdown")
    configuration = load_configuration(strapdown, EvaluateOptions())
    with pytest.raises(UserError, match="strapdown does not listen to set_pose"):
        with_beacon(strapdown, configuration, plain, 0.5, 0.1)


# The live node.


@pytest.mark.live
@pytest.mark.usefixtures("ros_domain")
def test_the_live_node_takes_the_model_at_its_start_only(folder: Path) -> None:
    import rclpy
    from rclpy.parameter import Parameter
    from rclpy.signals import SignalHandlerOptions

    from salp_estimation.estimators.residual_estimator import ResidualEstimator
    from salp_estimation.nodes import SalpPoseShapeNode

    model = ["--ros-args", "-r", "__ns:=/salp", "-p", f"residual_model:={folder / 'model.npz'}"]
    rclpy.init(args=model, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = SalpPoseShapeNode()
        assert isinstance(node.pipeline.estimator, ResidualEstimator)
        outcome = node.set_parameters([Parameter("residual_model", value="")])[0]
        assert "residual_model: fixed while the node runs" in outcome.reason
        node.destroy_node()
    finally:
        rclpy.shutdown()
