"""The balance of drag and thrust as a function of the drag coefficients: linear in them, and what motion follows.

With g_i = J_i q' the velocity of wheel i in its own axes, the balance of the paper's equations (1) to (4) reads

    sum_i J_i^T (d_i g_i - e_x d_i,xx u_i) + sum_j J_j^T d_j J_j q' = 0

which is linear and homogeneous in the coefficients: a common factor of all of them cannot be seen. Solved for q' it is
equation (5). Here in NumPy over many instants at once, as the paper sums it up; the filter's kernels solve the same
balance link by link.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DragTerms:
    """P coefficients of drag of a chain: elements of the wheels' symmetric matrices, link by link, then the joints'.

    Attributes
    ----------
    links
        N.
    full
        Whether all six elements of a wheel's matrix are among them, or its diagonal; the first is xx of wheel 1.
    """

    links: int
    full: bool

    @property
    def elements(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """(E,) rows and columns of a wheel's matrix, row <= column, whose axes are x, y and turning."""
        return np.triu_indices(3) if self.full else (np.arange(3), np.arange(3))

    @property
    def wheels(self) -> int:
        """How many are the wheels'."""
        return self.links * len(self.elements[0])

    @property
    def kinds(self) -> list[str]:
        """`xx`, `xy`, ..., `tt` (turning), or `joint`."""
        of_wheel = ["xyt"[row] + "xyt"[column] for row, column in zip(*self.elements, strict=True)]
        return of_wheel * self.links + ["joint"] * (self.links - 1)

    @property
    def turning(self) -> NDArray[np.int64]:
        """(P,) of how many turning axes, a joint's drag of two: units N s/m, N s and N m s."""
        rows, columns = self.elements
        of_wheel = (rows == 2).astype(np.int64) + (columns == 2)
        return np.concatenate([np.tile(of_wheel, self.links), np.full(self.links - 1, 2)])

    @property
    def mixed(self) -> NDArray[np.bool_]:
        """(P,) whether it couples two axes."""
        rows, columns = self.elements
        return np.concatenate([np.tile(rows != columns, self.links), np.zeros(self.links - 1, dtype=np.bool_)])

    def sizes(self, drag: float, length_m: float) -> Vector:
        """(P,) as usual in a chain whose wheels have this drag at this distance: makes coefficients comparable."""
        sizes: Vector = drag * np.power(0.5 * length_m, self.turning, dtype=np.float64)
        sizes[self.wheels :] = 0.01 * drag * length_m**2
        return sizes

    def coefficients(self, chain: Chain) -> Vector:
        """Those of the chain (P,)."""
        rows, columns = self.elements
        wheels = chain.links[:, kernels.DRAG + 3 * rows + columns]
        return np.concatenate([wheels.ravel(), chain.links[:-1, kernels.JOINT_DRAG]])

    def matrices(self, values: Vector) -> tuple[Array, Vector]:
        """Matrices (N, 3, 3) of the wheels and drag (N - 1,) of the joints from coefficients (P,)."""
        rows, columns = self.elements
        wheels = np.zeros((self.links, 3, 3))
        wheels[:, rows, columns] = wheels[:, columns, rows] = values[: self.wheels].reshape(self.links, -1)
        return wheels, values[self.wheels :]

    def with_drag(self, chain: Chain, values: Vector) -> Chain:
        """The chain with other coefficients; ValueError where a wheel's matrix is not positive definite."""
        wheels, joints = self.matrices(values)
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


def balance(jacobians: Array, rates: Array, controls: Array, terms: DragTerms) -> Array:
    """Generalised force (K, N + 2, P) of a unit of each coefficient at the rates (K, N + 2) and rim speeds (K, N).

    Times the coefficients it is zero where drag and thrust are in balance: the rows of the linear regression.
    """
    count, m = rates.shape
    rows, columns = terms.elements
    mixed = rows != columns
    twists = np.einsum("kiab,kb->kia", jacobians, rates)[..., None]
    wheels = jacobians[:, :, rows] * twists[:, :, columns]
    wheels[:, :, mixed] += (jacobians[:, :, columns] * twists[:, :, rows])[:, :, mixed]
    wheels[:, :, 0] -= jacobians[:, :, 0] * controls[..., None]  # eq. (4)
    joints = np.zeros((count, m - 3, m))
    joints[:, range(m - 3), range(3, m)] = rates[:, 3:]
    return np.concatenate([wheels.reshape(count, terms.wheels, m), joints], axis=1).swapaxes(1, 2)


def predicted_rates(jacobians: Array, controls: Array, terms: DragTerms, values: Vector) -> tuple[Array, Array]:
    """q' = B(r) u (K, N + 2), eq. (5), and its derivatives (K, N + 2, P) by the coefficients (P,)."""
    wheels, joints = terms.matrices(values)
    drag: Matrix = np.einsum("kiab,iac,kicd->kbd", jacobians, wheels, jacobians, optimize=True)
    diagonal = np.arange(3, drag.shape[1])
    drag[:, diagonal, diagonal] += joints
    thrust = np.einsum("kib,ki->kb", jacobians[:, :, 0], controls * wheels[:, 0, 0])
    rates: Array = np.asarray(np.linalg.solve(drag, thrust[..., None]), dtype=np.float64)[..., 0]
    slopes = np.asarray(np.linalg.solve(drag, balance(jacobians, rates, controls, terms)), dtype=np.float64)
    return rates, -slopes
