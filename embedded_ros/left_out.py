"""What a node could not read: counted, and said at most once a second. For nodes of a real ROS 2 as well."""

from __future__ import annotations

import time
from collections.abc import Callable

_PERIOD_S = 1.0


class LeftOut:
    """Tells what is left out of a topic or service; `what` as in "a message on /imu"."""

    def __init__(self, what: str, tell: Callable[[str], object]) -> None:
        self._what, self._tell = what, tell
        self._said_s = -_PERIOD_S
        self.count = 0

    def __call__(self, error: Exception) -> None:
        """One was left out because of the error."""
        self.count += 1
        now_s = time.monotonic()
        if now_s - self._said_s >= _PERIOD_S:
            self._said_s = now_s
            so_far = f" ({self.count} so far)" if self.count > 1 else ""
            self._tell(f"{self._what} is left out{so_far}: {error}")
