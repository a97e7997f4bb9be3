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


@dataclass(frozen=True)
class Chain:
    """A chain of N links. Its methods raise ValueError for arrays of other sizes than they say.

    Attributes
    ----------
    links
        (N, 16) float64, one row a link, as `chain_kernels` reads it; made by `build`.
    """

    links: Matrix

    @classmethod
    def build(
        cls,
        lengths_m: ArrayLike,
        wheel_positions_m: ArrayLike,
        wheel_angles_rad: ArrayLike,
        wheel_drag: ArrayLike,
        joint_drag: ArrayLike,
        joint_lower_rad: ArrayLike | float = -np.pi,
        joint_upper_rad: ArrayLike | float = np.pi,
    ) -> Chain:
        """Chain from its geometry and drag.

        Parameters
        ----------
        lengths_m
            (N,) lengths; the joints are at the ends of the links, the link frame at its centre, x towards the next.
        wheel_positions_m, wheel_angles_rad
            (N, 2) and (N,): the wheel frame in the link frame; its x axis is the driven direction.
        wheel_drag
            (N, 3) diagonals or (N, 3, 3) matrices d_i of eq. (3): N s/m, N s/m, N m s.
        joint_drag
            (N - 1,) N m s.
        joint_lower_rad, joint_upper_rad
            Limits of the joint angles.

        Raises
        ------
        ValueError
            Shapes that do not fit together, or drag that is not symmetric and positive definite.
        """
        lengths = np.atleast_1d(np.asarray(lengths_m, dtype=np.float64))
        n = len(lengths)
        drag = np.asarray(wheel_drag, dtype=np.float64)
        if drag.shape == (n, 3):
            drag = np.einsum("ni,ij->nij", drag, np.eye(3))
        if n < 2 or drag.shape != (n, 3, 3):
            raise ValueError(f"a chain needs two links or more and their drag, got {n} lengths and drag {drag.shape}")
        if not np.allclose(drag, drag.transpose(0, 2, 1), rtol=1e-9, atol=0.0):
            raise ValueError("the drag matrix of a wheel must be symmetric, eq. (3)")
        smallest = np.linalg.eigvalsh(drag)[:, 0]
        if not (smallest > 0.0).all():
            worst = int(np.argmin(smallest))
            raise ValueError(f"drag of link {worst + 1} is not positive definite: eigenvalue {smallest[worst]:.3g}")
        links = np.zeros((n, kernels.COLUMNS))
        links[:, kernels.LENGTH] = lengths
        links[:, kernels.WHEEL_X : kernels.WHEEL_Y + 1] = wheel_positions_m
        links[:, kernels.WHEEL_ANGLE] = wheel_angles_rad
        links[:, kernels.DRAG : kernels.DRAG + 9] = drag.reshape(n, 9)
        links[:-1, kernels.JOINT_DRAG] = joint_drag
        links[:-1, kernels.LOWER] = joint_lower_rad
        links[:-1, kernels.UPPER] = joint_upper_rad
        return cls(links)

    @property
    def link_count(self) -> int:
        """Number of links N."""
        return len(self.links)

    def space(self) -> StateSpace:
        """State space of pose and joint angles, dimension N + 2."""
        return StateSpace(
            se2("pose"), angles("joint_angles", tuple(f"alpha_{j + 1}" for j in range(self.link_count - 1)))
        )

    def velocity(self, joint_angles: ArrayLike, controls: ArrayLike) -> NDArray[np.float64]:
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

    def gyro_rates(self, joint_angles: ArrayLike, controls: ArrayLike) -> NDArray[np.float64]:
        """Turning rates of all links, eq. (6): (N,) or (k, N), rad/s."""
        r, u = self._rows(joint_angles, self.link_count - 1), self._rows(controls, self.link_count)
        points = np.zeros((len(np.atleast_2d(r)), self.link_count + 2))
        points[:, 3:] = r
        out = kernels.gyro_rates(self.links, points, u, 0.0)
        return out[0] if r.ndim == 1 else out

    def propagate(
        self, states: Matrix, controls: Vector, duration_s: float, longest_step_s: float = 0.05
    ) -> NDArray[np.float64]:
        """States (k, N + 2) after `duration_s` under constant rim speeds (N,)."""
        x, u = self._rows(states, self.link_count + 2), self._rows(controls, self.link_count)
        return kernels.propagate(self.links, x, u, duration_s, longest_step_s)

    @staticmethod
    def _rows(values: ArrayLike, size: int) -> NDArray[np.float64]:
        """As contiguous rows of that many numbers, which kernels do not check; ValueError for others."""
        rows = np.ascontiguousarray(values, dtype=np.float64)
        if rows.shape[-1:] != (size,):
            raise ValueError(f"expected rows of {size} numbers, got shape {rows.shape}")
        return rows

    def link_poses(self, states: ArrayLike) -> NDArray[np.float64]:
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

    def state_from_links(self, link_poses: ArrayLike) -> NDArray[np.float64]:
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

    def outline(self, states: ArrayLike) -> NDArray[np.float64]:
        """Polylines (k, N + 1, 2) through the ends of the links at the states (k, N + 2), metres."""
        poses = self.link_poses(states)
        half = 0.5 * self.links[:, kernels.LENGTH]
        reach = np.stack([half * np.cos(poses[..., 2]), half * np.sin(poses[..., 2])], axis=-1)
        return np.concatenate([poses[:, :1, :2] - reach[:, :1], poses[..., :2] + reach], axis=1)


def poses_behind(links: Matrix, states: Matrix) -> NDArray[np.float64]:
    """Poses (k, N, 3) of the links from the pose of link 1 and the joint angles (k, N + 2)."""
    half, headings = 0.5 * links[:, kernels.LENGTH], np.cumsum(states[:, 2:], axis=1)

    def along(start: Vector, directions: Matrix) -> Matrix:
        steps = half * directions  # from the centre of a link to its end, and from the joint to the next centre
        ways = np.stack([steps[:, :-1], steps[:, 1:]], axis=2).reshape(len(states), -1)
        return np.cumsum(np.column_stack([start, ways]), axis=1)[:, ::2]

    centres = along(states[:, 0], np.cos(headings)), along(states[:, 1], np.sin(headings))
    return np.stack([*centres, headings], axis=2)
