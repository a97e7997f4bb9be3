"""Judged runs made up for reports and plots, and what a browser would find in a page."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.contract.result import Drawing, EvaluationResult, PartResult

SENSOR = {"received": 1200, "used": 1195, "late": 3, "gated": 2, "duplicates": 0, "invalid": 0, "rate_hz": 20.0}


def correlated(generator: np.random.Generator, stddev: NDArray[np.float64], memory: int) -> NDArray[np.float64]:
    """(K, d) Gaussian noise of the given standard deviation, correlated over `memory` samples."""
    decay = np.exp(-1.0 / memory)
    white = generator.standard_normal(stddev.shape)
    noise = np.empty_like(white)
    noise[0] = white[0]
    for k in range(1, len(white)):
        noise[k] = decay * noise[k - 1] + np.sqrt(1.0 - decay**2) * white[k]
    return noise * stddev


def part_of(
    name: str,
    names: tuple[str, ...],
    units: tuple[str, ...],
    truth: NDArray[np.float64],
    error: NDArray[np.float64],
    stddev: NDArray[np.float64],
    convention: str = "",
) -> PartResult:
    matched = np.isfinite(error).all(axis=1)
    nees = ((error / stddev) ** 2).sum(axis=1)
    return PartResult(name, names, units, truth + np.nan_to_num(error), truth, error, stddev, nees, matched, convention)


def chain_points(pose: NDArray[np.float64], joints: NDArray[np.float64], link_m: float = 0.272) -> NDArray[np.float64]:
    """(K, 4, 2) joints and ends of a three-link chain about its centre link's pose."""
    headings = np.stack((pose[:, 2] - joints[:, 0], pose[:, 2], pose[:, 2] + joints[:, 1]), axis=1)
    steps = link_m * np.stack((np.cos(headings), np.sin(headings)), axis=-1)
    points = np.concatenate((np.zeros((len(pose), 1, 2)), np.cumsum(steps, axis=1)), axis=1)
    return points - 0.5 * (points[:, 1:2] + points[:, 2:3]) + pose[:, None, :2]


def chain_result(count: int = 1200, seed: int = 1) -> EvaluationResult:
    """A swimming chain: 30 cm in 60 s at 20 Hz, joint angles that settle from 5 degrees."""
    generator = np.random.default_rng(seed)
    time_s = np.arange(count) / 20.0
    phase = 2.0 * np.pi * time_s / 6.0
    pose = np.column_stack((0.005 * time_s + 0.01 * np.sin(phase), 0.02 * np.sin(phase + 1), 0.1 * np.sin(phase)))
    joints = np.radians(np.column_stack((-2.0 + 2.0 * np.cos(phase), 5.0 + 5.0 * np.sin(phase))))
    settled = np.exp(-time_s / 1.5)[:, None]
    joint_stddev = np.radians(0.15 + 5.0 * settled) * np.ones((1, 2))
    pose_stddev = np.sqrt(0.002**2 + 1e-6 * time_s)[:, None] * np.array([[1.0, 0.7, 2.0]])
    joint_error = correlated(generator, joint_stddev, 60)
    pose_error = correlated(generator, pose_stddev, 100)
    pose_error[(time_s > 40.0) & (time_s < 44.0), 1] += 0.02
    missing = (time_s > 20.0) & (time_s < 23.0)
    pose_error[missing] = np.nan
    parts = {
        "pose": part_of("pose", ("x", "y", "heading"), ("m", "m", "rad"), pose, pose_error, pose_stddev, "body frame"),
        "joint_angles": part_of(
            "joint_angles", ("alpha_1", "alpha_2"), ("rad", "rad"), joints, joint_error, joint_stddev, "difference"
        ),
    }
    estimate = pose + np.nan_to_num(pose_error)
    drawn = chain_points(estimate, joints + joint_error)
    true = chain_points(pose, joints)
    true[missing] = np.nan
    turn = np.array([[0.9, 0.2], [-0.2, 0.9]])
    ellipse = turn @ (pose_stddev[:, :2, None] ** 2 * np.eye(2)) @ turn.T
    return EvaluationResult(
        robot="salp",
        estimator="ukf",
        source="simulated",
        bag="bags/forward",
        time_s=time_s,
        stamps_ns=(time_s * 1e9).astype(np.int64),
        mean=np.column_stack((estimate, joints)),
        covariance=np.tile(np.eye(5), (count, 1, 1)),
        parts=parts,
        drawing=Drawing(drawn, true, ellipse, drawn[:, 1:3].mean(axis=1)),
        matched_ratio=float(1.0 - missing.mean()),
        sensors={f"imu/link_{i}": {**SENSOR, "mean_nis": 1.02 + 0.1 * i} for i in (1, 2, 3)}
        | {"actuators/command": {**SENSOR, "late": 0, "gated": 0, "mean_nis": np.nan}},
        metrics={
            "joint_angle_rmse_deg": 0.2412,
            "matched_ratio": 0.95,
            "estimates": count,
            "pose": {"coverage_3_sigma": [0.998, 0.95, 1.0], "x": {"error_mean_m": -0.0012, "error_max_m": 0.02}},
            "joint_angles": {"nees_mean": 1.9, "consistent": True, "bias_deg_per_min": None},
        },
        verdict="Consistent in the joint angles; overconfident in y by 2.3 from 40 s to 44 s: suspect a pushed robot.",
        command="onboard-estimation evaluate bags/forward --robot salp --estimator ukf",
        notes=(
            "Truth is missing from 20.0 s to 23.0 s (5 % of the estimates).",
            "Truth noise of 0.2 mm and 0.1 deg is included in the NEES.",
        ),
    )


