"""Sag, frequency and damping of a clamped beam: by differential equations, and of the real one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_bvp

from benchmarks.softrobot.real_beam import (
    BEAM,
    GRAVITY_M_S2,
    Beam,
    Release,
    apart,
    fit_modulus,
    foretold,
    read_releases,
    rod,
)

Array = NDArray[np.float64]

LOADED_HIGH = Beam(length_m=0.1, side_m=0.03, density_kg_m3=1100.0, load_height_m=0.012)


@pytest.mark.parametrize(
    ("beam", "load_kg"), [(LOADED_HIGH, 0.0), (LOADED_HIGH, 0.101), (Beam(0.1, 0.03, 1100.0, shears=False), 0.101)]
)
def test_a_rod_sags_as_its_differential_equations_say(beam: Beam, load_kg: float) -> None:
    """phi' = M / (E I), M' = -(weight beyond) cos of the backbone, shear gamma = V / (k G A); solved by scipy."""
    modulus, weight = 3e5, beam.density_kg_m3 * beam.area_m2 * GRAVITY_M_S2
    rigidity = 5.0 / 6.0 * modulus / 3.0 * beam.area_m2 if beam.shears else np.inf

    def rates(s: Array, y: Array) -> Array:
        phi, moment, _ = y
        force = load_kg * GRAVITY_M_S2 + weight * (beam.length_m - s)
        gamma = force * np.cos(phi) / rigidity
        forward, down = np.cos(phi) - gamma * np.sin(phi), np.sin(phi) + gamma * np.cos(phi)
        return np.array([moment / (modulus * beam.second_moment_m4), -force * forward, down])

    def ends(clamp: Array, free: Array) -> Array:
        lifted = load_kg * GRAVITY_M_S2 * beam.load_height_m * np.sin(free[0])
        return np.array([clamp[0], clamp[2], free[1] - lifted])

    places = np.linspace(0.0, beam.length_m, 50)
    solved = solve_bvp(rates, ends, places, np.zeros((3, 50)), tol=1e-8)
    assert solved.success
    found = rod(beam, modulus, load_kg)
    assert found.sag_m == pytest.approx(solved.y[2, -1], rel=2e-3)
    assert found.turn_rad == pytest.approx(solved.y[0, -1], rel=2e-3)
    finer = rod(beam, modulus, load_kg, elements=80)
    assert abs(finer.sag_m - solved.y[2, -1]) < 0.5 * abs(found.sag_m - solved.y[2, -1]) + 1e-8


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> list[Release]:
    pytest.importorskip("c3d", reason="reading .c3d needs the package c3d")
    return read_releases(shared_data / "soft_arm")


@pytest.mark.data
def test_the_real_beam_as_its_readme_says(recorded: list[Release]) -> None:
    """Sag 6.5, 16.9, 25.5 mm, 7.8, 4.35, 3.33 Hz, damping ratio 0.05 to 0.07."""
    known = zip(recorded, (6.5e-3, 16.9e-3, 25.5e-3), (7.8, 4.35, 3.33), strict=True)
    for release, sag_m, frequency_hz in known:
        assert abs(release.sag_m.value - sag_m) < release.sag_m.uncertainty < 1e-3
        assert abs(release.frequency_hz.value - frequency_hz) < 2.0 * release.frequency_hz.uncertainty < 0.1
        assert 0.05 <= release.damping_ratio.value <= 0.07
        assert 0.001 < release.damping_ratio.uncertainty < 0.012


@pytest.mark.data
@pytest.mark.parametrize("left_out", range(3))
def test_the_real_beam_under_a_load_left_out(recorded: list[Release], left_out: int) -> None:
    """What docs/softrobot.md claims, and no more: not all are within what is unsure of recording and prediction."""
    release = recorded[left_out]
    for figure, share, uncertainties in (("sag_m", 0.15, 1.1), ("frequency_hz", 0.07, 1.35)):
        measured, predicted = getattr(release, figure), foretold(recorded, release, figure)
        assert abs(predicted.value - measured.value) < share * measured.value
        assert apart(predicted, measured) < uncertainties
        assert predicted.uncertainty < 0.08 * measured.value, "and says something"


@pytest.mark.data
def test_the_real_beam_is_stiffer_when_fast(recorded: list[Release]) -> None:
    sags, rings = ({one.load_kg: getattr(one, figure) for one in recorded} for figure in ("sag_m", "frequency_hz"))
    slow, fast = fit_modulus(BEAM, sags, "sag_m"), fit_modulus(BEAM, rings, "frequency_hz")
    assert 1.1 < fast.value / slow.value < 1.2
    assert fast.value - slow.value > 2.0 * np.hypot(slow.uncertainty, fast.uncertainty)
    assert rod(BEAM, slow.value, 0.0).turn_rad == pytest.approx(recorded[0].turn_rad, rel=0.1)
