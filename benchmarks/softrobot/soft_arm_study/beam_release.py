"""A clamped beam that is let go under gravity: how far it sags, how fast it rings, how soon it stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.softrobot.soft_arm_study.marked_bodies import TipMotion, read_tip_motion
from benchmarks.softrobot.soft_arm_study.ring_down import Measured, Reading, agreed, ring_down

SETTLED_S = 1.0
"""At the end of a recording, which the sag is averaged over."""
LET_GO_S, RUNG_S = 0.12, 2.2
"""Between these ages the ring-down is read: before, the hand may still touch; later, it is over."""


@dataclass(frozen=True)
class Release:
    """What one recording says.

    Attributes
    ----------
    load_kg
        At the end of the beam.
    sag_m
        Of the markers' middle, downwards, from where it was held; uncertain by the scatter of where it is held.
    turn_rad
        Of the markers about the horizontal axis, final, from the attitude that was held; no uncertainty is known.
    frequency_hz, damping_ratio
        From the height and from the turn, by all ways of `ring_down`.
    readings
        These, by the signal.
    """

    load_kg: float
    sag_m: Measured
    turn_rad: float
    frequency_hz: Measured
    damping_ratio: Measured
    readings: Mapping[str, list[Reading]]


def read_releases(recordings: Mapping[float, Path]) -> list[Release]:
    """Recordings (.c3d) of one beam by their loads in kg, lightest first; two at least.

    Down is that axis of the capture along which the tip sags most.

    Raises
    ------
    UserError
        As `read_tip_motion` and `ring_down`.
    """
    motions = {load_kg: read_tip_motion(path) for load_kg, path in sorted(recordings.items())}
    last = motions[max(motions)].displacements_m[-1]
    axis = int(np.argmax(np.abs(last)))
    sign = float(np.sign(last[axis]))
    held = np.array([motion.resting_offset_m[axis] for motion in motions.values()])
    return [_release(load_kg, one, axis, sign, float(np.std(held, ddof=1))) for load_kg, one in motions.items()]


def _release(load_kg: float, motion: TipMotion, axis: int, sign: float, held_stddev_m: float) -> Release:
    heights = sign * motion.displacements_m[:, axis]
    horizontal = int(np.argmax(np.abs(motion.turns_rad[-1])))
    turns = motion.turns_rad[:, horizontal] * np.sign(motion.turns_rad[-1, horizontal])
    settled = motion.between(motion.times_s[-1] - SETTLED_S, motion.times_s[-1])
    ringing = motion.between(LET_GO_S, RUNG_S)
    readings = {
        signal: ring_down(motion.times_s[ringing], values[ringing])
        for signal, values in (("height", heights), ("turn", turns))
    }
    every = [one for ways in readings.values() for one in ways]
    return Release(
        load_kg=load_kg,
        sag_m=Measured(float(heights[settled].mean()), held_stddev_m),
        turn_rad=float(turns[settled].mean()),
        frequency_hz=agreed([one.frequency_hz for one in every]),
        damping_ratio=agreed([one.damping_ratio for one in every]),
        readings=readings,
    )
