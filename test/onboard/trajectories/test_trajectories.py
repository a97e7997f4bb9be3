"""Other filters' trajectories: figures against evo's readers and metrics, covariances, truths; files with faults."""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from test_foreign_forms import decimal
from test_foreign_forms import written as in_form

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.alignment import align_se3
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.report.evaluate import evaluate_trajectory
from onboard_estimation.report.page import render
from onboard_estimation.trajectories.files import format_of, read_trajectory
from onboard_estimation.trajectories.trajectory import Trajectory, as_record, cleaned

pytestmark = pytest.mark.usefixtures("without_pictures")
Rows = NDArray[np.float64]
COUNT = 301
TIMES_NS = 100_000_000 * np.arange(1, COUNT + 1)


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


def tum(file: Path, poses: Rows) -> Path:
    rows = zip(map(decimal, TIMES_NS.tolist()), poses.tolist(), strict=True)
    texts = [f"{time} {' '.join(map(repr, row))}" for time, row in rows]
    file.write_text("\n".join(["# stamp x y z qx qy qz qw", *texts]) + "\n")
    return file


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
    file = in_form(form, tmp_path, TIMES_NS.tolist(), estimate)
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
        page = render(evaluate_trajectory(file, EvaluateOptions(truth=reference), tmp_path / "again").result)
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
    for name, (stated, said, expected) in cases.items():
        bag = bag_of(tmp_path / name, truth, estimate, stated)
        found = judged(bag, "--trajectory", "/odom", "--alignment", "none", "--output", tmp_path / f"run_{name}")
        assert any(said in note for note in found["notes"]), found["notes"]
        assert not any("singular" in note for note in found["notes"])
        nees = found["metrics"]["position"].get("mean_nees_per_degree_of_freedom")
        assert nees == (None if expected is None else pytest.approx(expected)), name
        assert ("attitude" in found["metrics"]) == (name != "unknown")


EXTREME = st.floats() | st.sampled_from(
    [0.0, -1.0, 1e-310, 5e-324, 1e6, 1e154, *np.array([-1, 1]) * np.finfo(float).max]
)
CHANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 5), EXTREME), min_size=1, max_size=9)


@settings(max_examples=60)
@given(CHANGES, st.sampled_from(["pose", "planar", "position"]))
def test_of_extreme_covariances_nothing_is_made(changes: list[tuple[int, int, int, float]], kind: Any) -> None:
    """They are sound or not known, which is said; numpy has nothing to warn of; others stay."""
    covariances = np.tile(0.01 * np.eye(6), (5, 1, 1))
    for k, i, j, value in changes:
        covariances[k, i, j] = value
    with np.errstate(all="raise", under="ignore"):
        trajectory = cleaned("odom", TIMES_NS[:5], walk(np.random.default_rng(3))[0][:5], covariances)
        space, record, notes = as_record(trajectory, kind)
    for block in space.blocks:
        found = record.covariances[:, space.tangent(block.name), space.tangent(block.name)]
        known = np.isfinite(found).all(axis=(1, 2))
        assert known[[k not in {change[0] for change in changes} for k in range(5)]].all()
        assert np.isnan(found[~known]).all()
        assert (np.linalg.eigvalsh(found[known]) > 0.0).all()
        assert known.all() or any(f"of the {block.name}" in one for one in notes)


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


GOOD = [f"1767225600.{k}00000001 {k} 0.5 {0.1 * k} 0 0 0.6 0.8" for k in range(10)]


def read(file: Path, times: Path | None = None, stamps_ns: object = None) -> Trajectory:
    return read_trajectory(file, format_of(file), times, stamps_ns)  # type: ignore[arg-type]


def written(folder: Path, name: str, lines: list[str]) -> Path:
    file = folder / name
    file.write_text("\n".join(lines) + "\n")
    return file


def refused(file: Path, times: Path | None = None, stamps_ns: object = None) -> str:
    with pytest.raises(UserError) as error:
        read(file, times, stamps_ns)
    assert "\n" not in str(error.value)
    return str(error.value)


