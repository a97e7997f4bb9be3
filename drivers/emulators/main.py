"""Executables of the emulators."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

ethercat_wrench_emulator = NodeExecutable("drivers.emulators.ethercat.node:EthercatEmulatorNode")
optitrack_emulator = NodeExecutable("drivers.emulators.motion_capture_nodes:OptitrackEmulatorNode")
vicon_emulator = NodeExecutable("drivers.emulators.motion_capture_nodes:ViconEmulatorNode")
