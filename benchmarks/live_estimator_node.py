"""`salp_estimator`, for a Python that has no console scripts of this package."""

from __future__ import annotations

from salp_estimation.nodes.main import estimator

if __name__ == "__main__":
    estimator()
