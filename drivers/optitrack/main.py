"""Executables `optitrack` and `optitrack_emulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

optitrack = NodeExecutable("drivers.optitrack.node:OptitrackNode")
optitrack_emulator = NodeExecutable("drivers.emulators.optitrack_node:OptitrackEmulatorNode")
