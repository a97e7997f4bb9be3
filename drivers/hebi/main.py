"""Executable `hebi`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

hebi = NodeExecutable("drivers.hebi.node:HebiNode")
