"""Bags of thruster chains on the way that users go: converted, simulated, judged, of another length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from test_unknown_chain import run_folder

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from onboard_estimation.base.measurement import Matrix
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import convert, simulate_to_bag
from onboard_estimation.judging.sources import read_bag
from onboard_estimation.judging.truth import truth_at
from onboard_estimation.report.evaluate import evaluate_bag
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.robot import ROBOT

CONFIGURATION = ThrusterChainConfiguration()
TEN = "config/thruster_chain_ten_links.yaml"


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("simulated") / "bag"
    simulate_to_bag(ROBOT, CONFIGURATION, "thrusters", "physical", 2.0, 3, path)
    return path


def weighed(bag: Path) -> Matrix:
    """True masses at the first instant of a bag."""
    source = read_bag(bag, EvaluateOptions())
    stamps_ns = source.recording.series[0].stamps_ns
    known, valid = truth_at(source.robot, source.configuration, source.recording, stamps_ns, 0.1)
    return np.asarray(known["masses"][valid][0])


def test_a_converted_run_is_judged_with_the_configuration_that_came_with_it(tmp_path: Path) -> None:
    """Two links, while the default robot has three."""
    convert("unknown-chain", run_folder(tmp_path / "run"), tmp_path / "bag")
    result = evaluate_bag(tmp_path / "bag", EvaluateOptions(estimator="gyros"), keep=None).result
    assert result.robot == "thruster_chain"
    assert result.source == "recorded"
    assert any("came with the bag, thruster_chain.yaml" in note for note in result.notes)
    np.testing.assert_allclose(weighed(tmp_path / "bag"), [0.4, 0.5])
    assert np.nanmax(np.abs(result.parts["headings"].truth)) < 1e-9


def test_a_simulated_bag_is_found_labelled_and_has_its_masses(bag: Path, tmp_path: Path) -> None:
    evaluation = evaluate_bag(bag, EvaluateOptions(estimator="gyros"), tmp_path / "run")
    found = evaluation.summary()
    assert (found["robot"], found["source"]) == ("thruster_chain", "simulated")
    assert set(evaluation.result.parts) == {"headings", "position"}  # it learns no masses
    assert np.abs(weighed(bag) - CONFIGURATION.chain.masses).max() > 0.01


def test_what_nobody_weighed_is_not_judged_and_a_file_that_is_named_goes_before_that_of_the_bag(tmp_path: Path) -> None:
    folder, bag = run_folder(tmp_path / "run"), tmp_path / "bag"
    (folder / "truth_parameters.yaml").unlink()
    convert("unknown-chain", folder, bag)
    content = yaml.safe_load((bag / "thruster_chain.yaml").read_text())
    content["/**"]["ros__parameters"]["initial"]["headings_rad"] = [0.7, 0.8]
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(content))
    options = EvaluateOptions(estimator="gyros", config=tmp_path / "other.yaml")
    result = evaluate_bag(bag, options, keep=None).result
    assert set(result.parts) == {"headings", "position"}
    assert np.isfinite(result.parts["position"].truth).any()
    np.testing.assert_allclose(result.parts["headings"].estimate[0], [0.7, 0.8], atol=0.01)


def test_links_of_file_and_bag_differ(bag: Path, tmp_path: Path) -> None:
    options = EvaluateOptions(config=resource(TEN))
    for asked in (options, EvaluateOptions(robot="thruster_chain", config=resource(TEN))):
        with pytest.raises(UserError, match=r"IMUs of 3 links .* and the configuration 10 links"):
            evaluate_bag(bag, asked, keep=None)
    longer = tmp_path / "ten"
    ten = load(ThrusterChainConfiguration, resource(TEN))
    simulate_to_bag(ROBOT, ten, "thrusters", "physical", 0.5, 1, longer)
    with pytest.raises(UserError, match=r"IMUs of 10 links .* and the configuration 3 links"):
        evaluate_bag(longer, EvaluateOptions(), keep=None)
    result = evaluate_bag(longer, EvaluateOptions(config=resource(TEN), estimator="gyros"), keep=None).result
    assert result.parts["headings"].truth.shape[1] == 10
