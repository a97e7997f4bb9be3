"""The chain's dynamics and IMUs for jets: the model of `forces` and `imu`, dense, to be differentiated twice.

All joint forces at once from one linear system, instead of link by link: a second way to the same accelerations, for
which the O(N) one is the test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard_estimation.measurement import Matrix
from salp_estimation.thruster_chain import chain_model as m
from salp_estimation.thruster_chain.imu import ImuModel
from salp_estimation.thruster_chain.jets import Array, Jet, cos_sin, reciprocal, solve, stacked
from salp_estimation.thruster_chain.observed_chain import ObservedChain


@dataclass(frozen=True, eq=False)
class JetState:
    """Blocks of the state, jets (..., N), velocity (..., 2)."""

    theta: Jet
    omega: Jet
    velocity: Jet
    mass: Jet
    inertia: Jet
    gain: Jet


@dataclass(frozen=True, eq=False)
class Motion:
    """What the chain does: jets (..., N) in the room's frame, and cosine and sine of the headings."""

    angular: Jet
    acceleration: tuple[Jet, Jet]
    force: tuple[Jet, Jet]
    cosine: Jet
    sine: Jet


def slopes(chain: ObservedChain, at: JetState, thrust: Array, drift: Array | float) -> tuple[Jet, Jet, Jet]:
    """Derivatives of headings, rates and velocity along a field; parameters as for `move`."""
    motion = move(chain, at, thrust, drift)
    inverse_total = reciprocal(_summed(at.mass))
    drive = [_summed(force) * inverse_total for force in motion.force]
    return at.omega * drift, motion.angular, _paired(*drive)


def readings(chain: ObservedChain, at: JetState, thrust: Array) -> Jet:
    """(..., 3N) what the IMUs read, link by link: acceleration along x, y, turning rate."""
    links, gravity = chain.model.links, chain.model.gravity
    motion = move(chain, at, thrust, 1.0)
    c, s = motion.cosine, motion.sine
    if chain.imu_model == ImuModel.PHYSICAL:
        ax, ay = motion.acceleration[0] - gravity[0], motion.acceleration[1] - gravity[1]
    else:
        inverse_mass = reciprocal(at.mass)
        ax, ay = motion.force[0] * inverse_mass, motion.force[1] * inverse_mass
    rx, ry = _rotated(c, s, links[:, [m.IMU_X, m.IMU_Y]])
    square = at.omega * at.omega
    ax, ay = ax - square * rx - motion.angular * ry, ay - square * ry + motion.angular * rx
    if chain.imu_model == ImuModel.PHYSICAL:
        mounted_c, mounted_s = links[:, m.IMU_COSINE], links[:, m.IMU_SINE]
        ax, ay = c * ax + s * ay, c * ay - s * ax
        ax, ay = mounted_c * ax + mounted_s * ay, mounted_c * ay - mounted_s * ax
    side_by_side = stacked([_column(one) for one in (ax, ay, at.omega)], axis=-1)
    return side_by_side.each(lambda part: part.reshape(*part.shape[:-2], -1))


def move(chain: ObservedChain, at: JetState, thrust: Array, drift: Array | float) -> Motion:
    """Accelerations under thrust (..., N); where `drift` (..., 1) is 0 instead of 1, under the thrust's force alone.

    Those are the control-affine fields: f0 has thrust 0 and drift 1, f_i u_i one thrust and drift 0.
    """
    links, pivoted = chain.model.links, chain.model.pivoted
    c, s = cos_sin(at.theta)
    bx, by = _rotated(c, s, links[:, [m.BEHIND_X, m.BEHIND_Y]])
    hx, hy = _rotated(c, s, links[:, [m.AHEAD_X, m.AHEAD_Y]])
    ux, uy = _rotated(c, s, links[:, [m.THRUST_X, m.THRUST_Y]])
    size = at.gain * thrust
    dx, dy, resistance = _resistance(chain, at, c, s, (bx, by), (hx, hy))
    fx = size * ux + (dx + at.mass * chain.model.gravity[0]) * drift
    fy = size * uy + (dy + at.mass * chain.model.gravity[1]) * drift
    torque = size * links[:, m.THRUST_ARM] + resistance * drift
    inverse_mass, inverse_inertia = reciprocal(at.mass), reciprocal(at.inertia)
    after, before = _joints(chain.count, pivoted)
    if not len(after):
        return Motion(torque * inverse_inertia, (fx * inverse_mass, fy * inverse_mass), (fx, fy), c, s)
    # How joint forces turn the links, and how the pins would part without them.
    turn_x, turn_y = _rows(-by, after) - _rows(-hy, before), _rows(bx, after) - _rows(hx, before)
    turn, square = stacked([turn_x, turn_y], axis=-2), at.omega * at.omega * drift
    outward_x = _applied(after, square * bx) - _applied(before, square * hx)
    outward_y = _applied(after, square * by) - _applied(before, square * hy)
    linked = after - before
    free_turn = torque * inverse_inertia
    apart = stacked(
        [_applied(linked, fx * inverse_mass) - outward_x, _applied(linked, fy * inverse_mass) - outward_y], axis=-2
    )
    apart = apart + turn @ _column(free_turn)
    shared = _rows(inverse_mass, linked) @ linked.T
    nothing = shared * 0.0
    matrix = stacked([stacked([shared, nothing], axis=-1), stacked([nothing, shared], axis=-1)], axis=-2)
    matrix = matrix + (turn * inverse_inertia.each(lambda part: part[..., None, :])) @ _transposed(turn)
    joint = -solve(matrix, apart)
    joint_x, joint_y = joint[..., : len(after), :], joint[..., len(after) :, :]
    ax = (fx + (linked.T @ joint_x)[..., 0]) * inverse_mass
    ay = (fy + (linked.T @ joint_y)[..., 0]) * inverse_mass
    angular = free_turn + (_transposed(turn) @ joint)[..., 0] * inverse_inertia
    return Motion(angular, (ax, ay), (fx, fy), c, s)


