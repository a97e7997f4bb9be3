"""Campaigns: their figures over seeds, interruptions, failures, the command and the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from bag_samples import Sample
from campaign_samples import table
from evaluation_samples import CONFIGURATION, command, salp_messages, write
from live_graph import LONGEST_WAIT_S, wait_until
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.topics import match_topics
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from onboard_estimation.base.workers import Workers, open_workers
from onboard_estimation.campaigns.campaign import Campaign, read_errors, run_campaign, thinning
from onboard_estimation.campaigns.report import write_campaign_report
from onboard_estimation.campaigns.summary import Difference, differences, differing_axes, groups_of, interval_of_mean
from onboard_estimation.campaigns.table import Table, cases_of, read_table, simulated_runs
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.filtering.consistency import chi_square_band
from onboard_estimation.judging.options import EvaluateOptions, WhatIf
from onboard_estimation.judging.recording import load_recording
from onboard_estimation.judging.simulated_bags import simulated_source
from onboard_estimation.report.evaluate import evaluated

SALP = find_robot("salp")


@pytest.fixture
def alone() -> Iterator[Workers]:
    with open_workers(0) as workers:
        yield workers


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Eight runs of six seconds, one after the other."""
    folder = tmp_path_factory.mktemp("small")
    with open_workers(0) as workers:
        return run_campaign(cases_of(read_table(table(folder))), folder / "campaign", workers)


def contents(campaign: Path) -> dict[str, bytes]:
    """All that must be the same wherever it was done: not the time that `run.json` tells."""
    files = [path for path in campaign.rglob("*") if path.is_file() and path.name not in ("run.json", "campaign.json")]
    return {str(path.relative_to(campaign)): path.read_bytes() for path in files}


# Figures.


def ideal(gait: str, seeds: int, duration_s: float, folder: Path, what_if: WhatIf | None = None) -> Campaign:
    options = EvaluateOptions(config=resource("config/salp_ideal.yaml"), what_if=what_if or WhatIf())
    asked = Table("salp", simulated_runs("salp", "ideal", [gait], range(seeds), duration_s), keep="figures")
    with open_workers(0) as workers:
        return run_campaign(cases_of(asked, options), folder, workers)


@pytest.mark.slow
@pytest.mark.parametrize("gait", ["forward", "backward"])
def test_joint_angles_over_twenty_seeds(gait: str, tmp_path: Path) -> None:
    """The bounds, computed here from the runs' errors alone, and the campaign's own figures."""
    campaign = ideal(gait, 20, 60.0, tmp_path / "campaign")
    runs = [read_errors(tmp_path / "campaign" / "runs" / row["name"] / "errors.parquet") for row in campaign.rows]
    joints = [parts["joint_angles"] for _, parts in runs]
    settled = runs[0][0] >= joints[0].settle_s
    rmse_deg = [np.rad2deg(np.sqrt(np.mean(part.error[settled] ** 2))) for part in joints]
    assert max(rmse_deg) <= 0.3
    assert np.median(rmse_deg) <= 0.1  # what an independent filter reaches
    averaged = np.mean([part.nees[settled] for part in joints], axis=0)
    low, high = chi_square_band(2, 0.95, 20)
    inside = float(np.mean((averaged >= low) & (averaged <= high)))
    assert inside >= 0.8
    covered = float(np.mean([np.abs(part.error[settled]) <= 3.0 * part.stddev[settled] for part in joints]))
    assert covered >= 0.985

    [group] = groups_of(campaign)
    [figure] = [one for one in group.figures if one.name == "joint_angles.rmse_deg"]
    assert figure.values == pytest.approx(rmse_deg)
    assert (figure.median, figure.largest) == (pytest.approx(np.median(rmse_deg)), pytest.approx(max(rmse_deg)))
    assert figure.worst["seed"] == str(int(np.argmax(rmse_deg)))
    judged = group.consistency["joint_angles"]
    assert judged.in_band == pytest.approx(inside)
    assert judged.within_3_sigma == pytest.approx(covered)
    means = [np.mean(part.nees[settled]) / 2 for part in joints]
    assert judged.nees == pytest.approx(np.mean(means))
    assert judged.interval[0] < judged.nees < judged.interval[1]
    # Each seed has an initial error of its own; nothing corrects the heading afterwards.
    initial_deg = np.rad2deg([parts["pose"].error[0, 2] for _, parts in runs])
    assert np.std(initial_deg) == pytest.approx(CONFIGURATION.initial.heading_stddev_deg, rel=0.5)


