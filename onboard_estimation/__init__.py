"""State, shape and parameter estimation for robots with sensors on board, live on ROS 2 or from recorded bags."""

from onboard_estimation import kernel_cache

kernel_cache.configure()
