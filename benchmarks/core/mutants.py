"""Slips of those who write filters, one each in a robot that has none, and which promise of `check_robot` finds it.

    python -m benchmarks.core.mutants

The robots are the one that `new robot` writes (`cart`) and a rover with a planar pose, a gyro and a compass (`rover`).
A slip is a text of the robot's module and what stands there instead.
"""

# ruff: noqa: E501
from __future__ import annotations

import sys
import types
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest import SkipTest

from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.testing import checks

_SEEDS, _SECONDS = range(1, 7), 30.0
_CAUGHT = ("overconfident", "too unsure", "conservative", "look at", "suspect", "not judged")
SLIPS: dict[str, tuple[str, str]] = {
    "cart: constant time step": (
        "(stamp_ns - state.stamp_ns) * 1e-9",
        "0.02",
    ),
    "cart: process noise without time step": (
        "self.configuration.speed_noise_m_sqrt_s**2 * step_s, 1e-6 * step_s",
        "self.configuration.speed_noise_m_sqrt_s**2 * 0.02, 1e-6 * 0.02",
    ),
    "cart: process noise a deviation": (
        "speed_noise_m_sqrt_s**2 *",
        "speed_noise_m_sqrt_s *",
    ),
    "cart: command one message late": (
        "return Step(state._replace(speed_m_s=self.configuration.wheel_radius_m * float(measurement.value[0])))",
        "return Step(state._replace(speed_m_s=state.pending, pending=self.configuration.wheel_radius_m * float(measurement.value[0])))",
    ),
    "cart: command one message early": (
        "        state = self.moved(state, measurement.stamp_ns)\n        if measurement.sensor == WHEELS.sensor:\n            return Step(state._replace(speed_m_s=self.configuration.wheel_radius_m * float(measurement.value[0])))",
        "        if measurement.sensor == WHEELS.sensor:\n            state = state._replace(speed_m_s=self.configuration.wheel_radius_m * float(measurement.value[0]))\n            return Step(self.moved(state, measurement.stamp_ns))\n        state = self.moved(state, measurement.stamp_ns)",
    ),
    "cart: wheel radius 30 % off": (
        "speed_m_s=self.configuration.wheel_radius_m",
        "speed_m_s=1.3 * self.configuration.wheel_radius_m",
    ),
    "cart: beacon ignored": (
        "state._replace(moments=moments, rejected_in_a_row=rejected)\n        return Step(state, Estimate(measurement.stamp_ns, *moments), innovation)",
        "state._replace(rejected_in_a_row=rejected)\n        return Step(state, Estimate(measurement.stamp_ns, *state.moments), innovation)",
    ),
    "cart: given start ignored": (
        "        return State(Moments(initial.mean, initial.covariance), initial.stamp_ns)",
        "        return State(Moments(SPACE.origin(), ROBOT.initial_covariance(self.configuration)), initial.stamp_ns)",
    ),
    "cart: given covariance ignored": (
        "Moments(initial.mean, initial.covariance), initial",
        "Moments(initial.mean, ROBOT.initial_covariance(self.configuration)), initial",
    ),
    "cart: given mean ignored": (
        "Moments(initial.mean, initial.covariance), initial",
        "Moments(SPACE.origin(), initial.covariance), initial",
    ),
    "cart: way with the wrong sign": (
        "mean + np.array([(1.0 -",
        "mean - np.array([(1.0 -",
    ),
    "cart: slip with the wrong sign": (
        "(1.0 - state.moments.mean[1])",
        "(1.0 + state.moments.mean[1])",
    ),
    "cart: Jacobian with the wrong sign": (
        "[[1.0, -way]",
        "[[1.0, way]",
    ),
    "cart: Jacobian without slip": (
        "[[1.0, -way]",
        "[[1.0, 0.0]",
    ),
    "cart: beacon noise a deviation": (
        "beacon_stddev_m**2]])",
        "beacon_stddev_m]])",
    ),
    "cart: innovation with the wrong sign": (
        "measurement.value[POINT.point][:1] - state.moments.mean[:1]",
        "state.moments.mean[:1] - measurement.value[POINT.point][:1]",
    ),
    "cart: nanoseconds as microseconds": (
        "state.stamp_ns) * 1e-9",
        "state.stamp_ns) * 1e-6",
    ),
    "cart: beacon's other axis": (
        "[POINT.point][:1]",
        "[POINT.point][1:2]",
    ),
    "cart: beacon used twice": (
        "        state = state._replace(moments=moments, rejected_in_a_row=rejected)",
        "        moments, innovation, rejected = update(\n            SPACE, moments, measurement.value[POINT.point][:1] - moments.mean[:1], np.array([[1.0, 0.0]]), noise, self.gate, rejected\n        )\n        state = state._replace(moments=moments, rejected_in_a_row=rejected)",
    ),
    "cart: no gate": (
        "Gate(probability=0.997, recover_after=10)",
        "Gate(probability=1.0, recover_after=0)",
    ),
    "cart: gate too narrow": (
        "Gate(probability=0.997",
        "Gate(probability=0.5",
    ),
    "cart: gate that recovers at once": (
        "recover_after=10",
        "recover_after=1",
    ),
    "cart: stamp kept in the estimator": (
        "        return state._replace(moments=moments, stamp_ns=stamp_ns)",
        "        self.last = stamp_ns\n        return state._replace(moments=moments, stamp_ns=stamp_ns)",
    ),
    "cart: random numbers without a seed": (
        "        return state._replace(moments=moments, stamp_ns=stamp_ns)",
        "        moments = Moments(moments.mean + 1e-5 * np.random.default_rng().normal(size=2), moments.covariance)\n        return state._replace(moments=moments, stamp_ns=stamp_ns)",
    ),
    "cart: state written into": (
        "        way = state.speed",
        "        state.moments.covariance[1, 1] += 1e-6 * step_s\n        way = state.speed",
    ),
    "cart: covariance not symmetric": (
        "        state = state._replace(moments=moments, rejected_in_a_row=rejected)",
        "        moments = Moments(moments.mean, moments.covariance * np.array([[1.0, 1.02], [1.0, 1.0]]))\n        state = state._replace(moments=moments, rejected_in_a_row=rejected)",
    ),
    "cart: covariance constant": (
        "Estimate(measurement.stamp_ns, *moments), innovation",
        "Estimate(measurement.stamp_ns, moments.mean, ROBOT.initial_covariance(self.configuration)), innovation",
    ),
    "cart: covariance not corrected": (
        "        state = state._replace(moments=moments, rejected_in_a_row=rejected)",
        "        moments = Moments(moments.mean, state.moments.covariance)\n        state = state._replace(moments=moments, rejected_in_a_row=rejected)",
    ),
    "cart: process noise forgotten": (
        "[self.configuration.speed_noise_m_sqrt_s**2 * step_s, 1e-6 * step_s]",
        "[0.0, 0.0]",
    ),
    "cart: slip twice": (
        "(1.0 - state.moments.mean[1]) * way",
        "(1.0 - 2.0 * state.moments.mean[1]) * way",
    ),
    "rover: compass without wrap": (
        "np.array([np.remainder(heading - mean[2] + np.pi, 2.0 * np.pi) - np.pi])",
        "np.array([heading - mean[2]])",
    ),
    "rover: estimate off by 2 pi": (
        "            return Step(state, Estimate(measurement.stamp_ns, *state.moments))",
        "            return Step(state, Estimate(measurement.stamp_ns, state.moments.mean + np.array([0, 0, 2 * np.pi, 0, 0]), state.moments.covariance))",
    ),
    "rover: state without wrap": (
        "moved = SPACE.plus(mean, twist)",
        "moved = mean + np.array([twist[0] * np.cos(mean[2]), twist[0] * np.sin(mean[2]), turn, 0.0, 0.0])",
    ),
    "rover: beacon in the wrong frame": (
        "np.array([[c, -s, 0.0, 0.0, 0.0], [s, c, 0.0, 0.0, 0.0]])",
        "np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]])",
    ),
    "rover: beacon turned the wrong way": (
        "np.array([[c, -s, 0.0, 0.0, 0.0], [s, c, 0.0, 0.0, 0.0]])",
        "np.array([[c, s, 0.0, 0.0, 0.0], [-s, c, 0.0, 0.0, 0.0]])",
    ),
    "rover: wheel radius 30 % off": (
        "0.5 * self.c.wheel_radius_m",
        "0.65 * self.c.wheel_radius_m",
    ),
    "rover: one wheel only": (
        "0.5 * self.c.wheel_radius_m * float(value[0] + value[1])",
        "0.5 * self.c.wheel_radius_m * float(value[0])",
    ),
    "rover: command one message late": (
        "return Step(state._replace(speed_m_s=0.5 * self.c.wheel_radius_m * float(value[0] + value[1])))",
        "return Step(state._replace(speed_m_s=state.pending, pending=0.5 * self.c.wheel_radius_m * float(value[0] + value[1])))",
    ),
    "rover: constant time step": (
        "(stamp_ns - state.stamp_ns) * 1e-9",
        "0.01",
    ),
    "rover: process noise without time step": (
        "walk * step_s, walk * step_s, turning * step_s",
        "walk * 0.01, walk * 0.01, turning * 0.01",
    ),
    "rover: beacon ignored": (
        "state._replace(moments=moments, beacon_rejected=rejected)",
        "state._replace(beacon_rejected=rejected); moments = state.moments",
    ),
    "rover: compass ignored": (
        "state._replace(moments=moments, compass_rejected=rejected)",
        "state._replace(compass_rejected=rejected); moments = state.moments",
    ),
    "rover: gyro ignored": (
        "rate_rad_s=float(value[IMU.angular_velocity][2])",
        "rate_rad_s=0.0",
    ),
    "rover: gyro in degrees": (
        "rate_rad_s=float(value[IMU.angular_velocity][2])",
        "rate_rad_s=float(np.rad2deg(value[IMU.angular_velocity][2]))",
    ),
    "rover: gyro's other axis": (
        "rate_rad_s=float(value[IMU.angular_velocity][2])",
        "rate_rad_s=float(value[IMU.angular_velocity][1])",
    ),
    "rover: gyro with the wrong sign": (
        "rate_rad_s=float(value[IMU.angular_velocity][2])",
        "rate_rad_s=-float(value[IMU.angular_velocity][2])",
    ),
    "rover: gyro bias with the wrong sign": (
        "(state.rate_rad_s - mean[4])",
        "(state.rate_rad_s + mean[4])",
    ),
    "rover: Jacobian of the bias forgotten": (
        "        transition[2, 4] = -step_s\n",
        "",
    ),
    "rover: Jacobian of the heading forgotten": (
        "transition[0, 2], transition[1, 2] = forward * s, forward * c",
        "pass",
    ),
    "rover: Jacobian of the heading with the wrong sign": (
        "forward * s, forward * c",
        "-forward * s, -forward * c",
    ),
    "rover: axes of the beacon swapped": (
        "value[POINT.point][:2] - mean",
        "value[POINT.point][[1, 0]] - mean",
    ),
    "rover: axes of the quaternion swapped": (
        "np.arctan2(quaternion[2], quaternion[3])",
        "np.arctan2(quaternion[3], quaternion[2])",
    ),
    "rover: compass noise in degrees": (
        "np.deg2rad(self.c.compass_stddev_deg)",
        "self.c.compass_stddev_deg",
    ),
    "rover: gyro noise in degrees": (
        "np.deg2rad(self.c.turn_walk_deg_sqrt_s)",
        "self.c.turn_walk_deg_sqrt_s",
    ),
    "rover: given start ignored": (
        "        return State(Moments(initial.mean, initial.covariance), initial.stamp_ns)",
        "        return self.start(None)._replace(stamp_ns=initial.stamp_ns)",
    ),
    "rover: count kept in the class": (
        "            state = state._replace(moments=moments, beacon_rejected=rejected)",
        "            self.rejected = rejected\n            state = state._replace(moments=moments, beacon_rejected=rejected)",
    ),
    "rover: noise in the world frame, Jacobian of none": (
        "transition[:2, :2] = [[c, s], [-s, c]]",
        "pass",
    ),
    "rover: half the heading": (
        "heading = 2.0 * np.arctan2",
        "heading = np.arctan2",
    ),
    "rover: readings of the gyro late by one": (
        "return Step(state, Estimate(measurement.stamp_ns, *state.moments))",
        "return Step(state._replace(rate_rad_s=state.pending, pending=state.rate_rad_s), Estimate(measurement.stamp_ns, *state.moments))",
    ),
}


