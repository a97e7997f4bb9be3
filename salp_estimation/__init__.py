"""Multi-link chain (LandSalp): pose and shape from gyroscopes, and inertial parameters."""
