"""Substitutions about packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ament_index_python.packages import get_package_prefix, get_package_share_directory
from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

from embedded_ros.absent import refuse

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

__all__ = ["FindPackage", "FindPackagePrefix", "FindPackageShare"]


class FindPackage(Substitution):
    """A folder of a package; which one, says the class below it."""

    def __init__(self, package: SomeSubstitutionsType) -> None:
        self.package = normalize_to_list_of_substitutions(package)

    def describe(self) -> str:
        return f"{type(self).__name__}(pkg={describe(self.package)})"

    def find(self, package_name: str) -> str:
        """The folder; PackageNotFoundError where there is no such package."""
        raise NotImplementedError(f"{type(self).__name__}.find")

    def perform(self, context: LaunchContext) -> str:
        return self.find(perform_substitutions(context, self.package))


class FindPackagePrefix(FindPackage):
    """The prefix a package is installed into."""

    def find(self, package_name: str) -> str:
        return get_package_prefix(package_name)


class FindPackageShare(FindPackage):
    """The folder with a package's launch files and configurations."""

    def find(self, package_name: str) -> str:
        return get_package_share_directory(package_name)


__getattr__ = refuse(__name__, ("ExecutableInPackage", "Parameter"))
