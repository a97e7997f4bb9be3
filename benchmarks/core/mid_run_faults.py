"""Would it notice? Faults amid simulated runs: told within 5 s or covered at 3 sigma, and false alarms an hour.

Scenario `hardware`, nothing trained, each row its own twenty seeds, of which none was looked at before. The figures are
those of `evaluate --fault`: rightly told is what names the faulty sensor, or none where the robot itself changed;
covered is the share of the errors within 3 sigma from the fault on, of the part of the state where it is least.
False alarms are counted over runs without a fault and over the time before each fault: no two of these runs are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.measuring import Row, cells_row, in_turns, row
from onboard_estimation.contract.result import FAULT
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions, WhatIf
from onboard_estimation.judging.simulated_bags import SimulatedRun, simulated_source
from onboard_estimation.judging.told import COVERED, SOON_S

FIRST_SEED, APART, RUNS = 2000, 100, 20
"""Seeds of the first row of all, from one row to the next, and how many of each."""
LEAST_NOTICED, MOST_ALARMS = 0.90, 1.0
"""Share of the runs; an hour."""
VARIANTS = {"hopper": "mixed", "thruster_chain": "mixed", "salp": "forward"}
Figures = Mapping[str, float]


class Kind(NamedTuple):
    """A row: what happens to a robot, and how long its runs are; `fault` is empty where nothing does."""

    robot: str
    name: str
    fault: str
    duration_s: float
    runs: int = RUNS
    drop: tuple[str, ...] = ()

    @property
    def asked(self) -> str:
        """The fault; where there is none, a change by nothing at the end, before which all that is told is false."""
        sensor = "imu/low_g" if self.robot == "hopper" else "imu/link_2"
        return self.fault or f"{sensor}.gyro_z=+0@{self.duration_s - 0.5:g}"


_BLIND = ("imu/attitude",)
KINDS = (
    Kind("hopper", "no attitude sensor, gyro +0.05 rad/s", "imu/low_g.gyro_y=+0.05@20", 40.0, drop=_BLIND),
    Kind("hopper", "no attitude sensor, gyro +0.15 rad/s", "imu/low_g.gyro_y=+0.15@20", 40.0, drop=_BLIND),
    Kind("hopper", "low-g scale +8 %", "imu/low_g.accel_z=*1.08@20", 40.0),
    Kind("hopper", "high-g sensor upside down", "imu/high_g.accel=*-1@20", 40.0),
    Kind("hopper", "leg softer by a fifth", "leg.stiffness=*0.8@20", 40.0),
    Kind("hopper", "leg stiffer by half", "leg.stiffness=*1.5@20", 40.0),
    Kind("hopper", "leg loses half as much again", "leg.loss=*1.5@20", 40.0),
    Kind("hopper", "3 N downwards", "body.force=-3@20", 40.0),
    Kind("hopper", "3 N downwards for 2 s", "body.force=-3@20..22", 40.0),
    Kind("hopper", "none", "", 40.0),
    Kind("hopper", "none, no attitude sensor", "", 40.0, drop=_BLIND),
    Kind("thruster_chain", "gyro of the middle link +0.03 rad/s", "imu/link_2.gyro_z=+0.03@15", 30.0),
    Kind("thruster_chain", "IMU of an end silent for 8 s", "imu/link_1=silent@15..23", 30.0),
    Kind("thruster_chain", "IMU stuck for 5 s", "imu/link_3=stuck@15..20", 30.0),
    Kind("thruster_chain", "draught for 2 s, 0.3 N in all", "draught=+0.1@15..17", 30.0),
    Kind("thruster_chain", "none", "", 30.0, runs=40),
    Kind("salp", "wheel 30 % weak", "wheel_2=*0.7@15", 30.0),
    Kind("salp", "gyro silent for 10 s", "imu/link_2=silent@15..25", 30.0),
    Kind("salp", "payload", "load_2=*1.5@15", 30.0),
    Kind("salp", "none", "", 30.0, runs=40),
)
"""Of issue 36, and without a fault; with the time before faults half an hour of each robot and more."""


def jobs(quick: bool) -> list[tuple[int, int]]:
    """Numbers of kinds and seeds, one of each kind before the second of any."""
    most = 1 if quick else max(kind.runs for kind in KINDS)
    seeds = [FIRST_SEED + APART * number for number in range(len(KINDS))]
    return [(number, seeds[number] + k) for k in range(most) for number, kind in enumerate(KINDS) if k < kind.runs]


def judged(number: int, seed: int) -> dict[str, float]:
    """What `evaluate` says of the fault in a run; the parts' shares by `part.coverage_3_sigma_after`."""
    kind = KINDS[number]
    options = EvaluateOptions(what_if=WhatIf(drop=kind.drop, fault=(kind.asked,)))
    run = SimulatedRun(kind.robot, "hardware", VARIANTS[kind.robot], kind.duration_s, seed)
    source = simulated_source(run, options)
    result = judge(source.robot, source.configuration, source.estimators[0], source.recording, source.options.settings)
    found: dict[str, float] = {}
    for name, value in result.metrics[FAULT].items():
        part = value.items() if isinstance(value, Mapping) else ()
        found |= {f"{name}.{key}": float(one) for key, one in part} if part else {name: float(value)}
    return found


