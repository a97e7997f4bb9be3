"""Campaigns: what they are asked for, figures over seeds, interruptions, failures, the command and the page."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from bag_samples import Sample
from evaluation_samples import CONFIGURATION, command, refusal, salp_messages, write
from hypothesis import given, settings
from hypothesis import strategies as st
from live_graph import LONGEST_WAIT_S, wait_until
from report_samples import Page
from scipy.stats import ttest_rel

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from onboard_estimation.base.workers import Workers, open_workers
from onboard_estimation.campaigns.campaign import AXES, Campaign, run_campaign
from onboard_estimation.campaigns.report import write_campaign_report
from onboard_estimation.campaigns.summary import compared, differences, differing_axes, groups_of, interval_of_mean
from onboard_estimation.campaigns.table import Table, cases_of, read_table, simulated_runs
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import simulated_source
from onboard_estimation.report import run_folder
from onboard_estimation.report.evaluate import evaluate_bag, evaluated

IDEAL = EvaluateOptions(config=resource("config/salp_ideal.yaml"))
TABLE = """
robot: salp
simulated: {scenario: ideal, variants: [forward], seeds: 0-3, duration_s: 6}
what_ifs:
  as recorded: {}
  biased: {bias: {imu/link_3.gyro_z: 0.05}}
options: {config: CONFIG, settle: 1.0}
"""


def table(folder: Path, text: str = TABLE) -> Path:
    path = folder / "table.yaml"
    path.write_text(text.replace("CONFIG", str(resource("config/salp_ideal.yaml"))))
    return path


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


# Figures.


def of_joints(errors: pd.DataFrame, kind: str) -> Any:
    return errors.filter(regex=rf"^joint_angles\..*\.{kind}$").to_numpy()


@pytest.mark.slow
def test_joint_angles_over_ten_seeds(alone: Workers, tmp_path: Path) -> None:
    """The bounds, computed here from the runs' errors alone, and the campaign's own figures."""
    asked = Table("salp", simulated_runs("salp", "ideal", ["forward"], range(10), 60.0), keep="figures")
    campaign = run_campaign(cases_of(asked, IDEAL), tmp_path / "campaign", alone)
    files = [tmp_path / "campaign" / "runs" / row["name"] / "errors.parquet" for row in campaign.rows]
    runs = [pd.read_parquet(file) for file in files]
    settled = runs[0]["time_s"] >= campaign.rows[0]["figures"]["run.left_out_at_start_s"]
    errors, stddevs = ([of_joints(run, kind)[settled] for run in runs] for kind in ("error", "stddev"))
    rmse_deg = [np.rad2deg(np.sqrt(np.mean(one**2))) for one in errors]
    assert max(rmse_deg) <= 0.3
    assert np.median(rmse_deg) <= 0.1  # what an independent filter reaches
    covered = float(np.mean([np.abs(one) <= 3.0 * stddev for one, stddev in zip(errors, stddevs, strict=True)]))
    assert covered >= 0.985

    [group] = groups_of(campaign)
    [figure] = [one for one in group.figures if one.name == "joint_angles.rmse_deg"]
    assert figure.values == pytest.approx(rmse_deg)
    assert (figure.median, figure.largest) == (pytest.approx(np.median(rmse_deg)), pytest.approx(max(rmse_deg)))
    assert figure.worst["seed"] == str(int(np.argmax(rmse_deg)))
    judged = group.consistency["joint_angles"]
    assert judged.within_3_sigma == pytest.approx(covered)
    means = [np.mean(run["joint_angles.nees"][settled]) / 2 for run in runs]
    assert judged.nees == pytest.approx(np.mean(means))
    assert judged.interval[0] < judged.nees < judged.interval[1]
    # Each seed has an initial error of its own; nothing corrects the heading afterwards.
    initial_deg = np.rad2deg([run.filter(regex=r"^pose\..*\.error$").iloc[0, 2] for run in runs])
    assert np.std(initial_deg) == pytest.approx(CONFIGURATION.initial.heading_stddev_deg, rel=0.5)


def test_the_same_bounds_fail_where_a_gyro_is_biased(small: Campaign) -> None:
    plain, biased = groups_of(small)
    assert biased.figures[0].largest > 0.3 > plain.figures[0].median
    assert biased.consistency["joint_angles"].interval[0] > 1.0


def test_a_row_has_the_figures_of_its_run(small: Campaign) -> None:
    """And those are the figures of `evaluate`."""
    rows = pd.read_parquet(small.folder / "results.parquet")
    assert list(rows["seed"]) == [seed for seed in "0123" for _ in range(2)]
    assert set(rows["status"]) == {"done"}
    assert set(rows["source"]) == {"simulated"}
    for _, row in rows.iterrows():
        metrics = json.loads((small.folder / row["folder"] / "metrics.json").read_text())
        assert row["joint_angles.rmse_deg"] == metrics["joint_angles"]["rmse_deg"]
        assert (small.folder / row["folder"] / "report.html").is_file()
    source = simulated_source(simulated_runs("salp", "ideal", ["forward"], [2], 6.0)[0], IDEAL)
    part = evaluated(source, "ukf").result.parts["joint_angles"]
    errors = pd.read_parquet(small.folder / "runs" / small.rows[4]["name"] / "errors.parquet")
    assert [errors.attrs[f"joint_angles.{name}"] for name in part.names] == ["rad", "rad"]
    np.testing.assert_array_equal(of_joints(errors, "error"), part.error)
    np.testing.assert_array_equal(errors["joint_angles.nees"], part.nees)
    np.testing.assert_allclose(errors["time_s"], source.recording.series[1].stamps_ns * 1e-9, atol=1e-9)


def test_pairs_are_compared_and_lines_say_medians_and_worst_runs(small: Campaign) -> None:
    rows = pd.read_parquet(small.folder / "results.parquet").pivot(index="seed", columns="what_if")
    plain, biased = (rows["joint_angles.rmse_deg"][name].to_numpy() for name in ("as recorded", "biased"))
    [one] = [one for one in differences(small) if one.figure == "joint_angles.rmse_deg"]
    assert (one.axis, one.before, one.after, one.pairs) == ("what_if", "as recorded", "biased", 4)
    assert one.mean_change == pytest.approx(np.mean(biased - plain))
    assert one.interval[0] <= one.mean_change <= one.interval[1]
    _, figure, _, recordings, before, after, change, percent, verdict = one.cells()
    assert (figure, recordings, verdict) == ("Joint angles: RMSE", "4", "too few recordings: 5 % needs 1000 or more")
    said = [float(cell) for cell in (before, after, change.partition(" (")[0], percent)]
    means = np.mean(plain), np.mean(biased), np.mean(biased - plain)
    assert said == pytest.approx([*means, 100.0 * means[2] / means[0]], rel=0.01)
    groups = groups_of(small)
    lines = [line for group in groups for line in group.lines(differing_axes(groups))]
    assert [cells[0] for _, cells in lines if cells[0]] == ["as recorded (4)", "biased (4)"]  # once each
    of_joints = [cells for one, cells in lines if one.name == "joint_angles.rmse_deg"]
    for (_, figure, unit, median, worst, *_), values in zip(of_joints, (plain, biased), strict=True):
        assert (figure, unit) == ("Joint angles: RMSE", "deg")
        assert [float(median), float(worst)] == pytest.approx([np.median(values), values.max()], rel=0.01)


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


Figure = st.floats(0.01, 100.0)


@given(st.lists(st.tuples(Figure, Figure), min_size=3, max_size=7))
@settings(max_examples=8)
def test_of_configurations_that_are_the_same_at_most_one_in_twenty_is_called_another(pairs: list[Any]) -> None:
    """Which of two that are the same is called the first is chance: of all choices, whatever the figures are."""
    found, shown = np.array(pairs), []
    for swaps in itertools.product((False, True), repeat=len(found)):
        one = compared(
            "estimator", "a", "b", "f", len(found), np.where(np.array(swaps)[:, None], found[:, ::-1], found)
        )
        shown.append(one.verdict not in ("no difference shown", "too few recordings"))
    assert np.mean(shown) <= 0.05
    assert len(found) >= 6 or not any(shown)


@pytest.mark.parametrize("count", [6, 12, 40])
def test_a_change_has_the_interval_of_the_t_test_and_as_many_recordings_as_are_needed_show_it(count: int) -> None:
    rng = np.random.default_rng(count)
    before, after = rng.normal(1.0, 0.1, count), rng.normal(1.1, 0.1, count)
    one = compared("estimator", "a", "b", "f", count, np.column_stack([before, after]))
    expected = ttest_rel(after, before)
    assert one.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert one.p_value == pytest.approx(expected.pvalue, rel=0.5)
    seen = [
        ttest_rel(rng.normal(1.05, 0.1, one.needed), rng.normal(1.0, 0.1, one.needed)).pvalue < 0.05 for _ in range(200)
    ]
    assert 0.4 < np.mean(seen) < 0.99


def table_of(figures: dict[tuple[str, str, str], float]) -> Campaign:
    """A campaign that came to a figure by seed, configuration and what-if."""
    rows = []
    for (seed, configuration, what_if), value in figures.items():
        asked = dict.fromkeys(AXES, "") | {"seed": seed, "configuration": configuration, "what_if": what_if}
        figure = "pose.position_ate_rmse_m"
        row = {"status": "done", "asked": asked, "parts": ["pose"], "headlines": [figure], "figures": {figure: value}}
        rows.append(row)
    return Campaign(Path(), tuple(rows))


@pytest.mark.parametrize(
    ("changes_mm", "verdict"),
    [
        ((-0.09, -0.06, -0.04, 0.02), "too few recordings"),  # twelve pairs would be better
        (
            (-0.04, -0.05, -0.06, -0.03, -0.04, -0.05, -0.04),
            "less than 5 %",
        ),  # of 14 mm: surely, and nothing to choose by
        ((-1.4, -1.5, -1.6, -1.3, -1.4, -1.5, -1.4), "better"),
        ((-14.0, 15.0, -16.0, 13.0, 14.0, -15.0, -14.0), "no difference shown"),
    ],
)
def test_a_recording_counts_once_however_many_configurations_it_is_run_with(
    changes_mm: tuple[float, ...], verdict: str
) -> None:
    names = ("as shipped", "quiet", "quieter")
    figures = {
        (str(seed), name, what_if): 1e-3 * (14.0 + seed + 1e-3 * number + (change if what_if else 0.0))
        for seed, change in enumerate(changes_mm)
        for number, name in enumerate(names)
        for what_if in ("", "biased")
    }
    configurations, many = list(differences(table_of(figures)))[:2], list(differences(table_of(figures)))[2]
    [few] = differences(table_of({key: value for key, value in figures.items() if key[1] == names[0]}))
    assert (many.pairs, many.recordings) == (3 * few.pairs, len(changes_mm))
    assert (many.verdict, few.verdict) == (verdict, verdict)
    assert many.interval == pytest.approx(few.interval)
    assert many.mean_change == pytest.approx(1e-3 * np.mean(changes_mm))
    assert {one.verdict for one in configurations} <= {"less than 5 %", "too few recordings"}


# The same on any number of workers; interrupted, taken up again.


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
def test_ctrl_c_reaches_the_workers_too_and_the_same_command_goes_on(alone: Workers, tmp_path: Path) -> None:
    """A terminal's Ctrl-C is for the whole group; what starts and ends with it says nothing."""
    folder, place = tmp_path / "campaign", table(tmp_path, TABLE + "keep: figures\n")
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
    assert f"{folder} keeps what is done; the same command goes on from there" in said
    assert said.endswith("\ninterrupted\n")
    assert subprocess.run([*words, "--workers", "0"], capture_output=True, timeout=LONGEST_WAIT_S).returncode == 0
    whole = run_campaign(cases_of(read_table(place)), tmp_path / "whole", alone).folder
    assert (folder / "results.parquet").read_bytes() == (whole / "results.parquet").read_bytes()


