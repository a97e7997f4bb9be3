"""The hopper's state filters by name: each is a compiled function over arrays of samples, and how its state starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import baselines, bounce_encoder, phase_kernels
from hopper_estimation import bounce_state as bounce
from hopper_estimation import encoder_kernels as encoder
from hopper_estimation import error_state_kernels as errors
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.bounce_kernels import filter_bounces
from hopper_estimation.configuration import HopperBody, HopperConfiguration
from hopper_estimation.phases import DROP
from hopper_estimation.samples import NOMINAL_DT_S
from hopper_estimation.vertical_kernels import Body, Signals
from onboard_estimation.errors import UserError

Array = NDArray[np.float64]

_SINCE_DROP_S = 0.05
_ZEROED_BIAS_VARIANCE = 0.01
_FEW = 64


class Filtered(NamedTuple):
    """What came of N samples.

    Attributes
    ----------
    out
        (N, 6): height, velocity, their covariance as the filter has it (zz, zv, vv), phase; height above the ground
        below. (N, 9) of a filter that tells the ground: its height, and what that adds to zz and zv.
    events
        (E, EVENT_SIZE), see `vertical_kernels`; times since the filter's start, s.
    """

    out: Array
    events: Array


@dataclass(frozen=True)
class StateFilter:
    """A filter of height and vertical velocity with its phase logic; its state is an array.

    Attributes
    ----------
    kind
        Which of its kernel's filters.
    kernel
        As `vertical_kernels.filter_samples`.
    new_state
        Height (m), velocity (m/s), their covariance (2, 2) and the phase to a state before the first sample.
    kept
        Elements of the state that go on when height and velocity are set: the clock and filtered readings.
    since
        Element that holds for how long the phase has lasted; None: it starts at zero whatever the phase.
    parameters
        Its own; None: the trained ones.
    tells_ground
        Whether it estimates the ground's height, where that changes.
    """

    kind: int
    kernel: Callable[[int, Array, Body, Array, Signals, Array, Array], int]
    new_state: Callable[[float, float, Array, int], Array]
    kept: list[int]
    since: int | None = None
    parameters: Array | None = None
    tells_ground: bool = False

    def start(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
        """A state at that height and velocity, with their covariance (2, 2), in that phase."""
        state = self.new_state(height_m, velocity_m_s, covariance, phase)
        if self.since is not None and phase == DROP:
            state[self.since] = _SINCE_DROP_S
        return state

    def going_on(self, state: Array, old: Array) -> Array:
        """That state with the clock and the filtered readings of an older one."""
        state[self.kept] = old[self.kept]
        return state

    def run(self, parameters: Array, configuration: HopperConfiguration, state: Array, signals: Signals) -> Filtered:
        """Filter samples that follow on those before; `state` is changed.

        `parameters` (PARAMETER_COUNT,) are those of `vertical_kernels`.
        """
        out = np.empty((len(signals.dt), 9 if self.tells_ground else 6))
        # No leg makes more than four events in 20 ms, and no sample more than four.
        count = len(out)
        most = 4 * count if count <= _FEW else int(200.0 * float(signals.dt.sum()))
        events = np.empty((4 + most, phase_kernels.EVENT_SIZE))
        own = parameters if self.parameters is None else self.parameters
        found = self.kernel(self.kind, own, kernel_body(configuration), state, signals, out, events)
        return Filtered(out, events[: min(found, len(events))])


def kernel_body(configuration: HopperConfiguration) -> Body:
    """What kernels know of a robot, and of the ground."""
    robot, step_m = configuration.robot, configuration.ground_step_stddev_m
    return Body(
        robot.standing_height_m, robot.gravity_m_s2, NOMINAL_DT_S, step_m if configuration.ground_changes else 0.0
    )


def _zeroed_bias(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
    """The bias of KF2 starts at zero, what zeroing leaves."""
    state = kernels.start_state(height_m, velocity_m_s, covariance, phase)
    state[kernels.S_PBB] = _ZEROED_BIAS_VARIANCE
    return state


_VERTICAL = {"kf1": kernels.KF1, "kf2": kernels.KF2, "kf3": kernels.KF3, "kf3_kf1": kernels.KF3}
_VERTICAL_KEPT = [
    *(kernels.S_Y1, kernels.S_Y2, kernels.S_H1, kernels.S_H2, kernels.S_H3, kernels.S_STARTED, kernels.S_TIME)
]
_ERROR_STATE = {"eskf1": errors.ESKF1, "eskf2": errors.ESKF2}
_ERROR_STATE_KEPT = [
    *(errors.X_Y1, errors.X_Y2, errors.X_H1, errors.X_H2, errors.X_H3, errors.X_SIDE_X, errors.X_SIDE_Y),
    *(errors.X_STARTED, errors.X_TIME),
]
_BOUNCE_KEPT = [
    *(bounce.BIAS, bounce.BB, bounce.BOUNCE, bounce.CC, bounce.SEEN, bounce.RATIOS),
    *(bounce.Y1, bounce.Y2, bounce.H1, bounce.H2, bounce.H3, bounce.STARTED, bounce.TIME),
]
_BASELINES = {
    "ba1": (encoder.BA1, baselines.PUBLISHED),
    "dr1": (encoder.DR1, baselines.PUBLISHED),
    "ba1_best": (encoder.BA1, baselines.BEST),
    "dr1_best": (encoder.DR1, baselines.BEST),
}

ENCODER_NAMES = ("bounce_encoder", *_BASELINES)
"""Estimators that need the leg's encoder; they have no parameters of their own to train."""
BIAS_NAMES = ("kf2", "eskf2")
"""Estimators that need the motors' duty cycles."""


def state_filter(name: str, robot: HopperBody) -> StateFilter:
    """The filter of that name; UserError with those there are."""
    if name == "bounce":
        return StateFilter(0, filter_bounces, bounce.start_state, _BOUNCE_KEPT, bounce.SINCE, tells_ground=True)
    if name in _VERTICAL:
        new = _zeroed_bias if name == "kf2" else kernels.start_state
        return StateFilter(_VERTICAL[name], kernels.filter_samples, new, _VERTICAL_KEPT, kernels.S_SINCE)
    if name in _ERROR_STATE:
        kernel = errors.filter_error_samples
        return StateFilter(_ERROR_STATE[name], kernel, errors.start_state, _ERROR_STATE_KEPT, errors.X_SINCE)
    if name == "bounce_encoder":
        leg = baselines.encoder_parameters(encoder.DR1, robot.body_mass_kg, robot.leg_mass_kg)
        kept = [*_BOUNCE_KEPT, *bounce_encoder.KEPT]
        both = partial(bounce_encoder.filter_bounces_with_leg, leg)
        return StateFilter(0, both, bounce_encoder.start_state, kept, bounce.SINCE, tells_ground=True)
    if name in _BASELINES:
        kind, fits = _BASELINES[name]
        own = baselines.encoder_parameters(kind, robot.body_mass_kg, robot.leg_mass_kg, fit=fits[kind])
        kept = list(range(encoder.C_TIME, encoder.STATE_SIZE))
        kernel = encoder.filter_encoder_samples
        return StateFilter(kind, kernel, baselines.start_state, kept, parameters=own)
    raise UserError(f"no estimator {name!r}; the hopper has {', '.join(filter_names())}")


def filter_names() -> tuple[str, ...]:
    """All there are; the first is the default."""
    return "bounce", "bounce_encoder", "kf1", "kf2", "eskf1", "eskf2", "kf3", "kf3_kf1", *_BASELINES
