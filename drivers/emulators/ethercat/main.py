"""Executable `ethercat_wrench_emulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

ethercat_wrench_emulator = NodeExecutable("drivers.emulators.ethercat.node:EthercatEmulatorNode")
