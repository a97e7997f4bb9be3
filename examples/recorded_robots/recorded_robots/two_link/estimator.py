"""Error-state Kalman filter of two jointed IMUs: gyros turn the links, the joint's acceleration holds them together.

Angular acceleration is differentiated from readings to both sides of an instant, so the filter itself stands a few
readings behind, where these are complete: there it compares the joint's acceleration as both links see it, and the
hinge's axis. What is given out is that state moved by the gyros to the newest reading: later by nothing, and of all
readings only the last two are not compared yet. The two IMUs need not be read at the same instants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement, Notice, Vector
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.moments import Moments, update
from onboard_estimation.pipeline.estimator import Estimator, Step
from recorded_robots.two_link import model
from recorded_robots.two_link.configuration import TwoLink
from recorded_robots.two_link.hinge import Shown
from recorded_robots.two_link.readings import Motion, Readings

_MISSED_TO_TELL = 25
_ON_TIME = 0.9
"""Share of the interval after which the next comparison is due: stamps jitter."""


class TwoLinkState(NamedTuple):
    """All that readings change.

    Attributes
    ----------
    moments
        At `stamp_ns`, up to where readings have been compared.
    begun_ns
        First reading, or what was given to start with; before it the other stamps mean nothing.
    compared_ns
        Last comparison of the joint's acceleration.
    readings
        Of the first and of the second IMU, from a little before `stamp_ns` on.
    shown
        What the gyros have shown of a hinge.
    rejected_in_a_row, hinge_rejected_in_a_row
        Comparisons refused.
    missed_in_a_row
        Comparisons left out, for want of readings around their instant.
    """

    moments: Moments
    stamp_ns: int = 0
    begun_ns: int | None = None
    compared_ns: int = 0
    readings: tuple[Readings, Readings] = (Readings(), Readings())
    shown: Shown = Shown()
    rejected_in_a_row: int = 0
    hinge_rejected_in_a_row: int = 0
    missed_in_a_row: int = 0


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
        self._noise = np.array([getattr(imus, name) for name in model.NOISE])
        self._longest_gap_ns = round(imus.longest_gap_s * NANOSECONDS_PER_SECOND)

    def start(self, initial: Estimate | None) -> TwoLinkState:
        """As configured, at the first reading; or at `initial`, with a hinge's axes where it knows them."""
        if initial is None:
            return TwoLinkState(self._configured())
        moments = Moments(*self.space.moments(initial.mean, initial.covariance))
        return TwoLinkState(moments, initial.stamp_ns, initial.stamp_ns, initial.stamp_ns)

    def step(self, state: TwoLinkState, measurement: Measurement) -> Step:
        """Take a reading (6,): gyro x y z (rad/s), accelerometer x y z (m/s^2)."""
        link, stamp_ns = self._sensors.index(measurement.sensor), measurement.stamp_ns
        begun_ns = stamp_ns if state.begun_ns is None else state.begun_ns
        if state.begun_ns is None:
            state = state._replace(stamp_ns=stamp_ns, begun_ns=stamp_ns, compared_ns=stamp_ns)
        own, other = state.readings[link], state.readings[1 - link]
        heard_ns = begun_ns if other.last_ns is None else other.last_ns
        silent = stamp_ns - heard_ns > self._longest_gap_ns
        told = own.last_ns is not None and own.last_ns - heard_ns > self._longest_gap_ns
        # Both have reported since this one's last reading: of two that come at one instant, the second.
        due = silent or (other.last_ns is not None and (own.last_ns is None or other.last_ns > own.last_ns))
        followed = own.followed(stamp_ns, measurement.value, state.stamp_ns - self._half_window_ns)
        state = state._replace(readings=(followed, other) if link == 0 else (other, followed))
        state, innovation, notices = self._compared(state)
        if silent and not told:
            notices.insert(0, self._silence(1 - link, heard_ns, stamp_ns))
        if silent:
            state = state._replace(moments=self._moved(state, stamp_ns), stamp_ns=stamp_ns)
        estimate = Estimate(stamp_ns, *self._moved(state, stamp_ns)) if due else None
        return Step(state, estimate, innovation, tuple(notices))

    def _configured(self) -> Moments:
        imus, joint, start = self.configuration.imus, self.configuration.joint, self.configuration.start
        turn = Rotation.from_rotvec(start.rotation_vector_rad).as_quat()
        known = {"relative_orientation": (turn, start.rotation_stddev_rad)}
        for one in ("proximal", "distal"):
            known[f"{one}_lever_arm"] = getattr(joint, f"{one}_lever_arm_m"), joint.lever_arm_stddev_m
            known[f"{one}_gyro_bias"] = np.zeros(3), imus.gyro_bias_stddev_rad_s
            known[f"{one}_accelerometer_error"] = np.zeros(3), imus.accelerometer_error_stddev_m_s2
        mean, stddev = self.space.origin(), np.ones(self.space.dimension)
        for name, (value, deviation) in known.items():
            mean[self.space.coordinates(name)] = value
            stddev[self.space.tangent(name)] = deviation
        moments = Moments(mean, np.diag(stddev**2))
        if self.space is model.FREE:
            return moments
        given = (np.array(joint.proximal_axis), np.array(joint.distal_axis)) if any(joint.proximal_axis) else None
        return _with_axes(moments, given, joint.axis_stddev_rad)

    def _compared(self, state: TwoLinkState) -> tuple[TwoLinkState, Innovation | None, list[Notice]]:
        """Up to the last instant around which the readings of both IMUs are complete; what the last comparison saw."""
        imus = self.configuration.imus
        innovation: Innovation | None = None
        notices: list[Notice] = []
        for stamp_ns in self._complete(state):
            last_ns = state.compared_ns
            moments = self._moved(state, stamp_ns)
            state = state._replace(moments=moments, stamp_ns=stamp_ns, compared_ns=stamp_ns)
            proximal, distal = (
                one.motion(stamp_ns, self._half_window_ns, imus.rate_stddev_rad_s) for one in state.readings
            )
            if proximal is None or distal is None:
                state = state._replace(missed_in_a_row=state.missed_in_a_row + 1)
                if state.missed_in_a_row == _MISSED_TO_TELL:
                    notices.append(self._too_few(stamp_ns))
                continue
            state = state._replace(missed_in_a_row=0)
            step_s = _seconds(stamp_ns - last_ns)
            state, innovation = self._joined(state, proximal, distal, step_s)
            if self.space is model.HINGE and np.any(model.part(state.moments.mean, model.AXIS, 0)):
                state, refuted = self._hinged(state, step_s)
                notices += [self._refutation(stamp_ns)] if refuted else []
            elif self.space is model.HINGE:
                state = self._learned(state, proximal, distal, min(step_s, 2.0 * self.configuration.joint.interval_s))
        return state, innovation, notices

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
            if stamp_ns >= due_ns and stamp_ns > state.stamp_ns and stamp_ns < min(upto):
                yield stamp_ns
                due_ns = stamp_ns + self._interval_ns

    def _moved(self, state: TwoLinkState, stamp_ns: int) -> Moments:
        """The moments at a later stamp, reading by reading."""
        paces = np.union1d(state.readings[0].stamps_ns, state.readings[1].stamps_ns)
        between = paces[(paces > state.stamp_ns) & (paces < stamp_ns)]
        instants = np.concatenate([[state.stamp_ns], between, [stamp_ns] if stamp_ns > state.stamp_ns else []])
        if len(instants) < 2:
            return state.moments
        instants = instants.astype(np.int64)
        first, second = (one.turns(instants, self._longest_gap_ns) for one in state.readings)
        turns, unseen_s, stddev_rad = (np.stack(pair) for pair in zip(first, second, strict=True))
        steps_s, (mean, covariance) = np.diff(instants) / NANOSECONDS_PER_SECOND, state.moments
        return Moments(*model.move_through(mean, covariance, steps_s, turns, unseen_s, stddev_rad, self._noise))

    def _joined(
        self, state: TwoLinkState, proximal: Motion, distal: Motion, step_s: float
    ) -> tuple[TwoLinkState, Innovation]:
        """Corrected by the joint's acceleration, which is one as seen from both links."""
        joint, (mean, covariance) = self.configuration.joint, state.moments
        fine, coarse = np.stack([proximal.fine, distal.fine]), np.stack([proximal.coarse, distal.coarse])
        variances = np.array([proximal.variance, distal.variance])
        variance = model.joint_variance(mean, covariance, fine, coarse, variances, joint.roughness_share)
        variance += _counted_once(joint.acceleration_stddev_m_s2, joint.acceleration_time_s, step_s)
        difference, observation = model.joint_difference(mean, proximal.expected, distal.expected)
        noise, count = variance * np.eye(3), state.rejected_in_a_row
        moments, innovation, count = update(
            self.space, state.moments, difference, observation, noise, self._gate, count
        )
        return state._replace(moments=_with_unit_axes(moments), rejected_in_a_row=count), innovation

    def _learned(self, state: TwoLinkState, proximal: Motion, distal: Motion, step_s: float) -> TwoLinkState:
        """With what the gyros show of a hinge's axes, and with these once they are clear."""
        mean = state.moments.mean
        rates = [one.fine[0] - model.part(mean, model.GYRO, link) for link, one in enumerate((proximal, distal))]
        shown = state.shown.followed(rates[0], rates[1], step_s)
        axes = shown.axes(model.rotation(mean))
        if axes is None:
            return state._replace(shown=shown)
        return state._replace(moments=_with_axes(state.moments, axes, self.configuration.joint.axis_stddev_rad))

    def _hinged(self, state: TwoLinkState, step_s: float) -> tuple[TwoLinkState, bool]:
        """Corrected by the hinge's axis, which is one as seen from both links; true where it is found not to be."""
        joint = self.configuration.joint
        difference, observation = model.hinge_difference(state.moments.mean)
        noise = _counted_once(joint.play_rad, joint.play_time_s, step_s) * np.eye(2)
        count = state.hinge_rejected_in_a_row
        moments, _, count = update(
            self.space, state.moments, difference, observation, noise, self._gate, count, may_recover=False
        )
        if count < joint.recover_after:
            return state._replace(moments=_with_unit_axes(moments), hinge_rejected_in_a_row=count), False
        forgotten = _with_axes(state.moments, None, joint.axis_stddev_rad)
        return state._replace(moments=forgotten, shown=Shown(), hinge_rejected_in_a_row=0), True

    def _silence(self, link: int, heard_ns: int, stamp_ns: int) -> Notice:
        return Notice(
            f"no readings of {self._sensors[link]} for {_seconds(stamp_ns - heard_ns):.2f} s, at "
            f"{_seconds(stamp_ns):.3f} s: how its link turns is not known, the orientation becomes uncertain until it "
            "speaks again"
        )

    def _too_few(self, stamp_ns: int) -> Notice:
        return Notice(
            f"the joint's acceleration cannot be compared, at {_seconds(stamp_ns):.3f} s: fewer than three readings "
            f"within {self.configuration.joint.half_window_s:g} s of an instant, {_MISSED_TO_TELL} times in a row; "
            "give joint.half_window_s two periods of the slower IMU"
        )

    def _refutation(self, stamp_ns: int) -> Notice:
        return Notice(
            f"the links do not turn about the hinge's axes, at {_seconds(stamp_ns):.3f} s: refused "
            f"{self.configuration.joint.recover_after} times in a row, they are learned anew; is joint.kind a hinge?"
        )


def _seconds(duration_ns: int) -> float:
    return duration_ns / NANOSECONDS_PER_SECOND


def _counted_once(stddev: float, correlated_s: float, step_s: float) -> float:
    """Variance of white noise, once a step, that tells in the long run as little as one correlated over that time."""
    return stddev**2 * max(1.0, 2.0 * correlated_s / step_s)


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
