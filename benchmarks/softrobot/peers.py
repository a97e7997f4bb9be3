"""The marginalised particle filter of a soft segment as one writes it in NumPy: vectorised over particles, and thrifty.

Nothing is inverted and nothing computed twice: one motion and two loads a step, covariances of rank one, and what all
particles share is computed once. Random numbers are taken in the order of ours, so that both give the same numbers.
"""

from __future__ import annotations

from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.particle_weights import Draws
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment

Array = NDArray[np.float64]
_C5, _C6 = ([(-1) ** j / factorial(2 * j + first) for j in range(9)][::-1] for first in (5, 6))


class NumpySegment:
    """The equations of `curvature_kernels` for a mass at the tip, as sums over columns of all particles."""

    def __init__(self, segment: ConstantCurvatureSegment) -> None:
        self.segment, self.gravity = segment, segment.gravity_m_s2

    def _motion(self, states: Array, forces: Array, stiffness: Array) -> tuple[list[Array], tuple[Array, ...], Any]:
        """Second rates of q, the tip's position, and its acceleration."""
        segment, mass = self.segment, self.segment.tip_mass_kg
        bx, by, stretch, *rates = states.T
        length, (vx, vy, v) = segment.length_m + stretch, rates
        x = bx * bx + by * by
        c5, c6 = np.full_like(x, _C5[0]), np.full_like(x, _C6[0])
        for a, b in zip(_C5[1:], _C6[1:], strict=True):
            c5, c6 = c5 * x + a, c6 * x + b
        c4, c3 = 1.0 / 24.0 - x * c6, 1.0 / 6.0 - x * c5
        c2, c1 = 0.5 - x * c4, 1.0 - x * c3
        c1_u, c2_u = 0.5 * (c3 - c2), c4 - 0.5 * c3
        c1_uu, c2_uu = 0.75 * (c5 - c4) + 0.25 * c3, 2.0 * c6 - 1.25 * c5 + 0.25 * c4
        g, g_u, h_u = length * c2, length * c2_u, length * c1_u
        jacobian = (
            (g + 2.0 * bx * bx * g_u, 2.0 * bx * by * g_u, bx * c2),
            (2.0 * bx * by * g_u, g + 2.0 * by * by * g_u, by * c2),
            (2.0 * bx * h_u, 2.0 * by * h_u, c1),
        )
        u_rate, u_rate_rate = 2.0 * (bx * vx + by * vy), 2.0 * (vx * vx + vy * vy)
        g_rate = g_u * u_rate + v * c2
        g_rate_rate = length * c2_uu * u_rate**2 + g_u * u_rate_rate + 2.0 * v * c2_u * u_rate
        h_rate_rate = length * c1_uu * u_rate**2 + h_u * u_rate_rate + 2.0 * v * c1_u * u_rate
        convective = (2.0 * vx * g_rate + bx * g_rate_rate, 2.0 * vy * g_rate + by * g_rate_rate, h_rate_rate)
        pull = [mass * (self.gravity[i] - convective[i]) for i in range(3)]
        r = [
            forces[i]
            - (stiffness if i < 2 else segment.elongation_stiffness_n_m) * states[:, i]
            - segment.damping[i] * rates[i]
            + sum(jacobian[row][i] * pull[row] for row in range(3))
            for i in range(3)
        ]
        m = [
            [mass * sum(jacobian[row][i] * jacobian[row][j] for row in range(3)) for j in range(i + 1)]
            for i in range(3)
        ]
        l10, l20 = m[1][0] / m[0][0], m[2][0] / m[0][0]
        d1 = m[1][1] - l10 * m[1][0]
        l21 = (m[2][1] - l20 * m[1][0]) / d1
        d2 = m[2][2] - l20 * m[2][0] - l21 * l21 * d1
        y1 = r[1] - l10 * r[0]
        a2 = (r[2] - l20 * r[0] - l21 * y1) / d2
        a1 = y1 / d1 - l21 * a2
        second = [r[0] / m[0][0] - l10 * a1 - l20 * a2, a1, a2]
        moved = [sum(jacobian[row][i] * second[i] for i in range(3)) + convective[row] for row in range(3)]
        return second, (bx * g, by * g, length * c1), moved

    def step(self, states: Array, step_s: float, forces: Array, stiffness: Array) -> Array:
        """One step of Runge and Kutta."""

        def slope(place: Array) -> Array:
            second, _, _ = self._motion(place, forces, stiffness)
            return np.column_stack([place[:, 3:], *second])

        k1 = slope(states)
        k2 = slope(states + 0.5 * step_s * k1)
        k3 = slope(states + 0.5 * step_s * k2)
        k4 = slope(states + step_s * k3)
        return states + step_s / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)

    def loads(self, states: Array, forces: Array, stiffness: Array) -> Array:
        """(N, 3) torque_x, torque_y, force_z on the base."""
        _, (x, y, z), moved = self._motion(states, forces, stiffness)
        fx, fy, fz = (self.segment.tip_mass_kg * (self.gravity[i] - moved[i]) for i in range(3))
        return np.column_stack([y * fz - z * fy, z * fx - x * fz, fz])


