"""The simulated robot, and recordings that others simulated."""
