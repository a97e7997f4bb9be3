"""Type of arguments that may be text, a substitution or several of both."""

from __future__ import annotations

from launch.substitution import SomeSubstitutionsType

__all__ = ["SomeSubstitutionsType"]
