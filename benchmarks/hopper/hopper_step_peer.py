"""KF1 of the hopper for `hopper_step`: on numbers of Python, or by FilterPy's KalmanFilter, with the same phase logic.

And `uncompiled`: the source of a compiled function as plain Python, with all that it calls.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from filterpy.kalman import KalmanFilter
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray

from hopper_estimation import phases
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.phases import APEX, DROP, LIFTOFF, MAX_SQUAT, STARTUP, TOUCHDOWN

Array = NDArray[np.float64]


def uncompiled(function: Any) -> Any:
    """The same source, run by Python itself, with all that it calls."""
    plain = function.py_func
    known = {name: value for name, value in plain.__globals__.items() if not isinstance(value, CPUDispatcher)}
    for name in plain.__code__.co_names:
        value = plain.__globals__.get(name)
        if isinstance(value, CPUDispatcher):
            known[name] = uncompiled(value)
        elif isinstance(value, ModuleType) and value.__name__.startswith("hopper_estimation"):
            called = {one: getattr(value, one) for one in plain.__code__.co_names if hasattr(value, one)}
            plain_ones = {k: uncompiled(v) if isinstance(v, CPUDispatcher) else v for k, v in called.items()}
            known[name] = SimpleNamespace(**plain_ones)
    return FunctionType(plain.__code__, known, plain.__name__, plain.__defaults__)


_choose, _phase_event = uncompiled(phases.choose), uncompiled(phases.phase_event)
_liftoff_velocity = uncompiled(kernels.liftoff_velocity)
_over_gap, _awaits_high = uncompiled(phases.acceleration_over_gap), uncompiled(phases.awaits_high)


class PythonHopper(ABC):
    """Low-pass filters and phase logic of `vertical_kernels.run`, without its rest on the ground.

    Parameters
    ----------
    parameters
        (PARAMETER_COUNT,).
    height_m, covariance
        At the drop: height, and the covariance (2, 2) of height and velocity.
    """

    def __init__(
        self, parameters: Array, length: float, gravity: float, nominal_dt: float, height_m: float, covariance: Array
    ) -> None:
        self.parameters: list[float] = parameters.tolist()
        self.length, self.gravity, self.nominal_dt = length, gravity, nominal_dt
        self.f1 = 2.0 * math.pi * self.parameters[phases.F_STATE]
        self.f2 = 2.0 * math.pi * self.parameters[phases.F_PHASE]
        self.gains = self._gains(nominal_dt)
        self.switch = self.parameters[phases.SWITCH] * gravity
        self.threshold = self.parameters[phases.JERK] * phases.JERK_STEPS
        self.noise = self.parameters[phases.SIGMA_A] ** 2
        self.y1 = self.y2 = self.h1 = self.h2 = self.h3 = 0.0
        self.started = False
        self.phase, self.since = DROP, 0.05
        self.distrusted = self.gap = 0.0
        self.begin(height_m, covariance)

    def _gains(self, step: float) -> tuple[float, float]:
        return self.f1 * step / (1.0 + self.f1 * step), self.f2 * step / (1.0 + self.f2 * step)

    @abstractmethod
    def begin(self, height_m: float, covariance: Array) -> None:
        """Height and covariance at the drop."""

    @abstractmethod
    def predict(self, step: float, acceleration: float, noise: float) -> None:
        """Move on by a step with an acceleration of that variance."""

    @abstractmethod
    def update_position(self, delay: float, more: float) -> None:
        """The leg was extended a delay ago; `more` variance than usual."""

    @abstractmethod
    def update_velocity(self, wanted: float, times: float) -> None:
        """The velocity is inferred; `times` the usual variance."""

    @abstractmethod
    def velocity_variance(self) -> float:
        """Of the estimate."""

    @abstractmethod
    def state(self) -> tuple[float, float]:
        """Height and velocity."""

    @abstractmethod
    def lose(self) -> None:
        """A phase that no robot stays in: wider covariance."""

    def step(self, step: float, low: float, high: float, usable: int, goal: float) -> None:
        """One sample."""
        gain1, gain2 = self.gains
        if abs(step - self.nominal_dt) > 1e-5:
            gain1, gain2 = self._gains(step)
        reading, more = _choose(SimpleNamespace(usable=usable, low=low, high=high), self.y1, self.gravity, self.switch)
        is_gap, over_gap = step > phases.GAP_STEPS * self.nominal_dt, self.y1
        self.gap = step if is_gap else phases.FORGOTTEN * self.gap
        if is_gap:
            over_gap, unknown = _over_gap(step, self.y1, reading)
            more += unknown
        if not self.started:
            self.y1 = self.y2 = self.h1 = self.h2 = self.h3 = reading
            self.started = True
        self.y1 += gain1 * (reading - self.y1)
        self.y2 += gain2 * (reading - self.y2)
        rise = self.y2 - self.h3
        self.h3, self.h2, self.h1 = self.h2, self.h1, self.y2
        self.predict(step, over_gap if is_gap else self.y1, self.noise + more)
        self.distrusted += more * step * step
        self.since += step
        velocity = self.state()[1]
        usual = step if abs(step - self.nominal_dt) <= 1e-5 else max(step, self.nominal_dt)
        over = self.gap / phases.JERK_STEPS + (0.0 if is_gap else usual)
        limit = self.threshold * over
        if usable & 7 == 2:
            limit += gain2 * phases.ALONE_RISE_M_S2
        event = _phase_event(self.phase, self.since, velocity, self.y2, rise, limit)
        if usable & 8 and _awaits_high(usable, low, self.gravity, self.switch):
            event = phases.NO_EVENT
        if event == phases.LOST:
            self.lose()
            self.distrusted += phases.LOST_SPEED_M_S**2
            self.phase, self.since = STARTUP, 0.0
        if event < 0:
            return
        if event in (TOUCHDOWN, LIFTOFF):
            before, (_, velocity) = self.velocity_variance(), self.state()
            delay = self.parameters[phases.DELAY_TD if event == TOUCHDOWN else phases.DELAY_LO]
            self.update_position(delay, (velocity**2 + before) * self.gap**2)
            self.distrusted *= self.velocity_variance() / before
        if event in (MAX_SQUAT, LIFTOFF):
            before, (_, velocity) = self.velocity_variance(), self.state()
            wanted = (
                self.parameters[phases.DELAY_MS] * self.y1
                if event == MAX_SQUAT
                else _liftoff_velocity(self.parameters, velocity, goal)
            )
            self.update_velocity(wanted, 1.0 / (1.0 - min(self.distrusted / before, kernels.LARGEST_SHARE)))
            self.distrusted *= self.velocity_variance() / before
        self.phase = DROP if event == APEX else event + 1
        self.since = 0.0


class NumbersOfPython(PythonHopper):
    """Every sum written out."""

    def begin(self, height_m: float, covariance: Array) -> None:
        """Height and covariance at the drop."""
        self.z, self.v = height_m, 0.0
        self.pzz, self.pzv, self.pvv = float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])
        self.r_p = self.parameters[phases.SIGMA_P] ** 2
        self.r_v = self.parameters[phases.SIGMA_V] ** 2

    def predict(self, step: float, acceleration: float, noise: float) -> None:
        """Move on by a step with an acceleration of that variance."""
        half = 0.5 * step
        self.z += step * (self.v + half * acceleration)
        self.v += step * acceleration
        noise *= step * step
        self.pzz += step * (2.0 * self.pzv + step * self.pvv) + half * half * noise
        self.pzv += step * self.pvv + half * noise
        self.pvv += noise

    def velocity_variance(self) -> float:
        """Of the estimate."""
        return self.pvv

    def update_position(self, delay: float, more: float) -> None:
        """The leg was extended a delay ago."""
        hz, hv = self.pzz - delay * self.pzv, self.pzv - delay * self.pvv
        gain = 1.0 / (hz - delay * hv + self.r_p + more)
        residual = self.length - (self.z - delay * self.v)
        self.z += hz * gain * residual
        self.v += hv * gain * residual
        self.pzz -= hz * hz * gain
        self.pzv -= hz * hv * gain
        self.pvv -= hv * hv * gain

    def update_velocity(self, wanted: float, times: float) -> None:
        """The velocity is inferred."""
        gain = 1.0 / (self.pvv + self.r_v * times)
        residual = wanted - self.v
        self.z += self.pzv * gain * residual
        self.v += self.pvv * gain * residual
        self.pzz -= self.pzv * self.pzv * gain
        self.pzv -= self.pzv * self.pvv * gain
        self.pvv -= self.pvv * self.pvv * gain

    def state(self) -> tuple[float, float]:
        """Height and velocity."""
        return self.z, self.v

    def lose(self) -> None:
        """Wider covariance."""
        self.pzz += phases.LOST_HEIGHT_M**2
        self.pvv += phases.LOST_SPEED_M_S**2


class FilterPyHopper(PythonHopper):
    """Predictions and updates by FilterPy's KalmanFilter."""

    def begin(self, height_m: float, covariance: Array) -> None:
        """Height and covariance at the drop."""
        self.filter = KalmanFilter(dim_x=2, dim_z=1, dim_u=1)
        self.filter.x = np.array([[height_m], [0.0]])
        self.filter.P = covariance.copy()
        self._velocity = np.array([[0.0, 1.0]])
        self._r_p, self._r_v = (np.array([[self.parameters[which] ** 2]]) for which in (phases.SIGMA_P, phases.SIGMA_V))

    def predict(self, step: float, acceleration: float, noise: float) -> None:
        """Move on by a step with an acceleration of that variance."""
        transition = np.array([[1.0, step], [0.0, 1.0]])
        control = np.array([[0.5 * step * step], [step]])
        self.filter.predict(np.array([[acceleration]]), control, transition, noise * (control @ control.T))

    def velocity_variance(self) -> float:
        """Of the estimate."""
        return float(self.filter.P[1, 1])

    def update_position(self, delay: float, more: float) -> None:
        """The leg was extended a delay ago."""
        self.filter.update(np.array([[self.length]]), self._r_p + more, np.array([[1.0, -delay]]))

    def update_velocity(self, wanted: float, times: float) -> None:
        """The velocity is inferred."""
        self.filter.update(np.array([[wanted]]), self._r_v * times, self._velocity)

    def state(self) -> tuple[float, float]:
        """Height and velocity."""
        return float(self.filter.x[0, 0]), float(self.filter.x[1, 0])

    def lose(self) -> None:
        """Wider covariance."""
        self.filter.P = self.filter.P + np.diag([phases.LOST_HEIGHT_M**2, phases.LOST_SPEED_M_S**2])
