"""Multi-link chain (LandSalp): pose and shape from gyroscopes, and inertial parameters."""

import onboard_estimation  # noqa: F401  it sets numba's cache folder before any kernel here is compiled
