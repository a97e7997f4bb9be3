"""Thrust that shows a chain's masses and inertias: designed pulses against the paper's square waves, in a filter.

The paper's chain, prior and IMUs (Tables II to IV), 0.9 s. Square waves: all thrusters on from 0.2, 0.5 and 0.8 s on,
for 0.1 s each. Designed: as many pulses of the same length and thrust, each thruster for itself, no joint bent further
than 110 degrees, found on the prior mean alone. Then 100 truths are drawn from the prior (headings, masses, inertias),
and an iterated extended Kalman filter runs on each, with the paper's process noise or without. Shares are standard
deviations of masses and inertias at the end against those of the prior, of the parameter where that is largest; "left"
is the filter's, median over the seeds, "errors" the RMS over the seeds.

    python -m benchmarks --only thruster_chain_observability
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.thruster_chain_filter import filtered
from salp_estimation.thruster_chain.chain_model import ChainModel
from salp_estimation.thruster_chain.imu import ImuModel
from salp_estimation.thruster_chain.information import moved
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks, packed
from salp_estimation.thruster_chain.thrust_design import Pattern, Task, design

Row = dict[str, Any]
Array = NDArray[np.float64]

LINKS, SLOTS, SLOT_S, RATE_HZ, LIMIT_N = 3, 9, 0.1, 100.0, 1.0
ANGLES = (np.pi / 4.0, 2.0 * np.pi / 3.0, -np.pi / 2.0)
NOMINAL = packed(np.zeros(LINKS), 0.0, 0.5, 2.6e-3)
PRIOR = packed(np.full(LINKS, 0.1), 5e-3, 0.1, 1e-4, 0.0)
NOISE = {
    "none": np.zeros_like(PRIOR),
    "the paper's": packed(np.full(LINKS, 5e-3), 1e-3, 1e-2, 7e-6, 0.0) * np.sqrt(RATE_HZ),
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
    chain = ObservedChain(ChainModel.rods(np.full(LINKS, 0.25), ANGLES))
    for imu_model in ImuModel:
        for noise_name, noise in NOISE.items():
            task = Task(
                chain.reading(imu_model),
                NOMINAL[None],
                PRIOR,
                noise,
                LIMIT_N,
                SLOT_S,
                SLOTS,
                RATE_HZ,
                joint_travel_rad=np.deg2rad(110.0),
            )
            pulses = int(SQUARE_WAVES.sum())
            found = design(task, [SQUARE_WAVES, IN_TURNS], pulses, np.random.default_rng(0), plan.most)
            named = {"square waves": SQUARE_WAVES, "designed": found.pattern}
            judged = {name: judge(task, pattern, plan.seeds) for name, pattern in named.items()}
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


def judge(task: Task, pattern: Pattern, seeds: int) -> Judged:
    """The filter over truths that are drawn from the prior."""
    at = blocks(LINKS)
    parameters = np.arange(at.mass.start, at.inertia.stop)
    time, thrust = task.thrust(pattern)
    shares, errors, nees, inside = [], [], [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        truth = NOMINAL + PRIOR * np.clip(rng.normal(size=len(PRIOR)), -3.0, 3.0)
        path, outputs = moved(task.chain, truth, thrust, time)
        outputs = outputs + rng.normal(size=outputs.shape) * task.chain.noise
        found = filtered(task.chain, path, outputs, NOMINAL, PRIOR, task.noise_density)
        error = (found.means[-1] - path.states[-1])[parameters]
        sigma = found.stddev[-1, parameters]
        covariance = found.covariance[2 * LINKS :, 2 * LINKS :]
        shares.append(sigma / PRIOR[parameters])
        errors.append(error / PRIOR[parameters])
        nees.append(error @ np.linalg.solve(covariance, error) / len(error))
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
