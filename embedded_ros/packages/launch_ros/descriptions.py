"""Descriptions of parameters, under their other name."""

from __future__ import annotations

from launch_ros.parameter_descriptions import ParameterFile, ParameterValue

from embedded_ros.absent import refuse

__all__ = ["ParameterFile", "ParameterValue"]

__getattr__ = refuse(__name__, ("ComposableNode", "Parameter"))
