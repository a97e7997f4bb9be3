"""Names that rclpy's own `Node` uses for itself, of Humble, Jazzy and Rolling together.

A subclass that takes one of them works here, where `Node` keeps nothing under these names, and breaks with ROS 2: so it
is told. `test_embedded_node_names.py` compares the list with a real rclpy where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rclpy._node_core import NodeCore

_TEXT = """
_Node__executor_weakref _Node__handle _Node__node _Node__waitables _allow_undeclared_parameters _apply_descriptor
_apply_descriptor_and_set _apply_descriptors _apply_floating_point_range _apply_integer_range
_call_post_set_parameters_callback _call_pre_set_parameters_callback _check_undeclared_parameters _clients _clock
_context _count_clients_or_servers _count_publishers_or_subscribers _declare_parameter_common _default_callback_group
_descriptors _get_info_by_topic _guards _logger _logger_service _on_set_parameters_callbacks
_parameter_event_publisher _parameter_overrides _parameter_service _parameters _parameters_callbacks
_post_set_parameters_callbacks _pre_set_parameters_callbacks _publishers _rate_group _services _set_parameters
_set_parameters_atomically _set_parameters_atomically_common _subscriptions _time_source _timers
_type_description_service _validate_qos_or_depth_parameter _validate_topic_or_service_name _wake_executor
"""
NAMES = frozenset(_TEXT.split())


def shadowed(cls: type, attributes: dict[str, Any], base: type, core: NodeCore) -> list[str]:
    """Names of rclpy's own that a subclass of `base`, or one of its objects, has taken for something else."""
    taken = {name for kind in cls.__mro__[: cls.__mro__.index(base)] for name in vars(kind)}
    # What nodes often keep of what `Node` gave them, which is the same object with ROS 2.
    same = {"_logger": core.logger, "_clock": core.clock, "_context": core.context}
    taken |= {name for name, value in attributes.items() if name not in same or same[name] is not value}
    return sorted(taken & NAMES)
