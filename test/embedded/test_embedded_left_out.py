"""What cannot be read is counted, and said at most once a second."""

from __future__ import annotations

import pytest

from embedded_ros import left_out
from embedded_ros.left_out import LeftOut


def test_a_flood_is_said_once_a_second_with_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, said = 50.0, list[str]()
    monkeypatch.setattr(left_out.time, "monotonic", lambda: now_s)
    tell = LeftOut("a message on /imu", said.append)
    for number in range(2001):  # a thousand a second
        now_s = 50.0 + 0.001 * number
        tell(ValueError(f"fault {number}"))
    assert tell.count == 2001
    assert said == [
        "a message on /imu is left out: fault 0",
        "a message on /imu is left out (1001 so far): fault 1000",
        "a message on /imu is left out (2001 so far): fault 2000",
    ]
