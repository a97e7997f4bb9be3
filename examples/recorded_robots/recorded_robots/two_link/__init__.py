"""Two links joined by a hinge, a two-axis or a ball joint, an IMU on each: how one is turned against the other."""
