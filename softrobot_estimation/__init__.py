"""Soft robot arm: constant-curvature model, learned stiffness, marginalized particle filter and unscented filter."""

import onboard_estimation  # noqa: F401  it sets numba's cache folder before any kernel here is compiled
