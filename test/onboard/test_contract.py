"""Every robot that is installed keeps the contract, with each of its estimators."""

from __future__ import annotations

import pytest

from onboard_estimation.robots import find_robot
from onboard_estimation.testing import Check, checks

ROBOTS = ("salp", "hopper", "strapdown", "thruster_chain")


def every_check() -> list[Check]:
    return [check for name in ROBOTS for check in checks(find_robot(name))]


@pytest.mark.parametrize("check", every_check(), ids=lambda check: f"{check.case.robot.name}-{check}")
def test_robot(check: Check) -> None:
    check()
