"""State space in which all estimates of a soft robot are published."""

from __future__ import annotations

from onboard_estimation.filtering.state_space import StateSpace, vector

SPACE = StateSpace(
    vector("position", ("x", "y", "z"), "m"),
    vector("velocity", ("x", "y", "z"), "m/s"),
    vector("stiffness", ("bending",), "N m/rad"),
)
"""Place and velocity of the tip (the middle of its plate's outer face) in the base's frame, and what moment an angle of
bending over the whole length takes now."""
