"""Slips of those who write filters, one each in a robot that has none, and which promise of `check_robot` finds it.

    python -m benchmarks.core.mutants

The robots are the one that `new robot` writes (`cart`) and a rover with a planar pose, a gyro and a compass (`rover`).
A slip is a text of the robot's module and what stands there instead.
"""

# ruff: noqa: E501
from __future__ import annotations

import sys
import types
from collections.abc import Iterator
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
    "cart: constant time step": ("(stamp_ns - state.stamp_ns) * 1e-9", "0.02"),
    "cart: process noise without time step": ("m_sqrt_s**2 * step_s, 1e-6 * step_s", "m_sqrt_s**2 * 0.02, 1e-6 * 0.02"),
    "cart: process noise a deviation": ("speed_noise_m_sqrt_s**2 *", "speed_noise_m_sqrt_s *"),
    "cart: process noise forgotten": ("m_sqrt_s**2 * step_s, 1e-6 * step_s", "m_sqrt_s**2 * 0.0, 0.0"),
    "cart: command one message late": ("(speed_m_s=self", "(speed_m_s=state.pending, pending=self"),
    "cart: wheel radius 30 % off": ("speed_m_s=self", "speed_m_s=1.3 * self"),
    "cart: beacon ignored": (
        "        state = state._replace(moments=moments, rej",
        "        moments = state.moments\n        state = state._replace(rej",
    ),
    "cart: given start ignored": ("Moments(initial.mean, initial.covariance)", "self.start(None).moments"),
    "cart: given covariance ignored": (
        "initial.mean, initial.covariance)",
        "initial.mean, self.start(None).moments[1])",
    ),
    "cart: way with the wrong sign": ("mean + np.array([(1.0 -", "mean - np.array([(1.0 -"),
    "cart: slip with the wrong sign": ("(1.0 - state.moments.mean[1])", "(1.0 + state.moments.mean[1])"),
    "cart: Jacobian with the wrong sign": ("[[1.0, -way]", "[[1.0, way]"),
    "cart: Jacobian without slip": ("[[1.0, -way]", "[[1.0, 0.0]"),
    "cart: beacon noise a deviation": ("beacon_stddev_m**2]])", "beacon_stddev_m]])"),
    "cart: innovation with the wrong sign": ("SPACE, state.moments, difference", "SPACE, state.moments, -difference"),
    "cart: no gate": ("Gate(probability=0.997, recover_after=10)", "Gate(probability=1.0, recover_after=0)"),
    "cart: gate too narrow": ("Gate(probability=0.997", "Gate(probability=0.5"),
    "cart: gate that recovers at once": ("recover_after=10", "recover_after=1"),
    "cart: stamp kept in the estimator": (
        "        return state._replace(moments=moments, st",
        "        self.last = stamp_ns\n        return state._replace(moments=moments, st",
    ),
    "cart: random numbers without a seed": (
        "        return state._replace(moments=moments, st",
        "        moments = Moments(moments.mean + 1e-5 * np.random.default_rng().normal(size=2), moments.covariance)\n        return state._replace(moments=moments, st",
    ),
    "cart: state written into": (
        "        way = state.speed",
        "        state.moments.covariance[1, 1] += 1e-6 * step_s\n        way = state.speed",
    ),
    "cart: covariance not symmetric": (
        "        state = state._replace(moments=moments, rej",
        "        moments = Moments(moments.mean, moments.covariance * np.array([[1.0, 1.02], [1.0, 1.0]]))\n        state = state._replace(moments=moments, rej",
    ),
    "cart: covariance not corrected": (
        "        state = state._replace(moments=moments, rej",
        "        moments = Moments(moments.mean, state.moments.covariance)\n        state = state._replace(moments=moments, rej",
    ),
    "rover: compass without wrap": (
        "np.remainder(heading - mean[2] + np.pi, 2.0 * np.pi) - np.pi",
        "heading - mean[2]",
    ),
    "rover: estimate off by 2 pi": ("*state.moments)", "mean + [0, 0, 2 * np.pi, 0, 0], state.moments[1])"),
    "rover: beacon in the wrong frame": ("[[c, -s, 0.0, 0.0, 0.0], [s, c,", "[[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0,"),
    "rover: gyro ignored": ("rate_rad_s=float(value[IMU.angular_velocity][2])", "rate_rad_s=0.0"),
    "rover: gyro one message late": ("rate_rad_s=float(value", "rate_rad_s=state.pending, pending=float(value"),
    "rover: gyro bias with the wrong sign": ("(state.rate_rad_s - mean[4])", "(state.rate_rad_s + mean[4])"),
    "rover: Jacobian of the heading forgotten": ("forward * s, forward * c", "0.0, 0.0"),
    "rover: axes of the quaternion swapped": ("(quaternion[2], quaternion[3])", "(quaternion[3], quaternion[2])"),
    "rover: compass noise in degrees": ("np.deg2rad(self.c.compass_stddev_deg)", "self.c.compass_stddev_deg"),
}


def robot_with(slip: str) -> Any:
    """The robot with a slip of `SLIPS`; without one of just its name and a colon."""
    kind = slip.partition(":")[0]
    if kind == "rover":
        text = Path(__file__).with_name("rover.py").read_text()
    else:
        template = files("onboard_estimation") / "templates" / "robot" / "robot.py.template"
        text = template.read_text().replace("$name", "cart").replace("${Name}", "Cart")
    # What a message that is late waits in.
    waiting = ("    speed_m_s: float = 0.0\n", "    speed_m_s: float = 0.0\n    pending: float = 0.0\n")
    for before, after in (waiting, SLIPS.get(slip, waiting[:1] * 2)):
        if text.count(before) != 1:
            raise ValueError(f"{slip}: {before!r} stands {text.count(before)} times in the robot")
        text = text.replace(before, after)
    module = types.ModuleType(f"robot_{abs(hash(slip))}")
    sys.modules[module.__name__] = module  # where dataclasses look up their annotations
    exec(compile(text, module.__name__, "exec"), module.__dict__)  # noqa: S102
    return module.ROBOT


def promises_broken(robot: Any) -> Iterator[str]:
    """Names of the promises that it does not keep, each as soon as it is found."""
    for check in checks(robot):
        try:
            check()
        except SkipTest:
            continue
        except Exception:  # whatever a slip leads to
            yield str(check)


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
        broken, verdicts = set(promises_broken(robot)), verdicts_against(robot)
        found += bool(broken) or verdicts > 1
        print(f"{slip:55} {verdicts} of {len(_SEEDS)}  {', '.join(sorted(broken)) or '-'}", flush=True)
    print(f"{found} of {len(SLIPS)}")


if __name__ == "__main__":
    main()
