"""What launch files know of nodes: when one is given up, and the topics that those of a robot publish.

One that cannot start would be started again for ever, and its reason scroll away. Topics of a bag that the nodes
publish themselves would, played as well, stand beside what they make of the bag, under the same names.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from onboard_estimation.base.errors import EXIT_BAD_INPUT

REASON_VARIABLE = "ONBOARD_ESTIMATION_REASON_FILE"
"""Names the file in which a node leaves the sentence on why it did not start, for the launch to repeat."""

QUICK_S = 10.0
MOST_QUICK_DEATHS = 4


class GivesUp:
    """What a launch file does when a node ends: `Node(..., **GivesUp().options)`, one for each node.

    Ends the launch where the node refuses its input (exit code 2) or cannot be imported, and where it has died
    `MOST_QUICK_DEATHS` times, each within `QUICK_S` of the one before; any other death is left to `respawn`. The reason
    is the last that the launch says.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, say_last: Callable[[str], None] | None = None
    ) -> None:
        self._clock, self._say_last = clock, say_last or _say_at_end
        self._deaths = 0
        self._latest_s = -QUICK_S
        folder = Path(tempfile.mkdtemp(prefix="onboard_estimation-launch-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._file = folder / "reason"
        self.options: dict[str, Any] = {"on_exit": self, "additional_env": {REASON_VARIABLE: str(self._file)}}

    def __call__(self, event: Any, context: Any) -> list[Any]:
        """The launch's actions after a ProcessExited event."""
        from launch.actions import LogInfo, Shutdown

        if event.returncode == 0 or context.is_shutdown:
            return []
        now_s = self._clock()
        self._deaths = self._deaths + 1 if now_s - self._latest_s <= QUICK_S else 1
        self._latest_s = now_s
        if event.returncode != EXIT_BAD_INPUT and self._deaths < MOST_QUICK_DEATHS:
            return []
        sentence = f"{event.process_name} {self._what(event.returncode)}: {self._reason()}"
        self._say_last(f"error: {sentence}")
        return [LogInfo(msg=sentence), Shutdown(reason=sentence)]

    def _what(self, code: int) -> str:
        if code == EXIT_BAD_INPUT:
            return "cannot start"
        how = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        return f"has died {self._deaths} times within seconds ({how}) and is not started again"

    def _reason(self) -> str:
        try:
            return self._file.read_text(encoding="utf-8").strip()
        except OSError:
            return "what it said before tells why"


def _say_at_end(sentence: str) -> None:
    atexit.register(lambda: print(sentence, file=sys.stderr, flush=True))


def leave_reason(sentence: str) -> None:
    """Tell the launch that started this process, where one did, why it ends."""
    if name := os.environ.get(REASON_VARIABLE):
        with suppress(OSError):
            Path(name).write_text(sentence, encoding="utf-8")


_IN_NAMESPACE = (
    "odometry",
    "path",
    "joint_states",
    "joint_states_stddev",
    "inertial_parameters",
    "inertial_parameters_stddev",
    "observability",
    "observability_forecast",
    "state",
    "state_covariance",
    "phase_events",
    "phase_state",
    "phase",
    "apex",
    "stiffness_map",
    "markers",
)
_OF_ALL = ("/tf", "/tf_static", "/diagnostics", "/rosout", "/parameter_events")


def published_topics(namespace: str) -> list[str]:
    """Full names, for a robot in that namespace (`salp`, `/fleet/salp`, or empty)."""
    return [name_in(namespace, name) for name in _IN_NAMESPACE] + list(_OF_ALL)


def name_in(namespace: str, name: str) -> str:
    """Full name of a node or topic in that namespace."""
    return "/" + "/".join([*(part for part in namespace.split("/") if part), name])
