"""Compiled: vertical acceleration of the body from the readings of two accelerometers and a gyro.

Accelerometers are zeroed while the robot stands upright on the ground (paper, section VI): what they read then beside
gravity along the leg is their offset, mounting included. From then on the direction "up" in the body's frame is that of
an attitude sensor where there is one. Without, it follows the gyro, freed of what it reads at rest; accelerometers
cannot see tilt in flight, but a robot that hops about one place is pushed along gravity in the mean over its hops. So
up and the gyro's zero c are drawn there, slowly (a complementary filter: Mahony et al., 2008):

    u' = -(w - c - 2 k e) x u,  c' = k^2 e,  e = u x f / g

With u that direction, the vertical acceleration is

    a = f . u - g                                                                     eqs. (1), (3), (4)

A reading near its range is clipped, and the same reading over and over comes from a stuck sensor: neither is used, and
a stuck sensor's gyro turns nothing. A single high-g reading that is missing (lost, or a moment late) is told apart from
a sensor that is silent.

In shocks the two sensors must agree along the leg: a high-g sensor that is mounted upside down, has other axes or
another scale is left out, for the low-g one was held against gravity, until shocks agree again. One whose reading at
rest is farther from gravity than its offset may be is left out for good.

A fault found at rest stays, with the reading that it was found in: a robot that is put right later was still started
with sensors that cannot be right.
"""

from __future__ import annotations

from dataclasses import asdict, fields

import numpy as np
from numba import njit

from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperConfiguration, HopperSensors
from hopper_estimation.model.phases import Array, Record, Records, layout
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND

STATE = layout(
    [
        *(
            (name, np.float64, 3)
            for name in (
                *("up", "low", "high", "gyro", "rest_gyro", "drawn"),
                *("mean_low", "mean_high", "mean_gyro", "fault_up"),
            )
        ),
        ("gyro_ns", np.int64),
        *((name, np.float64, 2) for name in ("equal", "last")),
        *(
            (name, np.float64)
            for name in (
                *("rest", "low_count", "high_count", "zeroed", "attitude", "fault"),
                *("high_silent", "compared", "shocks", "shock_low", "shock_high", "calm", "at_odds", "at_odds_s"),
            )
        ),
    ]
)
"""Up in the body's frame; offsets, valid once zeroed, and means of the rest that goes on, of each sensor; up when a
fault was found; how often each sensor's last readings were the same; for how long it rests, s, and how many readings
that was; for how long an attitude sensor is silent, s; the same of the high-g sensor; how its readings in shocks
compare, whether it is left out, and for how long it was, s; when the gyro's zero was seen to have moved (0: not)."""

FAULT_TILTED, FAULT_OFFSET, FAULT_ATTITUDE = 1.0, 2.0, 3.0

_DRAWN_RATE = 0.25
"""1/s: over three hops or more, as a single one may lean by some degrees."""
GYRO_MOVED_RAD_S = 0.02
"""What warming by seven degrees makes of an MPU-6050; hops that lean by 3 degrees at random feign a tenth of it."""
ATTITUDE_S = 0.5
"""An attitude sensor that is silent for longer tells nothing."""
SILENT_S = 1.0
"""A high-g sensor that is silent for longer is told of."""
IMPOSSIBLE, HIGH_AT_ODDS, HIGH_SILENT, HIGH_STUCK, LOW_STUCK, NOT_ZEROED, GYRO_MOVED, NO_ATTITUDE = (
    1 << bit for bit in range(8)
)
"""Bits of `trouble`. `IMPOSSIBLE`: what was read at rest cannot be, see `sensor_faults.rest_fault`."""
_STILL_M_S2 = 1.5
_CLIPPED = 0.99
_MOST_DRIFT_M_S2 = 0.6
"""What moves more between two rests is no zero: 60 mg, that of an MPU-6050 from 0 to 70 deg C."""
_NOISE_WIDTHS = 5.0
_RESTS_ALONE = 2.0
FOR_GOOD = 2.0
"""At odds at rest: what a shock says cannot mend it."""
SHOCK_M_S2 = 50.0
"""Readings along the leg beyond it are compared."""
NOT_AT_ODDS, AGREEING = (0.4, 1.45), (0.6, 1.2)
"""High-g over low-g sensor; bandwidths, clocks, scales and the mount make 0.75 to 1.2 of it over a few shocks."""
_CALM_S = 0.05
_FEWEST_READINGS, _FEWEST_SHOCKS = 4.0, 2.0
_REMEMBERED = 0.6
"""From shock to shock."""
_LOW_ENOUGH = 0.9


