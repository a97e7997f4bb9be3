"""State spaces made of named blocks: vectors, angles, planar poses SE(2), rotations SO(3).

A filter needs two operations of its state space (boxplus notation of Hertzberg et al., "Integrating generic sensor
fusion algorithms with sound state representations through encapsulation of manifolds", 2013, section 3):

- `plus(x, d)`: the state reached from x by the tangent vector d,
- `minus(a, b)`: the tangent vector at b that leads to a, so that `plus(b, minus(a, b)) == a`.

| block | coordinates | tangent vector d | plus |
|---|---|---|---|
| vector | n numbers | n numbers | x + d |
| angles | n angles in (-pi, pi] | n angles | wrapped x + d |
| SE(2) | x, y (m), heading (rad) | body-frame twist (m, m, rad) | x * exp(d) |
| SO(3) | quaternion x, y, z, w | body-frame rotation vector (rad) | x * exp(d) |

Errors of poses and rotations are therefore expressed in the body frame (right perturbation).
All operations take single states or batches with leading axes, and run compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering import manifold_kernels as kernels


@dataclass(frozen=True)
class Block:
    """A named part of a state.

    Attributes
    ----------
    name
        Name of the part, e.g. `joint_angles`.
    kind
        One of `kernels.VECTOR`, `ANGLES`, `SE2`, `SO3`; use the functions `vector`, `angles`, `se2`, `so3`.
    names, units
        One of each per dimension of the tangent space.
    """

    name: str
    kind: int
    names: tuple[str, ...]
    units: tuple[str, ...]

    @property
    def dimension(self) -> int:
        """Dimensions of the tangent space."""
        return len(self.names)

    @property
    def coordinate_count(self) -> int:
        """Numbers that a point of the block is stored in."""
        return 4 if self.kind == kernels.SO3 else len(self.names)


def vector(name: str, names: tuple[str, ...], unit: str) -> Block:
    """Block of plain numbers with a common unit."""
    return Block(name, kernels.VECTOR, names, (unit,) * len(names))


def angles(name: str, names: tuple[str, ...]) -> Block:
    """Block of independent angles, radians."""
    return Block(name, kernels.ANGLES, names, ("rad",) * len(names))


def se2(name: str) -> Block:
    """Planar pose: x, y (m) and heading (rad)."""
    return Block(name, kernels.SE2, ("x", "y", "heading"), ("m", "m", "rad"))


def so3(name: str) -> Block:
    """Rotation from the body to the world, stored as a unit quaternion x, y, z, w."""
    return Block(name, kernels.SO3, ("roll", "pitch", "yaw"), ("rad",) * 3)


class StateSpace:
    """Product of blocks, with dimensions found by name instead of by index.

    Its operations raise ValueError for arrays of other shapes than they say.
    """

    def __init__(self, *blocks: Block) -> None:
        if len({block.name for block in blocks}) != len(blocks):
            raise ValueError(f"blocks of a state need different names: {[block.name for block in blocks]}")
        self.blocks = blocks
        self.dimension = sum(block.dimension for block in blocks)
        self.coordinate_count = sum(block.coordinate_count for block in blocks)
        self.layout = np.array([(block.kind, block.dimension) for block in blocks], dtype=np.int64).reshape(-1, 2)
        self.is_curved = any(block.kind >= kernels.SE2 for block in blocks)  # a right Jacobian other than the identity
        self._tangent: dict[str, slice] = {}
        self._coordinates: dict[str, slice] = {}
        tangent = coordinate = 0
        for block in blocks:
            self._tangent[block.name] = slice(tangent, tangent + block.dimension)
            self._coordinates[block.name] = slice(coordinate, coordinate + block.coordinate_count)
            tangent += block.dimension
            coordinate += block.coordinate_count

    def __repr__(self) -> str:
        return f"StateSpace({', '.join(f'{block.name}[{block.dimension}]' for block in self.blocks)})"

    def block(self, name: str) -> Block:
        """The block of that name; KeyError with the names there are."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise KeyError(f"no block {name!r} in {self!r}")

    def part(self, *names: str) -> StateSpace:
        """State space of some of the blocks, in the order given."""
        return StateSpace(*(self.block(name) for name in names))

    def tangent(self, name: str) -> slice:
        """Where the block stands in tangent vectors and covariances."""
        return self._tangent[name]

    def coordinates(self, name: str) -> slice:
        """Where the block stands in the coordinates of a state."""
        return self._coordinates[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Name of every dimension of the tangent space, e.g. `pose.x`."""
        return tuple(f"{block.name}.{name}" for block in self.blocks for name in block.names)

    def origin(self) -> Vector:
        """(a,) coordinates of the state with all vectors and angles zero and all rotations the identity."""
        origin = np.zeros(self.coordinate_count)
        for block in self.blocks:
            if block.kind == kernels.SO3:
                origin[self._coordinates[block.name].stop - 1] = 1.0
        return origin

    def moments(self, mean: ArrayLike, covariance: ArrayLike) -> tuple[Vector, Matrix]:
        """Mean (a,) and covariance (n, n) of a state of this space, as new arrays."""
        x, p = np.array(mean, dtype=np.float64), np.array(covariance, dtype=np.float64)
        if x.shape != (self.coordinate_count,) or p.shape != (self.dimension, self.dimension):
            raise ValueError(
                f"expected a mean of shape ({self.coordinate_count},) and a covariance of shape "
                f"({self.dimension}, {self.dimension}), got shapes {x.shape} and {p.shape}"
            )
        return x, p

    def plus(self, state: ArrayLike, tangent: ArrayLike) -> NDArray[np.float64]:
        """State reached from `state` (..., a) by the tangent vector (..., n); leading axes broadcast."""
        x, d = _pair(state, tangent, self.coordinate_count, self.dimension)
        out = kernels.plus(x.reshape(-1, self.coordinate_count), d.reshape(-1, self.dimension), self.layout)
        return out.reshape(x.shape)

    def minus(self, state: ArrayLike, base: ArrayLike) -> NDArray[np.float64]:
        """Tangent vectors (..., n) at `base` (..., a) that lead to `state` (..., a); leading axes broadcast."""
        a, b = _pair(state, base, self.coordinate_count, self.coordinate_count)
        out = kernels.minus(
            a.reshape(-1, self.coordinate_count), b.reshape(-1, self.coordinate_count), self.layout, self.dimension
        )
        return out.reshape((*a.shape[:-1], self.dimension))

    def right_jacobian(self, tangent: ArrayLike) -> Matrix:
        """(n, n) J with plus(x, d + e) = plus(plus(x, d), J e) to first order in e.

        After a correction by d the covariance is expressed at the corrected state: J P J^T.
        """
        tangent = np.ascontiguousarray(tangent, dtype=np.float64)
        if tangent.shape != (self.dimension,):
            raise ValueError(f"expected a tangent vector of shape ({self.dimension},), got shape {tangent.shape}")
        return kernels.right_jacobian(tangent, self.layout)


def _pair(
    first: ArrayLike, second: ArrayLike, first_size: int, second_size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as contiguous arrays with the same leading axes."""
    a = np.asarray(first, dtype=np.float64)
    b = np.asarray(second, dtype=np.float64)
    if a.shape[-1:] != (first_size,) or b.shape[-1:] != (second_size,):
        raise ValueError(f"expected last axes of {first_size} and {second_size}, got shapes {a.shape} and {b.shape}")
    leading = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    # Copies: views of what is broadcast cannot be written, and kernels would be compiled for such arrays as well.
    a = np.array(np.broadcast_to(a, (*leading, first_size)), order="C")
    return a, np.array(np.broadcast_to(b, (*leading, second_size)), order="C")
