"""Where one inertial sensor goes, strapped to what rests on the ground at times: pose, velocity and biases."""

import onboard_estimation  # noqa: F401  it sets numba's cache folder before any kernel here is compiled
