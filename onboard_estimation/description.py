"""How a robot looks: solids in the frames of its bodies, of which markers, URDF and the live picture are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Shape:
    """A solid that is part of a body's picture.

    Attributes
    ----------
    kind, size_m
        `box`: lengths along x, y, z. `cylinder`: two diameters and the length along its axis z.
    position_m, rpy_rad
        Of its centre in the body's frame; turns about the fixed x, y and z axes, in this order, as URDF has them.
    part
        What it stands for; parts of a kind have one colour.
    """

    kind: Literal["box", "cylinder"]
    size_m: tuple[float, float, float]
    position_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rpy_rad: tuple[float, float, float] = (0.0, 0.0, 0.0)
    part: Literal["body", "wheel", "joint"] = "body"


Shapes = Mapping[str, tuple[Shape, ...]]
"""By body; names as in `Robot.body_poses`."""
