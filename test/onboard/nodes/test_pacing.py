"""Measurements that wait for the sensors that the estimates come with."""

from __future__ import annotations

import numpy as np

from onboard_estimation.base.measurement import Measurement
from onboard_estimation.nodes.pacing import PATIENCE_S, Instant, PacedIntake


class Intake:
    """A paced intake with a clock of its own, and what it handed on."""

    def __init__(self, pace: tuple[str, ...] = ("imu",)) -> None:
        self.now_s = 100.0
        self.handed_on: list[tuple[str, int]] = []
        self.paced = PacedIntake(
            lambda one: self.handed_on.append((one.sensor, one.stamp_ns)), pace, lambda: self.now_s
        )

    def add(self, sensor: str, *stamps_ns: int) -> list[tuple[str, int]]:
        """Add measurements; what is handed on for it."""
        before = len(self.handed_on)
        for stamp_ns in stamps_ns:
            self.paced.add(Measurement(stamp_ns, sensor, np.zeros(1)))
        return self.handed_on[before:]


def test_what_is_ahead_waits_and_goes_on_in_order() -> None:
    """As after a stall: a slow topic is read to its end before the fast one."""
    intake = Intake()
    assert intake.add("imu", 1) == [("imu", 1)]
    assert intake.add("command", 3, 6) == []
    assert intake.add("attitude", 2, 3) == []
    assert intake.add("imu", 2, 3) == [("attitude", 2), ("imu", 2), ("command", 3), ("attitude", 3), ("imu", 3)]
    assert intake.add("attitude", 1) == [("attitude", 1)]  # late anyway
    assert intake.add("imu", 9) == [("command", 6), ("imu", 9)]


def test_a_silent_sensor_holds_the_others_up_once() -> None:
    intake = Intake()
    intake.add("imu", 1)
    assert intake.add("command", 3, 2) == []
    intake.now_s += 1.1 * PATIENCE_S
    assert intake.add("command", 4) == [("command", 2), ("command", 3), ("command", 4)]
    assert intake.add("command", 5) == [("command", 5)]
    # It is heard again.
    assert intake.add("imu", 6) == [("imu", 6)]
    assert intake.add("command", 7) == []


def test_a_sensor_that_is_far_behind_but_goes_on_is_waited_for() -> None:
    """It takes longer than the patience to work off a queue: each of its measurements shows that it is alive."""
    intake = Intake()
    intake.add("imu", 0)
    intake.add("command", 1000)
    for stamp_ns in range(1, 20):
        intake.now_s += 0.5 * PATIENCE_S
        assert intake.add("imu", stamp_ns) == [("imu", stamp_ns)]
        assert intake.add("command", 1000 + stamp_ns) == []


def test_a_bag_that_starts_again_and_a_reset() -> None:
    intake = Intake()
    intake.add("imu", 1000)
    intake.add("command", 1001)
    assert intake.add("command", 1) == [("command", 1)]
    assert intake.add("imu", 1) == [("imu", 1)]
    intake.paced.clear()
    assert intake.add("imu", 2000) == [("imu", 2000)]  # what waited is forgotten


def test_any_of_the_pacing_sensors_is_waited_for() -> None:
    """IMUs of the links keep step; one that falls silent holds nothing up."""
    intake = Intake(("imu/1", "imu/2"))
    intake.add("imu/1", 1)
    intake.add("imu/2", 1)
    assert intake.add("command", 4, 8) == []
    assert intake.add("imu/2", 2, 5) == [("imu/2", 2), ("command", 4), ("imu/2", 5)]
    assert intake.add("imu/2", 9) == [("command", 8), ("imu/2", 9)]


def test_an_instant_is_complete_once_all_that_measure_together_have_come() -> None:
    instant = Instant(["imu/1", "imu/2", "imu/3"])

    def seen(stamp_ns: int, *sensors: str) -> bool:
        for sensor in sensors:
            instant.see(Measurement(stamp_ns, sensor, np.zeros(1)))
        return instant.is_complete

    assert seen(1, "imu/1")  # nothing is known of the others yet
    assert seen(1, "imu/2", "imu/3")
    assert not seen(2, "imu/1", "command")
    assert not seen(2, "imu/2")
    assert seen(2, "imu/3")
    assert not seen(3, "imu/1", "imu/2")
    instant.forget()  # the third may have fallen silent
    assert seen(4, "imu/1", "imu/2")
    assert not seen(5, "imu/2")
    assert seen(9, "imu/3", "imu/1")
    assert instant.period_ns == 4
