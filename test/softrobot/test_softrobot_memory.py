"""What the soft robot's node holds."""

from __future__ import annotations

import pytest
from node_memory import NEVER, started


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.timeout(400)
@pytest.mark.live
def test_nothing_for_offline_use_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")
    found = started("softrobot", "softrobot_estimation.nodes:SoftRobotNode")
    offline = ("training", "simulator", "ground_truth", "identified", "stiffness_report")
    assert found.loaded(*NEVER, *(f"softrobot_estimation.{name}" for name in offline)) == []
    assert set(found.scipy()) <= {"special"}  # the gate's threshold
    assert found.resident_mb < 180.0
