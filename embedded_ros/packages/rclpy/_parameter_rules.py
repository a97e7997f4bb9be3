"""What a descriptor allows: type, range, steps, read-only."""

from __future__ import annotations

import math
from typing import Any

from rclpy.parameter import Parameter

# Relative tolerance of rclpy for floating-point values at bounds and steps.
REL_TOL = 1e-6


def refusal(parameter: Parameter, descriptor: Any, *, declared: bool, check_read_only: bool) -> str:
    """Why a value is not allowed, "" if it is; the descriptor gets the parameter's name (and type, if dynamic)."""
    descriptor.name = parameter.name
    if check_read_only and descriptor.read_only:
        return f"Trying to set a read-only parameter: {parameter.name}."
    if descriptor.dynamic_typing:
        descriptor.type = parameter.type_.value
    elif parameter.type_ is Parameter.Type.NOT_SET:
        if declared:
            return "Static parameter cannot be undeclared"
    elif parameter.type_.value != descriptor.type:
        return f"Wrong parameter type, expected '{Parameter.Type(descriptor.type)}' got '{parameter.type_}'"
    if parameter.type_ is Parameter.Type.INTEGER and descriptor.integer_range:
        return _integer_refusal(parameter, descriptor.integer_range[0])
    if parameter.type_ is Parameter.Type.DOUBLE and descriptor.floating_point_range:
        return _double_refusal(parameter, descriptor.floating_point_range[0])
    return ""


def _integer_refusal(parameter: Parameter, allowed: Any) -> str:
    low, high = sorted((allowed.from_value, allowed.to_value))
    value = parameter.value
    if value in (low, high):  # bounds are allowed whatever the step is
        return ""
    if not low < value < high:
        return f"Parameter {parameter.name} out of range. Min: {low}, Max: {high}, value: {value}"
    if allowed.step and (value - low) % allowed.step:
        return (
            f"The parameter value for {parameter.name} is not a valid step. "
            f"Min: {low}, max: {high}, value: {value}, step: {allowed.step}"
        )
    return ""


def _double_refusal(parameter: Parameter, allowed: Any) -> str:
    low, high = sorted((allowed.from_value, allowed.to_value))
    value = parameter.value
    if math.isclose(value, low, rel_tol=REL_TOL) or math.isclose(value, high, rel_tol=REL_TOL):
        return ""
    if not low < value < high:
        return f"Parameter {parameter.name} out of range Min: {low}, Max: {high}, value: {value}"
    if allowed.step:
        nearest = low + round((value - low) / allowed.step) * allowed.step
        if not math.isclose(nearest, value, rel_tol=REL_TOL):
            return (
                f"The parameter value for {parameter.name} is not close enough to a valid step. "
                f"Min: {low}, max: {high}, value: {value}, step: {allowed.step}"
            )
    return ""