class NumpyCloud(NamedTuple):
    """Particles: states, stiffness, weights, and what they learned: means, C, psi."""

    states: Array
    values: Array
    weights: Array
    means: Array
    matrices: Array
    scatters: Array
    degrees_of_freedom: float
    draws: Draws


class NumpyFilter:
    """Algorithm 1 with fixed hyper-parameters, nothing forgotten.

    Parameters
    ----------
    tracker
        Ours, whose settings it takes over.
    segment, gains
        The model, and (3, C) generalised forces of unit pressures.
    """

    def __init__(self, tracker: Any, segment: ConstantCurvatureSegment, gains: Array) -> None:
        self.gains, self.model, self.unknown = gains, NumpySegment(segment), tracker.unknown
        self.basis, self.settings = tracker.unknown.basis, tracker.settings
        self.prior = tracker.prior
        self.root = np.linalg.inv(np.linalg.cholesky(np.asarray(self.settings.measurement_covariance)))
        self.process_noise = np.asarray(self.settings.process_noise)
        basis = self.basis
        self.centre, self.half_widths = np.array(basis.centre), np.array(basis.half_widths)
        self.waves = 0.5 * np.pi * np.arange(1, basis.indices.max() + 1)
        self.norm = np.sqrt(np.prod(np.array(basis.length_scales) / self.half_widths))
        self.factors = self.norm / self.unknown.noise_share * np.exp(0.5 * basis.log_spectral_densities())

    def start(self, cloud: Any) -> NumpyCloud:
        """As ours started."""
        count, m = len(cloud.states), self.basis.function_count
        return NumpyCloud(
            cloud.states,
            cloud.values[:, 0],
            np.exp(cloud.log_weights),
            np.zeros((count, m)),
            np.tile(np.eye(m), (count, 1, 1)),
            np.full(count, self.prior.scatters[0]),
            self.prior.degrees_of_freedom,
            cloud.draws,
        )

    def functions(self, states: Array) -> Array:
        """(N, M) sines: of each coordinate all half waves at once, then products."""
        place = np.clip(
            (states[:, :3] - self.centre) / self.half_widths, -1.0 + self.basis.margin, 1.0 - self.basis.margin
        )
        sines = np.sin((place + 1.0)[:, :, None] * self.waves)
        indices = self.basis.indices - 1
        return np.asarray(
            sines[:, 0, indices[:, 0]] * sines[:, 1, indices[:, 1]] * sines[:, 2, indices[:, 2]] * self.factors
        )

    def density(self, measured: Array, states: Array, forces: Array, values: Array) -> Array:
        """Logarithm (N,), up to a constant."""
        errors = (measured - self.model.loads(states, forces, values)) @ self.root.T
        return -0.5 * np.einsum("ij,ij->i", errors, errors)

    def bounded(self, deviations: Array) -> Array:
        """Stiffness of these deviations from its mean."""
        return np.maximum(self.unknown.constants[0] + deviations, self.unknown.lowest[0])

    def step(self, cloud: NumpyCloud, step_s: float, measured: Array, pressures: Array) -> NumpyCloud:
        """Lines 2 to 16."""
        rng, draws = cloud.draws.generator()
        forces, count = self.gains @ pressures, len(cloud.states)
        ahead = self.model.step(cloud.states, step_s, forces, cloud.values)
        expected = np.einsum("ij,ij->i", cloud.means, self.functions(ahead))
        first = self.density(measured, ahead, forces, self.bounded(expected))
        logs = np.log(cloud.weights) + first
        weights = np.exp(logs - logs.max())
        edges = np.cumsum(weights)
        ancestors = np.searchsorted(edges, (np.arange(count) + rng.random()) * (edges[-1] / count), side="right")
        ancestors = np.minimum(ancestors, count - 1)
        states = ahead[ancestors] + np.sqrt(step_s) * self.process_noise * rng.standard_normal(ahead.shape)
        functions = self.functions(states)
        values, learned = self._learned(cloud, ancestors, functions, rng)
        logs = self.density(measured, states, forces, values) - first[ancestors]
        weights = np.exp(logs - logs.max())
        return learned._replace(states=states, values=values, weights=weights / weights.sum(), draws=draws)

    def _learned(
        self, cloud: NumpyCloud, ancestors: Array, functions: Array, rng: np.random.Generator
    ) -> tuple[Array, NumpyCloud]:
        """Samples, and statistics with them: rank one."""
        matrices, means, scatters = cloud.matrices[ancestors], cloud.means[ancestors], cloud.scatters[ancestors]
        gains = np.matmul(matrices, functions[:, :, None])[:, :, 0]
        widths = 1.0 + np.einsum("ij,ij->i", gains, functions)
        expected = np.einsum("ij,ij->i", means, functions)
        drawn = rng.standard_t(cloud.degrees_of_freedom, (len(expected), 1))[:, 0]
        values = self.bounded(expected + np.sqrt(widths * scatters / cloud.degrees_of_freedom) * drawn)
        errors = values - self.unknown.constants[0] - expected
        shares = gains / widths[:, None]
        matrices -= shares[:, :, None] * gains[:, None, :]
        return values, cloud._replace(
            matrices=matrices,
            means=means + shares * errors[:, None],
            scatters=scatters + errors**2 / widths,
            degrees_of_freedom=cloud.degrees_of_freedom + 1.0,
        )
