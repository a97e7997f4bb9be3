"""Converters: functions that read a recording that is no bag, found by entry points as robots are.

    entry_points={"onboard_estimation.converters": ["our_logger = our_package.logger:read_log"]}

The function takes the file, and whether to leave as recorded what it would mend (axes, clocks); it gives the content as
a `Converted`, or raises UserError. The name is the FORMAT of `onboard-estimation convert`, the docstring what
`convert --formats` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording

GROUP = "onboard_estimation.converters"


@dataclass(frozen=True, eq=False, kw_only=True)
class Converted:
    """Content of a file, as a bag shall hold it.

    Attributes
    ----------
    recording
        Sensors and ground truth. Parts of a message that no row measures are NaN throughout.
    epoch_ns
        What to add to the stamps; by default 1 s, for zero is no time in ROS.
    notes
        What was changed or left out, one sentence each.
    counts
        How many there are of what the format counts, for `--json`.
    simulated
        The recording comes from a simulator, whoever's; the bag says so.
    configurations
        What the recording says of a robot, by the robot's name: written into the bag's folder, where `evaluate` and
        `train` take it from.
    """

    recording: Recording
    epoch_ns: int = NANOSECONDS_PER_SECOND
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    simulated: bool = False
    configurations: Mapping[str, Any] = field(default_factory=dict)


Converter = Callable[[Path, bool], Converted]
