"""`view RUN --rrd FILE`: what Rerun's own reader finds in the file; and refusals, which need no Rerun."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from evaluation_samples import command, refusal

from onboard_estimation.evaluation.options import EvaluateOptions
from onboard_estimation.live.view_plots import whole_curves
from onboard_estimation.live.view_recorded import load_records


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a simulated salp."""
    folder = tmp_path_factory.mktemp("rerun")
    assert command("simulate", "salp", "--duration", "16", "--output", folder / "bag").code == 0
    assert command("evaluate", folder / "bag", "--settle", "0", "--output", folder / "run").code == 0
    return folder / "run"


@pytest.mark.slow
def test_curves_are_whole(run: Path) -> None:
    [record] = load_records(run, EvaluateOptions())
    assert len(record.stamps_ns) > 700  # more than charts draw
    curves = {one.title: one for one in whole_curves(record)}
    assert list(curves) == ["x (cm)", "y (cm)", "heading (deg)", "alpha_1 (deg)", "alpha_2 (deg)"]
    first = curves["alpha_1 (deg)"]
    assert all(len(one.time_s) == len(record.stamps_ns) for one in curves.values())
    np.testing.assert_allclose(np.deg2rad(first.estimate), record.means[:, 3], atol=1e-12)
    np.testing.assert_allclose(np.deg2rad(first.truth), record.truth["joint_angles"][:, 0], atol=1e-12)
    np.testing.assert_allclose(np.deg2rad(first.upper - first.lower) / 4.0, np.sqrt(record.covariances[:, 3, 3]))


def test_rerun_reads_all_of_it(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("rerun")
    path = tmp_path / "salp.rrd"
    [record] = load_records(run, EvaluateOptions())
    count = len(record.stamps_ns)
    assert f"{count} estimates written" in command("view", run, "--rrd", path).out
    printed = subprocess.run(
        [sys.executable, "-m", "rerun", "rrd", "print", "-v", path], capture_output=True, text=True, check=True
    ).stdout
    chunks = re.findall(r"Chunk\(\w+\) with (\d+) rows .*? - (/salp/.*?) - ", printed)
    rows: dict[str, int] = {}
    for number, entity in chunks:
        plain = entity.replace("\\", "")
        rows[plain] = max(rows.get(plain, 0), int(number))
    for curve in whole_curves(record):
        known = {"estimate": count, "truth": int(np.isfinite(curve.truth).sum()), "lower": count, "upper": count}
        assert {name: rows[f"/salp/curves/{curve.title}/{name}"] for name in known} == known
    assert rows["/salp/scene/base_link"] == count
    assert {"/salp/scene/way/estimate", "/salp/scene/way/truth", "/salp/scene/truth/link_2", "/salp/notes"} <= set(rows)
    assert "exists; name another file" in refusal("view", str(run), "--rrd", str(path))
    assert "is no folder; make it first" in refusal("view", str(run), "--rrd", str(tmp_path / "no" / "salp.rrd"))


@pytest.mark.skipif(find_spec("rerun") is not None, reason="Rerun is installed")
def test_without_rerun_it_says_how_to_get_it(run: Path, tmp_path: Path) -> None:
    said = refusal("view", str(run), "--rrd", str(tmp_path / "salp.rrd"))
    assert said == "a recording for Rerun needs its SDK: pip install 'onboard_estimation[rerun]'"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rrd", "a.rrd"], "--rrd writes a run folder or a bag: name one"),
        (["walk", "--rrd", "a.rrd", "--port", "9000", "--no-browser"], "--rrd has no use for --port, --no-browser"),
    ],
)
def test_options_that_would_do_nothing_are_refused(words: list[str], said: str) -> None:
    assert refusal("view", *words) == said
