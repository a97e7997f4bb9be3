"""An inertial sensor that lies still, by a second or so of its readings: whether it does, and whether it can be right.

Faults are one sentence each, empty where there is none. What a driver asks of its sensors, and what is to be done, it
says itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.reading_parts import IMU
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

LEAST_READINGS = 100
STILL_M_S2 = 1.5
_STILL_RAD_S = 0.05
_LARGEST_OFFSET_M_S2 = 1.5
_LARGEST_ZERO_RATE_DEG_S = 20.0
"""Zero offset of a cheap gyro by its data sheet (MPU-6050, table 6.1); better ones have less."""
_LEAST_RATE = 0.7
_STUCK = 1e-9


def lies_still(values: Matrix, still_m_s2: float = STILL_M_S2) -> bool:
    """Whether (K, 6) readings vary no more than noise; a part that the sensor has not (NaN) tells nothing."""
    return not _motion(values, still_m_s2)


def refuse_unless_still(name: str, values: Matrix, still_m_s2: float = STILL_M_S2) -> None:
    """Say why nothing can be measured at rest.

    Parameters
    ----------
    name
        Of the sensor.
    values
        (K, 6) rates and specific forces.
    still_m_s2
        Standard deviation of its specific forces at rest, at most.

    Raises
    ------
    UserError
        They are too few, or the sensor moves.
    """
    if len(values) < LEAST_READINGS:
        raise UserError(
            f"{name}: {len(values)} readings in the last second, {LEAST_READINGS} are needed: is it wired, and powered?"
        )
    if told := _motion(values, still_m_s2):
        raise UserError(
            f"{name} moves: its readings vary by {' and '.join(told)}; let the robot lie still for a second, then ask "
            "again"
        )


def _motion(values: Matrix, still_m_s2: float) -> list[str]:
    """Rates, and specific forces, that vary by more than at rest."""
    spread = values.std(axis=0)
    rate, force = float(spread[IMU.angular_velocity].max()), float(spread[IMU.linear_acceleration].max())
    told = [f"{rate:.2f} rad/s, at rest by less than {_STILL_RAD_S}"] if rate > _STILL_RAD_S else []
    return told + ([f"{force:.2f} m/s^2, at rest by less than {still_m_s2:g}"] if force > still_m_s2 else [])


def rate_fault(name: str, count: int, seconds: float, expected_hz: float, remedy: str) -> str:
    """Of readings that are too few for the rate that there should be.

    Parameters
    ----------
    remedy
        Who tells the rate, and what may be wrong.
    """
    rate_hz = count / seconds
    return f"{name}: {rate_hz:.0f} readings a second, {remedy}" if rate_hz < _LEAST_RATE * expected_hz else ""


def stuck_fault(name: str, values: NDArray[np.float64]) -> str:
    """Of numbers (K, n) that never change; noise makes those of a sensor that lives."""
    stuck = len(values) > 1 and not np.nanmax(values.std(axis=0)) >= _STUCK
    return f"{name} reads the same all the time: its chip hangs; power it off and on" if stuck else ""


def zero_rate_fault(name: str, values: Matrix) -> str:
    """Of a gyro whose readings do not vary, and are more than an offset."""
    rate = np.rad2deg(values[:, IMU.angular_velocity].mean(axis=0))
    if not np.abs(rate).max() > _LARGEST_ZERO_RATE_DEG_S:
        return ""
    return (
        f"{name} turns evenly by x {rate[0]:.1f}, y {rate[1]:.1f}, z {rate[2]:.1f} deg/s, or its gyro is at fault: at "
        f"rest it reads less than {_LARGEST_ZERO_RATE_DEG_S:g}"
    )


def gravity_fault(name: str, force: Vector, remedy: str) -> str:
    """Of a mean specific force (3,), m/s^2, at rest that is not of gravity's size."""
    size = float(np.linalg.norm(force))
    if not abs(size - STANDARD_GRAVITY_M_S2) > _LARGEST_OFFSET_M_S2:
        return ""
    return f"at rest {name} reads {written(force)}, {size:.2f} in all, not gravity: {remedy}"


def upright_fault(name: str, force: Vector, remedy: str) -> str:
    """Of a mean specific force (3,), m/s^2, at rest that is not along z most of all."""
    axis = int(np.argmax(np.abs(force)))
    if axis == 2 and force[axis] > 0.0:
        return ""
    where = f"{'' if force[axis] > 0.0 else '-'}{'xyz'[axis]}"
    return f"at rest {name} reads {written(force)}: gravity along {where}, {remedy}"


def written(force: Vector, digits: int = 2) -> str:
    """Three specific forces."""
    return f"x {force[0]:.{digits}f}, y {force[1]:.{digits}f}, z {force[2]:.{digits}f} m/s^2"
