"""The turntable's estimator as a node."""

from __future__ import annotations

from turntable import ROBOT

from onboard_estimation.nodes.estimator import EstimatorNode


class TurntableNode(EstimatorNode):
    """Angle of the turntable from its gyro."""

    def __init__(self) -> None:
        super().__init__(ROBOT, "turntable_estimator")