def mid_run_faults(quick: bool) -> list[Row]:
    """Faults amid simulated runs of every robot: told within 5 s or covered at 3 sigma, and false alarms an hour."""
    asked = jobs(quick)
    return rows_of(asked, in_turns(judged, asked))


def rows_of(asked: Sequence[tuple[int, int]], found: Sequence[Figures]) -> list[Row]:
    """Targets of each robot, then a line for every fault."""
    by_kind: dict[int, list[Figures]] = {}
    for (number, _), figures in zip(asked, found, strict=True):
        by_kind.setdefault(number, []).append(figures)
    lines = {number: _fault_row(number, by_kind[number]) for number in sorted(by_kind) if KINDS[number].fault}
    targets = []
    for robot in VARIANTS:
        of_it = [lines[number] for number in lines if KINDS[number].robot == robot]
        watched = [one for number in by_kind if KINDS[number].robot == robot for one in by_kind[number]]
        if of_it and watched:
            targets += _targets(robot, of_it, watched)
    return [*targets, *lines.values()]


def _targets(robot: str, lines: Sequence[Row], watched: Sequence[Figures]) -> list[Row]:
    worst, runs = min(lines, key=lambda one: float(one["noticed"])), sum(one["runs"] for one in lines)
    missed = sum(round((1.0 - one["noticed"]) * one["runs"]) for one in lines)
    figure = f"{100.0 * (1.0 - missed / runs):.0f} % of {runs} runs; least {100.0 * worst['noticed']:.0f} %: "
    figure += worst["cells"]["fault"]
    hours = sum(one["before_s"] for one in watched) / 3600.0
    alarms = sum(int(one["false_alarms"]) for one in watched)
    return [
        row(f"{robot}, faults told within {SOON_S:g} s or covered at 3 sigma (>= {100.0 * COVERED:g} %)", figure,
            f">= {100.0 * LEAST_NOTICED:g} % of each fault", worst["noticed"] >= LEAST_NOTICED),
        row(f"{robot}, false alarms without a fault and before it",
            f"{alarms} in {hours:.2f} h, {alarms / hours:.1f} an hour", f"<= {MOST_ALARMS:g} an hour",
            alarms / hours <= MOST_ALARMS, alarms=alarms, hours=hours),
    ]  # fmt: skip


def _fault_row(number: int, found: Sequence[Figures]) -> Row:
    kind = KINDS[number]
    after_s = np.array([one.get("rightly_told_after_s", np.inf) for one in found])
    covered = np.array([one["coverage_3_sigma_after"] for one in found])
    noticed = (after_s <= SOON_S) | (covered >= COVERED)
    silent = int(np.count_nonzero(~noticed & ~np.isfinite(after_s)))
    names = sorted({key.partition(".")[0] for one in found for key in one if key.endswith(".coverage_3_sigma_after")})
    least = {name: min(one.get(f"{name}.coverage_3_sigma_after", np.inf) for one in found) for name in names}
    told = np.isfinite(after_s)
    cells = {
        "robot": kind.robot,
        "fault": kind.name,
        "runs": f"{len(found)}",
        f"told within {SOON_S:g} s": f"{100.0 * np.mean(after_s <= SOON_S):.0f} %",
        "after, median": f"{np.median(after_s[told]):.2g} s" if told.any() else "",
        "covered: median": f"{100.0 * np.median(covered):.1f} %",
        "worst": f"{100.0 * covered.min():.1f} % ({min(least, key=lambda name: least[name]).replace('_', ' ')})",
        "told or covered": f"{100.0 * np.mean(noticed):.0f} %",
        "wrong without a word": f"{silent}",
    }
    return cells_row(
        "Faults amid runs", f"{kind.robot}, {kind.name}", cells, fault=kind.fault, drop=list(kind.drop),
        duration_s=kind.duration_s, first_seed=FIRST_SEED + APART * number, runs=len(found),
        noticed=float(np.mean(noticed)), silent=silent, worst_by_part=least,
        false_alarms=sum(int(one["false_alarms"]) for one in found),
    )  # fmt: skip
