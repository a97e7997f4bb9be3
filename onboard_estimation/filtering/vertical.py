"""States of a body that moves up and down, of which nothing else is estimated."""

from __future__ import annotations

from onboard_estimation.filtering.state_space import StateSpace

HEIGHT, VERTICAL_VELOCITY = "height", "vertical_velocity"


def is_vertical(space: StateSpace) -> bool:
    """Whether a state has the blocks `height` (m) and `vertical_velocity` (m/s), one number each, and no place."""
    sizes = {block.name: block.dimension for block in space.blocks}
    return sizes.get(HEIGHT) == sizes.get(VERTICAL_VELOCITY) == 1 and not {"pose", "position"} & sizes.keys()
