"""The robot's equations, geometry and parameters."""
