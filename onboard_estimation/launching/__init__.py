"""Launch descriptions of any robot, and what runs them where ROS 2 has no launch."""
