"""Executable `ethercat_wrench`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

ethercat_wrench = NodeExecutable("drivers.ethercat.node:EthercatWrenchNode")
