"""The simulated chain against oracles that share nothing with it: elastica, energy, momentum, closed forms."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_bvp, trapezoid
from scipy.linalg import eigh
from scipy.spatial.transform import Rotation

from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.simulation import fine_chain_kernels as kernels
from softrobot_estimation.simulation.fine_chain_kernels import Chain, ChainState
from softrobot_estimation.simulation.laboratory import Magnitudes, draw, with_payload

Array = NDArray[np.float64]

LENGTH_M, MASS_KG, PLATE_KG, PLATE_AT_M, FLEXURAL_N_M2 = 0.128, 0.146, 0.01, 0.003, 0.15 * 0.128
STEP_S = 2.5e-4
DAMPED = np.array([[1.0, 0.036]])


def uniform(n: int, **other: Any) -> Chain:
    """An even chain without any loss."""
    piece, angles = LENGTH_M / n, np.radians([90.0, 210.0, 330.0])
    parts: dict[str, Any] = {
        "length": np.full(n, piece),
        "mass": np.append(np.full(n, MASS_KG / n), PLATE_KG),
        "beyond": np.array([PLATE_AT_M]),
        "plate": 0.006,
        "gravity": np.array([0.0, 0.0, 9.81]),
        "origin": np.array([0.0, 0.0, -0.0142]),
        "bending": np.full(n, FLEXURAL_N_M2 / piece),
        "stretching": np.full(n, 1400.0 * n),
        "change": np.array([1.0, 0.1]),
        "direction": np.eye(2),
        "relaxing": np.zeros((0, 2)),
        "slipping": np.zeros((0, 3)),
        "viscosity_s": 0.0,
        "chambers": np.column_stack([np.full(3, 1.55e-4), np.full(3, 0.0126), np.cos(angles), np.sin(angles)]),
        "area_change": 0.0,
    }
    return Chain(**{**parts, **other})


def driven(chain: Chain, state: ChainState, steps: int, *pressures_pa: float, step_s: float = STEP_S) -> Array:
    """What it puts out (steps, OUTPUTS) under pressures that stay; moves the state."""
    out = np.empty((steps, kernels.OUTPUTS))
    kernels.drive(chain, state, np.tile(pressures_pa or [0.0, 0.0, 0.0], (steps, 1)), step_s, out)
    return out


def located(chain: Chain, coordinates: Array, rates: Array) -> kernels.Points:
    points = kernels.room(chain)
    kernels.locate(chain, coordinates, rates, points)
    return points


def mass_matrix(chain: Chain, coordinates: Array) -> Array:
    points = located(chain, coordinates, np.zeros_like(coordinates))
    return np.einsum("k,kri,krj->ij", chain.mass, points.jacobians, points.jacobians)


def energy(chain: Chain, state: ChainState) -> float:
    points = located(chain, state.coordinates, state.rates)
    speed = points.jacobians @ state.rates
    total = 0.5 * chain.mass @ (speed**2).sum(axis=1) - chain.mass @ points.places @ chain.gravity
    a, b, e = state.coordinates.reshape(-1, 3).T
    square = np.einsum("ni,ij,nj->n", np.column_stack([a, b]), chain.direction, np.column_stack([a, b]))
    factor, half = chain.change
    bent = 0.5 * square + 0.5 * (factor - 1.0) * (square - half**2 * np.log1p(square / half**2))
    return float(total + chain.bending @ bent + 0.5 * chain.stretching @ e**2)


def bent_state(chain: Chain) -> ChainState:
    """Swung out smoothly, stretched by its weight: little of the fast vibrations."""
    state, n = kernels.hanging(chain), len(chain.length)
    state.coordinates[0::3], state.coordinates[1::3] = 0.6 / n, -0.3 / n
    state.rates[1::3] = 2.0 / n
    return state


def test_without_losses_energy_is_kept() -> None:
    """A second of large swings, of stiffness that changes, stiffer in one direction.

    The rule damps vibrations in elongation, which swings excite, a little: by the fifth power of the step.
    """
    chain = uniform(6, change=np.array([2.0, 0.08]), direction=np.array([[1.05, 0.03], [0.03, 0.95]]))
    rest, lost = energy(chain, kernels.hanging(chain)), []
    for parts in (1, 4):
        state = bent_state(chain)
        before, highest = energy(chain, state), 0.0
        for _ in range(4 * parts):
            driven(chain, state, 1000, step_s=STEP_S / parts)
            highest = max(highest, abs(energy(chain, state) - before))
        lost.append(highest / (before - rest))
    assert lost[0] < 0.012
    assert lost[1] < 1e-4


def test_it_sags_as_the_elastica_does() -> None:
    """A beam that does not stretch and sags sideways under its own weight and the plate's."""
    along, plate_n = MASS_KG / LENGTH_M * 9.81, PLATE_KG * 9.81

    def rates(s: Array, y: Array) -> Array:
        heading, moment = y[0], y[1]
        shear = -np.cos(heading) * (along * (LENGTH_M - s) + plate_n)
        return np.vstack([moment / FLEXURAL_N_M2, shear, np.sin(heading), np.cos(heading)])

    def ends(start: Array, stop: Array) -> Array:
        return np.array([start[0], start[2], start[3], stop[1] - plate_n * PLATE_AT_M * np.cos(stop[0])])

    beam = solve_bvp(rates, ends, np.linspace(0.0, LENGTH_M, 100), np.zeros((4, 100)), tol=1e-9)
    expected = np.array([beam.y[2, -1], 0.0, beam.y[3, -1]])
    assert expected[0] > 0.02
    away = []
    for n in (6, 12):
        chain = uniform(n, gravity=np.array([9.81, 0.0, 0.0]), stretching=np.full(n, 1e6 * n))
        hanging = kernels.hanging(chain)
        away.append(np.linalg.norm(located(chain, hanging.coordinates, hanging.rates).end[3] - expected))
    assert away[0] < 6e-4
    assert away[0] / away[1] == pytest.approx(4.0, rel=0.1), "twice the pieces, a quarter of the error"


