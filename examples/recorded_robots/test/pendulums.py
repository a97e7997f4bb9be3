"""Pendulums for tests, swung by MuJoCo: nothing of what moves them here is ours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.base.series import Series
from onboard_estimation.pipeline.estimator import Step
from recorded_robots.pendulum.configuration import Pendulum
from recorded_robots.pendulum.estimator import PendulumEstimator, angle_channel, torque_channel

Array = NDArray[np.float64]
GRAVITY = 9.80665
ANGLE_NOISE_RAD, RATE_WALK_RAD_S_SQRT_S = 1e-3, 0.03
"""Of recordings, and as the filter has them."""


class Links(NamedTuple):
    """Masses, distances to the centres of mass, inertias about them, viscous frictions, lengths: (N,), SI units."""

    mass: Array
    centre: Array
    inertia: Array
    friction: Array
    length: Array

    @classmethod
    def drawn(cls, count: int, seed: int) -> Links:
        """Links of 0.2 to 0.4 m, 0.2 to 1 kg."""
        rng = np.random.default_rng(seed)
        length, mass = rng.uniform(0.2, 0.4, count), rng.uniform(0.2, 1.0, count)
        centre = rng.uniform(0.4, 0.8, count) * length
        inertia = rng.uniform(0.05, 0.1, count) * mass * length**2
        return cls(mass, centre, inertia, rng.uniform(0.001, 0.01, count), length)

    @property
    def parameters(self) -> Array:
        """(6, N) as the kernels take them."""
        return np.array([*self[:4], np.zeros_like(self.mass), np.zeros_like(self.mass)])

    def configuration(self, off: float = 0.0, **overrides: object) -> Pendulum:
        """Of an estimator that starts with all that is unknown off by a factor exp(off), and has no dry friction."""
        count, factor = len(self.mass), np.exp(off)
        values: dict[str, object] = {
            "links.joint_names": [f"joint_{i + 1}" for i in range(count)],
            "links.lengths_m": self.length.tolist(),
            "links.mass_kg": (factor * self.mass).tolist(),
            "links.centre_of_mass_m": self.centre.tolist(),
            "links.inertia_kg_m2": (factor * self.inertia).tolist(),
            "links.viscous_friction_n_m_s": (factor * self.friction).tolist(),
            "unknown.viscous_friction": [0.5] * count,
            "unknown.mass": [0.3] * count,
            "unknown.inertia": [0.3] * count,
            "truth_rate_stddev_rad_s": [0.01] * count,
            "noise.angle_stddev_rad": [ANGLE_NOISE_RAD] * count,
            "noise.rate_walk_rad_s_sqrt_s": [RATE_WALK_RAD_S_SQRT_S] * count,
            "noise.parameter_walk_sqrt_s": 0.0,
        }
        nothing = ["links.dry_friction_n_m", "links.gear_friction", "unknown.dry_friction", "unknown.gear_friction"]
        values |= {name: [0.0] * count for name in [*nothing, "unknown.centre_of_mass"]}
        return load(Pendulum, None, values | overrides)


def in_mujoco(links: Links) -> tuple[Any, Any]:
    """MuJoCo's model of the links and its data, hanging at rest."""
    import mujoco

    bodies = ""
    for i in range(len(links.mass)):
        place = 0.0 if i == 0 else links.length[i - 1]
        bodies += f"""<body pos="{place:.17g} 0 0"><joint type="hinge" axis="0 0 1" damping="{links.friction[i]:.17g}"/>
          <inertial pos="{links.centre[i]:.17g} 0 0" mass="{links.mass[i]:.17g}"
            diaginertia="1 1 {links.inertia[i]:.17g}"/>"""
    # Links lie along x where all angles are zero, so that is where weight pulls.
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option gravity="{GRAVITY} 0 0" timestep="0.001" integrator="RK4"/>
        <worldbody>{bodies}{"</body>" * len(links.mass)}</worldbody></mujoco>"""
    )
    return model, mujoco.MjData(model)


def swung(links: Links, angle: Array, torques: Array, rng: np.random.Generator | None = None) -> Array:
    """Joint angles (K + 1, N) from rest at some angles (N,), under torques (K, N), each for a millisecond.

    With random numbers, rates make a random walk beside.
    """
    import mujoco

    model, data = in_mujoco(links)
    data.qpos[:] = angle
    out = [data.qpos.copy()]
    for torque in torques:
        data.qfrc_applied[:] = torque
        mujoco.mj_step(model, data)
        if rng is not None:
            data.qvel += rng.normal(0.0, RATE_WALK_RAD_S_SQRT_S * np.sqrt(model.opt.timestep), len(angle))
        out.append(data.qpos.copy())
    return np.array(out)


def recording(links: Links, duration_s: float, seed: int, driven: bool, start_s: float = 0.0) -> tuple[Series, Series]:
    """Torques and measured angles, with noise, every 5 ms: a swing from rest, driven by sines or free."""
    rng, step_s, every = np.random.default_rng(seed), 1e-3, 5
    count, names = len(links.mass), tuple(f"joint_{i + 1}" for i in range(len(links.mass)))
    instants = np.arange(0, round(duration_s / step_s) + 1, every)
    weight = GRAVITY * np.cumsum((links.mass * links.length)[::-1])[::-1]
    phases, frequencies = rng.uniform(0.0, 6.0, count), rng.uniform(2.0, 6.0, count)
    torques = 0.3 * weight * np.sin(phases + frequencies * instants[:, None] * step_s) * driven
    angles = swung(links, rng.uniform(-1.0, 1.0, count), np.repeat(torques[:-1], every, axis=0), rng)[instants]
    stamps = np.round((start_s + instants * step_s) * 1e9).astype(np.int64)
    measured = angles + rng.normal(0.0, ANGLE_NOISE_RAD, angles.shape)
    return Series(torque_channel(names), stamps, torques), Series(angle_channel(names), stamps, measured)


def filtered(estimator: PendulumEstimator, *recordings: tuple[Series, Series]) -> list[Step]:
    """The steps of all measured angles."""
    state, steps = estimator.start(None), []
    for torques, angles in recordings:
        for stamp, torque, angle in zip(angles.stamps_ns.tolist(), torques.values, angles.values, strict=True):
            state = estimator.step(state, Measurement(stamp, torques.channel.sensor, torque)).state
            step = estimator.step(state, Measurement(stamp, angles.channel.sensor, angle))
            state = step.state
            steps.append(step)
    return steps