def changed(line: int, to: str) -> list[str]:
    return [*GOOD[:line], to, *GOOD[line + 1 :]]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1767225601 1 2 3 0 0 0", "line 4 has 7 columns, not 8"),
        ("1767225601 1 2 x 0 0 0 1", "line 4: 'x' is no number"),
        ("nan 1 2 3 0 0 0 1", "line 4: 'nan' is no time in seconds"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    assert said in refused(written(tmp_path, "a.tum", changed(3, line)))


@pytest.mark.parametrize(
    ("line", "left", "said"),
    [
        ("1767225600.35 nan 2 3 0 0 0 1", 9, "1 of 10 poses left out, not finite (the first in line 4)"),
        ("1767225600.35 1 2 3 0 0 0 0", 9, "1 of 10 poses left out, no unit quaternion (the first in line 4)"),
        ("1767225609.5 1 2 3 0 0 0 1", 10, "sorted by stamps, which go back 1 times, first in line 5"),
        (GOOD[4], 9, "1 of 10 poses left out, their stamps repeat, the last one counts (the first in line 4)"),
    ],
)
def test_what_can_be_done_without_is_left_out_and_said(tmp_path: Path, line: str, left: int, said: str) -> None:
    found = read(written(tmp_path, "a.tum", changed(3, line)))
    assert len(found.stamps_ns) == left
    assert np.all(np.diff(found.stamps_ns) > 0)
    assert any(said in note for note in found.notes), found.notes


def test_files_that_are_none(tmp_path: Path) -> None:
    empty = tmp_path / "empty.tum"
    empty.write_text("# nothing\n")
    assert "holds no line with numbers" in refused(empty)
    binary = tmp_path / "binary.tum"
    binary.write_bytes(bytes(range(256)) * 100)
    assert "line 1 is no text" in refused(binary) or "more than" in refused(binary)
    long = tmp_path / "long.tum"
    long.write_text("1 " * 20_000)
    assert "line 1 has more than 10,000 characters" in refused(long)
    huge = tmp_path / "huge.tum"
    with huge.open("wb") as stream:
        stream.truncate(600_000_000)
    assert "600 MB" in refused(huge)
    assert "--format" in refused(written(tmp_path, "a.dat", ["1 2 3"]))
    assert "no pose that can be used" in refused(written(tmp_path, "none.tum", ["1 nan 0 0 0 0 0 1"]))


def test_a_kitti_file_needs_times(tmp_path: Path) -> None:
    poses = written(tmp_path, "00.txt", ["1 0 0 5 0 1 0 0 0 0 1 0"] * 3)
    assert "give its times with --times FILE" in refused(poses)
    assert "its 3 poses are not the truth's 2" in refused(poses, None, np.array([1, 2]))
    times = written(tmp_path, "times.txt", ["0.0", "1.036e-01"])
    assert "has 2 times for the 3 poses" in refused(poses, times)
    times = written(tmp_path, "times.txt", ["0.0", "1.036e-01", "2.0e-01"])
    assert read(poses, times).stamps_ns.tolist() == [0, 103_600_000, 200_000_000]
    assert read(poses, None, np.array([5, 6, 7])).stamps_ns.tolist() == [5, 6, 7]
    mirrored = written(tmp_path, "m.txt", ["1 0 0 5 0 1 0 0 0 0 -1 0", "1 0 0 5 0 1 0 0 0 0 1 0"])
    assert len(read(mirrored, None, np.array([5, 6])).stamps_ns) == 1


def test_euroc_takes_the_order_of_the_quaternion_from_the_header(tmp_path: Path) -> None:
    positions = "p_x [m], p_y [m], p_z [m]"
    row = "1403636580838555648,1,2,3,0.1,0.7,0.1,0.7"
    first = f"#timestamp, {positions}, q_w [], q_x [], q_y [], q_z []"
    last = f"#timestamp, {positions}, q_x, q_y, q_z, q_w"
    w_first = read(written(tmp_path, "a.csv", [first, row])).poses[0, 3:]
    w_last = read(written(tmp_path, "b.csv", [last, row])).poses[0, 3:]
    np.testing.assert_allclose(w_first, [0.7, 0.1, 0.7, 0.1])
    np.testing.assert_allclose(w_last, [0.1, 0.7, 0.1, 0.7])
    without = read(written(tmp_path, "c.csv", [row + ",0,0,0"]))
    np.testing.assert_allclose(without.poses[0, 3:], w_first)
    assert without.stamps_ns[0] == 1403636580838555648


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("x_m,y_m", "it has neither stamp_ns nor time_s"),
        ("time_s,x_m", "y_m is missing"),
        ("time_s,x_m,y_m,qx,qy,qz", "qw is missing"),
        ("time_s,stamp_ns,x_m,y_m", "it has both stamp_ns and time_s"),
        ("time_s,x,x_m,y_m", "x_m stands there 2 times"),
        ("time_s,x_m,y_m,heading,heading_deg", "it has more than one orientation"),
    ],
)
def test_a_wrong_header_answers_with_what_is_expected(tmp_path: Path, header: str, said: str) -> None:
    file = written(tmp_path, "a.csv", [header, ",".join("1" * (header.count(",") + 1))])
    with pytest.raises(UserError, match="expected: stamp_ns or time_s; x_m") as error:
        read_trajectory(file, "csv", None, None)
    assert said in str(error.value)


def test_tables_of_planar_poses_with_deviations(tmp_path: Path) -> None:
    header = "time_s, x, y, heading_deg, x_stddev_m, y_stddev_m, heading_stddev_rad, battery_v"
    found = read(written(tmp_path, "a.csv", [header, "1,2,3,90,0.1,0.2,0.3,12", "2,2,3,90,0.1,0.2,0.3,12"]))
    assert found.turns
    assert found.planar
    np.testing.assert_allclose(found.poses[0], [2.0, 3.0, 0.0, 0.0, 0.0, 0.5**0.5, 0.5**0.5])
    assert found.covariances is not None
    np.testing.assert_allclose(np.diag(found.covariances[0]), [0.01, 0.04, 0.0, 0.0, 0.0, 0.09])
    assert found.notes == ("a.csv: columns not read: battery_v.",)


CELLS = st.sampled_from(["1", "-2.5", "nan", "1e308", "", "x", "1_0", "0.5"])
HEADERS = ["", "#", "time_s,x,y", "stamp_ns,x,y,z,qx,qy,qz,qw", "#timestamp,p,p,p,q_w,q_x,q_y,q_z"]
TABLES = st.builds(
    lambda header, rows, separator: "\n".join([header, *(separator.join(row) for row in rows)]).encode(),
    st.sampled_from(HEADERS),
    st.lists(st.lists(CELLS, max_size=13), max_size=5),
    st.sampled_from([",", " "]),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=300), TABLES),
    name=st.sampled_from(["a.csv", "a.tum", "a.txt", "a.kitti", "a.euroc"]),
)
def test_rubbish_and_rows_of_anything_are_read_or_refused_in_one_line(
    tmp_path: Path, content: bytes, name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    try:
        assert np.isfinite(read(file, None, np.arange(3)).poses).all()
    except UserError:
        refused(file, None, np.arange(3))
