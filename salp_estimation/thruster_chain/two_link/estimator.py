"""Error-state Kalman filter of two jointed IMUs: gyros turn the links, the joint's acceleration holds them together.

Angular acceleration is differentiated from readings to both sides of an instant, so the filter itself stands a few
readings behind, where these are complete: there it compares the joint's acceleration as both links see it, and the
hinge's axis. What is given out is that state moved by the gyros to the newest reading: later by nothing, and of all
readings only the last two are not compared yet. The two IMUs need not be read at the same instants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from onboard_estimation.estimator import Estimator, Event, Step
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.moments import Moments, predict, update
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from salp_estimation.thruster_chain.two_link import model
from salp_estimation.thruster_chain.two_link.configuration import TwoLink
from salp_estimation.thruster_chain.two_link.hinge import Shown
from salp_estimation.thruster_chain.two_link.readings import Motion, Readings

_UNKNOWN_ANGLE_RAD = 1.0
"""A rotation that is less certain than this is not known at all."""
_ON_TIME = 0.9
"""Share of the interval after which the next comparison is due: stamps jitter."""


class TwoLinkState(NamedTuple):
    """All that readings change.

    Attributes
    ----------
    moments
        At `stamp_ns`, up to where readings have been compared.
    stamp_ns
        None before the first reading.
    compared_ns
        Last comparison of the joint's acceleration.
    readings
        Of the first and of the second IMU, from a little before `stamp_ns` on.
    shown
        What the gyros have shown of a hinge.
    silent
        For each IMU, whether it is.
    rejected_in_a_row, hinge_rejected_in_a_row
        Comparisons refused.
    """

    moments: Moments
    stamp_ns: int | None = None
    compared_ns: int = 0
    readings: tuple[Readings, Readings] = (Readings(), Readings())
    shown: Shown = Shown()
    silent: tuple[bool, bool] = (False, False)
    rejected_in_a_row: int = 0
    hinge_rejected_in_a_row: int = 0


class TwoLinkEstimator(Estimator[TwoLinkState]):
    """Readings of two IMUs in, how the second is turned against the first out."""

    def __init__(self, configuration: TwoLink) -> None:
        self.configuration = configuration
        imus, joint = configuration.imus, configuration.joint
        self.space = model.HINGE if joint.kind == "hinge" else model.FREE
        self._sensors = f"imu/{imus.proximal}", f"imu/{imus.distal}"
        self._gate = Gate(joint.gate_probability, joint.recover_after)
        self._half_window_ns = round(joint.half_window_s * NANOSECONDS_PER_SECOND)
        self._interval_ns = round(_ON_TIME * joint.interval_s * NANOSECONDS_PER_SECOND)
        self._longest_gap_ns = round(imus.longest_gap_s * NANOSECONDS_PER_SECOND)

    def start(self, initial: Estimate | None) -> TwoLinkState:
        """As configured, at the first reading; or at `initial`, with a hinge's axes where it knows them."""
        if initial is None:
            return TwoLinkState(self._configured())
        moments = Moments(*self.space.moments(initial.mean, initial.covariance))
        return TwoLinkState(moments, initial.stamp_ns, initial.stamp_ns)

    def step(self, state: TwoLinkState, measurement: Measurement) -> Step:
        """Take a reading (6,): gyro x y z (rad/s), accelerometer x y z (m/s^2)."""
        link, stamp_ns = self._sensors.index(measurement.sensor), measurement.stamp_ns
        if state.stamp_ns is None:
            state = state._replace(stamp_ns=stamp_ns, compared_ns=stamp_ns)
        own, other = state.readings[link], state.readings[1 - link]
        followed = own.followed(stamp_ns, measurement.value, state.stamp_ns - self._half_window_ns)
        state = state._replace(readings=(followed, other) if link == 0 else (other, followed))
        heard_ns = state.stamp_ns if other.last_ns is None else other.last_ns
        is_silent = stamp_ns - heard_ns > self._longest_gap_ns
        events: tuple[Event, ...] = ()
        if is_silent and not state.silent[1 - link]:
            events = (Notice(self._silence(1 - link, heard_ns, stamp_ns)),)
        silent = (False, is_silent) if link == 0 else (is_silent, False)
        state, innovation = self._compared(state._replace(silent=silent))
        if is_silent:
            state = state._replace(moments=self._moved(state, stamp_ns), stamp_ns=stamp_ns)
        # Both have reported since this one's last reading: of two that come at one instant, the second.
        due = is_silent or (other.last_ns is not None and (own.last_ns is None or other.last_ns > own.last_ns))
        estimate = Estimate(stamp_ns, *self._moved(state, stamp_ns)) if due else None
        return Step(state, estimate, innovation, events)

    def _configured(self) -> Moments:
        imus, joint, start = self.configuration.imus, self.configuration.joint, self.configuration.start
        parts = {
            "relative_orientation": (Rotation.from_rotvec(start.rotation_vector_rad).as_quat(), start.rotation_stddev_rad),
            "proximal_lever_arm": (joint.proximal_lever_arm_m, joint.lever_arm_stddev_m),
            "distal_lever_arm": (joint.distal_lever_arm_m, joint.lever_arm_stddev_m),
        }
        for one in ("proximal", "distal"):
            parts[f"{one}_gyro_bias"] = (np.zeros(3), imus.gyro_bias_stddev_rad_s)
            parts[f"{one}_accelerometer_error"] = (np.zeros(3), imus.accelerometer_error_stddev_m_s2)
        mean, stddev = self.space.origin(), np.ones(self.space.dimension)
        for name, (value, deviation) in parts.items():
            mean[self.space.coordinates(name)] = value
            stddev[self.space.tangent(name)] = deviation
        moments = Moments(mean, np.diag(stddev**2))
        if self.space is model.FREE:
            return moments
        given = (np.array(joint.proximal_axis), np.array(joint.distal_axis)) if any(joint.proximal_axis) else None
        return _with_axes(moments, given, joint.axis_stddev_rad)

    def _compared(self, state: TwoLinkState) -> tuple[TwoLinkState, Innovation | None]:
        """Up to the last instant around which the readings of both IMUs are complete; what the last comparison saw."""
        innovation = None
        for stamp_ns in self._complete(state):
            last_ns = state.compared_ns
            moments = self._moved(state, stamp_ns)
            state = state._replace(moments=moments, stamp_ns=stamp_ns, compared_ns=stamp_ns)
            proximal, distal = (one.motion(stamp_ns, self._half_window_ns) for one in state.readings)
            if proximal is None or distal is None:
                continue
            step_s = (stamp_ns - last_ns) / NANOSECONDS_PER_SECOND
            state, innovation = self._joined(state, proximal, distal, step_s)
            if self.space is model.HINGE:
                state = self._hinged(state, proximal, distal, step_s)
        return state, innovation

    def _complete(self, state: TwoLinkState) -> Iterator[int]:
        """Instants of the first IMU's readings after the state's, an interval apart, whose windows are complete."""
        upto = []
        for one in state.readings:
            if len(one.stamps_ns) < 2:
                return
            last, before = int(one.stamps_ns[-1]), int(one.stamps_ns[-2])
            # The next one will be outside of the window.
            upto.append(last + min(last - before, self._half_window_ns // 2) - self._half_window_ns)
        due_ns = state.compared_ns + self._interval_ns
        for stamp_ns in state.readings[0].stamps_ns.tolist():
            if stamp_ns >= due_ns and stamp_ns > (state.stamp_ns or 0) and stamp_ns < min(upto):
                yield stamp_ns
                due_ns = stamp_ns + self._interval_ns

    def _moved(self, state: TwoLinkState, stamp_ns: int) -> Moments:
        """The moments at a later stamp, reading by reading of the IMU that has more of them."""
        assert state.stamp_ns is not None
        moments, since_ns = state.moments, state.stamp_ns
        paces = state.readings[int(state.silent[0])].stamps_ns.tolist()
        for pace_ns in (*(one for one in paces if since_ns < one < stamp_ns), stamp_ns):
            if pace_ns > since_ns:
                moments = self._turned(moments, state.readings, since_ns, pace_ns)
            since_ns = pace_ns
        return moments

    def _turned(self, moments: Moments, readings: tuple[Readings, Readings], from_ns: int, to_ns: int) -> Moments:
        imus, step_s = self.configuration.imus, (to_ns - from_ns) / NANOSECONDS_PER_SECOND
        unseen = [one.unseen(from_ns, to_ns, self._longest_gap_ns) for one in readings]
        turns = np.array([one.turn(from_ns, to_ns) for one in readings])
        memory = math.exp(-step_s / imus.accelerometer_error_time_s)
        seen = np.array([0.0 if one.wholly else 1.0 for one in unseen])
        moved, transition = model.move(moments.mean, turns, seen, step_s, memory)
        variance = 0.0
        for turn, one in zip(turns, unseen, strict=True):
            variance += imus.rate_noise_rad_s_sqrt_hz**2 * step_s + one.angle_stddev_rad**2
            if not one.wholly:
                variance += imus.rate_noise_share_sqrt_hz**2 * float(turn @ turn) / step_s
        hidden = (imus.hidden_rate_stddev_rad_s * math.hypot(*(one.time_s for one in unseen))) ** 2
        largest = float(np.max(np.diag(moments.covariance)[:3]))
        variance += min(hidden, max(0.0, _UNKNOWN_ANGLE_RAD**2 - largest))
        noise = np.zeros(self.space.dimension)
        noise[: model.GYRO] = variance
        noise[model.GYRO : model.ACCELEROMETER] = imus.gyro_bias_walk_rad_s_sqrt_s**2 * step_s
        noise[model.ACCELEROMETER : model.ARM] = imus.accelerometer_error_stddev_m_s2**2 * (1.0 - memory**2)
        return predict(moments, moved, transition, np.diag(noise))

    def _joined(
        self, state: TwoLinkState, proximal: Motion, distal: Motion, step_s: float
    ) -> tuple[TwoLinkState, Innovation]:
        """Corrected by the joint's acceleration, which is one as seen from both links."""
        imus, joint, (mean, covariance) = self.configuration.imus, self.configuration.joint, state.moments
        variance = _counted_once(joint.acceleration_stddev_m_s2, joint.acceleration_time_s, step_s)
        seen = []
        for link, motion in enumerate((proximal, distal)):
            fine, coarse = (model.joint_acceleration(mean, link, one) for one in (motion.fine, motion.coarse))
            variance += joint.roughness_share**2 * float(np.sum((fine - coarse) ** 2))
            angular, noise = motion.angular_acceleration(imus.rate_stddev_rad_s)
            arm = model.part(mean, model.ARM, link)
            spread = np.diag(covariance)[model.ARM + 3 * link : model.ARM + 3 * link + 3]
            variance += noise * float(arm @ arm + np.sum(spread))
            seen.append(np.stack([*motion.fine[:2], angular]))
        variance += _second_order(covariance[:3, :3], model.joint_acceleration(mean, 1, seen[1]))
        difference, observation = model.joint_difference(mean, *seen)
        moments, innovation, rejected = update(
            self.space,
            state.moments,
            difference,
            observation,
            variance * np.eye(3),
            self._gate,
            state.rejected_in_a_row,
        )
        return state._replace(moments=_with_unit_axes(moments), rejected_in_a_row=rejected), innovation

    def _hinged(self, state: TwoLinkState, proximal: Motion, distal: Motion, step_s: float) -> TwoLinkState:
        """Corrected by the hinge's axis, which is one as seen from both links; before, learning it."""
        joint, mean = self.configuration.joint, state.moments.mean
        if not np.any(model.part(mean, model.AXIS, 0)):
            rates = (one.fine[0] - model.part(mean, model.GYRO, link) for link, one in enumerate((proximal, distal)))
            shown = state.shown.followed(*rates, step_s)
            axes = shown.axes(model.rotation(mean))
            moments = state.moments if axes is None else _with_axes(state.moments, axes, joint.axis_stddev_rad)
            return state._replace(moments=moments, shown=shown)
        difference, observation = model.hinge_difference(mean)
        noise = _counted_once(joint.play_rad, joint.play_time_s, step_s) * np.eye(2)
        moments, _, rejected = update(
            self.space,
            state.moments,
            difference,
            observation,
            noise,
            self._gate,
            state.hinge_rejected_in_a_row,
            may_recover=False,
        )
        return state._replace(moments=_with_unit_axes(moments), hinge_rejected_in_a_row=rejected)

    def _silence(self, link: int, heard_ns: int, stamp_ns: int) -> str:
        return (
            f"no readings of {self._sensors[link]} for {(stamp_ns - heard_ns) / NANOSECONDS_PER_SECOND:.2f} s, at "
            f"{stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: how its link turns is not known, the orientation becomes "
            "uncertain until it speaks again"
        )


def _counted_once(stddev: float, correlated_s: float, step_s: float) -> float:
    """Variance of white noise, once a step, that tells in the long run as little as one correlated over that time."""
    return stddev**2 * max(1.0, 2.0 * correlated_s / step_s)


def _second_order(covariance: Matrix, acceleration: Vector) -> float:
    """Variance, (m/s^2)^2, of what the linearised turn of an acceleration leaves out: d x (d x a) / 2.

    A turn d about the acceleration itself does nothing to it.
    """
    square, total = float(acceleration @ acceleration), float(np.trace(covariance))
    across = total * square - float(acceleration @ covariance @ acceleration)
    return 0.25 * across * total


def _with_axes(moments: Moments, axes: tuple[Vector, Vector] | None, stddev_rad: float) -> Moments:
    """With a hinge's axes (3,) of any length, in the frames of both IMUs; None: nothing is known of them."""
    mean, covariance = moments.mean.copy(), moments.covariance.copy()
    for link, name in enumerate(("proximal_axis", "distal_axis")):
        tangent = model.HINGE.tangent(name)
        covariance[tangent, :], covariance[:, tangent] = 0.0, 0.0
        if axes is None:
            mean[model.HINGE.coordinates(name)] = 0.0
            covariance[tangent, tangent] = np.eye(3) / 3.0  # of a unit vector of any direction
            continue
        axis = axes[link] / np.linalg.norm(axes[link])
        mean[model.HINGE.coordinates(name)] = axis
        covariance[tangent, tangent] = stddev_rad**2 * (np.eye(3) - np.outer(axis, axis))
    return Moments(mean, covariance)


def _with_unit_axes(moments: Moments) -> Moments:
    """A correction moves an axis along its tangent; back to length one."""
    if len(moments.mean) != model.HINGE.coordinate_count:
        return moments
    mean = moments.mean.copy()
    for name in ("proximal_axis", "distal_axis"):
        length = float(np.linalg.norm(mean[model.HINGE.coordinates(name)]))
        if length > 0.0:
            mean[model.HINGE.coordinates(name)] /= length
    return Moments(mean, moments.covariance)
