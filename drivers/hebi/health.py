"""How the modules fare, as `diagnostic_msgs/DiagnosticArray`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from drivers.hebi.feeds import Feed
from drivers.hebi.module import Module
from onboard_estimation.ros.diagnostics import ERROR, OK, STALE, WARN, status
from onboard_estimation.ros.estimates import New
from onboard_estimation.ros.sensor_messages import header


def health_message(new: New, name: str, stamp_ns: int, modules: Sequence[Module], feed: Feed) -> Any:
    """One status for each module and one for their group; counts since the start, rates since the last report."""
    now_s = time.monotonic()
    statuses = []
    for module in modules:
        well, words, values = module.report(now_s)
        level = STALE if module.is_silent else OK if well else WARN
        statuses.append(status(new, name, module.name, level, words, values))
    counts: dict[str, float] = {"overflow": feed.queue.overflow, "copy_faults": feed.queue.faults}
    if feed.commands is not None:
        counts["commands_forwarded"] = feed.commands.forwarded
        counts["commands_refused"] = feed.commands.refused
        counts["commands_unsent"] = feed.commands.unsent
    troubles = [f"{counts[key]:.0f} {key}" for key in counts if key != "commands_forwarded" and counts[key]]
    level = ERROR if feed.queue.faults else WARN if troubles else OK
    statuses.append(status(new, name, "group", level, ", ".join(troubles) or "running", counts))
    return new("diagnostic_msgs/msg/DiagnosticArray", header=header(new, stamp_ns), status=statuses)
