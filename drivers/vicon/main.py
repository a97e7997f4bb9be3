"""Executables `vicon` and `vicon_emulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

vicon = NodeExecutable("drivers.vicon.node:ViconNode")
vicon_emulator = NodeExecutable("drivers.emulators.vicon_node:ViconEmulatorNode")
