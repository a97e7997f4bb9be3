"""Configuration of the chain: the robot's published figures, and every fault at once."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.base.configuration import ConfigurationError, load
from salp_estimation.model.chain import DragTerms, predicted_rates, wheel_jacobians
from salp_estimation.model.configuration import SalpConfiguration


def faults_of(overrides: dict) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(SalpConfiguration, None, overrides)
    return caught.value.faults


def test_several_faults_are_listed_together() -> None:
    faults = faults_of(
        {
            "chain.link_names": ["head", "tail"],
            "chain.joint_lower_deg": [30.0],
            "chain.joint_upper_deg": [-30.0],
            "gyro.axis": "up",
            "gate_probabilty": 0.99,
        }
    )
    text = "\n".join(faults)
    for name in ("link_lengths_m", "wheel_signs", "wheel_x_m", "wheel_angles_deg", "wheel_drag_xx"):
        assert f"chain: {name}: 3 values given, 2 links need 2" in faults
    assert "chain: joint_drag: 2 values given, 2 links need 1" in faults
    assert "joint 1 has 30.0 to -30.0, need -180 <= lower < upper <= 180" in text
    assert "gyro.axis: 'up' is not allowed; has to be one of x, y, z, -x, -y, -z" in text
    assert "gate_probabilty: unknown parameter; did you mean gate_probability?" in text
    assert len(faults) == 8 + 2 + 2


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"chain.link_names": ["a", "b", "a"]}, "link_names: names must differ, got a, b, a"),
        ({"chain.link_names": ["a"]}, "link_names: 1 links given, a chain needs 2 or more"),
        ({"chain.wheel_drag_yy": [1.0, -2.0, 3.0]}, "chain.wheel_drag_yy"),
        ({"chain.wheel_drag_xt": [0.1, 0.2]}, "wheel_drag_xt: 2 values given, 3 links need 3"),
        ({"chain.wheel_drag_xy": [0.0, 0.0, 50.0]}, "that of link_3 is not positive definite"),
        ({"chain.joint_upper_deg": [120.0, 181.0]}, "joint 2 has -120.0 to 181.0"),
    ],
)
def test_single_faults_are_named(overrides: dict, fault: str) -> None:
    assert any(fault in line for line in faults_of(overrides))


def test_full_drag_matrices_move_the_chain_as_the_paper_sums_them_up() -> None:
    mixed = {"chain.wheel_drag_xy": [5.0, -3.0, 2.0], "chain.wheel_drag_yt": [0.5, 0.0, -0.4]}
    chain = load(SalpConfiguration, None, mixed).chain.build()
    r, u = np.array([[0.3, -0.5]]), np.array([[0.05, -0.02, 0.04]])
    terms = DragTerms(3, full=True)
    wanted, _ = predicted_rates(wheel_jacobians(chain, r), u, terms, terms.coefficients(chain))
    np.testing.assert_allclose(chain.velocity(r, u[0]), wanted, rtol=1e-9)
    assert np.abs(SalpConfiguration().chain.build().velocity(r, u[0]) / wanted - 1.0).max() > 0.01