def true_states(path: Path, duration_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pose of the base and joint angles (K, 5) at whole cycles, from the bag's own truth."""
    with open_bag(path) as bag:
        match = match_topics(SALP, CONFIGURATION, bag.topics)
        recording = load_recording(bag, SALP, match, WhatIf())
    start = recording.first_stamp_ns()
    stamps = start + np.arange(0.0, duration_s + 0.1, 6.0).astype(np.int64) * 1_000_000_000
    bodies = {body: track.at(stamps, 0.1)[0] for body, track in recording.tracks.items()}
    parts = SALP.true_parts(CONFIGURATION, bodies)
    return parts["pose"], parts["joint_angles"]


@pytest.mark.parametrize(("gait", "sign"), [("forward", 1.0), ("backward", -1.0)])
def test_a_cycle_of_the_gait_moves_three_centimetres(gait: str, sign: float, tmp_path: Path) -> None:
    path = tmp_path / "bag"
    done = command("simulate", "salp", "--gait", gait, "--duration", "30", "--seed", "3", "--output", path, "--json")
    assert done.code == 0
    poses, joints = true_states(path, 30.0)
    steps = np.diff(poses, axis=0)
    forward_cm = 100.0 * (steps[:, 0] * np.cos(poses[:-1, 2]) + steps[:, 1] * np.sin(poses[:-1, 2]))
    # Motion capture is good to 0.1 mm, wheels to 0.05 mm/s: a cycle scatters by some 0.1 mm.
    assert np.mean(forward_cm) == pytest.approx(3.0 * sign, abs=0.05)
    assert np.abs(forward_cm - 3.0 * sign).max() < 0.1
    assert abs(np.rad2deg(poses[-1, 2] - poses[0, 2])) < 0.5  # over five cycles
    assert np.abs(np.rad2deg(joints[-1] - joints[0])).max() < 0.5


def test_a_row_has_the_figures_of_its_run(small: Campaign) -> None:
    rows = pd.read_parquet(small.folder / "results.parquet")
    assert len(rows) == 8
    assert list(rows["seed"]) == [seed for seed in "0123" for _ in range(2)]
    assert set(rows["status"]) == {"done"}
    assert set(rows["source"]) == {"simulated"}
    for _, row in rows.iterrows():
        metrics = json.loads((small.folder / row["folder"] / "metrics.json").read_text())
        assert row["joint_angles.rmse_deg"] == metrics["joint_angles"]["rmse_deg"]
        assert row["run.left_out_at_start_s"] == 1.0
        assert (small.folder / row["folder"] / "report.html").is_file()
    biased = rows[rows["what_if"] == "biased"]["joint_angles.rmse_deg"].to_numpy()
    plain = rows[rows["what_if"] == "as recorded"]["joint_angles.rmse_deg"].to_numpy()
    assert np.all(biased > 3.0 * plain)


def test_a_run_is_that_of_evaluate(small: Campaign) -> None:
    """The errors of a campaign's table are those of the run alone."""
    row = small.rows[4]
    options = EvaluateOptions(config=resource("config/salp_ideal.yaml"))
    source = simulated_source(simulated_runs("salp", "ideal", ["forward"], [2], 6.0)[0], options)
    part = evaluated(source, "ukf").result.parts["joint_angles"]
    time_s, parts = read_errors(small.folder / "runs" / row["name"] / "errors.parquet")
    assert parts["joint_angles"].settle_s == 1.0
    assert parts["joint_angles"].names == part.names
    assert parts["joint_angles"].units == ("rad", "rad")
    np.testing.assert_array_equal(parts["joint_angles"].error, part.error)
    np.testing.assert_array_equal(parts["joint_angles"].nees, part.nees)
    np.testing.assert_allclose(time_s, source.recording.series[1].stamps_ns * 1e-9, atol=1e-9)


def test_many_runs_together_are_thinned(small: Campaign) -> None:
    """To what memory holds, and the figures stay what they are but for that."""
    assert [thinning(runs) for runs in (1, 500, 501, 10_000)] == [1, 1, 2, 20]
    path = small.folder / "runs" / small.rows[0]["name"] / "errors.parquet"
    (time_s, parts), (some_s, some) = read_errors(path), read_errors(path, 3)
    np.testing.assert_array_equal(some_s, time_s[::3])
    np.testing.assert_array_equal(some["pose"].error, parts["pose"].error[::3])
    np.testing.assert_array_equal(some["pose"].nees, parts["pose"].nees[::3])


def test_pairs_are_compared(small: Campaign) -> None:
    found = {one.figure: one for one in differences(small)}
    one = found["joint_angles.rmse_deg"]
    assert (one.axis, one.before, one.after, one.pairs) == ("what_if", "as recorded", "biased", 4)
    rows = pd.read_parquet(small.folder / "results.parquet").pivot(index="seed", columns="what_if")
    change = rows["joint_angles.rmse_deg"]["biased"] - rows["joint_angles.rmse_deg"]["as recorded"]
    assert one.mean_change == pytest.approx(change.mean())
    assert one.interval[0] <= one.mean_change <= one.interval[1]
    assert one.verdict == "worse"


def test_lines_say_medians_and_worst_runs(small: Campaign) -> None:
    rows = pd.read_parquet(small.folder / "results.parquet").pivot(index="seed", columns="what_if")
    plain, biased = (rows["joint_angles.rmse_deg"][name].to_numpy() for name in ("as recorded", "biased"))
    groups = groups_of(small)
    lines = [line for group in groups for line in group.lines(differing_axes(groups))]
    of_joints = [cells for one, cells in lines if one.name == "joint_angles.rmse_deg"]
    for (_, figure, unit, median, worst, *_), values in zip(of_joints, (plain, biased), strict=True):
        assert (figure, unit) == ("Joint angles: RMSE", "deg")
        assert float(median) == pytest.approx(np.median(values), rel=0.01)
        assert float(worst) == pytest.approx(values.max(), rel=0.01)
    assert [cells[0] for _, cells in lines if cells[0]] == ["as recorded (4)", "biased (4)"]  # once each
    [change] = [one.cells() for one in differences(small) if one.figure == "joint_angles.rmse_deg"]
    _, figure, _, pairs, before, after, mean, verdict = change
    assert (figure, pairs, verdict) == ("Joint angles: RMSE", "4", "worse")
    assert float(before) == pytest.approx(np.median(plain), rel=0.01)
    assert float(after) == pytest.approx(np.median(biased), rel=0.01)
    assert float(mean.partition(" (")[0]) == pytest.approx(np.mean(biased - plain), rel=0.01)


def test_the_interval_of_a_mean_is_that_of_the_t_test() -> None:
    """For normal samples that are not too few; and it covers."""
    rng = np.random.default_rng(4)
    sample = rng.normal(1.0, 2.0, 60)
    expected = ttest_rel(sample, np.zeros(60)).confidence_interval(0.95)
    assert interval_of_mean(sample) == pytest.approx((expected.low, expected.high), abs=0.1)
    covered = [low <= 1.0 <= high for low, high in (interval_of_mean(rng.normal(1.0, 2.0, 20)) for _ in range(60))]
    assert 0.85 <= np.mean(covered) <= 1.0
    assert np.isnan(interval_of_mean(np.array([1.0, 2.0, 3.0]))).all()
    assert interval_of_mean(np.full(5, 2.0)) == (2.0, 2.0)
    same = Difference("estimator", "a", "b", "f", 5, 1.0, 1.0, 0.0, (-0.1, 0.1))
    assert same.verdict == "no difference shown"
    assert same._replace(interval=(float("nan"), float("nan"))).verdict == "no difference shown"
    assert same._replace(interval=(-0.2, -0.1)).verdict == "better"


@pytest.mark.slow
def test_the_figures_tell_a_fault(tmp_path: Path) -> None:
    """The same bounds fail where they should: a gyro with a bias."""
    [group] = groups_of(ideal("forward", 4, 30.0, tmp_path, WhatIf(bias=("imu/link_3.gyro_z=0.03",))))
    assert group.figures[0].largest > 0.3
    assert group.consistency["joint_angles"].in_band < 0.5
    assert group.consistency["joint_angles"].interval[0] > 1.0


# The same on any number of workers; interrupted, taken up again.


@pytest.mark.slow
def test_two_workers_give_what_one_process_gives(small: Campaign, tmp_path: Path) -> None:
    with open_workers(2) as workers:
        other = run_campaign(cases_of(read_table(table(tmp_path))), tmp_path / "campaign", workers)
    assert other.rows == small.rows
    assert contents(other.folder) == {
        name: data for name, data in contents(small.folder).items() if name != "report.html"
    }


def test_it_goes_on_where_it_stopped(small: Campaign, alone: Workers, tmp_path: Path) -> None:
    """Interrupted after five runs, one of them damaged since: the other four are not touched again."""
    cases = cases_of(read_table(table(tmp_path)))
    folder = tmp_path / "campaign"

    def stop(finished: int, failed: int) -> None:
        if finished == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_campaign(cases, folder, alone, progress=stop)
    assert not (folder / "results.parquet").exists()
    there = sorted((folder / "runs").iterdir())
    assert len(there) == 5
    (there[0] / "row.json").write_text('{"name": "half of a')
    before = {path: path.stat().st_mtime_ns for path in there}
    done = run_campaign(cases, folder, alone)
    assert done.earlier == 4
    assert [path for path in there if path.stat().st_mtime_ns != before[path]] == [there[0]]
    assert done.rows == small.rows
    assert (folder / "results.parquet").read_bytes() == (small.folder / "results.parquet").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
def test_ctrl_c_reaches_the_workers_too_and_the_same_command_goes_on(small: Campaign, tmp_path: Path) -> None:
    """A terminal's Ctrl-C is for the whole group; what starts and ends with it says nothing."""
    folder, place = tmp_path / "campaign", table(tmp_path)
    words = [sys.executable, "-m", "onboard_estimation", "campaign", str(place), "--output", str(folder)]
    process = subprocess.Popen(
        [*words, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        wait_until(lambda: any(folder.glob("runs/salp*/row.json")) or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=LONGEST_WAIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in said
    assert f"{folder} keeps what is done; the same command goes on from there" in said
    assert said.endswith("\ninterrupted\n")
    assert subprocess.run([*words, "--workers", "0"], capture_output=True, timeout=LONGEST_WAIT_S).returncode == 0
    assert (folder / "results.parquet").read_bytes() == (small.folder / "results.parquet").read_bytes()


@pytest.mark.slow
def test_workers_that_are_killed_lose_nothing(small: Campaign, tmp_path: Path) -> None:
    killed = []

    def kill(finished: int, failed: int) -> None:
        if finished == 2:
            killed.append(next(iter(workers.everywhere(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with open_workers(2) as workers:
        done = run_campaign(cases_of(read_table(table(tmp_path))), tmp_path / "campaign", workers, progress=kill)
    assert len(killed) == 1
    assert done.rows == small.rows


def test_a_full_disk_stops_it_and_what_is_done_is_kept(alone: Workers, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=700k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(["mount", *options], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        cases = cases_of(read_table(table(tmp_path)))
        with pytest.raises(UserError) as caught:
            run_campaign(cases, disk / "campaign", alone)
        said = re.search(r"no space left on device \(.* MB free in .*\); (\d) runs are kept", str(caught.value))
        assert said is not None, caught.value
        kept = int(said[1])
        assert 0 < kept < 8
        assert len(list((disk / "campaign" / "runs").iterdir())) == kept
        subprocess.run(["mount", "-o", "remount,size=20M", str(disk)], check=True)
        done = run_campaign(cases, disk / "campaign", alone)
        assert (done.earlier, len(done.rows), done.failures) == (kept, 8, [])
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_another_version_does_not_go_on(small: Campaign, alone: Workers, tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    shutil.copytree(small.folder, folder)
    record = json.loads((folder / "campaign.json").read_text())
    record["software"]["numpy"] = "1.0"
    (folder / "campaign.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"was begun with numpy 1\.0, now .*; name another --output"):
        run_campaign(cases_of(read_table(table(tmp_path))), folder, alone)
    (folder / "campaign.json").write_text("[]")
    with pytest.raises(UserError, match="cannot be read"):
        run_campaign(cases_of(read_table(table(tmp_path))), folder, alone)
    with pytest.raises(UserError, match="is not empty"):
        run_campaign(cases_of(read_table(table(tmp_path))), tmp_path, alone)


# Bags, and runs that fail.


def test_bags_and_runs_that_fail(alone: Workers, tmp_path: Path) -> None:
    """A bag that does not do is a row with its reason, and is tried again; one that is gone stops all before."""
    for name in ("one", "two"):
        write(tmp_path / "day" / name, salp_messages(4.0, seed=len(name)))
    (tmp_path / "day" / "three").mkdir()
    (tmp_path / "day" / "three" / "three.mcap").write_bytes(b"no bag at all")
    path = table(tmp_path, "bags: [day/*]\nestimators: [ukf]\noptions: {initial: exact}\n")
    done = run_campaign(cases_of(read_table(path)), tmp_path / "campaign", alone)
    states = {row["recording"]: row["status"] for row in done.rows}
    assert states == {"one": "done", "three": "failed", "two": "done"}
    [failure] = done.failures
    assert "three" in failure["reason"]
    assert "\n" not in failure["reason"]
    rows = pd.read_parquet(tmp_path / "campaign" / "results.parquet").set_index("recording")
    assert rows["reason"]["three"] == failure["reason"]
    assert np.isnan(rows["joint_angles.rmse_deg"]["three"])
    run = json.loads((tmp_path / "campaign" / rows["folder"]["one"] / "run.json").read_text())
    assert set(run["inputs_sha256"]) == {"bag"}
    write_campaign_report(done, "t")
    page = (done.folder / "report.html").read_text()
    assert failure["name"] in page

    shutil.rmtree(tmp_path / "day" / "three")
    write(tmp_path / "day" / "three", salp_messages(4.0, seed=3))
    again = run_campaign(cases_of(read_table(path)), tmp_path / "campaign", alone)
    assert (again.earlier, again.failures) == (2, [])
    cases = cases_of(read_table(path))
    shutil.rmtree(tmp_path / "day" / "two")
    with pytest.raises(UserError, match=r"not there: .*/day/two"):
        run_campaign(cases, tmp_path / "other", alone)


def test_other_people_s_estimates_stand_beside_ours(alone: Workers, tmp_path: Path) -> None:
    """The odometry that a run of ours published, put into the bag, is what another filter would leave there."""
    write(tmp_path / "first", salp_messages(4.0))
    assert command("evaluate", tmp_path / "first", "--output", tmp_path / "run").code == 0
    with open_bag(tmp_path / "run" / "estimates") as bag:
        theirs = [
            Sample("/theirs/odometry", "nav_msgs/msg/Odometry", raw.log_time_ns, bag.deserialize(raw))
            for raw in bag.messages()
            if raw.topic.endswith("/odometry")
        ]
    write(tmp_path / "bag", sorted([*salp_messages(4.0), *theirs], key=lambda one: one.log_time_ns))
    text = "robot: salp\nbags: bag\nconfigurations: {ours: {}, theirs: {trajectory: /theirs/odometry}}\n"
    done = run_campaign(cases_of(read_table(table(tmp_path, text))), tmp_path / "campaign", alone)
    assert done.failures == []
    ours, others = groups_of(done)
    assert {figure.name for figure in ours.figures} == {"pose.position_ate_rmse_m", "joint_angles.rmse_deg"}
    [figure] = others.figures
    assert figure.values == pytest.approx(next(one.values for one in ours.figures if one.name == figure.name))
    [change] = [one for one in differences(done) if one.figure == "pose.position_ate_rmse_m"]
    assert (change.before, change.after, change.pairs) == ("ours", "theirs", 1)
    assert change.mean_change == pytest.approx(0.0, abs=1e-9)
    write_campaign_report(done, "t")


# The command and the page.


def test_the_command(tmp_path: Path) -> None:
    words = ("campaign", "salp", "--seeds", "2", "--first-seed", "5", "--duration", "4", "--workers", "0")
    folder = tmp_path / "campaign"
    done = command(*words, "--gait", "forward", "--gait", "backward", "--output", folder, "--json")
    assert done.code == 0, done.error
    assert done.error == ""
    found = json.loads(done.out)
    assert (found["runs"], found["failed"]) == (4, [])
    assert [group["variant"] for group in found["groups"]] == ["forward", "backward"]
    rows = pd.read_parquet(folder / "results.parquet")
    assert sorted(set(rows["seed"])) == ["5", "6"]
    for group in found["groups"]:
        assert group["sources"] == ["simulated"]
        joints = group["figures"]["joint_angles.rmse_deg"]
        of_rows = rows[rows["variant"] == group["variant"]]["joint_angles.rmse_deg"]
        assert joints["by_run"] == list(of_rows)
        assert joints["worst"] == of_rows.max()
    again = command(*words, "--gait", "backward", "--output", folder)
    assert again.code == 0
    assert "2 of the 2 runs had been done before" in again.out
    assert "simulated" in again.out
    assert max(len(line) for line in again.out.splitlines() if "Joint" in line) <= 100
    # The line that a run's report gives repeats it.
    repeated = command(*rows["command"][0].split()[1:], "--output", tmp_path / "again", "--workers", "0", "--json")
    assert repeated.code == 0, repeated.error
    assert json.loads(repeated.out)["groups"][0]["figures"]["joint_angles.rmse_deg"]["by_run"] == [
        rows["joint_angles.rmse_deg"][0]
    ]


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attributes if name in ("href", "src") and value]


def test_the_page_leads_to_the_runs_and_nowhere_else(small: Campaign) -> None:
    assert write_campaign_report(small, "small <b>")[1] == list(differences(small))
    path = small.folder / "report.html"
    page = path.read_text()
    links = Links()
    links.feed(page)
    pictures = [link for link in links.found if link.startswith("data:image/png;base64,")]
    runs = [link for link in links.found if link not in pictures]
    assert len(pictures) == 2  # errors over time of the pose and of the joint angles
    assert len(set(runs)) == 8
    assert all((small.folder / link).is_file() for link in runs)
    assert page.count("<circle") == 2 * 8
    assert page.count("<iframe") == 5
    assert "small &lt;b&gt;" in page
    assert "<b>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "overconfident in joint angles (biased)" in page.replace("Overconfident", "overconfident")
    before = path.read_bytes()
    write_campaign_report(small, "small <b>")
    assert path.read_bytes() == before


def test_names_from_a_table_are_shown_as_they_are(alone: Workers, tmp_path: Path) -> None:
    label = "<script>alert(1)</script> / ../.."
    text = yaml.safe_dump(
        {
            "robot": "salp",
            "simulated": {"variants": ["forward"], "seeds": 1, "duration_s": 2},
            "what_ifs": {label: {}, "b": {"bias": ["imu/link_3.gyro_z=0.1"]}},
        }
    )
    done = run_campaign(cases_of(read_table(table(tmp_path, text))), tmp_path / "campaign", alone)
    assert not done.failures
    assert all(path.parent == tmp_path / "campaign" / "runs" for path in (tmp_path / "campaign" / "runs").iterdir())
    write_campaign_report(done, "t")
    page = (done.folder / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
