"""Chains with thrusters for tests: drawn at random, with forces and IMUs, and the same chain in MuJoCo."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thruster_chain_estimation.judging.information import given_and_motion
from thruster_chain_estimation.model import dynamics as d

Array = NDArray[np.float64]


def read(physical: bool, links: Array, given: NDArray, motion: NDArray) -> NDArray:
    """(3N, P) what the IMUs read."""
    out = np.full((3 * len(links), motion.shape[1]), np.nan, motion.dtype)
    d.read_imus(physical, links, given, motion, out)
    return out


def accelerated(links: Array, given: NDArray, motion: NDArray) -> tuple[NDArray, NDArray]:
    """(N, P) angular and (N, 2, P) linear accelerations, by IMUs in the centres of mass and a metre ahead of them."""
    n, at = len(links), links.copy()
    at[:, [d.IMU_X, d.IMU_Y]] = 0.0
    here = read(True, at, given, motion).reshape(n, 3, -1)
    at[:, d.IMU_X] = 1.0
    angular = (read(True, at, given, motion).reshape(n, 3, -1) - here)[:, 1]
    c, s = np.cos(motion[:n]), np.sin(motion[:n])
    return angular, np.stack([c * here[:, 0] - s * here[:, 1], s * here[:, 0] + c * here[:, 1]], axis=1)


def slope(links: Array, states: NDArray, thrust: Array) -> NDArray:
    """(2N, P) derivatives of headings and rates in states (5N, P) of `observed_chain.Blocks`."""
    given, motion = given_and_motion(states, thrust[:, None])
    return np.concatenate([motion[len(thrust) :], accelerated(links, given, motion)[0]])


def pinned(links: Array, behind: Array, ahead: Array) -> Array:
    """Links whose pins (N, 2) are anywhere about their centres of mass."""
    links[:, [d.BEHIND_X, d.BEHIND_Y]], links[:, [d.AHEAD_X, d.AHEAD_Y]] = behind, ahead
    return links


class RandomChain(NamedTuple):
    """Geometry, inertia and a moving state of a chain; forces (N, 2) and torques (N,) on its links."""

    behind: Array
    ahead: Array
    mass: Array
    inertia: Array
    heading: Array
    rate: Array
    force: Array
    torque: Array

    @classmethod
    def drawn(cls, count: int, seed: int) -> RandomChain:
        """Links of 0.1 to 0.4 m, 0.2 to 1 kg, centres of mass off the line between the pins."""
        rng = np.random.default_rng(seed)
        half, mass = rng.uniform(0.05, 0.2, count), rng.uniform(0.2, 1.0, count)
        shift, along = rng.uniform(-0.3, 0.3, (count, 2)) * half[:, None], np.column_stack([half, np.zeros(count)])
        inertia = mass * half**2 * rng.uniform(0.2, 0.6, count)
        moving = rng.uniform(-np.pi, np.pi, count), rng.normal(0.0, 2.0, count)
        force, torque = rng.normal(0.0, 1.0, (count, 2)), rng.normal(0.0, 0.1, count)
        return cls(-along - shift, along - shift, mass, inertia, *moving, force, torque)

    def pushed(self, imu_places: Array | tuple[float, float] = (0.0, 0.0)) -> tuple[Array, Array, Array]:
        """Its links, `given` (3N, 1) and `motion` (2N, 1): a thruster on each link can give any force and torque."""
        thrust = np.maximum(np.hypot(*self.force.T), 1e-9)
        cosine, sine = np.cos(self.heading), np.sin(self.heading)
        along = cosine * self.force[:, 0] + sine * self.force[:, 1]
        across = cosine * self.force[:, 1] - sine * self.force[:, 0]
        places = np.column_stack([across, -along]) * (self.torque / thrust**2)[:, None]
        links = d.rods(np.zeros_like(thrust), np.arctan2(across, along), places, imu_places)
        given = np.concatenate([1.0 / self.mass, 1.0 / self.inertia, thrust])[:, None]
        motion = np.concatenate([self.heading, self.rate])[:, None]
        return pinned(links, self.behind, self.ahead), given, motion


def drawn_links(count: int, seed: int) -> Array:
    """Centres of mass off the line, thrusters and IMUs anywhere."""
    rng = np.random.default_rng(seed)
    chain = RandomChain.drawn(count, seed)
    angles, places = rng.uniform(-np.pi, np.pi, count), rng.normal(0.0, 0.05, (count, 2))
    links = d.rods(np.zeros(count), angles, places, rng.normal(0.0, 0.1, (count, 2)))
    return pinned(links, chain.behind, chain.ahead)


def in_mujoco(chain: RandomChain, imu_places: Array, friction: Array | None = None) -> tuple[Array, Array, Array]:
    """Angular (N,) and linear (N, 2) accelerations of the same chain, and what its IMUs read (N, 3), by MuJoCo."""
    import mujoco

    count, links, sensors = len(chain.mass), "", ""
    for i in range(count):
        # Each body's frame sits on its rear pin; MuJoCo wants relative places and relative angles.
        pin = np.zeros(2) if i == 0 else chain.ahead[i - 1] - chain.behind[i - 1]
        slides = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>'
        free = slides if i == 0 else ""
        links += f"""<body pos="{_text(*pin, 0.0)}">{free}
          <joint type="hinge" axis="0 0 1" damping="{_text(0.0 if free or friction is None else friction[i])}"/>
          <inertial pos="{_text(*-chain.behind[i], 0.0)}" mass="{_text(chain.mass[i])}"
            diaginertia="{_text(1.0, 1.0, chain.inertia[i])}"/>
          <site name="imu{i}" pos="{_text(*(imu_places[i] - chain.behind[i]), 0.0)}"/>"""
        sensors += f'<accelerometer site="imu{i}"/><gyro site="imu{i}"/>'
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><compiler angle="radian"/><option gravity="0 0 0"/>
        <worldbody>{links}{"</body>" * count}</worldbody><sensor>{sensors}</sensor></mujoco>"""
    )
    data = mujoco.MjData(model)
    data.qpos[2:] = np.diff(chain.heading, prepend=0.0)
    data.qvel[2:] = np.diff(chain.rate, prepend=0.0)
    data.xfrc_applied[1:, :2], data.xfrc_applied[1:, 5] = chain.force, chain.torque
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    linear, motion = np.empty((count, 2)), np.empty(6)
    for i in range(count):
        mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_BODY, i + 1, motion, 0)
        linear[i] = motion[3:5]
    return np.cumsum(data.qacc[2:]), linear, data.sensordata.reshape(count, 6)[:, [0, 1, 5]].copy()


def _text(*values: float) -> str:
    return " ".join(f"{value:.17g}" for value in values)
