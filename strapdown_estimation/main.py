"""Executable `strapdown_estimator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("strapdown_estimation.nodes:StrapdownEstimatorNode")