def test_at_rest_it_puts_its_weight_on_the_base_and_stays() -> None:
    gravity = 9.81 * np.array([np.sin(0.3), 0.0, np.cos(0.3)])
    chain = uniform(6, gravity=gravity, relaxing=np.array([[0.3, 0.02]]), slipping=np.array([[0.2, 0.02, 2e-4]]))
    state = kernels.hanging(chain)
    out = driven(chain, state, 400)
    assert np.abs(out[-1, 6:9] - out[0, 6:9]).max() < 1e-9
    np.testing.assert_allclose(out[0, :3], (MASS_KG + PLATE_KG) * gravity, rtol=1e-9)
    points = located(chain, state.coordinates, state.rates)
    moments = np.cross(points.places - chain.origin, chain.mass[:, None] * gravity).sum(axis=0)
    np.testing.assert_allclose(out[0, 3:6], moments, atol=1e-9)
    # The pose is that of the plate's outer face.
    axes, place = Rotation.from_quat(out[0, 9:13]).as_matrix(), points.end[3]
    np.testing.assert_allclose(axes, points.end[:3].T, atol=1e-9)
    np.testing.assert_allclose(out[0, 6:9], place + 0.006 * axes[:, 2], atol=1e-12)


def test_loads_while_it_swings_are_what_its_momentum_takes() -> None:
    """Force is weight less the rate of momentum, by differences along the motion."""
    chain = uniform(6, relaxing=np.array([[0.3, 0.02]]))
    state, momenta, loads = bent_state(chain), [], []
    for _ in range(3):
        momenta.append(chain.mass @ (located(chain, state.coordinates, state.rates).jacobians @ state.rates))
        loads.append(driven(chain, state, 1, step_s=1e-5)[0, :3])
    expected = (MASS_KG + PLATE_KG) * chain.gravity - (momenta[2] - momenta[0]) / 2e-5
    np.testing.assert_allclose(loads[1], expected, atol=3e-5)


def test_pressure_bends_it_away_from_the_chamber_and_lengthens_what_widens_more() -> None:
    """In closed form: moment over stiffness, and straight under three equal pressures."""
    chain = uniform(6, gravity=np.zeros(3), relaxing=DAMPED)
    state = kernels.straight(chain)
    driven(chain, state, 12000, 0.0, 30e3, 0.0)
    a, b, e = state.coordinates.reshape(-1, 3).sum(axis=0)
    moment = 30e3 * 1.55e-4 * 0.0126
    np.testing.assert_allclose([a, b], -moment / 0.15 * np.array([np.cos(np.radians(210)), -0.5]), rtol=1e-3)
    assert e == pytest.approx(30e3 * 1.55e-4 / 1400.0, rel=1e-3)
    widening = uniform(6, gravity=np.zeros(3), relaxing=DAMPED, area_change=0.8)
    state, push = kernels.straight(widening), 3.0 * 30e3 * 1.55e-4
    driven(widening, state, 12000, 30e3, 30e3, 30e3)
    assert state.coordinates[2::3].sum() == pytest.approx(push / (1400.0 - push * 0.8 / LENGTH_M), rel=1e-4)


