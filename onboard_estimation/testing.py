"""Whether a robot keeps the contract: `check_robot`, in the manner of scikit-learn's `check_estimator`.

    from onboard_estimation.testing import checks

    @pytest.mark.parametrize("check", checks(ROBOT), ids=str)
    def test_contract(check):
        check()

Each check is a promise of `onboard_estimation.estimator` or of the pipeline, tried on a recording of the robot: its
simulator's, or one that is given. What fails says what was promised, what was found, and where to look.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from onboard_estimation.contract import PROMISES, Case
from onboard_estimation.errors import UserError
from onboard_estimation.robots import Robot
from onboard_estimation.series import Series


def check_robot(
    robot: Robot, configuration: Any = None, estimator: str | None = None, sensors: Sequence[Series] | None = None
) -> None:
    """Hold a robot to the contract.

    Parameters
    ----------
    configuration
        Of the robot; its defaults by default.
    estimator
        One of its estimators; the first by default.
    sensors
        A recording: one series of each sensor. By default what the robot's simulator gives in six seconds.

    Raises
    ------
    AssertionError
        All promises that it does not keep, one paragraph each.
    UserError
        It has no simulator, and no recording was given.
    """
    broken, tried = [], checks(robot, configuration, estimator, sensors)
    _ = tried[0].case.series  # without which nothing can be tried
    for check in tried:
        try:
            check()
        except AssertionError as error:
            broken.append(f"{check}: {error}")
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, UserError) as error:
            broken.append(f"{check}: {type(error).__name__}: {error}")
    if broken:
        raise AssertionError(f"robot {robot.name!r} breaks the contract:\n\n" + "\n\n".join(broken))


def checks(
    robot: Robot, configuration: Any = None, estimator: str | None = None, sensors: Sequence[Series] | None = None
) -> list[Check]:
    """The checks one by one, for `pytest.mark.parametrize`; parameters as those of `check_robot`."""
    case = Case(robot, robot.configuration_type() if configuration is None else configuration, estimator, sensors)
    return [Check(one, case) for one in PROMISES]


@dataclasses.dataclass(frozen=True)
class Check:
    """A promise to be tried; its name says which."""

    promise: Callable[[Case], None]
    case: Case

    def __call__(self) -> None:
        """AssertionError where it is not kept."""
        self.promise(self.case)

    def __str__(self) -> str:
        return self.promise.__name__
