"""Inertial estimation for a hopping robot, and for an IMU strapped to a body that rests on the ground at times."""
