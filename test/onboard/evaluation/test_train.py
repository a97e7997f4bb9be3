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
from salp_noise import IDEAL_NOISE

from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.contract.robot import TruthSpecification, find_robot
from onboard_estimation.filtering.planar import planar_covariance, planar_pose
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings
from onboard_estimation.judging.simulated_bags import write_series
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.judging.what_if import with_beacon
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT, SalpRobot
from salp_estimation.training.runs import outside

SECONDS = 14.0
GAITS = ("forward", "backward", "left", "turning")
LINKS = ("link_1", "link_2", "link_3")
CONFIGURATION = SalpConfiguration()


def simulated(gait: str, seed: int, duration_s: float = SECONDS) -> Recording:
    """A run of the scenario `hardware`, with gyros at 50 Hz and motion capture at 60 Hz: soon read and replayed."""
    simulation = ROBOT.simulation(CONFIGURATION, "hardware", gait, np.random.default_rng(seed), imu_rate_hz=50.0)
    recording = simulation.advance(round(duration_s * 1e9) + 1)
    thinned = (replace(one, stamps_ns=one.stamps_ns[::4], values=one.values[::4]) for one in recording.truth)
    return replace(recording, truth=tuple(thinned))


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
def recordings() -> dict[str, Recording]:
    """One run of each gait to train with."""
    return {gait: simulated(gait, 300 + number) for number, gait in enumerate(GAITS)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, recordings: dict[str, Recording]) -> Path:
    """Bags by the names of the gaits, `unseen` of a run that nothing was trained with, and `model.npz` with its
    `model.json`."""
    path = tmp_path_factory.mktemp("training")
    for gait, recording in recordings.items():
        write(recording, path / gait)
    write(simulated("left", 7), path / "unseen")
    bags = [path / gait for gait in GAITS]
    outcome = command("train", "salp", *bags, "--form", "local", "--output", path / "model.npz", "--json")
    assert outcome.code == 0, outcome
    (path / "model.json").write_text(outcome.out)
    return path


@pytest.fixture(scope="module")
def learned(folder: Path) -> dict[str, Any]:
    """What `evaluate --model --json` says of the run that was not trained with."""
    run = folder / "learned"
    outcome = command("evaluate", folder / "unseen", "--model", folder / "model.npz", "--output", run, "--json")
    assert outcome.code == 0, outcome
    return dict(json.loads(outcome.out))


def recorded(gait: str, seed: int, duration_s: float = SECONDS) -> LoadedRecording:
    return from_simulator(simulated(gait, seed, duration_s), LINKS)


def folder_hash(path: Path) -> str:
    """SHA-256 of all files of a bag with their names."""
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


# Training.


def test_training_says_what_it_found_and_with_what(folder: Path) -> None:
    said = json.loads((folder / "model.json").read_text())
    assert said["form"] == "local"
    assert said["points"] == sum(run["points"] for run in said["runs"].values())
    assert {name: run["sha256"] for name, run in said["runs"].items()} == {g: folder_hash(folder / g) for g in GAITS}
    found = {one["name"]: one for one in said["parameters"]}
    # The scenario draws dry friction of wheels and joints, a harness and a lag: all act against the motion.
    for name in ("dry friction along", "dry friction across", "harness stiffness", "dry friction of the joint"):
        values, stddevs = np.array(found[name]["values"]), np.array(found[name]["standard_deviations"])
        assert (values > 2.0 * stddevs).all(), found[name]
    assert all(one["moved"] for one in said["inputs"])
    assert said["flipped_frames_left_out"] == dict.fromkeys(LINKS, 0)
    model = ResidualModel.from_file(folder / "model.npz")
    assert model.header.training.hashes == tuple(folder_hash(folder / gait) for gait in GAITS)


@pytest.mark.slow
def test_processes_that_share_a_training_give_the_same_model(folder: Path, tmp_path: Path) -> None:
    words = ("--form", "local", "--workers", "2", "--output", tmp_path / "model.npz")
    assert command("train", "salp", *(folder / gait for gait in GAITS), *words).code == 0
    with np.load(tmp_path / "model.npz") as shared, np.load(folder / "model.npz") as alone:
        assert list(shared) == list(alone)
        for name in set(alone) - {"header"}:
            np.testing.assert_array_equal(shared[name], alone[name])
        headers = [json.loads(bytes(one["header"])) for one in (shared, alone)]
    for header in headers:
        del header["created_utc"]
    assert headers[0] == headers[1]


