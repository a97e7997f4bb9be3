"""Simulated hopping robot: sensors, commands and motion capture of hops of 0.3 to 5 m.

Every seed is another robot on another day: spring, stop, ground, thrust, drag, resonance of the sensors' mount, their
tilts, scales and offsets, latency of the motion capture and error of the starting height are drawn anew. Gusts, sway,
drifts, unevenness of the ground, noise, jitter and losses are drawn along the run. Magnitudes: `hopper_scenario`.

A run starts as the paper's: at rest on the ground (the sensors are zeroed), flight to the first commanded height, drop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.model import dynamics
from hopper_estimation.model.configuration import (
    ATTITUDE,
    COMMANDED_HEIGHT,
    HIGH_G,
    LEG,
    LOW_G,
    MOTOR_COUNT,
    MOTORS,
    HopperConfiguration,
)
from hopper_estimation.model.phases import STARTUP
from hopper_estimation.simulation.foreign_effects import ForeignEffects, ForeignScenario
from hopper_estimation.simulation.scenario import AccelerometerScenario, HopperScenario, hopper_scenario
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix, Vector, neutral_value
from onboard_estimation.base.series import Recording, Series, set_pose_channel, stamps_between, truth_channel
from onboard_estimation.contract.signals import digits, spread, wandered
from onboard_estimation.contract.simulated import Changing, Place

Stamps = NDArray[np.int64]

HEIGHTS_M = {"0.3m": 0.3, "1m": 1.0, "2m": 2.0, "3m": 3.0, "4m": 4.0, "5m": 5.0}
VARIANTS = ("mixed", "varied", *HEIGHTS_M)
_MIXED_M = (1.0, 2.0, 3.0, 4.0)
_MIXED_S = 12.0
_VARIED_M = (0.3, 5.0)
_VARIED_S = (2.0, 8.0)
_TICK_S = dynamics.TICK_STEPS * dynamics.STEP_S
_TICK_NS = round(_TICK_S * NANOSECONDS_PER_SECOND)
_PIECE_TICKS = 200
"""Half a second."""
_DRIFT_TIME_S = 20.0
_SWAY_SMOOTHING_S = 0.05
_MOST_HOPS = 20_000
_KNOWN_NOTHING = 1e6


@dataclass
class _Sensor:
    """What is drawn once for an accelerometer."""

    scenario: AccelerometerScenario
    scale: float
    offset: Vector
    tilt: Matrix

    def reading(self, force: Matrix, drift: Vector, rng: np.random.Generator) -> Matrix:
        """(K, 3) from the specific force in the body frame (K, 3)."""
        one = self.scenario
        value = self.scale * (force @ self.tilt.T) + self.offset + one.noise_m_s2 * rng.normal(size=force.shape)
        value[:, 2] += drift
        return np.clip(digits(value, one.step_m_s2), -one.range_m_s2, one.range_m_s2)


class _Wander:
    """Ornstein-Uhlenbeck processes, one value each tick, in steps that follow on one another."""

    def __init__(self, count: int, stddev: float, time_s: float, rng: np.random.Generator) -> None:
        self._stddev, self._keep, self._rng = stddev, np.exp(-_TICK_S / time_s), rng
        self._at = stddev * rng.normal(size=count)

    def next(self, ticks: int) -> Matrix:
        out = wandered(self._rng, self._keep, ticks, self._at, self._stddev)
        self._at = out[-1]
        return out


class HopperSimulation(Changing):
    """A hopping robot, from rest on the ground at stamp zero, without an end.

    Parameters
    ----------
    variant
        One of `VARIANTS`: the commanded heights; `mixed` draws another of four every 12 s, `varied` any of 0.3 to 5 m
        (evenly in its logarithm) after 2 to 8 s.
    rng
        Source of all draws: the same generator gives the same recording, if it is advanced in the same steps.
    uneven
        The ground steps up or down from hop to hop.
    foreign
        Effects that no estimator has a term for.

    Up to the half-second in which something of the robot changes, all else is drawn as without it.
    """

    changeable: Mapping[str, Place] = {
        "leg.stiffness": (("stiffness",), None),
        "leg.loss": (("loss",), None),
        "body.force": (("force",), None),
    }

    def __init__(
        self,
        configuration: HopperConfiguration,
        variant: str,
        rng: np.random.Generator,
        scenario: HopperScenario | None = None,
        uneven: bool = False,
        foreign: ForeignScenario | None = None,
    ) -> None:
        self.scenario = scenario or hopper_scenario()
        self.configuration = configuration
        self._rng = rng
        self._variant = variant
        self._commands_m: list[float] = []
        self._commands_until_s: list[float] = []
        self._draw_robot(uneven)
        # From a generator of its own: all else stays as it is in `hardware`.
        self.foreign = ForeignEffects(foreign, rng.spawn(1)[0]) if foreign is not None else None
        self._tick = 0
        self._truth = truth_channel(configuration.truth_body)
        self._pending: dict[str, list[tuple[Stamps, Matrix]]] = {}
        self._state = self._standing()
        self._delayed = np.zeros(64)
        self._previous: Vector | None = None
        self._feedback = np.full(3, np.nan)
        self._told_goal = np.nan
        self._dropped = False
        self.trace: list[Matrix] | None = None
        """Set to a list to keep the exact motion: (K, TRACE_SIZE) at every `STEP_S`."""

    def _standing(self) -> Vector:
        """(STATE_SIZE,) at rest on the ground: stop and ground give way a little, filters are settled."""
        plant, state = self.plant, np.zeros(dynamics.STATE_SIZE)
        compression = (plant.body_mass * plant.gravity - plant.preload) / (plant.stiffness + plant.stop_stiffness)
        if compression > 0.0:  # a weak preload: the stop does not touch
            compression *= (plant.stiffness + plant.stop_stiffness) / plant.stiffness
        state[dynamics.FOOT] = -(plant.body_mass + plant.leg_mass) * plant.gravity / plant.ground_stiffness
        state[dynamics.HEIGHT] = state[dynamics.FOOT] + plant.length - compression
        state[dynamics.RING] = -plant.gravity / (2.0 * np.pi * plant.ring_frequency) ** 2
        state[[dynamics.LOW, dynamics.HIGH, dynamics.HELD_LOW, dynamics.HELD_HIGH]] = plant.gravity
        state[dynamics.PHASE] = STARTUP
        return state

    def _spread(self, stddev: float, *shape: int) -> Matrix:
        return spread(self._rng, stddev, *shape)

    def _draw_robot(self, uneven: bool) -> None:
        s, c, rng = self.scenario, self.configuration, self._rng
        leg, rotors, mount = s.leg, s.rotors, s.mount
        stop, ground = 1.0 + float(self._spread(leg.stop_spread)), 1.0 + float(self._spread(leg.ground_spread))
        weight = (c.robot.body_mass_kg + c.robot.leg_mass_kg) * c.robot.gravity_m_s2
        self.plant = dynamics.Plant(
            body_mass=c.robot.body_mass_kg,
            leg_mass=c.robot.leg_mass_kg,
            length=c.robot.standing_height_m,
            preload=leg.preload_n * (1.0 + float(self._spread(leg.preload_spread))),
            stiffness=c.robot.spring_n_m * (1.0 + float(self._spread(leg.stiffness_spread))),
            loss=leg.loss_n_s_m2 * (1.0 + float(self._spread(leg.loss_spread))),
            stop_stiffness=leg.stop_stiffness_n_m * stop,
            stop_damping=leg.stop_damping_n_s_m * stop,
            ground_stiffness=leg.ground_stiffness_n_m * ground,
            ground_damping=leg.ground_damping_n_s_m * ground,
            drag=rotors.drag_n_s2_m2 * (1.0 + float(self._spread(rotors.drag_spread))),
            full_thrust=rotors.lift_weights * weight * (1.0 + float(self._spread(rotors.thrust_spread))),
            thrust_lag=rotors.lag_s,
            thrust_delay_ticks=round(rotors.delay_s / _TICK_S),
            gravity=c.robot.gravity_m_s2,
            ring_frequency=mount.frequency_hz * (1.0 + float(self._spread(mount.frequency_spread))),
            ring_damping=mount.damping,
            ring_share=mount.share,
            vibration=rotors.vibration_m_s2,
            rotor_frequency=rotors.rotor_frequency_hz,
            low_bandwidth=s.low_g.bandwidth_hz,
            high_bandwidth=s.high_g.bandwidth_hz,
        )
        self._low, self._high = self._sensor(s.low_g), self._sensor(s.high_g)
        self._gyro_bias = self._spread(s.gyro_bias_rad_s, 3)
        self._encoder_scale = 1.0 + float(self._spread(s.encoder.scale_stddev))
        self._latency_s = max(s.capture.latency_s + float(self._spread(s.capture.latency_spread_s)), 0.0)
        self._grounds = leg.foot_unevenness_m * np.clip(rng.normal(size=_MOST_HOPS), -3.0, 3.0)
        if uneven:
            steps = leg.step_m * np.clip(rng.normal(size=_MOST_HOPS), -2.0, 2.0)
            self._grounds += np.cumsum(steps)
        self._grounds[0] = 0.0
        self._gusts = _Wander(1, rotors.gust_m_s, rotors.gust_time_s, rng)
        self._sway = _Wander(2, np.deg2rad(s.sway_deg), s.sway_time_s, rng)
        self._swayed = np.zeros(2)
        self._attitude_error = _Wander(2, np.deg2rad(s.attitude.error_deg), s.attitude.error_time_s, rng)
        self._drifts = _Wander(2, 1.0, _DRIFT_TIME_S, rng)

    def _sensor(self, one: AccelerometerScenario) -> _Sensor:
        x, y = np.deg2rad(self._spread(self.scenario.mount.tilt_stddev_deg, 2))
        tilt = np.array([[1.0, 0.0, -y], [0.0, 1.0, x], [y, -x, 1.0]])
        return _Sensor(one, 1.0 + float(self._spread(one.scale_stddev)), self._spread(one.offset_m_s2, 3), tilt)

    def take_estimate(self, height_m: float, velocity_m_s: float, phase: int) -> None:
        """What the controller goes by from now on, in place of the truth."""
        self._feedback = np.array([height_m, velocity_m_s, float(phase)])

    def advance(self, stop_ns: int) -> Recording:
        """What is recorded from where it stands up to `stop_ns`, which is left out."""
        ticks = max(-(-stop_ns // _TICK_NS) - self._tick, 0)
        for start, stop in self.pieces(self._tick * _TICK_S, _TICK_S, ticks, _PIECE_TICKS):  # that bounds the memory
            self._run(stop - start)
        sensors = MOTORS, COMMANDED_HEIGHT, set_pose_channel(), ATTITUDE, LEG, HIGH_G, LOW_G
        return Recording(tuple(self._take(one, stop_ns) for one in sensors), (self._take(self._truth, stop_ns),))

    def _take(self, channel: Channel, stop_ns: int) -> Series:
        pieces = self._pending.pop(channel.sensor, [])
        stamps = np.concatenate([np.empty(0, dtype=np.int64), *(one for one, _ in pieces)])
        values = np.concatenate([np.empty((0, len(neutral_value(channel)))), *(one for _, one in pieces)])
        later = stamps >= stop_ns
        if later.any():
            self._pending[channel.sensor] = [(stamps[later], values[later])]
        return Series(channel, stamps[~later], values[~later])

    def _give(self, channel: Channel, stamps: Stamps, values: Matrix) -> None:
        if len(stamps):
            self._pending.setdefault(channel.sensor, []).append((stamps, values))

    def _goals(self, ticks: int) -> Vector:
        time_s = np.maximum((self._tick + np.arange(ticks)) * _TICK_S - self.scenario.drop_s, 0.0)
        while not self._commands_until_s or self._commands_until_s[-1] <= time_s[-1]:
            self._command()
        return np.array(self._commands_m)[np.searchsorted(self._commands_until_s, time_s, side="right")]

    def _command(self) -> None:
        """Draw the next heights, and until when after the drop they are wanted."""
        before_s = self._commands_until_s[-1] if self._commands_until_s else 0.0
        if self._variant == "mixed":
            heights, lasting = self._rng.permutation(_MIXED_M).tolist(), [_MIXED_S] * len(_MIXED_M)
        elif self._variant == "varied":
            heights = [float(np.exp(self._rng.uniform(*np.log(_VARIED_M))))]
            lasting = [float(self._rng.uniform(*_VARIED_S))]
        else:
            heights, lasting = [HEIGHTS_M[self._variant]], [np.inf]
        self._commands_m += heights
        self._commands_until_s += (before_s + np.cumsum(lasting)).tolist()

    def _run(self, ticks: int) -> None:
        """Simulate so many ticks and note what was recorded in them."""
        s, first, start_ns = self.scenario, self._tick, self._tick * _TICK_NS
        stop_ns = start_ns + ticks * _TICK_NS
        goals = self._goals(ticks)
        tick_s = (first + np.arange(ticks)) * _TICK_S
        trace = np.empty((ticks * dynamics.TICK_STEPS, dynamics.TRACE_SIZE))
        duties = np.empty(ticks)
        law = dynamics.Law(s.rotors.lift_weights, float(self._commands_m[0]), s.rest_s, s.drop_s)
        supply = 1.0 - s.rotors.sag_share * np.minimum(tick_s / 120.0, 2.0)
        gusts = self._gusts.next(ticks)[:, 0]
        motion = dynamics.Motion(law, first, goals, gusts, supply, self._grounds, self._feedback, trace, duties)
        advance = dynamics.advance if self.foreign is None else self.foreign.advance
        advance(self._state, self._delayed, self.changed(self.plant, (first + 0.5) * _TICK_S), motion)
        if self.trace is not None:
            self.trace.append(trace)
        swayed = self._sway_of(ticks, tick_s)
        if self.foreign is not None:
            swayed = swayed + self.foreign.swings
        self._record(start_ns, stop_ns, trace, swayed)
        stamps = start_ns + np.arange(ticks, dtype=np.int64) * _TICK_NS
        self._give(MOTORS, stamps, np.repeat(duties[:, None], MOTOR_COUNT, axis=1))
        self._tell_goals(stamps, goals)
        drop_ns = round(s.drop_s * NANOSECONDS_PER_SECOND)
        if not self._dropped and stop_ns > drop_ns:
            self._dropped = True
            height = trace[max((drop_ns - start_ns) // 50_000, 0), dynamics.T_HEIGHT]
            height += float(self._spread(s.capture.start_stddev_m))
            pose = np.zeros(43)
            pose[2], pose[6] = height, 1.0
            variance = s.capture.start_stddev_m**2
            pose[7:] = np.diag([_KNOWN_NOTHING, _KNOWN_NOTHING, variance, *[_KNOWN_NOTHING] * 3]).ravel()
            self._give(set_pose_channel(), np.array([drop_ns], dtype=np.int64), pose[None])
        self._tick += ticks

    def _sway_of(self, ticks: int, tick_s: NDArray[np.floating]) -> Matrix:
        """(K, 4) roll, pitch and their rates at the ticks; none while it stands."""
        wish = self._sway.next(ticks) * np.clip((tick_s - self.scenario.rest_s) / 0.5, 0.0, 1.0)[:, None]
        gain = _TICK_S / (_SWAY_SMOOTHING_S + _TICK_S)
        out = np.empty((ticks, 4))
        at = self._swayed
        for k in range(ticks):
            new = at + gain * (wish[k] - at)
            out[k, :2], out[k, 2:] = new, (new - at) / _TICK_S
            at = new
        self._swayed = at
        return out

    def _tell_goals(self, stamps: Stamps, goals: Vector) -> None:
        """The commanded height at every change, and twice a second."""
        before = np.concatenate([[self._told_goal], goals[:-1]])
        due = (goals != before) | (stamps % (NANOSECONDS_PER_SECOND // 2) == 0)
        self._told_goal = float(goals[-1])
        values = np.zeros((int(due.sum()), 3))
        values[:, 2] = goals[due]
        self._give(COMMANDED_HEIGHT, stamps[due], values)

    def _record(self, start_ns: int, stop_ns: int, trace: Matrix, swayed: Matrix) -> None:
        """Readings of all sensors from one stamp to another."""
        s, rng = self.scenario, self._rng
        step_ns = round(dynamics.STEP_S * NANOSECONDS_PER_SECOND)
        errors = self._attitude_error.next(len(swayed))
        drifts = self._drifts.next(len(swayed))
        stamps = stamps_between(start_ns, stop_ns, s.imu_rate_hz)
        stamps = stamps[rng.random(len(stamps)) >= s.lost_share]
        read_ns = stamps + np.round(1e9 * self._spread(s.jitter_s, len(stamps))).astype(np.int64)
        read = trace[np.clip((read_ns - start_ns) // step_ns, 0, len(trace) - 1)]
        motion, drift = _at_ticks(stamps, start_ns, swayed), _at_ticks(stamps, start_ns, drifts)
        lean = 1.0 / (np.cos(motion[:, 0]) * np.cos(motion[:, 1]))
        shock = read[:, dynamics.T_HIGH] - self.plant.gravity
        sideways = s.mount.lateral_share * shock[:, None] * rng.normal(size=(len(stamps), 2))
        rates = np.column_stack([motion[:, 2:], np.zeros(len(stamps))]) + self._gyro_bias
        rates += s.gyro_shock_rad_s_per_m_s2 * shock[:, None]
        beyond = np.zeros((len(stamps), 2))
        if self.foreign is not None:
            beyond = self.foreign.felt((stamps - start_ns) / NANOSECONDS_PER_SECOND, swayed[:, 2:])
        for channel, sensor, column, share in (
            (HIGH_G, self._high, dynamics.T_HIGH, 1),
            (LOW_G, self._low, dynamics.T_LOW, 0),
        ):
            force = np.column_stack([sideways, read[:, column] * lean + beyond[:, share]])
            reading = sensor.reading(force, drift[:, share] * sensor.scenario.drift_m_s2, rng)
            turning = np.zeros_like(rates)
            if channel is LOW_G:
                turning = rates + s.gyro_noise_rad_s * rng.normal(size=rates.shape)
            self._give(channel, stamps, np.hstack([turning, reading]))
        encoder = s.encoder
        leg = self._encoder_scale * read[:, dynamics.T_COMPRESSION] + encoder.noise_m * rng.normal(size=len(stamps))
        self._give(LEG, stamps, digits(leg[:, None], encoder.step_m))
        stamps = stamps_between(start_ns, stop_ns, s.attitude.rate_hz)
        angles = _at_ticks(stamps, start_ns, swayed)[:, :2] + _at_ticks(stamps, start_ns, errors)
        self._give(ATTITUDE, stamps, _quaternions(angles))
        self._capture(start_ns, stop_ns, trace, swayed)

    def _capture(self, start_ns: int, stop_ns: int, trace: Matrix, swayed: Matrix) -> None:
        s, rng = self.scenario.capture, self._rng
        stamps = stamps_between(start_ns, stop_ns, s.rate_hz)
        # Behind by the latency, a part of a millisecond to some: the start of this piece needs the end of the last.
        late_ns = round(self._latency_s * NANOSECONDS_PER_SECOND)
        before = np.repeat(trace[:1, dynamics.T_HEIGHT], 400) if self._previous is None else self._previous
        heights = np.concatenate([before, trace[:, dynamics.T_HEIGHT]])
        # A row of the trace holds the state at the end of its step.
        place = (stamps - late_ns - start_ns) / (dynamics.STEP_S * NANOSECONDS_PER_SECOND) + len(before) - 1.0
        z = np.interp(place, np.arange(len(heights)), heights)
        self._previous = heights[-400:]
        angles = _at_ticks(stamps, start_ns, swayed[:, :2])
        angles += np.deg2rad(s.attitude_stddev_deg) * rng.normal(size=angles.shape)
        poses = np.zeros((len(stamps), 7))
        poses[:, 2] = z
        poses[:, :3] += s.position_stddev_m * rng.normal(size=(len(stamps), 3))
        poses[:, 3:] = _quaternions(angles)
        self._give(self._truth, stamps, poses)


def _at_ticks(stamps: Stamps, start_ns: int, values: Matrix) -> Matrix:
    """Values of ticks from `start_ns` on at other times, by straight lines."""
    tick_ns = start_ns + np.arange(len(values)) * _TICK_NS
    return np.column_stack([np.interp(stamps, tick_ns, one) for one in values.T])


def _quaternions(angles: Matrix) -> Matrix:
    """(K, 4) x y z w of rotations by roll and pitch (K, 2), roll first about the body's axis."""
    (sx, sy), (cx, cy) = np.sin(0.5 * angles).T, np.cos(0.5 * angles).T
    return np.column_stack([sx * cy, cx * sy, -sx * sy, cx * cy])
