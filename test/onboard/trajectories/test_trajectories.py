"""Other filters' trajectories: figures against evo's own readers and metrics, covariances, truths, the way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_samples import ODOMETRY, POSE, Sample, odometry, pose, write_rosbag2
from evaluation_samples import command, refusal
from evo.core import metrics as evo_metrics
from evo.core.trajectory import PoseTrajectory3D
from evo.tools import file_interface
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.alignment import align_se3
from onboard_estimation.report import run_folder
from onboard_estimation.trajectories.trajectory import as_record, cleaned

Rows = NDArray[np.float64]
COUNT = 301
TIMES_NS = 100_000_000 * np.arange(1, COUNT + 1)


@pytest.fixture(autouse=True)
def _without_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which take most of the time; the figures of one run are looked at with its report."""
    if "tum" not in request.node.name:
        monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
        monkeypatch.setattr(run_folder, "write_report", lambda *_: None)


def walk(rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Truth and a drifting estimate (K, 7) in a frame of its own, every tenth of a second."""
    t = np.arange(COUNT) * 0.1
    truth = np.column_stack([2.0 * np.cos(0.4 * t), 1.5 * np.sin(0.5 * t), 0.3 * np.sin(t)])
    turns = Rotation.from_euler("zyx", np.column_stack([0.4 * t, 0.1 * np.sin(t), 0.2 * np.cos(0.7 * t)]))
    drift = np.cumsum(rng.normal(0.0, 0.004, (COUNT, 3)), axis=0)
    wander = Rotation.from_rotvec(np.cumsum(rng.normal(0.0, 0.002, (COUNT, 3)), axis=0))
    frame = Rotation.from_rotvec([0.05, -0.1, 0.9])
    seen = frame.apply(truth + drift) + np.array([3.0, -1.0, 0.5])
    return np.hstack([truth, turns.as_quat()]), np.hstack([seen, (frame * turns * wander).as_quat()])


def seconds() -> list[str]:
    return [f"{ns // 10**9}.{ns % 10**9:09d}" for ns in TIMES_NS.tolist()]


def lines(file: Path, header: str, rows: Any, first: list[str] | None = None, separator: str = " ") -> Path:
    """A file of the header, and of rows that begin with the times."""
    texts = [separator.join(map(repr, row)) for row in rows.tolist()]
    texts = texts if first is None else [f"{one}{separator}{text}" for one, text in zip(first, texts, strict=True)]
    file.write_text("\n".join([*([header] if header else []), *texts]) + "\n")
    return file


def tum(file: Path, poses: Rows) -> Path:
    return lines(file, "# stamp x y z qx qy qz qw", poses, seconds())


def kitti(file: Path, poses: Rows) -> Path:
    matrices = np.concatenate([Rotation.from_quat(poses[:, 3:]).as_matrix(), poses[:, :3, None]], axis=2)
    return lines(file, "", matrices.reshape(-1, 12))


def euroc(file: Path, poses: Rows) -> Path:
    names = [*(f"p_RS_R_{axis} [m]" for axis in "xyz"), *(f"q_RS_{axis} []" for axis in "wxyz"), "v_RS_R_x [m s^-1]"]
    rows = np.hstack([poses[:, [0, 1, 2, 6, 3, 4, 5]], np.full((COUNT, 1), 0.5)])
    return lines(file, ",".join(["#timestamp [ns]", *names]), rows, list(map(str, TIMES_NS.tolist())), ",")


def csv(file: Path, poses: Rows) -> Path:
    return lines(file, "time_s,x_m,y_m,z_m,qx,qy,qz,qw", poses, seconds(), ",")


def judged(*words: Any) -> dict[str, Any]:
    outcome = command("evaluate", *words, "--json")
    assert outcome.code == 0, outcome.error
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def by_evo(reference: PoseTrajectory3D, estimate: PoseTrajectory3D) -> dict[str, float]:
    """Figures by evo alone."""
    translation, rotation = evo_metrics.PoseRelation.translation_part, evo_metrics.PoseRelation.rotation_angle_deg
    rmse = evo_metrics.StatisticsType.rmse
    length = reference.path_length
    frames, metres = evo_metrics.Unit.frames, evo_metrics.Unit.meters
    asked: dict[str, tuple[evo_metrics.PE, ...]] = {
        "position.position_ate_rmse_m": (evo_metrics.APE(translation),),
        "attitude.rotation_ate_rmse_deg": (evo_metrics.APE(rotation),),
    }
    for name, delta, unit in [("_rpe_1s", 10, frames), ("_rpe_1m", 1.0, metres)]:
        asked[f"position.position{name}_rmse_m"] = (evo_metrics.RPE(translation, delta, unit, 0.1, True, True),)
        asked[f"position.rotation{name}_rmse_deg"] = (evo_metrics.RPE(rotation, delta, unit, 0.1, True, True),)
    for share in (10, 40, 100):
        name, delta = f"position.rpe_over_share_of_path.position_{share}_percent_rmse_m", 0.01 * share * length
        asked[name] = (evo_metrics.RPE(translation, delta, metres, 0.1, True, True),)
    out = {}
    for name, (one,) in asked.items():
        one.process_data((reference, estimate))
        out[name] = one.get_statistic(rmse)
    return out


def at(found: Any, dotted: str) -> float:
    for key in dotted.split("."):
        found = found[key]
    return float(found)


@pytest.mark.parametrize(
    ("form", "alignment"), [("tum", "none"), ("kitti", "se3"), ("euroc", "start"), ("csv", "none")]
)
def test_figures_are_those_of_evo_on_the_same_files(tmp_path: Path, form: str, alignment: str) -> None:
    truth, estimate = walk(np.random.default_rng(3))
    reference = tum(tmp_path / "truth.tum", truth)
    write = {"tum": tum, "kitti": kitti, "euroc": euroc, "csv": csv}[form]
    file = write(tmp_path / f"vio.{'csv' if form in ('csv', 'euroc') else 'txt'}", estimate)
    found = judged(file, "--truth", reference, "--alignment", alignment, "--output", tmp_path / "run")

    ours = file_interface.read_tum_trajectory_file(reference)
    if form == "euroc":
        theirs = file_interface.read_euroc_csv_trajectory(file)
    elif form == "kitti":
        path = file_interface.read_kitti_poses_file(file)
        theirs = PoseTrajectory3D(poses_se3=path.poses_se3, timestamps=ours.timestamps)
    else:  # evo reads no tables
        theirs = file_interface.read_tum_trajectory_file(tum(tmp_path / "again.tum", estimate))
    np.testing.assert_allclose(theirs.timestamps, ours.timestamps, atol=1e-9)
    if alignment == "start":
        theirs.align_origin(ours)
    elif alignment == "se3":
        theirs.align(ours)
    for name, expected in by_evo(ours, theirs).items():
        assert at(found["metrics"], name) == pytest.approx(expected, rel=1e-9, abs=1e-9), name
    assert found["source"] == "unknown"
    assert "nees" not in json.dumps(found["metrics"])
    assert "coverage" not in json.dumps(found["metrics"])
    assert found["verdict"].startswith("accuracy only, for there is no covariance: ")
    assert any("has no covariance" in note for note in found["notes"])
    if form == "tum":
        page = (tmp_path / "run" / "report.html").read_text()
        assert "NOT KNOWN" in page
        assert "NEES" not in page.partition("<script")[0].replace("(no NEES)", "")


def bag_of(folder: Path, truth: Rows, estimate: Rows, covariances: Rows, bodies: tuple[str, ...] = ("drone",)) -> Path:
    samples = []
    for ns, true, seen, covariance in zip(TIMES_NS.tolist(), truth, estimate, covariances, strict=True):
        message = odometry(ns, seen[:3], seen[3:])
        message.pose.covariance = covariance.ravel()
        samples.append(Sample("/odom", ODOMETRY, ns, message))
        samples += [Sample(f"/ground_truth/{one}/pose", POSE, ns, pose(ns, true[:3], true[3:])) for one in bodies]
    return write_rosbag2(folder, samples)


def consistent(seed: int) -> tuple[Rows, Rows, Rows]:
    """Truth, estimates with errors drawn from full covariances along the fixed axes, and those, (K, 6, 6)."""
    rng = np.random.default_rng(seed)
    truth, _ = walk(rng)
    scale = np.diag([0.1, 0.02, 0.05, 0.01, 0.03, 0.02])
    covariances = np.empty((COUNT, 6, 6))
    errors = np.empty((COUNT, 6))
    for k in range(COUNT):
        root = scale @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6)))
        covariances[k] = root @ root.T
        errors[k] = root @ rng.normal(size=6)
    turned = Rotation.from_rotvec(errors[:, 3:]) * Rotation.from_quat(truth[:, 3:])
    return truth, np.hstack([truth[:, :3] + errors[:, :3], turned.as_quat()]), covariances


def nees_of(error: Rows, covariances: Rows) -> float:
    """Mean of the positions' normalised squared errors by degree of freedom."""
    rows = np.einsum("ki,kij,kj->k", error[:, :3], np.linalg.inv(covariances[:, :3, :3]), error[:, :3])
    return float(np.mean(rows) / 3.0)


def test_nees_of_odometry_is_that_of_its_covariance_along_the_fixed_axes(tmp_path: Path) -> None:
    truth, estimate, covariances = consistent(5)
    bag = bag_of(tmp_path / "bag", truth, estimate, covariances)
    found = judged(bag, "--trajectory", "/odom", "--output", tmp_path / "run")
    turned = (Rotation.from_quat(estimate[:, 3:]) * Rotation.from_quat(truth[:, 3:]).inv()).as_rotvec()
    for part, expected in (
        ("position", nees_of(estimate - truth, covariances)),
        ("attitude", nees_of(turned, covariances[:, 3:, 3:])),
    ):
        assert found["metrics"][part]["mean_nees_per_degree_of_freedom"] == pytest.approx(expected, rel=1e-9)
        assert 0.85 < expected < 1.15
    assert found["verdict"].startswith("consistent: ")
    assert found["source"] == "recorded"
    assert found["robot"] == "trajectory"
    assert not any("covariance" in note for note in found["notes"])
    # The line that repeats it does so, to the figure.
    words = found["command"].split()[2:]
    again = judged(*words, "--output", tmp_path / "again")
    assert again["metrics"] == found["metrics"]


def test_covariances_that_are_none_are_said_to_be(tmp_path: Path) -> None:
    truth, estimate, covariances = consistent(7)
    some = covariances.copy()
    some[::2] = 0.0
    unknown = np.zeros_like(covariances)  # as of a GPS: REP 105's neighbours write 1e6 and more where nothing is known
    unknown[:, :3, :3], unknown[:, 3:, 3:] = covariances[:, :3, :3], 1e6 * np.eye(3)
    error = estimate - truth
    constant = np.tile(covariances[0], (COUNT, 1, 1))
    cases: dict[str, tuple[Rows, str, float | None]] = {
        "indefinite": (-covariances, "is not symmetric and positive definite in 301 of 301 poses", None),
        "constant": (constant, "of the position never changes: it is a setting", nees_of(error, constant)),
        "some": (some, "all zero in 151 of 301", nees_of(error[1::2], covariances[1::2])),
        "unknown": (unknown, "all rotations have a variance of 1e+06 or more", nees_of(error, covariances)),
    }
    for name, (given, said, expected) in cases.items():
        bag = bag_of(tmp_path / name, truth, estimate, given)
        found = judged(bag, "--trajectory", "/odom", "--alignment", "none", "--output", tmp_path / f"run_{name}")
        assert any(said in note for note in found["notes"]), found["notes"]
        assert not any("singular" in note for note in found["notes"])
        nees = found["metrics"]["position"].get("mean_nees_per_degree_of_freedom")
        assert nees == (None if expected is None else pytest.approx(expected)), name
        assert ("attitude" in found["metrics"]) == (name != "unknown")


def about_z(headings: Rows) -> Rotation:
    return Rotation.from_rotvec(headings[:, None] * [0.0, 0.0, 1.0])


def test_a_planar_covariance_is_taken_into_the_body_frame() -> None:
    rng = np.random.default_rng(8)
    headings = rng.uniform(-3.0, 3.0, 20)
    poses = np.hstack([rng.normal(size=(20, 2)), np.zeros((20, 1)), about_z(headings).as_quat()])
    roots = rng.normal(size=(20, 3, 3))
    planar = roots @ roots.transpose(0, 2, 1)
    full = np.zeros((20, 6, 6))
    full[np.ix_(range(20), [0, 1, 5], [0, 1, 5])] = planar
    one = cleaned("odom", np.arange(20), poses, full)
    assert one.turns
    assert one.planar
    _, record, notes = as_record(one, "planar")
    turn = about_z(-headings).as_matrix()
    np.testing.assert_allclose(record.covariances, turn @ planar @ turn.transpose(0, 2, 1), atol=1e-12)
    assert notes == []


def test_truths_and_topics_to_choose_from(tmp_path: Path) -> None:
    truth, estimate, covariances = consistent(9)
    bag = bag_of(tmp_path / "bag", truth, estimate, covariances, ("left", "right"))
    assert f"evaluate {bag} --trajectory /odom" in command("inspect", bag).out
    said = refusal("evaluate", bag, "--trajectory", "/odom")
    assert said == f"{bag} has the ground truth of 2 bodies; choose: --body left, --body right"
    assert "the nearest is --body left" in refusal("evaluate", bag, "--trajectory", "/odom", "--body", "lft")
    assert "--trajectory /odom" in refusal("evaluate", bag, "--trajectory", "/odometry")
    assert "--trajectory /odom" in refusal("evaluate", bag, "--body", "left")
    assert "--topic ground_truth=/ground_truth/left/pose" in refusal(
        "evaluate", bag, "--trajectory", "/odom", "--topic", "ground_truth=/mocap"
    )
    assert "--drop acts on a filter" in refusal("evaluate", bag, "--trajectory", "/odom", "--drop", "imu")
    named = judged(bag, "--trajectory", "/odom", "--body", "left", "--output", tmp_path / "a")
    by_topic = judged(
        bag, "--trajectory", "/odom", "--topic", "ground_truth=/ground_truth/right/pose", "--output", tmp_path / "b"
    )
    assert named["metrics"] == by_topic["metrics"]


def test_stamps_that_do_not_overlap(tmp_path: Path) -> None:
    truth, estimate = walk(np.random.default_rng(1))
    late = tmp_path / "late.tum"
    rows = tum(tmp_path / "vio.tum", estimate).read_text().splitlines()[1:]
    late.write_text("\n".join(f"{float(line.split()[0]) + 1000.0:.9f} {line.split(' ', 1)[1]}" for line in rows))
    said = refusal("evaluate", late, "--truth", tum(tmp_path / "truth.tum", truth))
    assert "late.tum has a truth: by their stamps it runs from 1000.100 to 1030.100 s" in said
    assert "the truth of truth.tum from 0.100 to 30.100 s; the truth starts -1000.000 s after it" in said


@pytest.mark.parametrize("seed", range(2))
def test_se3_turns_and_does_not_mirror(seed: int) -> None:
    """Where a mirror image would fit better, and in a plane, where both fit alike; against SciPy's."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(50, 3)) * [1.0, 1.0, 0.0 if seed % 2 else 0.5]
    estimate = Rotation.random(rng=rng).apply(truth * [-1.0, 1.0, 1.0]) + rng.normal(scale=0.01, size=(50, 3))
    found = align_se3(estimate, truth).rotation
    expected, _ = Rotation.align_vectors(truth - truth.mean(axis=0), estimate - estimate.mean(axis=0))
    np.testing.assert_allclose(found, expected.as_matrix(), atol=1e-6)
    straight = np.arange(50.0)[:, None] * [1.0, 0.0, 0.0]
    with pytest.raises(UserError, match="take --alignment start or heading"):
        align_se3(straight, straight)


def test_the_alignment_of_our_own_runs_is_a_choice_and_an_export_that_is_read_back_has_the_same_errors(
    tmp_path: Path,
) -> None:
    bag, run = tmp_path / "bag", tmp_path / "run"
    assert command("simulate", "salp", "--duration", "12", "--seed", "2", "--output", bag).code == 0
    own = judged(bag, "--output", run)
    # The least squares fit is better than any other of the whole run, which is judged from the start on.
    start, fitted = (
        judged(bag, "--alignment", how, "--settle", "0", "--output", tmp_path / how)["metrics"]
        for how in ("start", "se3")
    )
    assert fitted["pose"]["position_ate_rmse_m"] < start["pose"]["position_ate_rmse_m"]
    assert fitted["joint_angles"] == start["joint_angles"]
    for form in ("tum", "csv"):
        file = tmp_path / f"ours.{form}"
        assert command("export", run, "--output", file).code == 0
        assert "exists already" in refusal("export", run, "--output", file)
        again = judged(file, "--truth", bag, "--robot", "salp", "--output", tmp_path / f"again_{form}")
        assert again["source"] == "simulated"
        found, expected = again["metrics"]["pose"], own["metrics"]["pose"]
        if form == "tum":
            expected = {key: value for key, value in expected.items() if "nees" not in key and "coverage" not in key}
        assert set(found) == set(expected)
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-9), key
        compared = command("compare", run, tmp_path / f"again_{form}")
        assert compared.code == 0
        assert "different" not in compared.out
    said = refusal("evaluate", tmp_path / "ours.tum", "--truth", bag, "--robot", "hopper")
    assert said.startswith("the truth of --robot hopper needs all of its bodies: No ground truth of body in the bag")


def test_an_export_of_another_folder_is_refused(tmp_path: Path) -> None:
    assert "give a run folder" in refusal("export", tmp_path, "--output", tmp_path / "a.tum")
    assert "must be tum or csv" in refusal("export", tmp_path, "--output", tmp_path / "a.txt")
