"""The hopper's state filters behind one interface: each is a compiled function over arrays of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import baselines
from hopper_estimation import encoder_kernels as encoder
from hopper_estimation import error_state_kernels as errors
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.configuration import HopperBody
from hopper_estimation.phases import DROP
from hopper_estimation.samples import Samples
from onboard_estimation.errors import UserError

Array = NDArray[np.float64]

_SINCE_DROP_S = 0.05
_ZEROED_BIAS_VARIANCE = 0.01


class StateFilter(ABC):
    """A filter of height and vertical velocity with its phase logic; its state is an array."""

    @abstractmethod
    def start(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
        """A state at that height (m) and velocity (m/s), with their covariance (2, 2), in that phase."""

    @abstractmethod
    def going_on(self, state: Array, old: Array) -> Array:
        """That state with the clock and the filtered readings of an older one."""

    @abstractmethod
    def run(
        self,
        parameters: Array,
        length: float,
        gravity: float,
        nominal_dt: float,
        state: Array,
        samples: Samples,
        accelerations: Array,
        usable: NDArray[np.uint8],
        out: Array,
        events: Array,
    ) -> int:
        """Filter samples; the number of events found. Arguments as those of `vertical_kernels.filter_samples`."""


class VerticalFilter(StateFilter):
    """KF1, KF2 or KF3."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def start(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
        """A state; the bias of KF2 starts at zero, what zeroing leaves."""
        state = np.zeros(kernels.STATE_SIZE)
        state[kernels.S_Z], state[kernels.S_V], state[kernels.S_PHASE] = height_m, velocity_m_s, phase
        state[[kernels.S_PZZ, kernels.S_PZV, kernels.S_PVV]] = covariance[0, 0], covariance[0, 1], covariance[1, 1]
        state[kernels.S_SINCE] = _SINCE_DROP_S if phase == DROP else 0.0
        if self.kind == kernels.KF2:
            state[kernels.S_PBB] = _ZEROED_BIAS_VARIANCE
        return state

    def going_on(self, state: Array, old: Array) -> Array:
        """That state with the clock and the filtered readings of an older one."""
        kept = [
            kernels.S_Y1,
            kernels.S_Y2,
            kernels.S_H1,
            kernels.S_H2,
            kernels.S_H3,
            kernels.S_STARTED,
            kernels.S_TIME,
        ]
        state[kept] = old[kept]
        return state

    def run(
        self,
        parameters: Array,
        length: float,
        gravity: float,
        nominal_dt: float,
        state: Array,
        samples: Samples,
        accelerations: Array,
        usable: NDArray[np.uint8],
        out: Array,
        events: Array,
    ) -> int:
        """Filter samples; the number of events found."""
        return kernels.filter_samples(
            self.kind,
            parameters,
            length,
            gravity,
            nominal_dt,
            state,
            samples.dt,
            np.ascontiguousarray(accelerations[:, 0]),
            np.ascontiguousarray(accelerations[:, 1]),
            usable,
            samples.goal,
            samples.thrust,
            out,
            events,
        )


class ErrorStateFilter(StateFilter):
    """ESKF1 or ESKF2."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def start(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
        """A state without tilt and biases."""
        state = errors.start_state(height_m, velocity_m_s, covariance, phase)
        state[errors.X_SINCE] = _SINCE_DROP_S if phase == DROP else 0.0
        return state

    def going_on(self, state: Array, old: Array) -> Array:
        """That state with the clock and the filtered readings of an older one."""
        kept = [
            errors.X_Y1,
            errors.X_Y2,
            errors.X_H1,
            errors.X_H2,
            errors.X_H3,
            errors.X_SIDE_X,
            errors.X_SIDE_Y,
            errors.X_STARTED,
            errors.X_TIME,
        ]
        state[kept] = old[kept]
        return state

    def run(
        self,
        parameters: Array,
        length: float,
        gravity: float,
        nominal_dt: float,
        state: Array,
        samples: Samples,
        accelerations: Array,
        usable: NDArray[np.uint8],
        out: Array,
        events: Array,
    ) -> int:
        """Filter samples; the number of events found."""
        return errors.filter_error_samples(
            self.kind,
            parameters,
            length,
            gravity,
            nominal_dt,
            state,
            samples.dt,
            np.ascontiguousarray(accelerations[:, 0]),
            np.ascontiguousarray(accelerations[:, 1]),
            usable,
            samples.goal,
            samples.thrust,
            np.ascontiguousarray(accelerations[:, 2:]),
            out,
            events,
        )


class EncoderFilter(StateFilter):
    """BA1 or DR1, the baselines with a leg encoder; they have no parameters to train. `fit`: see `baselines`."""

    def __init__(self, kind: int, robot: HopperBody, fit: baselines.LiftoffFit) -> None:
        self.kind = kind
        self._parameters = baselines.encoder_parameters(kind, robot.body_mass_kg, robot.leg_mass_kg, fit=fit)

    def start(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
        """A state; liftoff is known from the first stance on."""
        return baselines.start_state(height_m, velocity_m_s, covariance, phase)

    def going_on(self, state: Array, old: Array) -> Array:
        """That state with the clock and the encoder's readings of an older one."""
        state[encoder.C_TIME :] = old[encoder.C_TIME :]
        return state

    def run(
        self,
        parameters: Array,
        length: float,
        gravity: float,
        nominal_dt: float,
        state: Array,
        samples: Samples,
        accelerations: Array,
        usable: NDArray[np.uint8],
        out: Array,
        events: Array,
    ) -> int:
        """Filter samples; the number of events found."""
        return encoder.filter_encoder_samples(
            self.kind,
            self._parameters,
            length,
            gravity,
            nominal_dt,
            state,
            samples.dt,
            np.ascontiguousarray(accelerations[:, 0]),
            np.ascontiguousarray(accelerations[:, 1]),
            usable,
            samples.leg,
            out,
            events,
        )


_VERTICAL = {"kf1": kernels.KF1, "kf2": kernels.KF2, "kf3": kernels.KF3, "kf3_kf1": kernels.KF3}
_ERROR_STATE = {"eskf1": errors.ESKF1, "eskf2": errors.ESKF2}
_ENCODER = {
    "ba1": (encoder.BA1, baselines.PUBLISHED),
    "dr1": (encoder.DR1, baselines.PUBLISHED),
    "ba1_best": (encoder.BA1, baselines.BEST),
    "dr1_best": (encoder.DR1, baselines.BEST),
}


ENCODER_NAMES = tuple(_ENCODER)
"""Estimators that need the leg's encoder."""
BIAS_NAMES = ("kf2", "eskf2")
"""Estimators that need the motors' duty cycles."""


def state_filter(name: str, robot: HopperBody) -> StateFilter:
    """The filter of that name; UserError with those there are."""
    if name in _VERTICAL:
        return VerticalFilter(_VERTICAL[name])
    if name in _ERROR_STATE:
        return ErrorStateFilter(_ERROR_STATE[name])
    if name in _ENCODER:
        kind, fits = _ENCODER[name]
        return EncoderFilter(kind, robot, fits[kind])
    raise UserError(f"no estimator {name!r}; the hopper has {', '.join(filter_names())}")


def filter_names() -> tuple[str, ...]:
    """All there are; the first is the default."""
    return "kf1", "kf2", "eskf1", "eskf2", "kf3", "kf3_kf1", *_ENCODER