def _resistance(
    chain: ObservedChain, at: JetState, c: Jet, s: Jet, behind: tuple[Jet, Jet], ahead: tuple[Jet, Jet]
) -> tuple[Jet, Jet, Jet]:
    """Force of the drag, x and y in the room's frame, and torque of drag and joints' friction."""
    links, count = chain.model.links, chain.count
    after, before = _joints(count, chain.model.pivoted)
    friction = links[:, m.JOINT_FRICTION] if chain.model.pivoted else links[1:, m.JOINT_FRICTION]
    torque = _resisted(at.omega, links[:, m.DRAG_TURNING], links[:, m.QUADRATIC_TURNING])
    linked = after - before
    torque = torque - _applied(linked.T @ (friction[:, None] * linked), at.omega)[..., 0]
    if not links[:, [m.DRAG_ALONG, m.DRAG_ACROSS, m.QUADRATIC_ALONG, m.QUADRATIC_ACROSS]].any():
        return at.omega * 0.0, at.omega * 0.0, torque
    vx, vy = _velocities(chain, at, behind, ahead)
    along = _resisted(c * vx + s * vy, links[:, m.DRAG_ALONG], links[:, m.QUADRATIC_ALONG])
    across = _resisted(c * vy - s * vx, links[:, m.DRAG_ACROSS], links[:, m.QUADRATIC_ACROSS])
    return c * along - s * across, s * along + c * across, torque


def _velocities(chain: ObservedChain, at: JetState, behind: tuple[Jet, Jet], ahead: tuple[Jet, Jet]) -> tuple[Jet, Jet]:
    """Velocities of the links' centres of mass, from pin to pin and then to that of the whole."""
    earlier = np.tril(np.ones((chain.count, chain.count)), -1)
    inverse_total = reciprocal(_summed(at.mass))
    found = []
    for axis, sign in ((0, -1.0), (1, 1.0)):
        turned_behind, turned_ahead = sign * behind[1 - axis], sign * ahead[1 - axis]
        v = _applied(earlier, at.omega * (turned_ahead - turned_behind))[..., 0] - at.omega * turned_behind
        if not chain.model.pivoted:
            v = v + at.velocity[..., axis : axis + 1] - _summed(at.mass * v) * inverse_total
        found.append(v)
    return found[0], found[1]


def _resisted(speed: Jet, linear: Array, quadratic: Array) -> Jet:
    return -(speed * np.sign(speed.value) * quadratic + linear) * speed


def _joints(count: int, pivoted: bool) -> tuple[Matrix, Matrix]:
    """(J, N) which link is after each joint, and which before; before a pivot there is none."""
    first = 0 if pivoted else 1
    return np.eye(count)[first:], np.eye(count, k=-1)[first:]


def _rotated(cosine: Jet, sine: Jet, vectors: Matrix) -> tuple[Jet, Jet]:
    """Vectors (N, 2) of the links' frames in the room's."""
    x, y = vectors[:, 0], vectors[:, 1]
    return cosine * x - sine * y, sine * x + cosine * y


def _column(jet: Jet) -> Jet:
    return jet.each(lambda part: part[..., None])


def _applied(matrix: Matrix, jet: Jet) -> Jet:
    """`matrix` (R, N) times a jet (..., N), as a column (..., R, 1)."""
    return matrix @ _column(jet)


def _rows(jet: Jet, rows: Matrix) -> Jet:
    """`rows` (J, N) times the diagonal matrix of a jet (..., N)."""
    return jet.each(lambda part: part[..., None, :] * rows)


def _transposed(jet: Jet) -> Jet:
    return jet.each(lambda part: part.swapaxes(-1, -2))


def _summed(jet: Jet) -> Jet:
    return jet.each(lambda part: part.sum(axis=-1, keepdims=True))


def _paired(x: Jet, y: Jet) -> Jet:
    """Two jets (..., 1) as one (..., 2)."""
    return stacked([_column(x), _column(y)], axis=-1)[..., 0, :]
