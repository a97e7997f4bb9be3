"""Thrust that shows a chain's masses and inertias: designed pulses against the paper's square waves, in a filter.

The paper's chain, prior and IMUs (Tables II to IV), 0.9 s. Square waves: all thrusters on from 0.2, 0.5 and 0.8 s on,
for 0.1 s each. Designed: as many pulses of the same length and thrust, each thruster for itself, no joint bent further
than 110 degrees, found on the prior mean alone. Then 100 truths are drawn from the prior (headings, masses, inertias),
and the filter of `paper_ukf` runs on each, with the paper's process noise or without. Shares are standard
deviations of masses and inertias at the end against those of the prior, of the parameter where that is largest; "left"
is the filter's, median over the seeds, "errors" the RMS over the seeds.

    python -m benchmarks --only thruster_chain_observability
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from salp_estimation.thruster_chain.assumed_chain import assumed_chain
from salp_estimation.thruster_chain.configuration import PaperConfiguration, ThrusterChainConfiguration
from salp_estimation.thruster_chain.imu import ImuModel
from salp_estimation.thruster_chain.information import moved
from salp_estimation.thruster_chain.observed_chain import blocks
from salp_estimation.thruster_chain.paper_filter import PaperFilter
from salp_estimation.thruster_chain.thrust_design import Pattern, Task, design

Row = dict[str, Any]
Array = NDArray[np.float64]

LINKS, SLOTS, SLOT_S, RATE_HZ, LIMIT_N = 3, 9, 0.1, 100.0, 1.0
NOISE = {
    "none": PaperConfiguration(heading_noise_rad=0.0, rate_noise_rad_s=0.0, mass_noise_kg=0.0, inertia_noise_kg_m2=0.0),
    "the paper's": PaperConfiguration(),
}
SQUARE_WAVES = np.repeat(np.isin(np.arange(SLOTS), (2, 5, 8)).astype(np.int64)[:, None], LINKS, axis=1)
IN_TURNS = np.eye(LINKS, dtype=np.int64)[np.arange(SLOTS) % LINKS]
TARGET_RATIO = 0.9
"""Of the designed pulses' largest share to the square waves', in the filter."""


@dataclass(frozen=True)
class Plan:
    """How many seeds, and how many patterns a design may try."""

    seeds: int = 100
    most: int = 4000


QUICK = Plan(5, 300)


def run(quick: bool) -> list[Row]:
    """All rows."""
    return rows(QUICK if quick else Plan())


def rows(plan: Plan) -> list[Row]:
    """For both IMU models with and without process noise: square waves, designed pulses, and how they compare."""
    out: list[Row] = []
    for imu_model in ImuModel:
        for noise_name, paper in NOISE.items():
            configuration = configured(imu_model, paper)
            task = paper_task(configuration)
            pulses = int(SQUARE_WAVES.sum())
            found = design(task, [SQUARE_WAVES, IN_TURNS], pulses, np.random.default_rng(0), plan.most)
            named = {"square waves": SQUARE_WAVES, "designed": found.pattern}
            judged = {name: judge(configuration, task, pattern, plan.seeds) for name, pattern in named.items()}
            head = f"{imu_model.name.lower()}, process noise: {noise_name}"
            out += [_table_row(imu_model, noise_name, name, named[name], one) for name, one in judged.items()]
            ratio = judged["designed"].left / judged["square waves"].left
            out.append(
                {
                    "case": f"worst parameter, designed against square waves, {head}",
                    "figure": f"{ratio:.2f} of the deviation",
                    "target": f"<= {TARGET_RATIO:g}",
                    "met": bool(ratio <= TARGET_RATIO),
                    "patterns_tried": found.tried,
                }
            )
    return out


@dataclass(frozen=True)
class Judged:
    """Predicted and filtered shares, the errors' share, NEES of masses and inertias, 3-sigma coverage."""

    predicted: float
    left: float
    errors: float
    nees: float
    coverage: float


