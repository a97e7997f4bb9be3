"""Executables `hopper_estimator`, `hopper_simulator` and `serial_imu_emulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("hopper_estimation.nodes:HopperEstimatorNode")
simulator = NodeExecutable("hopper_estimation.nodes:HopperSimulatorNode")
serial_emulator = NodeExecutable("hopper_estimation.serial_emulator:HopperSerialEmulatorNode")