SETTINGS = layout(
    [
        *((one.name, np.float64) for one in fields(HopperSensors)),
        *((name, np.float64) for name in ("gravity", "full_thrust", "largest_tilt_cosine")),
        ("silent_ns", np.int64),
    ]
)
"""What is known of the sensors, as `HopperSensors` has it; gravity and full specific thrust, m/s^2."""


def reading_settings(configuration: HopperConfiguration) -> Records:
    """(1,) of `SETTINGS`."""
    sensors, gravity = configuration.sensors, configuration.robot.gravity_m_s2
    return phases.new_state(
        SETTINGS,
        **asdict(sensors),
        gravity=gravity,
        full_thrust=configuration.rotors.full_thrust_weights * gravity,
        largest_tilt_cosine=float(np.cos(np.deg2rad(sensors.largest_tilt_deg))),
        silent_ns=round(sensors.silent_s * NANOSECONDS_PER_SECOND),
    )


def new_state() -> Records:
    """(1,) of `STATE` before the first reading: upright, not zeroed."""
    state = phases.new_state(STATE, high_silent=np.inf, attitude=np.inf)
    state["up"] = 0.0, 0.0, 1.0
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def _turn(r: Record, rate: Array, dt: float) -> None:
    """Up as the body sees it after turning for `dt`: u' = -w x u, exact for a constant rate."""
    wx, wy, wz = rate[0] - r.gyro[0], rate[1] - r.gyro[1], rate[2] - r.gyro[2]
    wx, wy, wz = wx - 2.0 * r.drawn[0], wy - 2.0 * r.drawn[1], wz - 2.0 * r.drawn[2]
    r.drawn[0] = r.drawn[1] = r.drawn[2] = 0.0
    ux, uy, uz = r.up[0], r.up[1], r.up[2]
    angle = np.sqrt(wx * wx + wy * wy + wz * wz) * dt
    if angle < 1e-12:
        return
    s = np.sin(angle) * dt / angle
    c = (1.0 - np.cos(angle)) * dt * dt / (angle * angle)
    along = wx * ux + wy * uy + wz * uz
    square = wx * wx + wy * wy + wz * wz
    r.up[0] = ux - s * (wy * uz - wz * uy) + c * (wx * along - ux * square)
    r.up[1] = uy - s * (wz * ux - wx * uz) + c * (wy * along - uy * square)
    r.up[2] = uz - s * (wx * uy - wy * ux) + c * (wz * along - uz * square)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _draw_up(settings: Record, r: Record, fx: float, fy: float, fz: float, dt: float) -> None:
    """A push (specific force, m/s^2) for `dt` draws up, at the next turn, and the gyro's zero; see the module."""
    ux, uy, uz, share = r.up[0], r.up[1], r.up[2], _DRAWN_RATE / settings.gravity
    r.drawn[0] = share * (uy * fz - uz * fy)
    r.drawn[1] = share * (uz * fx - ux * fz)
    r.drawn[2] = share * (ux * fy - uy * fx)
    for i in range(3):
        r.gyro[i] += _DRAWN_RATE * dt * r.drawn[i]


@njit(cache=True, error_model="numpy", nogil=True)
def gyro_has_moved(r: Record) -> bool:
    """Whether the gyro's zero about level axes, as hops tell it, is not that of the last rest."""
    x, y = r.gyro[0] - r.rest_gyro[0], r.gyro[1] - r.rest_gyro[1]
    return x * x + y * y > GYRO_MOVED_RAD_S**2


@njit(cache=True, error_model="numpy", nogil=True)
def trouble(settings: Records, readings: Records, hops: int) -> int:
    """What is wrong with the sensors, a bit for each trouble; 0: nothing. `hops`: touchdowns so far."""
    r, stuck = readings[0], settings[0].stuck_readings
    begun = r.zeroed > 0.0 or hops > 0
    found = IMPOSSIBLE if r.fault != 0.0 else 0
    if r.at_odds > 0.0:
        found |= HIGH_AT_ODDS
    elif r.high_silent > SILENT_S and (begun or r.high_silent < np.inf):  # infinite before its first reading
        found |= HIGH_SILENT
    elif r.equal[1] >= stuck:
        found |= HIGH_STUCK
    if r.equal[0] >= stuck:
        found |= LOW_STUCK
    elif hops > 0 and r.zeroed == 0.0:
        found |= NOT_ZEROED
    elif gyro_has_moved(r):
        found |= GYRO_MOVED
    if ATTITUDE_S < r.attitude < np.inf:
        found |= NO_ATTITUDE
    return found


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _rest_alone(settings: Record, r: Record, dt: float, high: Array) -> None:
    """Zero the high-g sensor where there is no other: once, after a rest longer than a flight.

    Its noise and offset hide the difference between standing and falling.
    """
    still = True
    if r.high_count > 0.0:
        for i in range(3):
            still = still and abs(high[3 + i] - r.mean_high[i]) < _NOISE_WIDTHS * settings.high_noise_m_s2
    if not still:
        r.rest = r.low_count = r.high_count = 0.0
        return
    r.rest += dt if r.high_count > 0.0 else 0.0
    r.high_count += 1.0
    for i in range(3):
        r.mean_high[i] += (high[3 + i] - r.mean_high[i]) / r.high_count
    if r.rest < _RESTS_ALONE * settings.rest_s:
        return
    for i in range(3):
        offset = r.mean_high[i] - (settings.gravity if i == 2 else 0.0)
        if abs(offset) < settings.high_offset_m_s2:
            r.high[i] = offset
    r.zeroed = 1.0


