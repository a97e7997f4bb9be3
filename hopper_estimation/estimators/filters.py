"""The hopper's state filters by name: each is a compiled function over samples, and how its state starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hopper_estimation.estimators import bounce_events as bounce
from hopper_estimation.estimators import bounce_kernels
from hopper_estimation.estimators import encoder_kernels as encoder
from hopper_estimation.estimators import error_state_kernels as errors
from hopper_estimation.estimators import vertical_kernels as vertical
from hopper_estimation.estimators.samples import NOMINAL_DT_S
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperBody, HopperConfiguration
from hopper_estimation.model.phases import Array, Body, Records
from onboard_estimation.base.errors import UserError

State = tuple[Records, ...]
_FEW = 64


class Filtered(NamedTuple):
    """What came of N samples.

    Attributes
    ----------
    out
        (N, 6): height, velocity, their covariance as the filter has it (zz, zv, vv), phase; height above the ground
        below. (N, 9) of a filter that tells the ground: its height, and what that adds to zz and zv. (N, 2) where no
        more than height and velocity was asked for.
    events
        (E,) of `phases.EVENT`; times since the filter's start, s.
    """

    out: Array
    events: Records


@dataclass(frozen=True)
class StateFilter:
    """A filter of height and vertical velocity with its phase logic.

    Attributes
    ----------
    starts
        Height (m), velocity (m/s), their covariance (2, 2) and the phase to the parts of a state before any sample.
    kernel
        Parameters (PARAMETER_COUNT,) of `phases`, robot, parts of the state, samples, `out` and `events` to how many
        events there are; the last two are written, the state is changed.
    kept
        Fields of each part that go on when height and velocity are set: the clock and filtered readings.
    columns
        Of what it tells; nine: it estimates the ground's height, where that changes.
    """

    starts: tuple[Callable[[float, float, Array, int], Records], ...]
    kernel: Callable[..., int]
    kept: tuple[Sequence[str], ...]
    columns: int = 6

    def new_state(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> State:
        """Before the first sample."""
        return tuple(start(height_m, velocity_m_s, covariance, phase) for start in self.starts)

    def set_to(self, old: State, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> State:
        """A state at that height and velocity, with the clock and the filtered readings of an older one."""
        state = self.new_state(height_m, velocity_m_s, covariance, phase)
        for part, old_part, names in zip(state, old, self.kept, strict=True):
            for name in names:
                part[name] = old_part[name]
        return state

    def run(
        self, parameters: Array, body: Body, state: State, signals: Records, room: Filtered | None = None
    ) -> Filtered:
        """Filter samples that follow on those before; `state` is changed, and `room` is written, if there is any."""
        if room is None:
            # No leg makes more than four events in 20 ms, and no sample more than four.
            count = len(signals)
            most = 4 * count if count <= _FEW else int(200.0 * float(signals["dt"].sum()))
            room = Filtered(np.empty((count, self.columns)), np.empty(4 + most, phases.EVENT))
        out = room.out[: len(signals)]
        found = self.kernel(parameters, body, *state, signals, out, room.events)
        return Filtered(out, room.events[:found])


def body_of(configuration: HopperConfiguration) -> Body:
    """What kernels know of a robot, and of the ground."""
    robot, step_m = configuration.robot, configuration.ground_step_stddev_m
    return Body(
        robot.standing_height_m, robot.gravity_m_s2, NOMINAL_DT_S, step_m if configuration.ground_changes else 0.0
    )


_HEARD = ("begun", "time", "y1", "y2", "h1", "h2", "h3")
_BOUNCE_KEPT = (*_HEARD, "bias", "bb", "bounce", "cc", "seen", "ratios")
_VERTICAL = {"kf1": vertical.KF1, "kf2": vertical.KF2, "kf3": vertical.KF3, "kf3_kf1": vertical.KF3}
_ERROR_STATE = {"eskf1": errors.ESKF1, "eskf2": errors.ESKF2}

ENCODER_NAMES = ("bounce_encoder", *encoder.BASELINES)
"""Estimators that need the leg's encoder; they have no parameters of their own to train."""
BIAS_NAMES = ("kf2", "eskf2")
"""Estimators that need the motors' duty cycles."""


def state_filter(name: str, robot: HopperBody) -> StateFilter:
    """The filter of that name; UserError with those there are."""
    masses = robot.body_mass_kg, robot.leg_mass_kg
    if name == "bounce":
        return StateFilter((bounce.start_state,), bounce_kernels.run, (_BOUNCE_KEPT,), 9)
    if name in _VERTICAL:
        new = (
            partial(vertical.start_state, bias=vertical.ZEROED_BIAS_VARIANCE) if name == "kf2" else vertical.start_state
        )
        return StateFilter((new,), partial(vertical.run, _VERTICAL[name]), (_HEARD,))
    if name in _ERROR_STATE:
        kept = (*_HEARD, "side_x", "side_y")
        return StateFilter((errors.start_state,), partial(errors.run, _ERROR_STATE[name]), (kept,))
    if name == "bounce_encoder":
        leg = encoder.encoder_of("dr1_best", *masses)
        starts = bounce.start_state, encoder.start_state, encoder.start_both
        kept_parts = _BOUNCE_KEPT, (), ("own_done", "leg_done", "ratios")
        return StateFilter(starts, partial(encoder.run_both, leg), kept_parts, 9)
    if name in encoder.BASELINES:
        own = encoder.encoder_of(name, *masses)

        def kernel(_: Array, *rest: Any) -> int:
            return encoder.run(own, *rest)

        return StateFilter((encoder.start_state,), kernel, (("time", "count", "read"),))
    raise UserError(f"no estimator {name!r}; the hopper has {', '.join(filter_names())}")


def filter_names() -> tuple[str, ...]:
    """All there are; the first is the default."""
    return "bounce", "bounce_encoder", "kf1", "kf2", "eskf1", "eskf2", "kf3", "kf3_kf1", *encoder.BASELINES
