"""What the robot learns from recordings."""