def robot_with(slip: str) -> Any:
    """The robot with a slip of `SLIPS`; without one of just its name and a colon."""
    kind = slip.partition(":")[0]
    if kind == "rover":
        text = Path(__file__).with_name("rover.py").read_text()
    else:
        template = files("onboard_estimation") / "templates" / "robot" / "robot.py.template"
        text = template.read_text().replace("$name", "cart").replace("${Name}", "Cart")
    # What a command that is late waits in.
    text = text.replace("    speed_m_s: float = 0.0\n", "    speed_m_s: float = 0.0\n    pending: float = 0.0\n")
    if slip in SLIPS:
        before, after = SLIPS[slip]
        if text.count(before) != 1:
            raise ValueError(f"{slip}: {before!r} stands {text.count(before)} times in the robot")
        text = text.replace(before, after)
    module = types.ModuleType(f"robot_{abs(hash(slip))}")
    sys.modules[module.__name__] = module  # where dataclasses look up their annotations
    exec(compile(text, module.__name__, "exec"), module.__dict__)  # noqa: S102
    return module.ROBOT


def promises_broken(robot: Any) -> set[str]:
    """Names of the promises that it does not keep."""
    found = set()
    for check in checks(robot):
        try:
            check()
        except SkipTest:
            continue
        except Exception:  # whatever a slip leads to
            found.add(str(check))
    return found


def verdicts_against(robot: Any) -> int:
    """Of six simulated runs, those that `evaluate` finds fault with."""
    configuration, scenario, count = robot.configuration_type(), next(iter(robot.scenarios)), 0
    for seed in _SEEDS:
        try:
            recording = simulated_recording(robot, configuration, scenario, "", _SECONDS, seed)
            said = judge(robot, configuration, "default", recording, JudgeSettings(seed=seed)).verdict
        except Exception:
            said = "not judged"
        count += any(words in said for words in _CAUGHT)
    return count


def main() -> None:
    """Print which promises and how many verdicts find each slip."""
    found = 0
    for slip in SLIPS:
        robot = robot_with(slip)
        broken, verdicts = promises_broken(robot), verdicts_against(robot)
        found += bool(broken) or verdicts > 1
        print(f"{slip:55} {verdicts} of {len(_SEEDS)}  {', '.join(sorted(broken)) or '-'}", flush=True)
    print(f"{found} of {len(SLIPS)}")


if __name__ == "__main__":
    main()