def test_another_version_does_not_go_on(small: Campaign, alone: Workers, tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    shutil.copytree(small.folder, folder)
    record = json.loads((folder / "campaign.json").read_text())
    record["software"]["numpy"] = "1.0"
    (folder / "campaign.json").write_text(json.dumps(record))
    cases = cases_of(read_table(table(tmp_path)))
    with pytest.raises(UserError, match=r"was begun with numpy 1\.0, now .*; name another --output"):
        run_campaign(cases, folder, alone)
    (folder / "campaign.json").write_text("[]")
    with pytest.raises(UserError, match="cannot be read"):
        run_campaign(cases, folder, alone)
    with pytest.raises(UserError, match="is not empty"):
        run_campaign(cases, tmp_path, alone)


# Bags, and runs that fail.


def test_bags_and_runs_that_fail(alone: Workers, tmp_path: Path) -> None:
    """A bag that does not do is a row with its reason, and is tried again; one that is gone stops all before."""
    bag = write(tmp_path / "day" / "one", salp_messages(2.0))
    (tmp_path / "day" / "two").mkdir()
    (tmp_path / "day" / "two" / "two.mcap").write_bytes(b"no bag at all")
    label = "<script>alert(1)</script> / ../.."  # is shown as it is, and leads nowhere
    text = {"bags": "day/*", "what_ifs": {label: {}}, "options": {"settle": 0.5}, "keep": "figures"}
    path = table(tmp_path, yaml.safe_dump(text))
    done = run_campaign(cases_of(read_table(path)), tmp_path / "campaign", alone)
    assert {row["recording"]: row["status"] for row in done.rows} == {"one": "done", "two": "failed"}
    [failure] = done.failures
    assert "two" in failure["reason"]
    assert "\n" not in failure["reason"]
    rows = pd.read_parquet(tmp_path / "campaign" / "results.parquet").set_index("recording")
    assert rows["reason"]["two"] == failure["reason"]
    assert np.isnan(rows["joint_angles.rmse_deg"]["two"])
    folder = tmp_path / "campaign" / rows["folder"]["one"]
    assert set(json.loads((folder / "run.json").read_text())["inputs_sha256"]) == {"bag"}
    assert folder.resolve().parent == tmp_path / "campaign" / "runs"
    write_campaign_report(done, "t")
    page = (done.folder / "report.html").read_text()
    assert failure["name"] in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page

    shutil.rmtree(tmp_path / "day" / "two")
    shutil.copytree(bag, tmp_path / "day" / "two")
    cases = cases_of(read_table(path))
    again = run_campaign(cases, tmp_path / "campaign", alone)
    assert (again.earlier, again.failures) == (1, [])
    shutil.rmtree(tmp_path / "day" / "two")
    with pytest.raises(UserError, match=r"not there: .*/day/two"):
        run_campaign(cases, tmp_path / "other", alone)


def test_other_people_s_estimates_stand_beside_ours(
    alone: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The odometry that a run of ours published, put into the bag, is what another filter would leave there."""
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    evaluate_bag(write(tmp_path / "first", salp_messages(4.0)), EvaluateOptions(), tmp_path / "run")
    with open_bag(tmp_path / "run" / "estimates") as bag:
        theirs = [
            Sample("/theirs/odometry", "nav_msgs/msg/Odometry", raw.log_time_ns, bag.deserialize(raw))
            for raw in bag.messages()
            if raw.topic.endswith("/odometry")
        ]
    write(tmp_path / "bag", sorted([*salp_messages(4.0), *theirs], key=lambda one: one.log_time_ns))
    text = "robot: salp\nbags: bag\nconfigurations: {ours: {}, theirs: {trajectory: /theirs/odometry}}\nkeep: figures\n"
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
    words = ["campaign", "salp", "--seeds", "2", "--first-seed", "5", "--duration", "2", "--workers", "0"]
    words += ["--keep", "figures"]
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
        assert (joints["by_run"], joints["worst"]) == (list(of_rows), of_rows.max())
    again = command(*words, "--gait", "backward", "--output", folder)
    assert "2 of the 2 runs had been done before" in again.out
    assert max(len(line) for line in again.out.splitlines() if "Joint" in line) <= 100


def test_the_page_leads_to_the_runs_and_nowhere_else(small: Campaign) -> None:
    assert write_campaign_report(small, "small <b>")[1] == list(differences(small))
    path = small.folder / "report.html"
    page = path.read_text()
    links = [link for _, found in Page(page).elements if (link := found.get("href") or found.get("src"))]
    pictures = [link for link in links if link.startswith("data:image/png;base64,")]
    runs = [link for link in links if link not in pictures]
    assert len(pictures) == 2 + 2  # every run, and errors over time, of the pose and of the joint angles
    assert len(set(runs)) == 8
    assert all((small.folder / link).is_file() for link in runs)
    assert page.count("<iframe") == 5
    assert "small &lt;b&gt;" in page
    assert "<b>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "overconfident in joint angles (biased)" in page.replace("Overconfident", "overconfident")
    before = path.read_bytes()
    write_campaign_report(small, "small <b>")
    assert path.read_bytes() == before


def test_the_page_says_too_unsure_and_cuts_no_name(small: Campaign, tmp_path: Path) -> None:
    """With errors that are nothing against the deviations; groups that differ in the ends of their names alone."""

    def unsure(name: str, value: float) -> float:
        return 1e-4 * value if "nees" in name else 1.0 if "coverage" in name else value

    rows = [
        {**row, "what_if": f"{'a long name ' * 20}{row['what_if']}"}
        | {"figures": {name: unsure(name, value) for name, value in row["figures"].items()}}
        for row in small.rows
    ]
    folder = tmp_path / "unsure"
    shutil.copytree(small.folder, folder)
    write_campaign_report(Campaign(folder, tuple(rows)), "unsure")
    page = (folder / "report.html").read_text()
    verdict = page.partition('class="verdict">')[2].partition("<")[0].lower()
    assert verdict.startswith("too unsure in ")
    assert "overconfident" not in verdict
    assert all(f"{row['what_if']} (4)</" in page for row in rows), "the table has whole names"


def test_bags_of_one_name_are_told_apart(tmp_path: Path) -> None:
    bags = tuple(tmp_path / day / "bag" for day in ("monday", "tuesday"))
    labels = [case.labels["recording"] for case in cases_of(Table("salp", bags))]
    assert labels == ["monday/bag", "tuesday/bag"]
    with pytest.raises(UserError, match="two runs are the same"):
        cases_of(Table("salp", (bags[0], bags[0])))


def test_a_run_is_another_when_its_files_are_or_it_keeps_more(tmp_path: Path) -> None:
    path, names = tmp_path / "quiet.yaml", set()
    text = resource("config/salp_ideal.yaml").read_text()
    for content in (text, text + "\n# the same to a filter, but another file\n"):
        path.write_text(content)
        for keep in ("figures", "everything"):
            [case] = cases_of(Table("salp", (tmp_path / "bag",), options={"config": path}, keep=keep))
            assert set(case.files()) == {tmp_path / "bag", path}
            names.add(case.name)
    assert len(names) == 4


def test_what_a_table_says(tmp_path: Path) -> None:
    (tmp_path / "quiet.yaml").write_text(resource("config/salp_ideal.yaml").read_text())
    path = table(
        tmp_path,
        """
robot: salp
simulated: {scenario: ideal, variants: [forward, left], seeds: [3, 7-8], duration_s: 5}
estimators: [ukf]
configurations:
  quiet: {config: quiet.yaml, set: {gyro.noise_stddev_rad_s: 0.004, chain.joint_drag: [0.01, 0.02]}}
  default: {}
what_ifs:
  none:
  late: {delay: imu=20ms, align_clock: true, bias: [imu/link_2.gyro_z=0.02]}
options: {settle: 2, bias: [imu/link_1.gyro_z=0.01]}
keep: figures
""",
    )
    cases = cases_of(read_table(path))
    assert len(cases) == 2 * 3 * 2 * 2
    labels = [(case.labels["variant"], case.labels["seed"]) for case in cases]
    assert list(dict.fromkeys(labels)) == [(gait, seed) for gait in ("forward", "left") for seed in "378"]
    first, second = cases[0], cases[1]
    assert (second.labels["configuration"], second.labels["what_if"]) == ("quiet", "late")
    assert second.options.config == tmp_path / "quiet.yaml"
    assert second.options.overrides == {"gyro.noise_stddev_rad_s": 0.004, "chain.joint_drag": [0.01, 0.02]}
    assert second.options.what_if.delay_s == {"imu": 0.02}
    assert first.options.what_if.bias == {"imu/link_1.gyro_z": 0.01}
    assert second.options.what_if.bias == {"imu/link_1.gyro_z": 0.01, "imu/link_2.gyro_z": 0.02}  # those of both places
    assert (second.options.align_clock, first.options.align_clock) == (True, False)
    assert second.options.settings.settle_s == 2.0
    assert {case.keep for case in cases} == {"figures"}
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["is no table: it needs keys such as robot, bags"]),
        ("robot: salp\n bags: x", ["is no valid YAML"]),
        ("robot: salp", ["needs either bags or simulated"]),
        # All are told at once.
        (
            "robot: salp\nbag: [x]\nkeep: all\nestimator: [ukf]\nwhat_ifs: [a]\noptions: {setle: 3, seed: 1.5}",
            [
                *("bag is no key here; did you mean bags?", "estimator is no key here; did you mean estimators?"),
                *(
                    "keep is 'all'; there are figures, reports, everything",
                    "what_ifs is ['a']; it needs a name for each",
                ),
                *("setle is no key here; did you mean settle?", "seed is 1.5, which is nothing for --seed"),
            ],
        ),
        ("bags: x\noptions: {settle: soon, smooth: 1}", ["settle is 'soon', which is noth", "smooth is 1, which is n"]),
        ("robot: salp\nbags: []", ["bags is [], not a list of names"]),
        ("bags: x\nwhat_ifs: {a: 3}", ["what_ifs: a is 3, not options of evaluate"]),
        ("bags: x\noptions: {mirror_truth: w}", ["--mirror-truth w: must be one or more of x, y, z"]),
        ("simulated: {seeds: 0-3}", ["simulated: which robot? write robot: NAME"]),
        ("robot: salp\nsimulated: {seeds: a-b}", ["seeds 'a-b': write a number or a range, such as 0-19"]),
        ("robot: salp\nsimulated: {seeds: 9-3}", ["seeds 9-3: from 9 to 3 is no range"]),
        ("robot: salp\nsimulated: {variants: [sideways]}", ["no variant 'sideways'"]),
        ("robot: salp\nsimulated: {duration_s: long}", ["duration_s is 'long', not a number"]),
        ("robot: salp\nsimulated: {duration_s: 0}", ["--duration 0: must be above 0 s"]),
        ("robot: salp\nsimulated: {seeds: 0-199998, variants: [forward, left]}", ["runs are too many"]),
    ],
)
def test_tables_with_typos(text: str, said: list[str], tmp_path: Path) -> None:
    told = refusal("campaign", table(tmp_path, text), "--output", tmp_path / "campaign")
    assert [one for one in said if one not in told] == []
    assert not (tmp_path / "campaign").exists()


def test_faults_of_all_kinds_are_told_at_once_and_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no model")
    text = """
robot: salp
bags: ['monday_*', tuesday]
estimators: [ukf, ekf]
configurations:
  trained: {model: text.npz}
  other: {model: gone.npz, config: gone.yaml}
  quiet: {set: {gyro.noise: 1}}
what_ifs: {late: {delay: imu/link_9=20ms}, none: {}}
options: {setle: 3}
"""
    told = refusal("campaign", table(tmp_path, text), "--output", tmp_path / "campaign")
    kinds = (
        *("setle is no key here; did you mean settle?", "no bag is called monday_*", "no estimator 'ekf'"),
        *("text.npz: not a model", "--delay imu/link_9: no such sensor", "gyro.noise: unknown parameter"),
        f"not there: {tmp_path}/gone.yaml, {tmp_path}/gone.npz, {tmp_path}/tuesday",
    )
    assert [told.count(kind) for kind in kinds] == [1] * len(kinds)
    (tmp_path / "tuesday").mkdir()
    told = refusal("campaign", table(tmp_path, text.replace("robot: salp", "")), "--output", tmp_path / "campaign")
    assert [one for one in ("text.npz", "imu/link_9: no such", "gyro.noise", "'ekf'") if one not in told] == []
    assert not (tmp_path / "campaign").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("salq",), "salq is no table, no bag and no robot; robots are"),
        (("salp", "--gait", "sideways"), "salp, scenario ideal: no variant 'sideways'; there are forward, backward"),
        (("a.yaml", "b.yaml"), "one table makes a campaign, 2 are given"),
        (("gone.yaml",), "gone.yaml: cannot be read"),
        (("./gone",), "not there: "),
    ],
)
def test_what_no_campaign_can_be_made_of(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in command("campaign", *words, "--workers", "0").error.splitlines()[-1]
