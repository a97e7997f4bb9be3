"""The baseline: integrated gyros, with their biases from the rest at the start, and an honest covariance.

Each link by itself: heading, bias and scale of its gyro, a linear filter of three dimensions. While the robot rests at
the start, a gyro reads its bias. Of masses and inertias it learns nothing: they stay as designed. The centre of mass is
moved by the commanded thrusts over the designed mass (the paper's equation (11), last row), and its covariance grows
with what is not known of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Vector
from onboard_estimation.filtering.gating import Innovation, gate_threshold
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.sensor_trust import fault_news
from thruster_chain_estimation.model import space
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

_TELLS_EVERY_NS = 10_000_000
_SILENT_NS = NANOSECONDS_PER_SECOND // 2
_REST_PROBABILITY = 0.9999
# What a link may do unseen: turn at most so fast, and change its rate so much in a second (full thrust at a quarter of
# a link's length would turn it by twice that).
_UNSEEN_RATE_RAD_S, _UNSEEN_ANGULAR_RAD_S2 = 3.0, 25.0
# Share of the acceleration that gains, lags and dead bands of the thrusters leave open; drag, tilt, draughts.
_THRUST_FRACTION, _OTHER_M_S2 = 0.1, 0.02
_CORRELATION = 0.95  # of the errors of position and velocity, which come from the same acceleration
_HALF_TURN_VARIANCE = np.pi**2 / 3.0  # of a heading that can be any


class GyrosState(NamedTuple):
    """All that measurements change; arrays are replaced, never written.

    Attributes
    ----------
    mean, covariance
        (N, 3) heading of each link, bias and scale of its gyro: rad, rad/s, share; (N, 3, 3).
    rate
        (N,) as last read, without bias and scale, rad/s.
    last_ns
        (N,) stamp of each gyro's last reading, at first that of the start.
    rest_until_ns
        The gyros read their biases until then; None: nothing was measured yet.
    centre, centre_stddev
        Position and velocity of the centre of mass (4,), and their standard deviations (2,).
    force
        (N,) commanded thrusts, N.
    stamp_ns, told_ns
        That the centre of mass belongs to, and of the last estimate; None: there was none.
    """

    mean: Matrix
    covariance: NDArray[np.float64]
    rate: Vector
    last_ns: NDArray[np.int64]
    rest_until_ns: int | None
    centre: Vector
    centre_stddev: Vector
    force: Vector
    stamp_ns: int | None
    told_ns: int | None


class GyrosEstimator(Estimator[GyrosState]):
    """Headings by integrated gyros."""

    held = ("masses", "inertias")
    linearised = False  # covariances of position and velocity are bounds

    def __init__(self, configuration: ThrusterChainConfiguration) -> None:
        self.space = space.published_space(configuration)
        self._c = configuration
        self._chain = configuration.chain
        self._sensors = {f"imu/{name}": link for link, name in enumerate(self._chain.link_names)}
        self._prior = space.initial_covariance(configuration)
        mass = configuration.tolerances.mass_fraction / np.sqrt(self._chain.count)
        self._acceleration_share = float(np.hypot(space.BOUND_TO_STDDEV * mass, _THRUST_FRACTION))
        # A heading at a stamp: the gyro's clock may be off by so much, a bound.
        self._clock_s = space.BOUND_TO_STDDEV * configuration.imu.clock_offset_s

    def start(self, initial: Estimate | None) -> GyrosState:
        """At rest: as given, else as configured."""
        c, n, covariance = self._c, self._chain.count, self._prior
        mean = space.initial_mean(c, c.initial_headings_rad, np.array(c.initial.position_m))
        if initial is not None:
            mean, covariance = initial.mean, initial.covariance
        own, each = np.zeros((n, 3)), np.zeros((n, 3, 3))
        own[:, 0] = mean[self.space.coordinates("headings")]
        each[:, 0, 0] = np.diag(covariance[self.space.tangent("headings"), self.space.tangent("headings")])
        each[:, 1, 1] = c.gyro.bias_stddev_rad_s**2
        each[:, 2, 2] = (space.BOUND_TO_STDDEV * c.gyro.scale_fraction) ** 2
        diagonal = np.sqrt(np.diag(covariance))
        position, velocity = self.space.tangent("position"), self.space.tangent("velocity")
        stamp_ns = None if initial is None else initial.stamp_ns
        return GyrosState(
            own,
            each,
            mean[self.space.coordinates("rates")].copy(),
            np.full(n, stamp_ns or 0, dtype=np.int64),
            None if stamp_ns is None else self._rest_until(stamp_ns, mean[self.space.coordinates("rates")]),
            np.concatenate([mean[self.space.coordinates("position")], mean[self.space.coordinates("velocity")]]),
            np.array([diagonal[position].max(), diagonal[velocity].max()]),
            np.zeros(n),
            stamp_ns,
            None,
        )

    def step(self, state: GyrosState, measurement: Measurement) -> Step:
        """A command moves the centre of mass from then on, a gyro its link."""
        stamp_ns, before = measurement.stamp_ns, state
        if state.rest_until_ns is None:
            last_ns = np.full(self._chain.count, stamp_ns, dtype=np.int64)
            state = state._replace(rest_until_ns=self._rest_until(stamp_ns, state.rate), last_ns=last_ns)
        state = self._centre_moved(state, stamp_ns)
        if measurement.sensor == space.COMMAND:
            if measurement.value.any():
                state = state._replace(rest_until_ns=min(stamp_ns, state.rest_until_ns or stamp_ns))
            notices = fault_news(self.sensor_faults(before), self.sensor_faults(state), stamp_ns)
            return Step(state._replace(force=measurement.value.copy()), events=notices)
        link = self._sensors[measurement.sensor]
        state, innovation = self._turned(state, link, stamp_ns, float(measurement.value[IMU.angular_velocity][2]))
        notices = fault_news(self.sensor_faults(before), self.sensor_faults(state), stamp_ns)
        if state.told_ns is not None and stamp_ns - state.told_ns < _TELLS_EVERY_NS:
            return Step(state, None, innovation, notices)
        return Step(state._replace(told_ns=stamp_ns), self._estimate(state, stamp_ns), innovation, notices)

    def _rest_until(self, stamp_ns: int, rates: Vector) -> int:
        """Until when the gyros read their biases; not at all where the start says that the links turn."""
        if np.abs(rates).max() > 4.0 * self._c.initial.rate_stddev_rad_s:
            return stamp_ns
        return stamp_ns + round(self._c.initial.rest_s * NANOSECONDS_PER_SECOND)

    def _turned(
        self, state: GyrosState, link: int, stamp_ns: int, reading: float
    ) -> tuple[GyrosState, Innovation | None]:
        """With the next reading of a link's gyro."""
        c, step_s = self._c, (stamp_ns - int(state.last_ns[link])) / NANOSECONDS_PER_SECOND
        means, covariances, rates = (one.copy() for one in (state.mean, state.covariance, state.rate))
        last_ns = state.last_ns.copy()
        mean, covariance, innovation = means[link], covariances[link], None
        noise = c.gyro_stddev_rad_s**2
        if abs(reading) >= c.gyro.range_rad_s:  # it may turn faster than it can read
            noise += (0.5 * c.gyro.range_rad_s) ** 2
        used = 0.5 * ((reading - mean[1]) / (1.0 + mean[2]) + state.rate[link])
        # A reading stands for its period; beyond it, what the link did is not known.
        seen_s = min(step_s, 3.0 / c.imu.rate_hz)
        mean[0] += used * step_s
        transition = np.array([[1.0, -step_s, -used * step_s], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        covariance = transition @ covariance @ transition.T
        covariance[0, 0] += noise * seen_s / c.imu.rate_hz + (_UNSEEN_RATE_RAD_S * (step_s - seen_s)) ** 2
        covariance[1, 1] += c.gyro.bias_walk_rad_s_sqrt_s**2 * step_s
        rest_until_ns = state.rest_until_ns
        if rest_until_ns is not None and stamp_ns < rest_until_ns:
            value, spread = reading - mean[1], covariance[1, 1] + noise
            nis = value**2 / spread
            resting = bool(nis <= gate_threshold(_REST_PROBABILITY, 1))
            innovation = Innovation(np.array([value]), np.array([[np.sqrt(spread)]]), float(nis), resting)
            if resting:
                gain = covariance[:, 1] / spread
                mean += gain * value
                covariance = covariance - np.outer(gain, gain) * spread
            elif nis > gate_threshold(1.0 - 1e-9, 1):
                rest_until_ns = stamp_ns  # it moves
        covariances[link], last_ns[link] = 0.5 * (covariance + covariance.T), stamp_ns
        rates[link] = (reading - mean[1]) / (1.0 + mean[2])
        mean[0] = np.arctan2(np.sin(mean[0]), np.cos(mean[0]))
        turned = state._replace(
            mean=means, covariance=covariances, rate=rates, last_ns=last_ns, rest_until_ns=rest_until_ns
        )
        return turned, innovation

    def _centre_moved(self, state: GyrosState, stamp_ns: int) -> GyrosState:
        """With the centre of mass moved by the commanded thrusts."""
        if state.stamp_ns is None or stamp_ns <= state.stamp_ns:
            return state._replace(stamp_ns=stamp_ns if state.stamp_ns is None else state.stamp_ns)
        step_s = (stamp_ns - state.stamp_ns) / NANOSECONDS_PER_SECOND
        direction = state.mean[:, 0] + self._chain.thruster_angles
        force = np.array([state.force @ np.cos(direction), state.force @ np.sin(direction)])
        acceleration = force / self._chain.masses.sum()
        unknown = self._acceleration_share * float(np.hypot(*acceleration)) + _OTHER_M_S2
        centre, stddev = state.centre.copy(), state.centre_stddev.copy()
        centre[:2] += centre[2:] * step_s + 0.5 * acceleration * step_s**2
        centre[2:] += acceleration * step_s
        # Errors of the acceleration last, so standard deviations add up.
        stddev[0] += stddev[1] * step_s + 0.5 * unknown * step_s**2
        stddev[1] += unknown * step_s
        return state._replace(centre=centre, centre_stddev=stddev, stamp_ns=stamp_ns)

    def sensor_faults(self, state: GyrosState) -> dict[str, str]:
        """IMUs that have been silent for long."""
        silent = np.flatnonzero((state.stamp_ns or 0) - state.last_ns > _SILENT_NS)
        imus = [f"imu/{self._chain.link_names[link]}" for link in silent]
        return {imu: f"{imu} is silent: its link's heading is not known any more" for imu in imus}

    def _estimate(self, state: GyrosState, stamp_ns: int) -> Estimate:
        c = self._c
        since_s = (stamp_ns - state.last_ns) / NANOSECONDS_PER_SECOND
        seen_s = np.minimum(since_s, 3.0 / c.imu.rate_hz)
        blind_s = since_s - seen_s
        ahead_s = seen_s + c.imu.delay_s
        unknown_rate = np.minimum(_UNSEEN_ANGULAR_RAD_S2 * ahead_s + _UNSEEN_RATE_RAD_S * (blind_s > 0.0), 10.0)
        covariance = self._prior.copy()
        heading = state.covariance[:, 0, 0] + (state.rate * self._clock_s) ** 2
        heading += (0.5 * unknown_rate * ahead_s) ** 2 + (_UNSEEN_RATE_RAD_S * blind_s) ** 2
        rate = state.covariance[:, 1, 1] + state.rate**2 * state.covariance[:, 2, 2] + c.gyro_stddev_rad_s**2
        rate += unknown_rate**2
        mean = space.initial_mean(c, state.mean[:, 0] + state.rate * ahead_s, state.centre[:2])
        mean[self.space.coordinates("rates")], mean[self.space.coordinates("velocity")] = state.rate, state.centre[2:]
        for block, variance in (("headings", heading), ("rates", rate)):
            rows = self.space.tangent(block)
            covariance[rows, rows] = np.diag(np.minimum(variance, 1e3 * _HALF_TURN_VARIANCE))
        # Of position and velocity, the same along both axes.
        correlations = np.array([[1.0, _CORRELATION], [_CORRELATION, 1.0]])
        covariance[-4:, -4:] = np.kron(np.outer(state.centre_stddev, state.centre_stddev) * correlations, np.eye(2))
        return Estimate(stamp_ns, self.space.plus(mean, np.zeros(self.space.dimension)), covariance)
