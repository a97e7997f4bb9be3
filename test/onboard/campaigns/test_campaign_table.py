"""What a campaign is asked for: the table, its typos, and what no campaign can be made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from campaign_samples import table
from evaluation_samples import command, refusal

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from onboard_estimation.campaigns.table import Table, cases_of, read_table


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
    assert second.options.what_if.delay == ("imu=20ms",)
    assert first.options.what_if.bias == ("imu/link_1.gyro_z=0.01",)
    assert second.options.what_if.bias == ("imu/link_1.gyro_z=0.01", "imu/link_2.gyro_z=0.02")  # those of both places
    assert (second.options.align_clock, first.options.align_clock) == (True, False)
    assert second.options.settings.settle_s == 2.0
    assert {case.keep for case in cases} == {"figures"}
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["is no table: it needs keys such as robot, bags"]),
        ("[salp]", ["is no table"]),
        ("robot: salp\n bags: x", ["is no YAML"]),
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
        ("bags: x\noptions: {settle: .nan, seed: .inf}", ["settle is nan, which", "seed is inf, which"]),
        (f"bags: x\noptions: {{settle: 1{'0' * 400}}}", ["settle is 1"]),
        ("robot: salp\nbags: []", ["bags is [], not a list of names"]),
        ("robot: salp\nbags: [3]", ["bags is [3], not a list of names"]),
        ("bags: ['nothing_*']", ["no bag is called nothing_*"]),
        ("bags: x\nwhat_ifs: {a: 3}", ["what_ifs: a is 3, not options of evaluate"]),
        ("bags: x\noptions: {mirror_truth: w}", ["--mirror-truth w: must be one or more of x, y, z"]),
        ("robot: salq\nbags: x", ["no robot 'salq'; installed are"]),
        ("robot: salp\nbags: x\nestimators: [ekf]", ["salp has no estimator 'ekf'; it has ukf"]),
        ("robot: salp\nbags: x\noptions: {set: {gyro.axis: w}}", ["gyro.axis"]),
        ("robot: salp\nbags: x\noptions: {config: gone.yaml}", ["gone.yaml"]),
        ("simulated: {seeds: 0-3}", ["simulated: which robot? write robot: NAME"]),
        ("robot: salp\nsimulated: {seeds: a-b}", ["seeds 'a-b': write a number or a range, such as 0-19"]),
        ("robot: salp\nsimulated: {seeds: 9-3}", ["seeds 9-3: from 9 to 3 is no range"]),
        ("robot: salp\nsimulated: {seeds: []}", ["seeds is empty: write a number or a range, such as 0-19"]),
        ("robot: salp\nsimulated: {scenario: sea}", ["salp has no scenario 'sea'; it has ideal"]),
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("salq",), "salq is no table, no bag and no robot; robots are"),
        (("salp", "--gait", "sideways"), "salp, scenario ideal: no variant 'sideways'; there are forward, backward"),
        (("salp", "--seeds", "0"), "--seeds"),
        (("salp", "--keep", "all"), "--keep all: must be one of figures, reports, everything"),
        (("a.yaml", "b.yaml"), "one table makes a campaign, 2 are given"),
        (("gone.yaml",), "gone.yaml cannot be read"),
        (("gone_*",), "no bag is called gone_*"),
        (("./gone",), "not there: "),
    ],
)
def test_what_no_campaign_can_be_made_of(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in command("campaign", *words, "--workers", "0").error.splitlines()[-1]


def test_a_what_if_that_is_none_is_a_row(tmp_path: Path) -> None:
    words = ("campaign", "salp", "--gait", "forward", "--seeds", "1", "--duration", "1", "--workers", "0")
    done = command(*words, "--drop", "imu/link_9", "--output", tmp_path / "campaign", "--json")
    assert "--drop imu/link_9: no such sensor" in json.loads(done.out)["failed"][0]["reason"]
    assert done.code == 2
