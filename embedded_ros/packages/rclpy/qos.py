"""Quality of service: policies, profiles, and which of them go together."""

from __future__ import annotations

import warnings
from enum import Enum, IntEnum
from typing import Any

from rclpy.duration import Duration


class QoSPolicyKind(IntEnum):
    """Policies of an endpoint, as bits."""

    INVALID = 1 << 0
    DURABILITY = 1 << 1
    DEADLINE = 1 << 2
    LIVELINESS = 1 << 3
    RELIABILITY = 1 << 4
    HISTORY = 1 << 5
    LIFESPAN = 1 << 6
    DEPTH = 1 << 7
    LIVELINESS_LEASE_DURATION = 1 << 8
    AVOID_ROS_NAMESPACE_CONVENTIONS = 1 << 9


def qos_policy_name_from_kind(policy_kind: QoSPolicyKind | int) -> str:
    """Name of a policy, e.g. RELIABILITY."""
    return QoSPolicyKind(policy_kind).name


class InvalidQoSProfileException(Exception):
    """A profile without what it needs."""

    def __init__(self, *args: object) -> None:
        super().__init__("Invalid QoSProfile", *args)


class HistoryPolicy(IntEnum):
    """How many messages are kept."""

    SYSTEM_DEFAULT = 0
    KEEP_LAST = 1
    KEEP_ALL = 2
    UNKNOWN = 3


class ReliabilityPolicy(IntEnum):
    """Whether lost messages are sent again."""

    SYSTEM_DEFAULT = 0
    RELIABLE = 1
    BEST_EFFORT = 2
    UNKNOWN = 3
    BEST_AVAILABLE = 4


class DurabilityPolicy(IntEnum):
    """Whether late subscriptions get earlier messages."""

    SYSTEM_DEFAULT = 0
    TRANSIENT_LOCAL = 1
    VOLATILE = 2
    UNKNOWN = 3
    BEST_AVAILABLE = 4


class LivelinessPolicy(IntEnum):
    """Who says that a publisher is alive."""

    SYSTEM_DEFAULT = 0
    AUTOMATIC = 1
    MANUAL_BY_TOPIC = 3
    UNKNOWN = 4
    BEST_AVAILABLE = 5


QoSHistoryPolicy = HistoryPolicy
QoSReliabilityPolicy = ReliabilityPolicy
QoSDurabilityPolicy = DurabilityPolicy
QoSLivelinessPolicy = LivelinessPolicy

DeadlineBestAvailable = Duration(nanoseconds=2**63 - 2)
LivelinessLeaseDurationeBestAvailable = Duration(nanoseconds=2**63 - 2)

_POLICIES: dict[str, type] = {
    "history": HistoryPolicy,
    "depth": int,
    "reliability": ReliabilityPolicy,
    "durability": DurabilityPolicy,
    "lifespan": Duration,
    "deadline": Duration,
    "liveliness": LivelinessPolicy,
    "liveliness_lease_duration": Duration,
    "avoid_ros_namespace_conventions": bool,
}
_DEFAULTS: dict[str, Any] = {
    "depth": 10,
    "reliability": ReliabilityPolicy.RELIABLE,
    "durability": DurabilityPolicy.VOLATILE,
    "lifespan": Duration(),
    "deadline": Duration(),
    "liveliness": LivelinessPolicy.SYSTEM_DEFAULT,
    "liveliness_lease_duration": Duration(),
    "avoid_ros_namespace_conventions": False,
}


