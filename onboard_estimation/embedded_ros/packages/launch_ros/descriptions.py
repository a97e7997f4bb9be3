"""Descriptions of parameters, under their other name."""

from __future__ import annotations

from launch._unsupported import refuse
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue

__all__ = ["ParameterFile", "ParameterValue"]

__getattr__ = refuse(__name__, ("ComposableNode", "Parameter"))