def without_truth(part: PartResult) -> PartResult:
    nothing = np.full_like(part.error, np.nan)
    return replace(part, truth=nothing, error=nothing, nees=nothing[:, 0], matched=np.isfinite(nothing[:, 0]))


def walk_result(count: int = 1200) -> EvaluationResult:
    """A recorded walk with contacts; truth for the position only."""
    chain = chain_result(count, seed=2)
    position = replace(chain.parts["pose"], name="position", names=("x", "y", "z"), units=("m",) * 3)
    unknown = without_truth(position)
    starts = np.arange(0.45, 59.0, 0.9)
    return replace(
        chain,
        robot="strapdown",
        source="recorded",
        parts={
            "position": position,
            "velocity": replace(unknown, name="velocity", units=("m/s",) * 3),
            "attitude": replace(unknown, name="attitude", names=("roll", "pitch", "yaw"), units=("rad",) * 3),
        },
        events={"contact": np.column_stack((starts, starts + 0.4))},
    )


def shortened(result: EvaluationResult, count: int) -> EvaluationResult:
    def cut(part: PartResult) -> PartResult:
        arrays = ("estimate", "truth", "error", "stddev", "nees", "matched")
        return replace(part, **{name: getattr(part, name)[:count] for name in arrays})

    drawing = result.drawing
    assert drawing is not None
    points = {name: getattr(drawing, name)[:count] for name in ("estimate", "truth", "ellipse", "centre")}
    return replace(
        result,
        time_s=result.time_s[:count],
        stamps_ns=result.stamps_ns[:count],
        mean=result.mean[:count],
        covariance=result.covariance[:count],
        parts={name: cut(part) for name, part in result.parts.items()},
        drawing=replace(drawing, **points),
    )


def with_nees(time_s: NDArray[np.float64], nees: NDArray[np.float64], dimension: int = 3) -> EvaluationResult:
    """A result whose only meaningful figures are times and NEES."""
    zeros = np.zeros((len(time_s), dimension))
    part = part_of("pose", ("a",) * dimension, ("m",) * dimension, zeros, zeros, zeros + 1)
    part = replace(part, nees=nees, matched=np.isfinite(nees))
    return replace(chain_result(2), time_s=time_s, parts={"pose": part}, drawing=None)


def unpacked(found: dict[str, str]) -> NDArray[np.float64]:
    ((kind, content),) = found.items()
    return np.frombuffer(base64.b64decode(content), dtype=f"<{kind}").astype(np.float64)


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, and the text of each kind of element."""

    def __init__(self, page: Path | str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = defaultdict(list)
        self._open: list[str] = []
        self.source = page if isinstance(page, str) else page.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)
        self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.texts[tag][-1] += data

    @property
    def text(self) -> str:
        return self.texts["body"][0]

    @property
    def data(self) -> dict[str, Any]:
        """What the script reads, its packed arrays unpacked."""
        return json.loads(
            self.texts["script"][0],
            parse_constant=lambda name: pytest.fail(f"{name} is not JSON"),
            object_hook=lambda found: unpacked(found) if found.keys() <= {"f4", "f8"} else found,
        )


BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


NO_BROWSER = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the script is not run")


def rendered(path: Path, address_suffix: str, profile: Path) -> str:
    """The page's elements after its script has run."""
    assert BROWSER is not None
    flags = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--no-first-run", f"--user-data-dir={profile}"),
        *("--virtual-time-budget=20000", "--dump-dom", path.as_uri() + address_suffix),
    ]
    return subprocess.run([BROWSER, *flags], capture_output=True, text=True, timeout=90, check=True).stdout
