"""Substitutions about packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ament_index_python.packages import get_package_share_directory
from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

__all__ = ["FindPackageShare"]


class FindPackageShare(Substitution):
    """The folder with a package's launch files and configurations."""

    def __init__(self, package: SomeSubstitutionsType) -> None:
        self.package = normalize_to_list_of_substitutions(package)

    def describe(self) -> str:
        return f"FindPackageShare(pkg={describe(self.package)})"

    def perform(self, context: LaunchContext) -> str:
        return get_package_share_directory(perform_substitutions(context, self.package))
