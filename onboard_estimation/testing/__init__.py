"""Whether a robot keeps the contract: `check_robot`, in the manner of scikit-learn's `check_estimator`.

    from onboard_estimation.testing import checks

    @pytest.mark.parametrize("check", checks(ROBOT), ids=str)
    def test_contract(check):
        check()

Each check is a promise of `onboard_estimation.pipeline.estimator` or of the pipeline (`form`), of the filter's physics
(`physics`), or of what it states of its errors (`statistics`), tried on recordings of the robot: its simulator's, or
one that is given. What fails says what was promised, what was found, and where to look; what does not apply to a robot
raises `unittest.SkipTest`, which pytest shows as skipped, with the reason.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any
from unittest import SkipTest

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Series
from onboard_estimation.contract.robot import Robot
from onboard_estimation.testing import form, physics, statistics
from onboard_estimation.testing.case import Case, Given

PROMISES: tuple[Callable[[Case], None], ...] = tuple(
    one
    for room in (form, physics, statistics)
    for name, one in vars(room).items()
    if inspect.isfunction(one) and one.__module__ == room.__name__ and not name.startswith("_")
)
"""The public functions of those modules, in the order in which they stand there."""


def check_robot(
    robot: Robot, configuration: Any = None, estimator: str | None = None, sensors: Sequence[Series] | None = None
) -> None:
    """Hold a robot to the contract.

    Parameters
    ----------
    configuration
        Of the robot; its defaults by default.
    estimator
        One of its estimators; by default each of them.
    sensors
        A recording: one series of each sensor. By default the first seconds of what the robot's simulator gives.

    Raises
    ------
    AssertionError
        All promises that it does not keep, one paragraph each.
    UserError
        It has no simulator, and no recording was given.
    """
    broken = broken_promises(robot, configuration, estimator, sensors)
    if broken:
        told = "\n\n".join(f"{name}: {fault}" for name, fault in broken.items())
        raise AssertionError(f"robot {robot.name!r} breaks the contract:\n\n{told}")


def broken_promises(
    robot: Robot, configuration: Any = None, estimator: str | None = None, sensors: Sequence[Series] | None = None
) -> dict[str, str]:
    """What a robot does not keep of the contract: the fault of each check by its name. As `check_robot` is given."""
    broken, tried = {}, checks(robot, configuration, estimator, sensors)
    _ = tried[0].case.given.series  # without which nothing can be tried
    for check in tried:
        try:
            check()
        except SkipTest:
            continue
        except AssertionError as error:
            broken[str(check)] = str(error)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, UserError) as error:
            broken[str(check)] = f"{type(error).__name__}: {error}"
    return broken


def checks(
    robot: Robot, configuration: Any = None, estimator: str | None = None, sensors: Sequence[Series] | None = None
) -> list[Check]:
    """The checks one by one, for `pytest.mark.parametrize`; parameters as those of `check_robot`."""
    given = Given(robot, robot.configuration_type() if configuration is None else configuration, sensors)
    cases = [Case(given, name) for name in (robot.estimators if estimator is None else (estimator,))]
    return [Check(one, case) for case in cases for one in PROMISES]


@dataclasses.dataclass(frozen=True)
class Check:
    """A promise to be tried; its name says which, and of which estimator where a robot has several."""

    promise: Callable[[Case], None]
    case: Case

    def __call__(self) -> None:
        """AssertionError where it is not kept, `unittest.SkipTest` where it does not apply."""
        self.promise(self.case)

    def __str__(self) -> str:
        several = len(self.case.given.robot.estimators) > 1
        return f"{self.case.name}-{self.promise.__name__}" if several else self.promise.__name__
