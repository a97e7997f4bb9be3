"""Chains with thrusters for tests: drawn at random, with forces and IMUs, and the same chain in MuJoCo."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salp_estimation.thruster_chain.chain_model import ChainModel
from salp_estimation.thruster_chain.dynamics import accelerate

Array = NDArray[np.float64]


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
    def drawn(cls, count: int, seed: int, rods: bool = False) -> RandomChain:
        """Links of 0.1 to 0.4 m, 0.2 to 1 kg; `rods` have their centres of mass halfway between the pins."""
        rng = np.random.default_rng(seed)
        half = rng.uniform(0.05, 0.2, count)
        mass = rng.uniform(0.2, 1.0, count)
        shift = np.zeros((count, 2)) if rods else rng.uniform(-0.3, 0.3, (count, 2)) * half[:, None]
        return cls(
            np.column_stack([-half, np.zeros(count)]) - shift,
            np.column_stack([half, np.zeros(count)]) - shift,
            mass,
            mass * half**2 * rng.uniform(0.2, 0.6, count),
            rng.uniform(-np.pi, np.pi, count),
            rng.normal(0.0, 2.0, count),
            rng.normal(0.0, 1.0, (count, 2)),
            np.zeros(count) if rods else rng.normal(0.0, 0.1, count),
        )

    @property
    def half_length(self) -> Array:
        """(N,) of rods, m."""
        return self.ahead[:, 0]

    def accelerations(self, pivoted: bool = False) -> tuple[Array, Array, Array]:
        """Angular (N,) and linear (N, 2) accelerations, and forces in the joints (N + 1, 2)."""
        count = len(self.mass)
        out = np.empty(count), np.empty((count, 2)), np.empty((count + 1, 2))
        accelerate(
            self.heading,
            self.rate,
            self.mass,
            self.inertia,
            self.behind,
            self.ahead,
            self.force,
            self.torque,
            pivoted,
            *out,
        )
        return out


class Surroundings(NamedTuple):
    """What else there is on a chain: viscous friction of the joints, gravity in the plane, IMUs on the links."""

    friction: Array
    gravity: Array
    imu_places: Array
    imu_angles: Array

    @classmethod
    def drawn(cls, count: int, seed: int) -> Surroundings:
        """Of each something."""
        rng = np.random.default_rng(seed)
        return cls(
            rng.uniform(0.001, 0.02, count),
            rng.normal(0.0, 5.0, 2),
            rng.normal(0.0, 0.1, (count, 2)),
            rng.uniform(-np.pi, np.pi, count),
        )


def drawn_model(count: int, seed: int, pivoted: bool = False) -> ChainModel:
    """A chain with all kinds of forces."""
    rng = np.random.default_rng(seed)
    chain, around = RandomChain.drawn(count, seed), Surroundings.drawn(count, seed)
    return ChainModel.build(
        chain.behind,
        chain.ahead,
        thruster_angles=rng.uniform(-np.pi, np.pi, count),
        thruster_places=rng.normal(0.0, 0.05, (count, 2)),
        drag=rng.uniform(0.0, 0.5, (count, 3)) * (1.0, 1.0, 0.01),
        quadratic_drag=rng.uniform(0.0, 0.5, (count, 3)) * (1.0, 1.0, 0.01),
        joint_friction=around.friction,
        imu_places=around.imu_places,
        imu_angles=around.imu_angles,
        gravity=around.gravity,
        pivoted=pivoted,
    )


def in_mujoco(chain: RandomChain, pivoted: bool, around: Surroundings) -> tuple[Array, Array, Array]:
    """Angular (N,) and linear (N, 2) accelerations of the same chain, and what its IMUs read (N, 3), by MuJoCo."""
    import mujoco

    count, links, sensors = len(chain.mass), "", ""
    for i in range(count):
        # Each body's frame sits on its rear pin; MuJoCo wants relative places and relative angles.
        pin = np.zeros(2) if i == 0 else chain.ahead[i - 1] - chain.behind[i - 1]
        slides = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>'
        free = slides if i == 0 and not pivoted else ""
        friction = 0.0 if free else around.friction[i]
        links += f"""<body pos="{_text(*pin, 0.0)}">{free}
          <joint type="hinge" axis="0 0 1" damping="{_text(friction)}"/>
          <inertial pos="{_text(*-chain.behind[i], 0.0)}" mass="{_text(chain.mass[i])}"
            diaginertia="{_text(1.0, 1.0, chain.inertia[i])}"/>
          <site name="imu{i}" pos="{_text(*(around.imu_places[i] - chain.behind[i]), 0.0)}"
            euler="{_text(0.0, 0.0, around.imu_angles[i])}"/>"""
        sensors += f'<accelerometer site="imu{i}"/><gyro site="imu{i}"/>'
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><compiler angle="radian"/><option gravity="{_text(*around.gravity, 0.0)}"/>
        <worldbody>{links}{"</body>" * count}</worldbody><sensor>{sensors}</sensor></mujoco>"""
    )
    data = mujoco.MjData(model)
    first = 0 if pivoted else 2
    data.qpos[first:] = np.diff(chain.heading, prepend=0.0)
    data.qvel[first:] = np.diff(chain.rate, prepend=0.0)
    data.xfrc_applied[1:, :2], data.xfrc_applied[1:, 5] = chain.force, chain.torque
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    linear, motion = np.empty((count, 2)), np.empty(6)
    for i in range(count):
        mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_BODY, i + 1, motion, 0)
        linear[i] = motion[3:5] + around.gravity  # MuJoCo tells what an accelerometer would read
    return np.cumsum(data.qacc[first:]), linear, data.sensordata.reshape(count, 6)[:, [0, 1, 5]].copy()


def _text(*values: float) -> str:
    return " ".join(f"{value:.17g}" for value in values)
