"""Where a robot is that hops on one leg, from two accelerometers: phase, height, vertical velocity, agility."""

import onboard_estimation  # noqa: F401  it sets numba's cache folder before any kernel here is compiled
