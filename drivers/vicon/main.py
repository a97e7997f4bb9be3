"""Executable `vicon`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

vicon = NodeExecutable("drivers.vicon.node:ViconNode")
