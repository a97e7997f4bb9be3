"""How a thruster chain looks: for markers, the live picture and the URDF."""

from __future__ import annotations

import math

from onboard_estimation.description import Shape
from salp_estimation.description import Hinge, links_urdf
from salp_estimation.thruster_chain.configuration import ChainConfiguration

_BODY_LENGTH, _BODY_WIDTH, _BODY_HEIGHT = 0.94, 0.22, 0.12
_FAN_LENGTH, _FAN_DIAMETER = 0.2, 0.12
_JOINT_DIAMETER, _JOINT_HEIGHT = 0.09, 0.18
"""All as shares of the length of the link."""


def chain_shapes(chain: ChainConfiguration) -> dict[str, tuple[Shape, ...]]:
    """Links as boxes, thrusters as cylinders along their thrust, joints as pins at the front ends; in links' frames."""
    return {name: _link_shapes(chain, link) for link, name in enumerate(chain.link_names)}


def chain_urdf(chain: ChainConfiguration, name: str) -> str:
    """URDF for `robot_state_publisher`; joints are named as in `joint_states`."""
    travel = math.radians(chain.joint_travel_deg)
    hinges = [Hinge(f"joint_{joint}", -travel, travel, 0.0) for joint in range(1, chain.count)]
    return links_urdf(name, chain.link_names, chain.link_lengths_m, hinges, chain_shapes(chain))


def _link_shapes(chain: ChainConfiguration, link: int) -> tuple[Shape, ...]:
    length = chain.link_lengths_m[link]
    box = Shape("box", (_BODY_LENGTH * length, _BODY_WIDTH * length, _BODY_HEIGHT * length))
    # A cylinder's axis is z: tipped over onto x, then turned into the direction of the thrust.
    fan = Shape(
        "cylinder",
        (_FAN_DIAMETER * length, _FAN_DIAMETER * length, _FAN_LENGTH * length),
        (chain.thruster_x_m[link], chain.thruster_y_m[link], 0.5 * _BODY_HEIGHT * length),
        (0.0, 0.5 * math.pi, chain.thruster_angles_rad[link]),
        "wheel",
    )
    if link == chain.count - 1:
        return box, fan
    pin = (_JOINT_DIAMETER * length, _JOINT_DIAMETER * length, _JOINT_HEIGHT * length)
    return box, fan, Shape("cylinder", pin, (0.5 * length, 0.0, 0.0), part="joint")
