"""HEBI actuators: the IMU in each, their joints, and velocity commands to them, through `hebi-py`."""
