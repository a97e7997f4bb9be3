"""Executable `serial_imu`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

serial_imu = NodeExecutable("drivers.serial_imu.node:SerialImuNode")
