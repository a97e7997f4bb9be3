"""Topics that the nodes of a robot publish, for launch files that play a bag of them beside the same nodes.

Played as well, they would stand beside what the nodes make of the bag, under the same names.
"""

from __future__ import annotations

_IN_NAMESPACE = (
    "odometry",
    "path",
    "joint_states",
    "joint_states_stddev",
    "inertial_parameters",
    "inertial_parameters_stddev",
    "observability",
    "observability_forecast",
    "state",
    "state_covariance",
    "phase_events",
    "phase_state",
    "phase",
    "apex",
    "stiffness_map",
    "markers",
)
_OF_ALL = ("/tf", "/tf_static", "/diagnostics", "/rosout", "/parameter_events")


def published_topics(namespace: str) -> list[str]:
    """Full names, for a robot in that namespace (`salp`, `/fleet/salp`, or empty)."""
    return [name_in(namespace, name) for name in _IN_NAMESPACE] + list(_OF_ALL)


def name_in(namespace: str, name: str) -> str:
    """Full name of a node or topic in that namespace."""
    return "/" + "/".join([*(part for part in namespace.split("/") if part), name])
