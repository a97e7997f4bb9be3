"""Executable `turntable_estimator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("turntable_node:TurntableNode")
