"""Executables of the drivers and of their emulators."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

ethercat_wrench = NodeExecutable("drivers.ethercat.node:EthercatWrenchNode")
ethercat_wrench_emulator = NodeExecutable("drivers.emulators.ethercat_node:EthercatEmulatorNode")
hebi = NodeExecutable("drivers.hebi.node:HebiNode")
optitrack = NodeExecutable("drivers.motion_capture.node:OptitrackNode")
optitrack_emulator = NodeExecutable("drivers.emulators.motion_capture_nodes:OptitrackEmulatorNode")
serial_imu = NodeExecutable("drivers.serial_imu.node:SerialImuNode")
vicon = NodeExecutable("drivers.motion_capture.node:ViconNode")
vicon_emulator = NodeExecutable("drivers.emulators.motion_capture_nodes:ViconEmulatorNode")
