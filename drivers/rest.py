"""Whether an inertial sensor lies still, by a second or so of its readings."""

from __future__ import annotations

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix
from onboard_estimation.reading_parts import IMU

LEAST_READINGS = 100
STILL_RAD_S = 0.05
STILL_M_S2 = 1.5


def lies_still(values: Matrix, still_m_s2: float = STILL_M_S2) -> bool:
    """Whether (K, 6) readings vary no more than noise; a part that the sensor has not (NaN) tells nothing."""
    rate, force = _spread(values)
    return not (rate > STILL_RAD_S or force > still_m_s2)


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
    if lies_still(values, still_m_s2):
        return
    rate, force = _spread(values)
    told = [f"{rate:.2f} rad/s, at rest by less than {STILL_RAD_S}"] if rate > STILL_RAD_S else []
    told += [f"{force:.2f} m/s^2, at rest by less than {still_m_s2:g}"] if force > still_m_s2 else []
    raise UserError(
        f"{name} moves: its readings vary by {' and '.join(told)}; let the robot lie still for a second, then ask again"
    )


def _spread(values: Matrix) -> tuple[float, float]:
    """Largest standard deviations of rates, rad/s, and specific forces, m/s^2."""
    spread = values.std(axis=0)
    return float(spread[IMU.angular_velocity].max()), float(spread[IMU.linear_acceleration].max())
