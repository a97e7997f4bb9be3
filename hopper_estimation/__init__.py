"""Inertial estimation for a hopping robot, and for an IMU strapped to a body that rests on the ground at times."""

import onboard_estimation  # noqa: F401  it sets numba's cache folder before any kernel here is compiled
