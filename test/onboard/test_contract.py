"""Every robot that is installed keeps the contract, with each of its estimators."""

from __future__ import annotations

import pytest

from onboard_estimation.contract.robot import find_robot
from onboard_estimation.testing import Check, checks

ROBOTS = ("salp", "hopper", "strapdown", "softrobot")
SLOW_TO_COMPILE = ("thruster_chain",)


def every_check() -> list[object]:
    return [
        pytest.param(check, id=f"{name}-{check}", marks=pytest.mark.slow if name in SLOW_TO_COMPILE else ())
        for name in (*ROBOTS, *SLOW_TO_COMPILE)
        for check in checks(find_robot(name))
    ]


@pytest.mark.parametrize("check", every_check())
def test_robot(check: Check) -> None:
    check()