@pytest.mark.slow
def test_the_model_helps_with_a_run_that_it_has_not_seen(folder: Path, learned: dict[str, Any]) -> None:
    # Shorter, because a filter that fails so badly is replayed three times more, against mirror images of the truth.
    recording = recorded("left", 7, 9.0)
    believing, plain = (
        judge(ROBOT, one, "ukf", recording).metrics["joint_angles"]["rmse_deg"] for one in (IDEAL_NOISE, CONFIGURATION)
    )
    assert believing > 8.0
    found = learned["metrics"]["joint_angles"]["rmse_deg"]
    assert found < 0.4 * believing
    assert found < plain
    assert any("Residual model of the form local" in note for note in learned["notes"])


def test_a_run_with_a_model_can_be_repeated(folder: Path, learned: dict[str, Any]) -> None:
    model = folder / "model.npz"
    run = json.loads((folder / "learned" / "run.json").read_text())
    assert run["inputs_sha256"]["model"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert f"--model {shlex.quote(str(model))}" in learned["command"]
    configuration = load_configuration(ROBOT, EvaluateOptions(config=folder / "learned" / "config.yaml"))
    assert configuration.residual_model == str(model.absolute())


def test_a_campaign_takes_the_model_and_the_beacon(folder: Path) -> None:
    words = ["campaign", "salp", "--scenario", "hardware", "--gait", "left", "--seeds", "1", "--duration", "2"]
    words += ["--output", str(folder / "campaign"), "--workers", "0"]
    outcome = command(*words, "--model", folder / "model.npz", "--beacon", "1", "--json")
    assert outcome.code == 0, outcome
    [group] = json.loads(outcome.out)["groups"]
    assert "joint_angles.rmse_deg" in group["figures"]
    assert "nope.npz" in refusal(*words, "--model", "nope.npz")


def test_gaussian_process_training_from_the_command_line(folder: Path, tmp_path: Path, repository: Path) -> None:
    bags, known = [folder / gait for gait in GAITS], repository / "config" / "salp.yaml"
    words = ("--form", "gaussian_process", "--config", known, "--output", tmp_path / "m.npz")
    outcome = command("train", "salp", *bags, *words)
    assert outcome.code == 0, outcome
    assert "use it:" in outcome.out
    assert f"evaluate BAG --config {known} --model {tmp_path / 'm.npz'}" in outcome.out
    assert "friction, harness and lag" not in outcome.out  # that form finds none
    assert ResidualModel.from_file(tmp_path / "m.npz").processes is not None


# Bad input.


def train_refusal(folder: Path, *words: str | Path) -> str:
    return refusal("train", "salp", *words, "--output", folder / "refused.npz")


def test_bags_that_do_not_do_are_named(
    folder: Path, recordings: dict[str, Recording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, one = folder / "forward", recordings["left"]
    no_truth = write(one, tmp_path / "no_truth", without=("ground_truth/link_2/pose",))
    said = train_refusal(folder, good, no_truth)
    assert said.startswith(str(no_truth))
    assert "no ground truth of link_2" in said
    no_commands = write(one, tmp_path / "no_commands", without=("actuators/command",))
    said = train_refusal(folder, good, no_commands)
    assert said.startswith(str(no_commands))
    assert "actuators/command missing" in said
    longer = {f"{kind}/link_3/{name}": f"{kind}/link_4/{name}" for kind, name in (("imu", "data_raw"),)}
    longer["ground_truth/link_3/pose"] = "ground_truth/link_4/pose"
    said = train_refusal(folder, good, write(one, tmp_path / "longer", renamed=longer))
    assert "longer: the bag also holds IMU and ground truth of link_4" in said
    assert "--config" in said
    assert f"{tmp_path / 'nothing'} does not exist" in train_refusal(folder, good, tmp_path / "nothing")
    assert not (folder / "refused.npz").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["forward"], "of 1 runs at 5 Hz: at least 200 points of 2 runs are needed, 40 s of motion"),
        (["forward", "left"], "points of 2 runs at 5 Hz: at least 200"),
        (["forward", "forward"], "forward is given twice"),
        (["forward", "left", "--form", "paper"], "--form paper: salp has calibrated, local, gaussian_process"),
        (["forward", "left", "--mirror-truth", "y"], "gyros and motion capture turn against each other"),
        (["forward", "left", "--mirror-truth", "q"], "--mirror-truth q: must be one or more of x, y, z"),
    ],
)
def test_training_refuses(words: list[str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert said in train_refusal(folder, *words)


def test_places_where_no_model_can_be_written(folder: Path, tmp_path: Path) -> None:
    words = ("train", "salp", folder / "forward", folder / "left", "--output")
    assert "a folder; a model is a file" in refusal(*words, tmp_path)
    (tmp_path / "thesis.txt").write_text("years of work")
    assert "exists and is no model" in refusal(*words, tmp_path / "thesis.txt")
    assert "is no folder; make it first" in refusal(*words, tmp_path / "nowhere" / "m.npz")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    said = refusal("train", "strapdown", folder / "forward", "--output", tmp_path / "m.npz")
    assert "robot 'strapdown' has no model to train" in said


def test_a_model_that_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    model, evaluating = folder / "model.npz", ("evaluate", folder / "unseen", "--output", tmp_path / "run")
    said = refusal(*evaluating, "--model", model, "--set", "chain.wheel_radius_m=0.04")
    assert "trained for another configuration of salp" in said
    names = "chain.link_names=[link_1, link_2, tail]"
    said = refusal(
        *evaluating, "--model", model, "--set", names, "--topic", "imu/tail/data_raw=/salp/imu/link_3/data_raw"
    )
    assert (
        "trained for the sensors imu/link_1, imu/link_2, imu/link_3, there are imu/link_1, imu/link_2, imu/tail" in said
    )
    assert "no such file" in refusal(*evaluating, "--model", tmp_path / "nope.npz").lower()
    (tmp_path / "text.npz").write_text("not a model")
    assert "not a model, or damaged" in refusal(*evaluating, "--model", tmp_path / "text.npz")
    assert "give one of them" in refusal(*evaluating, "--model", model, "--set", "residual_model=other.npz")
    assert "strapdown takes no trained model" in refusal(*evaluating, "--model", model, "--robot", "strapdown")


# Outside the training data.


def test_a_run_outside_the_training_data_is_named_in_the_verdict(folder: Path, tmp_path: Path) -> None:
    model = ResidualModel.from_file(folder / "model.npz")
    training = model.header.training
    lowest, highest = list(training.input_lowest), list(training.input_highest)
    lowest[1], highest[1] = -0.02, 0.02  # as if alpha_2 had hardly been moved
    narrow = replace(training, input_lowest=tuple(lowest), input_highest=tuple(highest))
    replace(model, header=replace(model.header, training=narrow)).save(tmp_path / "narrow.npz")
    result = evaluated(tmp_path / "narrow.npz")
    angle = result.parts["joint_angles"].estimate[:, 1]
    share = np.mean(np.abs(angle) > 0.02 + 0.05 * 0.04)
    assert result.verdict.endswith(f"; {100.0 * share:.2g} % of the run is outside the training data (alpha_2)")
    assert any(f"outside its training data: alpha_2 {100.0 * share:.3g} %" in note for note in result.notes)


def test_shares_outside(folder: Path) -> None:
    model = ResidualModel.from_file(folder / "model.npz")
    lowest, highest = (
        np.array(one) for one in (model.header.training.input_lowest, model.header.training.input_highest)
    )
    rows = np.tile(0.5 * (lowest + highest), (100, 1))
    assert outside(model, rows[:, :2], rows[:, 2:])[0] == 0.0
    rows[:10, 0] = highest[0] + 0.04 * (highest - lowest)[0]  # within the margin
    rows[5:25, 3] = lowest[3] - 0.06 * (highest - lowest)[3]
    rows[20:30, 1] = highest[1] + 1.0
    any_input, by_input = outside(model, rows[:, :2], rows[:, 2:])
    assert any_input == pytest.approx(0.25)
    assert by_input == pytest.approx({"u_2": 0.2, "alpha_2": 0.1})


# Motion capture as a beacon.


def evaluated(model: Path, **settings: Any) -> EvaluationResult:
    configuration = load_configuration(ROBOT, EvaluateOptions(model=model))
    return judge(ROBOT, configuration, "ukf", recorded("left", 7), JudgeSettings(**settings))


def test_a_beacon_bounds_the_drift(folder: Path) -> None:
    free, bounded = evaluated(folder / "model.npz"), evaluated(folder / "model.npz", beacon_s=2.0)
    heading = [np.rad2deg(np.abs(one.parts["pose"].error[one.time_s > 2.1, 2])).max() for one in (free, bounded)]
    assert heading[1] < 0.5 < heading[0]  # an initial error of degrees, which nothing else can take away
    pose, after = bounded.parts["pose"], bounded.time_s > 2.1
    assert (np.abs(pose.error[after]) < 4.0 * pose.stddev[after]).mean() > 0.98
    assert "Motion capture as a beacon: the pose every 2 s, 6 times." in bounded.notes
    assert bounded.sensors["set_pose"]["received"] == 6


class UnevenTruth(SalpRobot):
    """Motion capture that sees the robot better from the side than from behind."""

    noise = np.array([[4e-4, 1e-5, 0.0], [1e-5, 1e-6, 2e-6], [0.0, 2e-6, 1e-4]])

    def truth_specification(self, configuration: SalpConfiguration) -> TruthSpecification:
        return replace(super().truth_specification(configuration), covariances={"pose": self.noise})


def test_a_beacon_is_the_truth_with_its_noise_in_the_order_of_stamps() -> None:
    plain, robot = recorded("turning", 3, 3.0), UnevenTruth()
    found = with_beacon(robot, CONFIGURATION, plain, 0.5, 0.1)
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
        np.testing.assert_allclose(planar_covariance(value[7:], heading), UnevenTruth.noise, atol=1e-15)
        unknown = value[7:].reshape(6, 6)[2:5]
        assert not unknown.any()


def test_without_a_period_nothing_changes() -> None:
    plain = recorded("forward", 3, 1.0)
    assert with_beacon(ROBOT, CONFIGURATION, plain, None, 0.1) is plain


def test_beacons_that_cannot_be(folder: Path) -> None:
    plain = recorded("forward", 3, 1.0)
    for period_s in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match=r"must be a period of 0\.01 s or more"):
            with_beacon(ROBOT, CONFIGURATION, plain, period_s, 0.1)
    with pytest.raises(UserError, match=r"the run has 1\.0 s only"):
        with_beacon(ROBOT, CONFIGURATION, plain, 30.0, 0.1)
    with pytest.raises(UserError, match="which of link_1, link_2, link_3 is not in the recording"):
        with_beacon(ROBOT, CONFIGURATION, replace(plain, tracks={}), 0.5, 0.1)
    early = {link: replace(t, stamps_ns=t.stamps_ns[:5], values=t.values[:5]) for link, t in plain.tracks.items()}
    with pytest.raises(UserError, match=r"none of the 1 instants for it in 1\.0 s has a ground truth"):
        with_beacon(ROBOT, CONFIGURATION, replace(plain, tracks=early), 0.5, 0.1)
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
        assert not outcome.successful
        assert "residual_model: fixed while the node runs" in outcome.reason
        assert node.set_parameters([Parameter("gate_probability", value=0.99)])[0].successful
        node.destroy_node()
    finally:
        rclpy.shutdown()
    rclpy.init(args=[*model, "-p", "chain.wheel_radius_m:=0.05"], signal_handler_options=SignalHandlerOptions.NO)
    try:
        with pytest.raises(UserError, match="trained for another configuration of salp"):
            SalpPoseShapeNode()
    finally:
        rclpy.shutdown()
