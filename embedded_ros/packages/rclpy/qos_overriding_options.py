"""QoS policies that parameters may override."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any

from rclpy.duration import Duration
from rclpy.exceptions import ParameterAlreadyDeclaredException
from rclpy.qos import QoSPolicyKind, QoSProfile


class InvalidQosOverridesError(Exception):
    """The callback refused a profile with its overrides."""


class QoSOverridingOptions:
    """Which policies become read-only parameters `qos_overrides.<topic>.<publisher or subscription>.<policy>`."""

    def __init__(
        self,
        policy_kinds: Iterable[QoSPolicyKind],
        *,
        callback: Callable[[QoSProfile], Any] | None = None,
        entity_id: str | None = None,
    ) -> None:
        self.policy_kinds = tuple(policy_kinds)
        self.callback = callback
        self.entity_id = entity_id

    @classmethod
    def with_default_policies(
        cls, *, callback: Callable[[QoSProfile], Any] | None = None, entity_id: str | None = None
    ) -> QoSOverridingOptions:
        """History, depth and reliability."""
        kinds = (QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY)
        return cls(kinds, callback=callback, entity_id=entity_id)


def declare_qos_parameters(
    node: Any, kind: str, topic: str, profile: QoSProfile, options: QoSOverridingOptions
) -> None:
    """Declare the parameters of an endpoint and put their values into its profile."""
    from rcl_interfaces.msg import ParameterDescriptor

    suffix = "" if options.entity_id is None else f"_{options.entity_id}"
    for policy in options.policy_kinds:
        if policy is QoSPolicyKind.LIFESPAN and kind == "subscription":
            continue
        field = policy.name.lower()
        name = f"qos_overrides.{topic}.{kind}{suffix}.{field}"
        current = getattr(profile, field)
        descriptor = ParameterDescriptor(description=f"{field} of the {kind} on {topic}", read_only=True)
        try:
            parameter = node.declare_parameter(name, _as_parameter(current), descriptor)
        except ParameterAlreadyDeclaredException:
            parameter = node.get_parameter(name)
        setattr(profile, field, _from_parameter(policy, current, parameter.value))
    if options.callback is not None:
        result = options.callback(profile)
        if not result.successful:
            raise InvalidQosOverridesError(f"QoS overrides of the {kind} on {topic} are not valid: {result.reason}")


def _as_parameter(value: Any) -> Any:
    if isinstance(value, Duration):
        return value.nanoseconds
    return value.name.lower() if isinstance(value, IntEnum) else value


def _from_parameter(policy: QoSPolicyKind, current: Any, value: Any) -> Any:
    if isinstance(current, Duration):
        return Duration(nanoseconds=value)
    if isinstance(current, IntEnum):
        try:
            return type(current)[value.upper()]
        except KeyError:
            raise RuntimeError(f"Unexpected QoS override for policy `{policy.name.lower()}`: `{value}`") from None
    return value
