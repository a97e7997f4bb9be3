"""Helpers that custom substitutions and actions call."""

from __future__ import annotations

from launch.substitution import normalize_to_list_of_substitutions, perform_substitutions

__all__ = ["normalize_to_list_of_substitutions", "perform_substitutions"]
