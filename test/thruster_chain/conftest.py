"""Most tests of this robot filter whole runs, with kernels slow to compile: they are for `make test-all`."""

from __future__ import annotations

from pathlib import Path

import pytest

QUICK = (
    "test_thruster_chain_configuration.py",
    "test_unknown_chain.py",
    "test_dynamics.py",
    "test_inertial_kernels.py",
    "test_response_kernels.py",
    "test_parameter_filter.py",
    "test_repeated_readings.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is not quick as slow."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name not in QUICK:
            item.add_marker(pytest.mark.slow)
