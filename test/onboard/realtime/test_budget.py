"""budget: real nodes fed over real DDS; figures that agree with what was sent; the verdict; nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import command, refusal
from launched import children_with
from live_graph import wait_until
from live_nodes import start, stop

from onboard_estimation.contract.robot import find_robot
from onboard_estimation.realtime import budget, verdict
from onboard_estimation.realtime.machine_facts import machine, processor, state
from onboard_estimation.realtime.verdict import Figures

MODULE = [sys.executable, "-m", "onboard_estimation", "budget"]
GOOD = Figures(
    robot="hopper",
    estimator="kf1",
    seconds=10.0,
    sensors_hz={"imu/low_g": 840.0, "imu/high_g": 840.0, "motors": 200.0},
    share=0.2,
    sender_share=0.1,
    listener_share=0.05,
    others_share=0.0,
    estimates_per_s=840.0,
    topic="odometry",
    outputs_per_s=100.0,
    latency_ms=(0.7, 1.3, 2.8),
    sent=16_800,
    lost=0,
    memory_mb=90.0,
    sender_late_ms=0.5,
)


def consistent(report: dict[str, Any], code: int) -> dict[str, Any]:
    """What `--json` prints of one robot, and what holds of any figures, on a machine however busy."""
    (found,) = report["robots"]
    assert report["rule"] == verdict.RULE
    assert (found["verdict"] == "too slow") == (code == 1)
    assert 0.0 < found["share"] <= os.cpu_count()  # type: ignore[operator]
    assert found["headroom"] == pytest.approx(1.0 / found["share"]) or found["lost"]
    assert found["memory_mb"] > 20.0
    assert found["readings_per_s"] == pytest.approx(sum(found["sensors_hz"].values()))
    late = found["latency_ms"]
    # Where it is too slow, nothing may have come of what was sent in the time.
    assert late is None or 0.0 < late["median"] <= late["p99"] <= late["worst"]
    assert found["sentence"].startswith(f"{found['robot']} ")
    assert found["estimator"] in found["sentence"]
    facts = report["machine"]
    assert facts["cores"] == os.cpu_count()
    assert facts["versions"].keys() >= {"python", "numpy", "numba", "onboard_estimation"}
    assert {"processor", "memory_gb", "system", "runtime", "date_utc"} <= {name for name in facts if facts[name]}
    return dict(found)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.usefixtures("compiled_kernels")
class TestRealNodes:
    def test_hopper_at_its_rates(self) -> None:
        words = ["hopper", "--seconds", "2", "--set", "output_rate_hz=10", "--json"]
        run = subprocess.run([*MODULE, *words], capture_output=True, text=True, check=False)
        assert run.returncode in (0, 1), run.stderr  # a busy machine may be too slow
        found = consistent(json.loads(run.stdout), run.returncode)
        assert (found["estimator"], found["topic"]) == ("bounce", "odometry")
        # Of the simulated robot, which loses some readings itself: all of two seconds, however late they were sent.
        assert found["sensors_hz"]["imu/low_g"] * found["seconds"] == pytest.approx(2.0 * 840.0, rel=0.05)
        assert 0.0 < found["outputs_per_s"] <= 20.0  # a parameter of the node, 100 otherwise
        assert min(found["sender_share"], found["sent"]) > 0

    def test_what_is_too_slow_ends_with_1_and_the_way_out_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slow = replace(GOOD, robot="softrobot", estimator="marginalized_pf", share=1.5)
        monkeypatch.setattr(budget, "measure", lambda job, progress: slow)
        words = ("--estimator", "marginalized_pf", "--set", "learning.particles=400", "--json")
        outcome = command("budget", "softrobot", *words)
        assert outcome.code == 1, outcome.error
        found = consistent(json.loads(outcome.out), 1)
        assert "to lower it: a lighter --estimator, or fewer particles" in found["sentence"]

    def test_a_parameter_that_the_node_refuses_is_said_in_its_words(self) -> None:
        run = subprocess.run(
            [*MODULE, "hopper", "--set", "output_rate_hz=-1"], capture_output=True, text=True, check=False
        )
        assert run.returncode == 2
        assert "output_rate_hz: -1 is not allowed" in run.stderr
        assert "Traceback" not in run.stderr

    def test_interrupted_it_leaves_no_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BUDGET_TEST_MARK", uuid.uuid4().hex)
        process = start("budget", "hopper", "--seconds", "600")
        try:
            wait_until(lambda: len(children_with("BUDGET_TEST_MARK")) >= 2 or process.poll() is not None)
            assert process.poll() is None
        finally:
            out, errors = stop(process)
        assert process.returncode == 130
        assert out == ""
        assert "Traceback" not in errors
        assert children_with("BUDGET_TEST_MARK") == []


def test_robots_that_cannot_be_measured_and_wrong_usage_are_told() -> None:
    assert "no robot 'nobody'; installed are: hopper, " in refusal("budget", "nobody")
    sentence = refusal("budget", "pendulum")
    assert "no live estimator pendulum_estimator" in sentence
    assert "These can: hopper, salp, softrobot, strapdown, thruster_chain" in sentence
    for words, said in (
        (("--seconds", "1"), "--seconds 1: must be from 2 to 600"),
        (("--estimator", "ukf"), "--estimator and --config are of one robot"),
        (("hopper", "--estimator", "magic"), "hopper has no estimator 'magic'; it has bounce"),
        (("hopper", "--set", "nonsense=3"), "nonsense: unknown parameter"),
    ):
        assert said in refusal("budget", *words)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "fits"),
        ({"share": 0.5}, "fits"),
        ({"share": 0.51}, "tight"),
        ({"share": 0.81}, "too slow"),
        ({"latency_ms": (1.0, 10.1, 20.0)}, "tight"),
        ({"latency_ms": (1.0, 41.0, 50.0)}, "too slow"),
        ({"latency_ms": (1.0, 41.0, 50.0), "others_share": 1.2}, "tight"),
        ({"latency_ms": (1.0, 41.0, 50.0), "others_share": 1.2, "share": 0.6}, "too slow"),
        ({"latency_ms": (1.0, 4.9, 50.0), "outputs_per_s": 1000.0}, "fits"),
        ({"latency_ms": (1.0, 5.1, 50.0), "outputs_per_s": 1000.0}, "tight"),
        ({"lost": 1}, "tight"),
        ({"lost": 17}, "too slow"),
        ({"latency_ms": None, "outputs_per_s": 0.0}, "too slow"),
    ],
)
def test_the_rule(changes: dict[str, Any], expected: str) -> None:
    figures = replace(GOOD, **changes)
    assert verdict.state(figures) == expected
    assert expected in verdict.sentence(figures)


def test_it_measures_at_the_real_robots_rates_and_says_them() -> None:
    """LandSalp's gyros: 200 Hz each (paper, section V), and 20 Hz in its first scenario."""
    robot = find_robot("salp")
    series = budget._readings(robot, robot.configuration_type(), "ukf", 1.0)
    counts = {one.channel.sensor: len(one.stamps_ns) for one in series}
    assert [counts[f"imu/link_{link}"] for link in (1, 2, 3)] == pytest.approx([200] * 3, abs=10)
    assert "20 % of one core at 1880 readings a second (imu/low_g: 840 Hz)" in verdict.sentence(GOOD)


