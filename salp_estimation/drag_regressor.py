"""The balance of drag and thrust as a function of the drag coefficients: linear in them, and what motion follows.

With g_i = J_i q' the velocity of wheel i in its own axes, the balance of the paper's equations (1) to (4) reads

    sum_i J_i^T (d_i g_i - e_x d_i,xx u_i) + sum_j J_j^T d_j J_j q' = 0

which is linear and homogeneous in the coefficients: a common factor of all of them cannot be seen. Solved for q' it is
equation (5). Here in NumPy over many instants at once, as the paper sums it up; the filter's kernels solve the same
balance link by link.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain import Chain

Array = NDArray[np.float64]

_AXES = ("x", "y", "t")


@dataclass(frozen=True)
class DragTerm:
    """One coefficient of drag: an element of a wheel's symmetric matrix, or the drag of a joint.

    Attributes
    ----------
    index
        Of the wheel's link or of the joint, from zero.
    element
        (row, column) of the wheel's matrix, row <= column; None for a joint.
    """

    index: int
    element: tuple[int, int] | None

    @property
    def kind(self) -> str:
        """`xx`, `xy`, ..., `tt` (turning), or `joint`."""
        return "joint" if self.element is None else _AXES[self.element[0]] + _AXES[self.element[1]]

    @property
    def unit(self) -> str:
        """SI unit, by how many of its axes turn."""
        turning = 2 if self.element is None else sum(axis == 2 for axis in self.element)
        return ("N s/m", "N s", "N m s")[turning]

    def size(self, drag: float, length_m: float) -> float:
        """Its usual size in a chain whose wheels have this drag at this distance: makes coefficients comparable."""
        if self.element is None:
            return 0.01 * drag * length_m**2
        return drag * (0.5 * length_m) ** sum(axis == 2 for axis in self.element)


def drag_terms(links: int, full: bool) -> tuple[DragTerm, ...]:
    """All coefficients: the wheels' (three each, or six if full), then the joints'; the first is xx of wheel 1."""
    elements = list(combinations_with_replacement(range(3), 2)) if full else [(0, 0), (1, 1), (2, 2)]
    wheels = [DragTerm(link, element) for link in range(links) for element in elements]
    return (*wheels, *(DragTerm(joint, None) for joint in range(links - 1)))


def coefficients(chain: Chain, terms: tuple[DragTerm, ...]) -> Vector:
    """The chain's coefficients (P,) of these terms."""
    links = chain.links
    return np.array([
        links[term.index, kernels.JOINT_DRAG]
        if term.element is None
        else links[term.index, kernels.DRAG + 3 * term.element[0] + term.element[1]]
        for term in terms
    ])  # fmt: skip


def drag_matrices(terms: tuple[DragTerm, ...], values: Vector, links: int) -> tuple[Array, Vector]:
    """Matrices (N, 3, 3) of the wheels and drag (N - 1,) of the joints from coefficients (P,)."""
    wheels, joints = np.zeros((links, 3, 3)), np.zeros(links - 1)
    for term, value in zip(terms, values.tolist(), strict=True):
        if term.element is None:
            joints[term.index] = value
        else:
            row, column = term.element
            wheels[term.index, row, column] = wheels[term.index, column, row] = value
    return wheels, joints


def with_drag(chain: Chain, terms: tuple[DragTerm, ...], values: Vector) -> Chain:
    """The chain with other coefficients; ValueError where a wheel's matrix is not positive definite."""
    wheels, joints = drag_matrices(terms, values, chain.link_count)
    links = chain.links
    return Chain.build(
        links[:, kernels.LENGTH],
        links[:, kernels.WHEEL_X : kernels.WHEEL_Y + 1],
        links[:, kernels.WHEEL_ANGLE],
        wheels,
        joints,
        links[:-1, kernels.LOWER],
        links[:-1, kernels.UPPER],
    )


def wheel_jacobians(chain: Chain, joint_angles: Array) -> Array:
    """J_i (K, N, 3, N + 2): from q' (base frame, see `Chain`) to each wheel's velocity in its own axes."""
    n, count = chain.link_count, len(joint_angles)
    of_link_1, to_base = np.empty((count, n, 3, n + 2)), np.empty((count, n + 2, n + 2))
    for k, angles in enumerate(np.ascontiguousarray(joint_angles)):
        of_link_1[k], to_base[k] = kernels.wheel_jacobians(chain.links, angles, np.zeros(n))
    return np.asarray(of_link_1 @ np.linalg.inv(to_base)[:, None])


def balance(jacobians: Array, rates: Array, controls: Array, terms: tuple[DragTerm, ...]) -> Array:
    """Generalised force (K, N + 2, P) of a unit of each coefficient at the rates (K, N + 2) and rim speeds (K, N).

    Times the coefficients it is zero where drag and thrust are in balance: the rows of the linear regression.
    """
    twists = np.einsum("kiab,kb->kia", jacobians, rates)
    out = np.zeros((len(rates), rates.shape[1], len(terms)))
    for column, term in enumerate(terms):
        if term.element is None:
            out[:, 3 + term.index, column] = rates[:, 3 + term.index]
            continue
        row, other = term.element
        wheel = jacobians[:, term.index]
        out[..., column] = wheel[:, row] * twists[:, term.index, other, None]
        if row != other:
            out[..., column] += wheel[:, other] * twists[:, term.index, row, None]
        elif row == 0:
            out[..., column] -= wheel[:, 0] * controls[:, term.index, None]  # eq. (4)
    return out


def predicted_rates(
    jacobians: Array, controls: Array, terms: tuple[DragTerm, ...], values: Vector
) -> tuple[Array, Array]:
    """q' = B(r) u (K, N + 2), eq. (5), and its derivatives (K, N + 2, P) by the coefficients (P,)."""
    wheels, joints = drag_matrices(terms, values, controls.shape[1])
    drag: Matrix = np.einsum("kiab,iac,kicd->kbd", jacobians, wheels, jacobians, optimize=True)
    diagonal = np.arange(3, drag.shape[1])
    drag[:, diagonal, diagonal] += joints
    thrust = np.einsum("kib,ki->kb", jacobians[:, :, 0], controls * wheels[:, 0, 0])
    rates: Array = np.asarray(np.linalg.solve(drag, thrust[..., None]), dtype=np.float64)[..., 0]
    slopes = np.asarray(np.linalg.solve(drag, balance(jacobians, rates, controls, terms)), dtype=np.float64)
    return rates, -slopes