@njit(cache=True, error_model="numpy", nogil=True)
def _rest(settings: Record, r: Record, dt: float, low: Array, high: Array, has: int) -> None:
    """Zero the sensors while the robot stands."""
    if r.fault > 0.0:
        return
    if has == 2 and r.zeroed == 0.0:
        _rest_alone(settings, r, dt, high)
        return
    still = has & 1
    count = r.low_count
    if still and count > 0:
        for i in range(3):
            still = still and abs(low[3 + i] - r.mean_low[i]) < _STILL_M_S2
            still = still and abs(low[i] - r.mean_gyro[i]) < 3.0 * settings.rest_rate_rad_s
    if not still:
        if has & 1:
            r.rest = r.low_count = r.high_count = 0.0
        return
    r.rest += dt if count > 0 else 0.0
    count += 1.0
    r.low_count = count
    for i in range(3):
        r.mean_low[i] += (low[3 + i] - r.mean_low[i]) / count
        r.mean_gyro[i] += (low[i] - r.mean_gyro[i]) / count
    if has & 2:
        r.high_count += 1.0
        for i in range(3):
            r.mean_high[i] += (high[3 + i] - r.mean_high[i]) / r.high_count
    if r.rest >= settings.rest_s:
        _zero(settings, r)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _zero(settings: Record, r: Record) -> None:
    """What the sensors read at rest beside gravity along the leg is their offset, or they cannot be right."""
    x, y, z = r.mean_low[0], r.mean_low[1], r.mean_low[2]
    size = np.sqrt(x * x + y * y + z * z)
    fault = 0.0
    if z < settings.largest_tilt_cosine * size:
        fault = FAULT_TILTED
    elif abs(size - settings.gravity) > settings.low_offset_m_s2:
        fault = FAULT_OFFSET
    elif r.attitude < ATTITUDE_S and x * r.up[0] + y * r.up[1] + z * r.up[2] < settings.largest_tilt_cosine * size:
        fault = FAULT_ATTITUDE
    if fault > 0.0:
        # A robot that fell over later is no reason to refuse what came before, nor to zero on its side.
        if r.zeroed == 0.0:
            r.fault = fault
            for i in range(3):
                r.fault_up[i] = r.up[i]
        return
    if r.zeroed > 0.0 and abs(z - settings.gravity - r.low[2]) > _MOST_DRIFT_M_S2:
        return  # rotors that carry the robot up smoothly
    for i in range(3):
        down = settings.gravity if i == 2 else 0.0
        r.gyro[i] = r.rest_gyro[i] = r.mean_gyro[i]
        r.low[i] = r.mean_low[i] - down
        if r.high_count > 0.0 and abs(r.mean_high[i] - down) < settings.high_offset_m_s2:
            r.high[i] = r.mean_high[i] - down
        elif r.high_count > 0.0 and i == 2:
            r.at_odds = FOR_GOOD
        r.up[i] = 1.0 if i == 2 else 0.0
    r.zeroed = 1.0


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _compare(settings: Record, r: Record, low: float, high: float, dt: float) -> None:
    """The two sensors along the leg in the same sample, m/s^2, freed of their offsets, after a step, s.

    Summed over whole shocks: in its rise and in its fall one sensor lags the other, the more the stiffer the leg is.
    """
    if SHOCK_M_S2 < low < _LOW_ENOUGH * settings.low_range_m_s2:
        r.compared += 1.0
        r.shock_low += low
        r.shock_high += high
        r.calm = 0.0
    r.calm += dt
    if r.compared < _FEWEST_READINGS or r.calm < _CALM_S:
        return  # not amid a stance, half of which would be the other's
    r.shocks += 1.0
    if r.shocks >= _FEWEST_SHOCKS:
        least, largest = AGREEING if r.at_odds > 0.0 else NOT_AT_ODDS
        r.at_odds = 0.0 if least < r.shock_high / r.shock_low < largest else 1.0
    r.compared = 0.0
    r.shock_low *= _REMEMBERED
    r.shock_high *= _REMEMBERED


