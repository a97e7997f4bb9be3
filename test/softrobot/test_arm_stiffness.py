"""Stiffness of a soft arm against bending: of a known law, and of the real arm at pressures left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.softrobot.real_arm import (
    LARGEST_BENDING_RAD,
    PressureStep,
    fit_arc,
    fit_stiffness,
    read_pressure_step,
)

Array = NDArray[np.float64]

PRESSURES_MBAR = (100, 200, 300, 400, 450)
COMPLIANCE, SOFTENING = 5e-4, 1 / 560.0  # rad/mbar, 1/mbar


def true_bending(pressures_mbar: NDArray[np.float64] | float) -> Array:
    """Of an arm whose chambers' moment grows with bending: k b = p (g + h b), with k = 1."""
    return np.asarray(COMPLIANCE * pressures_mbar / (1.0 - SOFTENING * np.asarray(pressures_mbar)))


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> dict[int, PressureStep]:
    pytest.importorskip("c3d", reason="reading .c3d needs the package c3d")
    folder = shared_data / "soft_arm"
    return {pressure: read_pressure_step(folder / f"{pressure}mbar_V3.c3d") for pressure in PRESSURES_MBAR}


def test_stiffness_of_a_known_arm_is_found() -> None:
    pressures = np.array([100.0, 200.0, 300.0, 400.0])
    law = fit_stiffness(pressures, true_bending(pressures))
    np.testing.assert_allclose(np.exp(law.logarithms), [COMPLIANCE, SOFTENING], rtol=1e-6)
    assert law.bending_rad(450.0) == pytest.approx(float(true_bending(450.0)), rel=1e-5)
    assert law.stiffness_mbar_rad(true_bending(450.0)) * true_bending(450.0) == pytest.approx(450.0, rel=1e-6)
    _, _, upper = fit_stiffness(pressures[:2], true_bending(pressures[:2])).range_rad(500.0)
    assert upper == pytest.approx(LARGEST_BENDING_RAD)


@pytest.mark.data
@pytest.mark.parametrize("left_out", [100, 300, 450])
def test_the_real_arm_at_a_pressure_left_out(recorded: dict[int, PressureStep], left_out: int) -> None:
    """Within 15 % at each, the highest and the lowest included, where the law is beyond all that it has seen."""
    seen, steps = recorded[left_out], [step for pressure, step in recorded.items() if pressure != left_out]
    arc = fit_arc(steps)
    bendings = arc.bending([step.plateau()[0] for step in steps])
    law, measured_m = fit_stiffness([step.pressure_mbar for step in steps], bendings), seen.plateau()[1]
    predicted_m, lower_m, upper_m = arc.deflection(law.range_rad(left_out))
    assert predicted_m == pytest.approx(measured_m, rel=0.08)
    assert lower_m < measured_m < upper_m
    assert upper_m / lower_m < 1.6, "and says something"
    stiffnesses = [step.pressure_mbar / arc.bending(step.plateau()[0])[0] for step in steps]
    constant_m = arc.deflection(left_out / np.exp(np.mean(np.log(stiffnesses))))[0]
    assert abs(constant_m / measured_m - 1.0) > 0.15, "one stiffness for all does not reach that at any"
