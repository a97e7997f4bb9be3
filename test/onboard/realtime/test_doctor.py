"""doctor and warmup: findings have a repair, faults decide the exit code, a second warm-up has nothing to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from evaluation_samples import command, refusal

from onboard_estimation.base import kernel_files
from onboard_estimation.realtime import doctor
from onboard_estimation.realtime.doctor import Finding

EXPECTED = {
    "Python", "drivers", "kernel cache", "disk", "clock", "CPU frequency", "ROS 2", "DDS", "domain", "discovery",
    "UDP buffer", "self-test",
}  # fmt: skip


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


@pytest.mark.live
def test_a_working_machine_has_no_faults(ros_domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXCHANGE_S", 60.0)  # of a machine that works, but is busy
    outcome = command("doctor", "--json")
    report = json.loads(outcome.out)
    found = {one["subject"]: one for one in report["findings"]}
    assert [one for one in report["findings"] if one["state"] == "fault"] == []
    assert outcome.code == 0
    assert set(found) >= EXPECTED
    assert found["domain"]["text"].startswith(f"{ros_domain} (from ROS_DOMAIN_ID)")
    assert found["self-test"]["text"].startswith("two processes exchanged a message")
    for one in report["findings"]:
        assert one["text"]
        assert one["state"] == "ok" or one["repair"] or "cannot be" in one["text"], one
        assert "\n" not in one["text"] + one["repair"]
    # As a table; nothing is looked at twice.
    monkeypatch.setattr(doctor, "findings", lambda *_: iter([Finding(**one) for one in report["findings"]]))
    shown = command("doctor")
    assert (shown.code, shown.error) == (outcome.code, "")
    assert {"what", "found", "repair", "ok", "ROS", "self-test"} <= set(shown.out.split())
    assert "no faults" in shown.out or "fault" in shown.out.splitlines()[-1]


def test_a_domain_that_is_none_is_a_fault_and_the_rest_is_still_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "300")
    found = by_subject(list(doctor.findings()))
    assert found["domain"].state == "fault"
    assert found["domain"].repair == "export ROS_DOMAIN_ID=0"
    assert found["discovery"].state in ("ok", "note")
    assert "self-test" not in found


def test_two_processes_that_cannot_talk_are_a_fault(ros_domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Discovery switched off: each process is alone."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")
    monkeypatch.setattr(doctor, "EXCHANGE_S", 2.0)
    found = by_subject(list(doctor.findings()))
    assert found["discovery"].state == "fault"
    assert found["self-test"].state == "fault"
    assert "firewall" in found["self-test"].repair


def test_another_package_drivers_is_a_fault_and_an_unwritable_cache_and_an_empty_one_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers" / "__init__.py").touch()
    code = "from onboard_estimation.realtime import doctor\nprint(list(doctor._drivers()), list(doctor._cache()))"
    kept = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path, env={**kept, "HOME": os.devnull}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "('fault', " in found
    assert f"comes first: {tmp_path / 'drivers'}" in found
    assert "cannot be written: every start compiles" in found
    empty = tmp_path / "cache" / "onboard_estimation-x"
    empty.mkdir(parents=True)
    monkeypatch.setattr(doctor, "configure", lambda: empty)
    ((state, _, repair),) = doctor._cache()
    assert (state, repair) == ("note", "onboard-estimation warmup")
    (empty / f"some{kernel_files.SUFFIX}").touch()
    assert list(doctor._cache()) == [("ok", f"1 kernels in {empty}")]


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
def test_a_second_warm_up_has_nothing_to_do(tmp_path: Path) -> None:
    first = command("warmup", "strapdown", "--json")
    assert first.code == 0, first.error
    report = json.loads(first.out)
    assert (report["robots"], report["notes"], bool(report["kept"])) == (["strapdown"], [], True)
    assert any(Path(report["folder"]).rglob(f"*{kernel_files.SUFFIX}"))
    words = [sys.executable, "-m", "onboard_estimation", "warmup", "strapdown"]
    second = subprocess.run(words, cwd=tmp_path, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True)
    assert "strapdown: nothing to do, all kernels are compiled already" in second.stdout
    assert f"kept in {report['folder']}" in " ".join(second.stdout.split())


def test_a_robot_that_is_none_is_not_warmed_up() -> None:
    assert "no robot 'nobody'; installed are: " in refusal("warmup", "nobody")
