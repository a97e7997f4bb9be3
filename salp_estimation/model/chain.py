"""Quasi-static model of a planar chain of links, each with an omniwheel and a gyro (LandSalp).

Andrews et al., "Pose estimation of a thruster-driven bioinspired multi-link robot", 2026, section III. What the paper
leaves open is settled so:

- the base frame lies at the mean of the wheel positions and has the mean of the link headings, so that x points along
  the chain (the paper's mean of the wheel headings differs from it by a constant angle);
- the Jacobians are built on link 1 and transformed: differences of neighbouring gyro rates are exactly the joint rates.

Units are SI and radians, rim speeds u in m/s, twists in the body frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.state_space import StateSpace, angles, se2
from salp_estimation.model import chain_kernels as kernels

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """A chain of N links. Its methods raise ValueError for arrays of other sizes than they say.

    Attributes
    ----------
    links
        (N, 16) float64, one row a link, as `chain_kernels` reads it; made by `ChainConfiguration.build`.
    """

    links: Matrix

    @property
    def link_count(self) -> int:
        """Number of links N."""
        return len(self.links)

    def space(self) -> StateSpace:
        """State space of pose and joint angles, dimension N + 2."""
        return StateSpace(
            se2("pose"), angles("joint_angles", tuple(f"alpha_{j + 1}" for j in range(self.link_count - 1)))
        )

    def velocity(self, joint_angles: ArrayLike, controls: ArrayLike) -> Array:
        """B(r) u, eq. (5): body velocity of the base and joint rates.

        Parameters
        ----------
        joint_angles
            (N - 1,) or (k, N - 1), rad.
        controls
            (N,) rim speeds, m/s.

        Returns
        -------
        (N + 2,) or (k, N + 2): forward, left (m/s), turning, joint rates (rad/s).
        """
        r, u = self._rows(joint_angles, self.link_count - 1), self._rows(controls, self.link_count)
        out = kernels.velocities(self.links, np.atleast_2d(r), u)
        return out[0] if r.ndim == 1 else out

    def control_matrix(self, joint_angles: ArrayLike) -> Matrix:
        """B(r), (N + 2, N), eq. (5)."""
        return kernels.control_matrix(self.links, self._rows(joint_angles, self.link_count - 1))

    def gyro_rates(self, joint_angles: ArrayLike, controls: ArrayLike) -> Array:
        """Turning rates of all links, eq. (6): (N,) or (k, N), rad/s."""
        r, u = self._rows(joint_angles, self.link_count - 1), self._rows(controls, self.link_count)
        points = np.zeros((len(np.atleast_2d(r)), self.link_count + 2))
        points[:, 3:] = r
        out = kernels.gyro_rates(self.links, points, u, 0.0)
        return out[0] if r.ndim == 1 else out

    def propagate(self, states: Matrix, controls: Vector, duration_s: float, longest_step_s: float = 0.05) -> Array:
        """States (k, N + 2) after `duration_s` under constant rim speeds (N,)."""
        x, u = self._rows(states, self.link_count + 2), self._rows(controls, self.link_count)
        return kernels.propagate(self.links, x, u, duration_s, longest_step_s)

    @staticmethod
    def _rows(values: ArrayLike, size: int) -> Array:
        """As contiguous rows of that many numbers, which kernels do not check; ValueError for others."""
        rows = np.ascontiguousarray(values, dtype=np.float64)
        if rows.shape[-1:] != (size,):
            raise ValueError(f"expected rows of {size} numbers, got shape {rows.shape}")
        return rows

    def link_poses(self, states: ArrayLike) -> Array:
        """Poses (k, N, 3) of the links in the world from states (k, N + 2)."""
        states = np.atleast_2d(self._rows(states, self.link_count + 2))
        poses = poses_behind(self.links, np.hstack([np.zeros((len(states), 3)), states[:, 3:]]))  # seen from link 1
        apart = poses[..., :2] - self.state_from_links(poses)[:, None, :2]
        turn = states[:, 2] - poses[..., 2].mean(axis=1)
        cosine, sine = np.cos(turn)[:, None], np.sin(turn)[:, None]
        poses[..., 0] = states[:, 0, None] + cosine * apart[..., 0] - sine * apart[..., 1]
        poses[..., 1] = states[:, 1, None] + sine * apart[..., 0] + cosine * apart[..., 1]
        poses[..., 2] += turn[:, None]
        return poses

    def state_from_links(self, link_poses: ArrayLike) -> Array:
        """States (k, N + 2) from measured poses of the links (k, N, 3): mean of the wheels, differences of headings."""
        poses = np.asarray(link_poses, dtype=np.float64)
        headings = np.unwrap(poses[..., 2], axis=1)
        cosine, sine = np.cos(headings), np.sin(headings)
        wheel_x, wheel_y = self.links[:, kernels.WHEEL_X], self.links[:, kernels.WHEEL_Y]
        x = poses[..., 0] + cosine * wheel_x - sine * wheel_y
        y = poses[..., 1] + sine * wheel_x + cosine * wheel_y
        heading = headings.mean(axis=1)
        heading = np.arctan2(np.sin(heading), np.cos(heading))
        return np.column_stack([x.mean(axis=1), y.mean(axis=1), heading, np.diff(headings, axis=1)])

    def outline(self, states: ArrayLike) -> Array:
        """Polylines (k, N + 1, 2) through the ends of the links at the states (k, N + 2), metres."""
        poses = self.link_poses(states)
        half = 0.5 * self.links[:, kernels.LENGTH]
        reach = np.stack([half * np.cos(poses[..., 2]), half * np.sin(poses[..., 2])], axis=-1)
        return np.concatenate([poses[:, :1, :2] - reach[:, :1], poses[..., :2] + reach], axis=1)


def poses_behind(links: Matrix, states: Matrix) -> Array:
    """Poses (k, N, 3) of the links from the pose of link 1 and the joint angles (k, N + 2)."""
    half, headings = 0.5 * links[:, kernels.LENGTH], np.cumsum(states[:, 2:], axis=1)

    def along(start: Vector, directions: Matrix) -> Matrix:
        steps = half * directions  # from the centre of a link to its end, and from the joint to the next centre
        ways = np.stack([steps[:, :-1], steps[:, 1:]], axis=2).reshape(len(states), -1)
        return np.cumsum(np.column_stack([start, ways]), axis=1)[:, ::2]

    centres = along(states[:, 0], np.cos(headings)), along(states[:, 1], np.sin(headings))
    return np.stack([*centres, headings], axis=2)


# The balance of drag and thrust as a function of the drag coefficients. With g_i = J_i q' the velocity of wheel i in
# its own axes, equations (1) to (4) read
#
#     sum_i J_i^T (d_i g_i - e_x d_i,xx u_i) + sum_j J_j^T d_j J_j q' = 0
#
# which is linear and homogeneous in the coefficients: a common factor of all of them cannot be seen. Solved for q' it
# is equation (5). Here in NumPy over many instants at once, as the paper sums it up; the kernels solve it link by link.


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
        """The chain with other coefficients."""
        links = chain.links.copy()
        wheels, links[:-1, kernels.JOINT_DRAG] = self.matrices(values)
        links[:, kernels.DRAG : kernels.DRAG + 9] = wheels.reshape(-1, 9)
        return Chain(links)


def wheel_jacobians(chain: Chain, joint_angles: Array) -> Array:
    """J_i (K, N, 3, N + 2): from q' (base frame, see `Chain`) to each wheel's velocity in its own axes."""
    n, count = chain.link_count, len(joint_angles)
    of_link_1, to_base = np.empty((count, n, 3, n + 2)), np.empty((count, n + 2, n + 2))
    for k, shape in enumerate(np.ascontiguousarray(joint_angles)):
        of_link_1[k], to_base[k] = kernels.wheel_jacobians(chain.links, shape, np.zeros(n))
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
