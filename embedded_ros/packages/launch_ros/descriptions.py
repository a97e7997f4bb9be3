"""Descriptions of parameters, under their other name."""

from __future__ import annotations

from launch_ros.parameter_descriptions import ParameterFile, ParameterValue

__all__ = ["ParameterFile", "ParameterValue"]
