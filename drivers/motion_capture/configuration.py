"""Parameters that all nodes of motion capture have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drivers.motion_capture.axes import UP_AXES
from drivers.motion_capture.bodies import parsed_names
from onboard_estimation.configuration import parameter
from onboard_estimation.ros.frames import AUTOMATIC


@dataclass(frozen=True)
class TruthConfiguration:
    """What becomes of the bodies of a stream; a driver's own configuration derives from it."""

    up_axis: str = parameter("z", "of the stream, as its server is set", choices=UP_AXES)
    bodies: tuple[str, ...] = parameter(
        (), 'those to publish, "STREAM_NAME=topic_name"; empty: all, under names of their own'
    )
    publish_tf: bool = parameter(False, "publish world -> truth/<body>; the node markers does so too")
    frame_prefix: str = parameter(AUTOMATIC, 'before the frames of tf; "auto": the node\'s namespace')

    def faults(self) -> Iterable[str]:
        """Names that do not go together."""
        try:
            parsed_names(self.bodies)
        except ValueError as error:
            yield f"bodies: {error}"
