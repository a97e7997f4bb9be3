"""Executables of the drivers."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

ethercat_wrench = NodeExecutable("drivers.ethercat.node:EthercatWrenchNode")
hebi = NodeExecutable("drivers.hebi.node:HebiNode")
optitrack = NodeExecutable("drivers.motion_capture.node:OptitrackNode")
serial_imu = NodeExecutable("drivers.serial_imu.node:SerialImuNode")
vicon = NodeExecutable("drivers.motion_capture.node:ViconNode")
