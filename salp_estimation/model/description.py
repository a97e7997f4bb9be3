"""How the chain looks. What the configuration does not say is drawn in proportion to the links and the wheels.

The URDF is for `robot_state_publisher` and RViz's RobotModel. Its root is the first link, so that `base_link` ->
`link_1` stays the estimator's. Frames `link_i` lie at the centres of the links, as everywhere else here, but a URDF
joint turns the frame that it carries: so each joint carries a frame `<link>_hinge` at the link's rear end, and the link
hangs on it. Joints are named as in `joint_states`.
"""

from __future__ import annotations

import math

import numpy as np

from onboard_estimation.contract.description import (
    Hinge,
    Shape,
    links_urdf,
)
from salp_estimation.model.configuration import ChainConfiguration

_BODY_LENGTH, _BODY_WIDTH, _BODY_HEIGHT = 0.94, 0.28, 0.12
"""Of a link's box, as shares of its length: shorter than the link, so that the joints are seen."""
_WHEEL_WIDTH = 0.5
"""Of a wheel, as a share of its radius."""
_JOINT_DIAMETER, _JOINT_HEIGHT = 0.11, 0.18
"""Of a joint's pin, as shares of the length of the link before it."""


def chain_shapes(chain: ChainConfiguration) -> dict[str, tuple[Shape, ...]]:
    """Links as boxes, joints as pins at the front ends of the links, wheels as discs in their driven direction.

    In the frames at the centres of the links.
    """
    return {name: _link_shapes(chain, index) for index, name in enumerate(chain.link_names)}


def _link_shapes(chain: ChainConfiguration, index: int) -> tuple[Shape, ...]:
    length, diameter = chain.link_lengths_m[index], 2.0 * chain.wheel_radius_m
    box = Shape("box", (_BODY_LENGTH * length, _BODY_WIDTH * length, _BODY_HEIGHT * length))
    # A cylinder's axis is z; a wheel's axle is its frame's y axis, x being the driven direction.
    wheel = Shape(
        "cylinder",
        (diameter, diameter, _WHEEL_WIDTH * chain.wheel_radius_m),
        (chain.wheel_x_m[index], chain.wheel_y_m[index], 0.0),
        (0.5 * math.pi, 0.0, math.radians(chain.wheel_angles_deg[index])),
        "wheel",
    )
    if index == len(chain.link_names) - 1:
        return box, wheel
    pin = (_JOINT_DIAMETER * length, _JOINT_DIAMETER * length, _JOINT_HEIGHT * length)
    return box, wheel, Shape("cylinder", pin, (0.5 * length, 0.0, 0.0), part="joint")


def chain_urdf(chain: ChainConfiguration, name: str = "salp") -> str:
    """The URDF document of a chain, metres and radians; the same configuration gives the same text."""
    names = chain.build().space().block("joint_angles").names
    limits = np.deg2rad(np.column_stack([chain.joint_lower_deg, chain.joint_upper_deg])).tolist()
    hinges = [
        Hinge(name, lower, upper, drag)
        for name, (lower, upper), drag in zip(names, limits, chain.joint_drag, strict=True)
    ]
    return links_urdf(name, chain.link_names, chain.link_lengths_m, hinges, chain_shapes(chain))