def configured(imu_model: ImuModel, paper: PaperConfiguration) -> ThrusterChainConfiguration:
    """The paper's robot, its IMUs read by a model."""
    name: Literal["physical", "paper"] = "paper" if imu_model is ImuModel.PAPER else "physical"
    return ThrusterChainConfiguration(imu_model=name, paper=paper)


def paper_task(configuration: ThrusterChainConfiguration) -> Task:
    """To find masses and inertias from the state of the design, straight and at rest."""
    assumed = assumed_chain(configuration, papers=True)
    return Task(
        assumed.chain,
        assumed.design[None],
        assumed.prior_stddev,
        assumed.noise_density,
        LIMIT_N,
        SLOT_S,
        SLOTS,
        RATE_HZ,
        joint_travel_rad=np.deg2rad(110.0),
    )


def filtered(
    configuration: ThrusterChainConfiguration,
    time_s: Array,
    thrust_n: Array,
    outputs: Array,
    mean: Array,
    stddev: Array,
) -> tuple[Array, Array]:
    """Mean (4N,) and covariance of headings, rates, masses and inertias after the last outputs, by the paper's filter.

    `mean` and `stddev` (5N + 2,) are those before the first.
    """
    paper_filter, count = PaperFilter(configuration, dead_reckoned=False), configuration.chain.count
    told = np.r_[0 : 2 * count, 2 * count + 2 : 4 * count + 2]
    moments = paper_filter.start(mean[told], np.diag(stddev[told] ** 2))
    heard = np.arange(count)
    for k in range(len(time_s)):
        moments, _ = paper_filter.update(moments, thrust_n[k], heard, outputs[k].reshape(count, 3))
        if k + 1 < len(time_s):
            moments = paper_filter.predict(moments, thrust_n[k], time_s[k + 1] - time_s[k])
    return paper_filter.published(moments)


def judge(configuration: ThrusterChainConfiguration, task: Task, pattern: Pattern, seeds: int) -> Judged:
    """The filter over truths that are drawn from the prior."""
    at, parameters = blocks(LINKS), slice(2 * LINKS, None)
    prior = task.prior_stddev[at.mass.start : at.inertia.stop]
    nominal = task.states[0]
    time, thrust = task.thrust(pattern)
    shares, errors, nees, inside = [], [], [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        truth = nominal + task.prior_stddev * np.clip(rng.normal(size=len(nominal)), -3.0, 3.0)
        path, outputs = moved(task.chain, truth, thrust, time)
        outputs = outputs + rng.normal(size=outputs.shape) * task.chain.noise
        mean, covariance = filtered(configuration, time, thrust, outputs, nominal, task.prior_stddev)
        error = mean[parameters] - path.states[-1, at.mass.start : at.inertia.stop]
        sigma = np.sqrt(np.diag(covariance)[parameters])
        shares.append(sigma / prior)
        errors.append(error / prior)
        nees.append(error @ np.linalg.solve(covariance[parameters, parameters], error) / len(error))
        inside.append(np.abs(error) <= 3.0 * sigma)
    return Judged(
        float(task.deviations(pattern).max()),
        float(np.median(np.max(shares, axis=1))),
        float(np.sqrt(np.mean(np.square(errors), axis=0)).max()),
        float(np.mean(nees)),
        float(np.mean(inside)),
    )


def _table_row(imu_model: ImuModel, noise_name: str, name: str, pattern: Pattern, one: Judged) -> Row:
    cells = {
        "IMUs": imu_model.name.lower(),
        "process noise": noise_name,
        "input": name,
        "pulses of thrusters 1, 2, 3 (0.1 s slots)": " ".join("".join(".#"[on] for on in row) for row in pattern.T),
        "share predicted": f"{one.predicted:.3f}",
        "left": f"{one.left:.3f}",
        "errors": f"{one.errors:.3f}",
        "NEES / dof": f"{one.nees:.2f}",
        "3-sigma coverage": f"{one.coverage:.3f}",
    }
    case = f"{imu_model.name.lower()}, {noise_name}, {name}"
    return {"case": case, "table": "Largest share of a prior deviation that is left after 0.9 s", "cells": cells}