class QoSProfile:
    """Policies of a publisher, subscription, client or service; all by keyword, `depth` or `history` is needed.

    Raises
    ------
    InvalidQoSProfileException
        Neither history nor depth, or KEEP_LAST without a depth.
    AssertionError
        An unknown policy, or a value of the wrong type.
    """

    __slots__ = [f"_{_name}" for _name in _POLICIES]

    history: HistoryPolicy
    depth: int
    reliability: ReliabilityPolicy
    durability: DurabilityPolicy
    lifespan: Duration
    deadline: Duration
    liveliness: LivelinessPolicy
    liveliness_lease_duration: Duration
    avoid_ros_namespace_conventions: bool

    def __init__(self, **kwargs: Any) -> None:
        unknown = sorted(set(kwargs) - set(_POLICIES))
        assert not unknown, f"Invalid arguments passed to constructor: {unknown}"
        if "history" not in kwargs:
            if "depth" not in kwargs:
                raise InvalidQoSProfileException("History and/or depth settings are required.")
            kwargs["history"] = HistoryPolicy.KEEP_LAST
        if kwargs["history"] == HistoryPolicy.KEEP_LAST and "depth" not in kwargs:
            raise InvalidQoSProfileException("History set to KEEP_LAST without a depth setting.")
        for name in _POLICIES:  # history before depth, which looks at it
            setattr(self, name, kwargs[name] if name in kwargs else _DEFAULTS[name])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QoSProfile) and all(getattr(self, name) == getattr(other, name) for name in _POLICIES)

    __hash__ = None  # type: ignore[assignment]  # as in rclpy

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in _POLICIES)})"


def _policy_property(name: str, kind: type) -> property:
    slot = f"_{name}"

    def get(self: QoSProfile) -> Any:
        return getattr(self, slot)

    def put(self: QoSProfile, value: Any) -> None:
        if issubclass(kind, IntEnum):
            assert isinstance(value, int), f"{name} has to be a {kind.__name__}, not {value!r}"
            value = kind(value)
        else:
            assert isinstance(value, kind), f"{name} has to be a {kind.__name__}, not {value!r}"
        if name == "depth" and value == 0 and self.history == HistoryPolicy.KEEP_LAST:
            warnings.warn("KEEP_LAST with depth 0 could store nothing; SYSTEM_DEFAULT is taken instead", stacklevel=4)
        setattr(self, slot, value)

    return property(get, put)


for _name, _kind in _POLICIES.items():
    setattr(QoSProfile, _name, _policy_property(_name, _kind))


_best_effort: dict[str, Any] = {"reliability": ReliabilityPolicy.BEST_EFFORT}
qos_profile_unknown = QoSProfile(
    history=HistoryPolicy.UNKNOWN,
    depth=0,
    reliability=ReliabilityPolicy.UNKNOWN,
    durability=DurabilityPolicy.UNKNOWN,
    liveliness=LivelinessPolicy.UNKNOWN,
)
qos_profile_default = QoSProfile(depth=10)
qos_profile_system_default = QoSProfile(
    history=HistoryPolicy.SYSTEM_DEFAULT,
    depth=0,
    reliability=ReliabilityPolicy.SYSTEM_DEFAULT,
    durability=DurabilityPolicy.SYSTEM_DEFAULT,
)
qos_profile_sensor_data = QoSProfile(depth=5, **_best_effort)
qos_profile_services_default = QoSProfile(depth=10)
qos_profile_parameters = QoSProfile(depth=1000)
qos_profile_parameter_events = QoSProfile(depth=1000)
qos_profile_rosout_default = QoSProfile(
    depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL, lifespan=Duration(seconds=10)
)
qos_profile_best_available = QoSProfile(
    depth=10,
    reliability=ReliabilityPolicy.BEST_AVAILABLE,
    durability=DurabilityPolicy.BEST_AVAILABLE,
    deadline=DeadlineBestAvailable,
    liveliness=LivelinessPolicy.BEST_AVAILABLE,
    liveliness_lease_duration=LivelinessLeaseDurationeBestAvailable,
)
qos_profile_action_status_default = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class QoSPresetProfiles(Enum):
    """Profiles by name."""

    UNKNOWN = qos_profile_unknown
    DEFAULT = qos_profile_default
    SYSTEM_DEFAULT = qos_profile_system_default
    SENSOR_DATA = qos_profile_sensor_data
    SERVICES_DEFAULT = qos_profile_services_default
    PARAMETERS = qos_profile_parameters
    PARAMETER_EVENTS = qos_profile_parameter_events
    ACTION_STATUS_DEFAULT = qos_profile_action_status_default
    BEST_AVAILABLE = qos_profile_best_available