def test_it_creeps_to_its_relaxed_stiffness() -> None:
    """Under a load that stays, a spring behind a damper lets go with its own time, longer by its share."""
    share, time_s = 0.12, 2.0
    chain = uniform(4, gravity=np.zeros(3), relaxing=np.vstack([DAMPED, [share, time_s]]))
    out = driven(chain, kernels.straight(chain), 48000, 20e3, 0.0, 0.0)
    bending = np.linalg.norm(Rotation.from_quat(out[:, 9:13]).as_rotvec(), axis=1)
    relaxed = 20e3 * 1.55e-4 * 0.0126 / 0.15
    assert bending[-1] == pytest.approx(relaxed, rel=2e-3)
    for at_s in (1.5, 3.0):
        left = share / (1.0 + share) * np.exp(-at_s / (time_s * (1.0 + share)))
        assert bending[round(at_s / STEP_S)] == pytest.approx(relaxed * (1.0 - left), rel=2e-3)


@pytest.mark.parametrize(("towards", "steps"), [((1.0, 0.0), 2000), ((0.6, -0.8), 4000)])
def test_slipping_springs_make_one_loop_in_any_direction_and_at_any_rate(
    towards: tuple[float, float], steps: int
) -> None:
    """Moment against angle of a joint that is moved to and fro: each slip takes four times limit times way."""
    share, angle, swing = 0.2, 0.02, 0.05
    chain = uniform(1, slipping=np.array([[share, angle, 1.0]]))
    start, out, held = kernels.straight(chain), np.empty(3), [0.0]
    turns = swing * np.sin(2.0 * np.pi * np.arange(2 * steps + 1) / steps)
    still, ones, nothing = np.zeros(3), np.ones(0), np.empty((0, 3))
    for before, after in pairwise(turns.tolist()):
        start.coordinates[:2] = np.multiply(before, towards)
        moved = np.append(np.multiply(after, towards), 0.0)
        kernels.stage_forces(chain, start, moved, still, still, ones, ones, nothing, start.slipping, out)
        assert start.slipping[0, 0] * towards[1] == pytest.approx(start.slipping[0, 1] * towards[0], abs=1e-12)
        held.append(float(start.slipping[0, :2] @ towards))
    limit = share * chain.bending[0] * angle
    assert max(held) == pytest.approx(limit)
    assert trapezoid(held[steps:], turns[steps:]) == pytest.approx(4.0 * limit * (swing - angle), rel=0.01)


def test_every_drawn_chain_is_integrated_stably() -> None:
    """Its fastest vibration, all springs holding, within what the Runge-Kutta rule takes; payload and tilt included."""
    configuration, magnitudes = SoftRobotConfiguration(), Magnitudes()
    fastest, factors = 0.0, []
    for seed in range(20):
        build = draw(configuration, magnitudes, True, np.random.default_rng(seed))
        factors.append(build.chain.change[0])
        # Of the elastic moment at the typical bending; of the stiffness, over seconds.
        slips, joint_rad = build.chain.slipping, magnitudes.hysteresis_bending_rad / magnitudes.pieces
        assert 0.03 <= (slips[:, 0] * slips[:, 1]).sum() / joint_rad <= 0.10
        assert 0.05 <= build.chain.relaxing[:-1, 0].sum() <= 0.15
        assert 0.15 * 0.6 < 1.0 / (1.0 / build.chain.bending).sum() < 0.15 * 1.35
        for chain in (build.chain, with_payload(build.chain, build.payload_kg, magnitudes)):
            stiffness = np.column_stack([chain.bending * max(factors[-1], 1.0)] * 2 + [chain.stretching]).ravel()
            held = stiffness * (1.0 + chain.relaxing[:, 0].sum() + chain.slipping[:, 0].sum())
            matrix = mass_matrix(chain, kernels.hanging(chain).coordinates)
            fastest = max(fastest, float(eigh(np.diag(held), matrix, eigvals_only=True)[-1]))
    assert np.sqrt(fastest) * magnitudes.step_ns * 1e-9 < 2.4
    # Stiffness rises with bending in some, falls in others.
    assert 0.2 < np.mean(np.array(factors) > 1.0) < 0.8
