"""Helpers that custom substitutions and actions call."""

from __future__ import annotations

from launch.substitution import normalize_to_list_of_substitutions, perform_substitutions

from embedded_ros.absent import refuse

__all__ = ["normalize_to_list_of_substitutions", "perform_substitutions"]

__getattr__ = refuse(
    __name__,
    (
        "ensure_argument_type",
        "is_a",
        "is_a_subclass",
        "isclassinstance",
        "normalize_to_list_of_entities",
        "visit_all_entities_and_collect_futures",
    ),
)