def test_what_is_lost_counts_as_work_left_undone() -> None:
    """A machine that gives a node half a core hides that it needs five; one that does little is held up by others."""
    figures = replace(GOOD, share=1.0, lost=8400)
    # Half of the readings were lost: the core would have to do twice as much.
    said = "output_rate_hz:=50 (now 100), or sensors at 25 % of their rates (imu/low_g: 210 Hz, now 840)"
    assert said in verdict.sentence(figures)
    assert "end other programs" in verdict.sentence(replace(figures, share=0.04))


def test_a_node_that_is_held_up_is_not_told_to_do_less() -> None:
    figures = replace(GOOD, latency_ms=(1.0, 60.0, 90.0), others_share=1.5, sender_late_ms=40.0)
    assert "end other programs" in verdict.sentence(figures)
    others, sender = verdict.notes(figures)
    assert "150 % of a core" in others
    assert "late by 40 ms" in sender


def test_a_raspberry_pi(tmp_path: Path) -> None:
    """As its kernel and firmware say it."""
    files = {
        "proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
        "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
        "sys/class/thermal/thermal_zone0/temp": "81302\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "600000\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1500000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "1800000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
        "sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processor(tmp_path).startswith("Raspberry Pi 4 Model B Rev 1.4, ")
    now = state(tmp_path)
    assert (now["clock_mhz"], now["temperature_c"]) == (1500, 81.3)
    assert now["throttled"] == "50005"
    facts = machine(tmp_path)
    assert (facts["governor"], facts["highest_clock_mhz"]) == ("ondemand", 1800)
