"""Where packages are, on a machine without ROS 2: Python distributions with a package.xml, then ament's index."""

from __future__ import annotations

from ament_index_python.packages import (
    PackageNotFoundError,
    get_package_prefix,
    get_package_share_directory,
    get_package_share_path,
    get_packages_with_prefixes,
)
from ament_index_python.search_paths import get_search_paths

__all__ = [
    "PackageNotFoundError",
    "get_package_prefix",
    "get_package_share_directory",
    "get_package_share_path",
    "get_packages_with_prefixes",
    "get_search_paths",
]