@njit(cache=True, error_model="numpy", nogil=True)
def _stuck(settings: Record, r: Record, sensor: int, reading: Array) -> bool:
    """Whether a sensor, 0 the low-g, 1 the high-g one, says the same over and over, after another reading."""
    mark = reading[3] + 3.0 * reading[4] + 7.0 * reading[5]
    r.equal[sensor] = r.equal[sensor] + 1.0 if mark == r.last[sensor] else 0.0
    r.last[sensor] = mark
    return r.equal[sensor] >= settings.stuck_readings


@njit(cache=True, error_model="numpy", nogil=True)
def _usable(settings: Record, r: Record, low: Array, high: Array, moving: int, has: int, dt: float) -> int:
    """Bits of a `SIGNAL`; `moving` are the sensors that are not stuck."""
    bits = 0
    if has & 1:
        if abs(low[5]) >= _CLIPPED * settings.low_range_m_s2:
            bits |= phases.LOW_CLIPPED
        elif moving & 1:
            bits |= phases.LOW_USABLE
    if moving & 2 and abs(high[5]) < _CLIPPED * settings.high_range_m_s2:
        bits |= phases.HIGH_USABLE
    if not has & 2 and r.high_silent <= settings.silent_s:
        bits |= phases.HIGH_DUE
    if bits & phases.LOW_USABLE and bits & phases.HIGH_USABLE and r.at_odds < FOR_GOOD:
        _compare(settings, r, low[5] - r.low[2], high[5] - r.high[2], dt)
    if r.at_odds > 0.0:
        r.at_odds_s += dt
        bits &= ~(phases.HIGH_USABLE | phases.HIGH_DUE)
    return bits


@njit(cache=True, error_model="numpy", nogil=True)
def read(settings: Record, r: Record, sample: Record, s: Record) -> None:
    """A sample (see `samples.SAMPLE`) as a `SIGNAL`, which is written; `r`, a `STATE`, is changed."""
    low, high, up, has, dt = sample.low, sample.high, r.up, sample.has, sample.dt
    r.high_silent = 0.0 if has & 2 else r.high_silent + dt
    moving = 0
    if has & 1 and not _stuck(settings, r, 0, low):
        moving |= 1
        _turn(r, low, dt)
    if has & 2 and not _stuck(settings, r, 1, high):
        moving |= 2
    r.attitude += dt
    if not np.isnan(sample.up[0]):
        r.attitude = 0.0
        for i in range(3):
            up[i] = sample.up[i]
    _rest(settings, r, dt, low, high, moving)
    bits = _usable(settings, r, low, high, moving, has, dt)
    ux, uy, uz = up[0], up[1], up[2]
    fx, fy, fz = low[3] - r.low[0], low[4] - r.low[1], low[5] - r.low[2]
    gx, gy, gz = high[3] - r.high[0], high[4] - r.high[1], high[5] - r.high[2]
    s.low = fx * ux + fy * uy + fz * uz - settings.gravity
    s.high = gx * ux + gy * uy + gz * uz - settings.gravity
    if moving == 2 and r.zeroed == 0.0 and r.rest > 0.0:
        s.high = 0.0  # of unknown offset, and nothing moves: taken for standing
    if bits & phases.LOW_USABLE == 0 and bits & phases.HIGH_USABLE:
        fx, fy, fz = gx, gy, gz
    if r.zeroed > 0.0 and r.attitude > ATTITUDE_S and bits & (phases.LOW_USABLE | phases.HIGH_USABLE):
        _draw_up(settings, r, fx, fy, fz, dt)
        if r.gyro_ns == 0 and gyro_has_moved(r):
            r.gyro_ns = sample.last_ns
    # Two horizontal axes: the body's x and y, as far as they are level.
    norm = np.sqrt(max(1.0 - ux * ux, 1e-6))
    ax, ay, az = norm, -ux * uy / norm, -ux * uz / norm
    s.side_x = fx * ax + fy * ay + fz * az
    s.side_y = fx * (uy * az - uz * ay) + fy * (uz * ax - ux * az) + fz * (ux * ay - uy * ax)
    s.dt, s.usable, s.goal, s.thrust, s.leg = dt, bits, sample.goal, sample.thrust, sample.leg
